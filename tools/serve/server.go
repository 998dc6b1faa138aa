// Package serve is Tern's HTTP service: the APIs of OpenAI and of Ollama as far as a
// local model can serve them, the health, metrics and token endpoints that operators
// know from other servers, and a chat page.
//
// Every generation runs in the scheduler of package sched, so its text does not depend
// on what else the server does. Whatever is asked for and not supported is an error
// that says so.
package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/chat"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/tools/serve/constrain"
	"github.com/ternvk/tern/tools/serve/page"
	"github.com/ternvk/tern/tools/serve/sched"
)

// Options of a server. File, Load and Context are required.
type Options struct {
	Name    string     // of the model, as clients call it
	Aliases []string   // further names
	File    *gguf.File // what is known of the model while it is not loaded
	Device  func() string
	Version string // of the program

	Load      func(ctx context.Context) (sched.Loaded, error)
	Context   int
	Parallel  int           // generations at once; 0: 4
	Chunk     int           // tokens of a step; 0: 512
	Queue     int           // requests that wait at most; 0: 256
	MaxWait   time.Duration // for a place; 0: a minute
	KeepAlive time.Duration // until an idle model is unloaded; negative: never

	APIKey  string   // "": none is needed
	CORS    []string // origins that pages of may call the server; "*" for all
	MaxBody int64    // bytes of a request; 0: 16 MiB
	// Local tells that the server listens on a loopback address only: then requests
	// for other hosts are refused, which pages of strangers could make by rebinding
	// a name of theirs.
	Local bool
}

func (o *Options) defaults() {
	set := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.Parallel, 4)
	set(&o.Chunk, 512)
	set(&o.Queue, 256)
	if o.MaxWait == 0 {
		o.MaxWait = time.Minute
	}
	if o.MaxBody == 0 {
		o.MaxBody = 16 << 20
	}
}

// Server answers requests. It is an http.Handler.
type Server struct {
	o        Options
	engine   *sched.Engine
	tokens   *token.Tokenizer
	template *chat.Template // nil: the model is no chat model
	sampling model.Sampling
	info     model.Info
	vocab    *constrain.Vocabulary
	schemas  schemaCache
	metrics  *metrics
	handler  http.Handler
	started  time.Time
	ready    atomic.Bool
	bodyTime time.Duration // to send a request
	grace    time.Duration // to go on when the server ends
}

// New prepares a server and begins to load its model. The caller closes it.
func New(o Options) (*Server, error) {
	o.defaults()
	s := &Server{o: o, started: time.Now(), bodyTime: time.Minute, grace: 3 * time.Second, sampling: model.FileSampling(o.File)}
	var err error
	if s.info, err = model.Describe(o.File); err != nil {
		return nil, err
	}
	if s.tokens, err = token.FromGGUF(o.File); err != nil {
		return nil, fmt.Errorf("%s: %w", o.File.Name, err)
	}
	text, ok, err := o.File.String("tokenizer.chat_template")
	if err == nil && ok {
		s.template, err = chat.Parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.File.Name, err)
	}
	s.vocab = constrain.NewVocabulary(s.tokens)
	s.metrics = newMetrics(s)
	s.engine = sched.New(sched.Config{
		Load: o.Load, Context: o.Context, Parallel: o.Parallel, Chunk: o.Chunk, Queue: o.Queue, MaxWait: o.MaxWait,
		KeepAlive: o.KeepAlive, StepTime: 100 * time.Millisecond, Observe: s.metrics.observer(),
	})
	s.handler = s.guard(s.routes())
	return s, nil
}

// Load loads the model, and returns when that is done or has failed. Until then
// /health answers 503.
func (s *Server) Load(ctx context.Context) error {
	err := s.engine.Do(ctx, func(*model.Model) error { return nil })
	if err == nil {
		s.ready.Store(true)
	}
	return err
}

// Close ends all generations and unloads the model.
func (s *Server) Close() error { return s.engine.Close() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// routes is every endpoint.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	openAI := func(pattern string, h func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, s.measured(pattern, h, writeOpenAIError))
	}
	ollama := func(pattern string, h func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, s.measured(pattern, h, writeOllamaError))
	}
	for _, v1 := range []string{"/v1", ""} {
		openAI("POST "+v1+"/chat/completions", s.chatCompletions)
		openAI("POST "+v1+"/completions", s.completions)
		openAI("POST "+v1+"/embeddings", s.embeddings)
		openAI("GET "+v1+"/models", s.models)
	}
	openAI("GET /v1/models/{id...}", s.modelByID)
	openAI("POST /tokenize", s.tokenize)
	openAI("POST /detokenize", s.detokenize)
	openAI("POST /apply-template", s.applyTemplate)
	openAI("GET /health", s.health)
	openAI("GET /v1/health", s.health)
	openAI("GET /props", s.props)
	mux.Handle("GET /metrics", s.metrics.handler())

	ollama("POST /api/chat", s.ollamaChat)
	ollama("POST /api/generate", s.ollamaGenerate)
	ollama("POST /api/embed", s.ollamaEmbed)
	ollama("POST /api/show", s.ollamaShow)
	ollama("GET /api/tags", s.ollamaTags)
	ollama("GET /api/ps", s.ollamaRunning)
	ollama("GET /api/version", s.ollamaVersion)

	mux.Handle("GET /{$}", page.Handler())
	mux.Handle("GET /page/", page.Handler())
	openAI("/", func(_ http.ResponseWriter, r *http.Request) error {
		return &apiError{http.StatusNotFound, "invalid_request_error", "", "unknown_url", fmt.Sprintf("there is no %s %s", r.Method, r.URL.Path)}
	})
	return mux
}

// open are the paths that need no key: they tell nothing about anybody.
func open(path string) bool {
	return path == "/" || path == "/health" || path == "/v1/health" || len(path) > 6 && path[:6] == "/page/"
}

// Serve answers on a listener until ctx ends; then those that are being answered get
// a few seconds more.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	done := make(chan error, 1)
	go func() { done <- h.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	shutdown := func(within time.Duration) error {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		return h.Shutdown(grace)
	}
	err := shutdown(s.grace)
	if errors.Is(err, context.DeadlineExceeded) { // those that still run are told
		_ = s.engine.Close()
		err = shutdown(time.Second)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = h.Close()
	}
	return err
}
