package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ternvk/tern/tools/serve/sched"
)

// metrics are what /metrics shows. tern_requests_waiting and tern_cache_usage_ratio
// are what gateways for inference route by.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	prompt    prometheus.Counter
	reused    prometheus.Counter
	generated prometheus.Counter
	queue     prometheus.Histogram
	first     prometheus.Histogram
	steps     prometheus.Histogram
	outputs   prometheus.Histogram
}

func newMetrics(s *Server) *metrics {
	seconds := prometheus.ExponentialBuckets(0.001, 2.5, 13) // to a minute
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	gauge := func(name, help string, f func(sched.Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return f(s.engine.Status()) })
	}
	m := &metrics{
		registry:  prometheus.NewRegistry(),
		requests:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tern_requests_total", Help: "Requests by endpoint and status."}, []string{"endpoint", "code"}),
		prompt:    counter("tern_prompt_tokens_total", "Tokens of prompts."),
		reused:    counter("tern_prompt_tokens_reused_total", "Tokens of prompts that were in a cached sequence."),
		generated: counter("tern_generated_tokens_total", "Tokens generated."),
		queue:     histogram("tern_queue_seconds", "Time that requests waited for a place.", seconds),
		first:     histogram("tern_first_token_seconds", "Time from a request to its first token.", seconds),
		steps:     histogram("tern_step_seconds", "Time of a step of the model.", seconds),
		outputs:   histogram("tern_step_sequences", "Sequences that got a token in a step.", prometheus.ExponentialBuckets(1, 2, 9)),
	}
	m.registry.MustRegister(m.requests, m.prompt, m.reused, m.generated, m.queue, m.first, m.steps, m.outputs,
		gauge("tern_requests_running", "Generations that run.", func(st sched.Status) float64 { return float64(st.Running) }),
		gauge("tern_requests_waiting", "Generations that wait for a place.", func(st sched.Status) float64 { return float64(st.Waiting) }),
		gauge("tern_cache_usage_ratio", "Share of the cache's pages in use, those kept for reuse included.", func(st sched.Status) float64 {
			if st.Room.AllPages == 0 {
				return 0
			}
			return 1 - float64(st.Room.Pages)/float64(st.Room.AllPages)
		}),
		gauge("tern_model_loaded", "1 while the model is in memory.", func(st sched.Status) float64 {
			if st.Loaded {
				return 1
			}
			return 0
		}),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// observer is what the scheduler tells.
func (m *metrics) observer() sched.Observer {
	return sched.Observer{
		Started: func(waited time.Duration) { m.queue.Observe(waited.Seconds()) },
		First:   func(d time.Duration) { m.first.Observe(d.Seconds()) },
		Step: func(_, outputs int, took time.Duration) {
			m.steps.Observe(took.Seconds())
			m.outputs.Observe(float64(outputs))
		},
	}
}

// count adds an answer.
func (m *metrics) count(o *outcome) {
	m.prompt.Add(float64(o.stats.Prompt))
	m.reused.Add(float64(o.stats.Reused))
	m.generated.Add(float64(o.tokens))
}

// measured is an endpoint whose errors are written in a form, and whose requests are
// counted.
func (s *Server) measured(endpoint string, h func(http.ResponseWriter, *http.Request) error, fail func(http.ResponseWriter, *apiError)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusOK
		if err := h(w, r); err != nil {
			if clientGone(r, err) {
				code = 499 // as other servers count those that hung up
			} else {
				e := asAPIError(err)
				code = e.status
				fail(w, e)
			}
		}
		s.metrics.requests.WithLabelValues(endpoint, strconv.Itoa(code)).Inc()
	}
}
