package serve

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/tools/internal/synth"
	"github.com/ternvk/tern/tools/serve/sched"
)

// How much of what the model does in batches of 64 reaches 64 streaming clients: for
// noise in the shape that TERN_SERVE_SHAPE names, such as ternary-bonsai-8b.
func TestThroughput(t *testing.T) {
	shape := os.Getenv("TERN_SERVE_SHAPE")
	if shape == "" {
		t.Skip("a measurement: TERN_SERVE_SHAPE=ternary-bonsai-8b")
	}
	const clients, prompt, tokens = 64, 32, 128
	s, err := synth.Lookup(shape)
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	file, err := gguf.Parse(shape, data)
	if err != nil {
		t.Fatal(err)
	}
	x := device(t)
	t.Cleanup(func() { x.Close() })
	m, err := model.OpenBytes(t.Context(), shape, data, model.Options{Executor: x, Context: 512, Sequences: clients})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	ids := func(i int) []int32 {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		list := make([]int32, prompt)
		for k := range list {
			list[k] = int32(r.IntN(256))
		}
		return list
	}
	greedy := model.Sampling{}
	var turns []model.Turn
	for i := range clients {
		session, err := m.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		next, err := m.Step(t.Context(), []model.Turn{{Session: session, Tokens: ids(i), Sampling: &greedy}})
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, model.Turn{Session: session, Tokens: []int32{next[0].Token}, Sampling: &greedy})
	}
	var began time.Time
	const warm = 8
	for step := range tokens {
		if step == warm {
			began = time.Now()
		}
		next, err := m.Step(t.Context(), turns)
		if err != nil {
			t.Fatal(err)
		}
		for i := range turns {
			turns[i].Tokens = []int32{next[i].Token}
		}
	}
	raw := float64(clients*(tokens-warm)) / time.Since(began).Seconds()
	for _, turn := range turns {
		turn.Session.Close()
	}

	c := serveOptions(t, Options{Name: shape, File: file, Context: 512, Parallel: clients, KeepAlive: -1, Version: "test", Device: x.Name,
		Load: func(context.Context) (sched.Loaded, error) {
			return sched.Loaded{Model: m, Close: func() error { return nil }}, nil
		}})
	run := func(offset int) float64 {
		var wg sync.WaitGroup
		var total, last atomic.Int64
		began := time.Now()
		for i := range clients {
			wg.Go(func() {
				for _, e := range c.events("/v1/completions", dict{"prompt": ids(offset + i), "max_tokens": tokens, "ignore_eos": true, "stream": true, "stream_options": dict{"include_usage": true}}) {
					if u := at(e, "usage", "completion_tokens"); u != nil {
						total.Add(int64(u.(float64)))
					}
				}
				last.Store(int64(time.Since(began)))
			})
		}
		wg.Wait()
		return float64(total.Load()) / time.Duration(last.Load()).Seconds()
	}
	run(1000) // warms up: the shapes of batches
	steps, inSteps := metric(t, c, "tern_step_seconds_count"), metric(t, c, "tern_step_seconds_sum")
	with := run(2000)
	steps, inSteps = metric(t, c, "tern_step_seconds_count")-steps, metric(t, c, "tern_step_seconds_sum")-inSteps
	t.Logf("%.0f steps, %.2f ms each on the device, %.2f ms in all", steps, 1000*inSteps/steps, 1000*clients*tokens/with/steps)
	t.Logf("%s on %s: %.0f t/s in batches of %d, %.0f t/s to %d clients, prompts of %d included: %.0f %%",
		shape, x.Name(), raw, clients, with, clients, prompt, 100*with/raw)
}
