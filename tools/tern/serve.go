package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/tools/internal/buildinfo"
	"github.com/ternvk/tern/tools/serve"
	"github.com/ternvk/tern/tools/serve/sched"
)

// keyVariable names the environment variable of the API key.
const keyVariable = "TERN_API_KEY"

// service holds the flags of the command.
type service struct {
	*app
	host      string
	port      int
	key       string
	aliases   []string
	cors      []string
	parallel  int
	chunk     int
	queue     int
	maxWait   time.Duration
	keepAlive time.Duration
	maxBody   int
	device    atomic.Value // name of the one in use
}

func (a *app) serveCommand() *cobra.Command {
	s := &service{app: a}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer HTTP requests: OpenAI's and Ollama's APIs, and a chat page",
		Long: "Answer HTTP requests, many at a time, until interrupted. Every answer is the one that its request would get alone.\n\n" +
			"  /                              a chat page\n" +
			"  /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models    as OpenAI's; embeddings are the mean of the\n" +
			"                                 last hidden states, scaled to length 1\n" +
			"  /api/chat, /api/generate, /api/embed, /api/tags, /api/show, /api/ps, /api/version    as Ollama's\n" +
			"  /tokenize, /detokenize, /apply-template, /health, /props, /metrics\n\n" +
			"-c is the context of each of the generations that run at once. Where a request does not say how tokens are chosen, the\n" +
			"model file does, else the choice is greedy; a temperature without top_k has 40.",
		Example: `  tern serve
  tern serve -m model.gguf --port 11434 --parallel 16 -c 8192 --keep-alive 5m
  TERN_API_KEY=secret tern serve --host 0.0.0.0 --cors https://app.example.org`,
		Args: usage(onlyFlags),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return s.run(ctx) }),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&s.host, "host", "127.0.0.1", "`address` to listen on")
	f.IntVar(&s.port, "port", 8080, "port to listen on; 0: one that is free")
	f.StringVar(&s.key, "api-key", "", "`key` that clients must give (default: $"+keyVariable+"; none: nobody needs one)")
	f.StringArrayVar(&s.aliases, "alias", nil, "another `name` of the model for clients (repeatable)")
	f.StringArrayVar(&s.cors, "cors", nil, "`origin` whose pages may use the server, * for all (repeatable; default: the chat page's only)")
	f.IntVar(&s.parallel, "parallel", 4, "generations that run at once")
	f.IntVar(&s.chunk, "chunk", 512, "`tokens` of a step at most")
	f.IntVar(&s.queue, "queue", 256, "requests that wait at most; more get 503")
	f.DurationVar(&s.maxWait, "max-wait", time.Minute, "how long a request waits for a place before it gets 503")
	f.DurationVar(&s.keepAlive, "keep-alive", -1, "unload the model after this long without requests (default: never)")
	f.Lookup("keep-alive").DefValue = "0s" // the text says it
	f.IntVar(&s.maxBody, "max-body", 16, "`MiB` of a request at most")
	return cmd
}

func (s *service) check() error {
	switch {
	case s.port < 0 || s.port > 65535:
		return usagef("--port %d: want 0 to 65535", s.port)
	case s.parallel < 1 || s.parallel > 1024:
		return usagef("--parallel %d: want 1 to 1024", s.parallel)
	case s.chunk < s.parallel+model.PagePositions || s.chunk > 16384:
		return usagef("--chunk %d: want %d, for --parallel %d, to 16384", s.chunk, s.parallel+model.PagePositions, s.parallel)
	case s.queue < 1 || s.maxBody < 1 || s.maxWait <= 0:
		return usagef("--queue, --max-body and --max-wait must be positive")
	case s.maxBody > 1<<20:
		return usagef("--max-body %d: want at most %d MiB", s.maxBody, 1<<20)
	}
	return nil
}

func (s *service) run(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	src, err := s.source(ctx)
	if err != nil {
		return err
	}
	file, err := src.open()
	if err != nil {
		return err
	}
	defer file.Close()
	o, err := s.options(model.Options{Sequences: s.parallel, Chunk: s.chunk})
	if err != nil {
		return err
	}
	info, err := model.Describe(file)
	if err != nil {
		return err
	}
	switch o.Context {
	case 0:
		o.Context = min(info.TrainedContext, defaultContext)
	case mostThatFit:
		if o.Context, err = s.mostContext(file, o); err != nil {
			return err
		}
	}
	if s.key == "" {
		s.key = os.Getenv(keyVariable)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(s.host, strconv.Itoa(s.port)))
	if err != nil {
		return err
	}
	defer l.Close()
	local := l.Addr().(*net.TCPAddr).IP.IsLoopback()
	server, err := serve.New(serve.Options{
		Name: modelName(s.model), Aliases: s.aliases, File: file, Version: buildinfo.Version(),
		Device:  func() string { name, _ := s.device.Load().(string); return name },
		Load:    func(ctx context.Context) (sched.Loaded, error) { return s.load(ctx, src, o) },
		Context: o.Context, Parallel: s.parallel, Chunk: s.chunk, Queue: s.queue, MaxWait: s.maxWait, KeepAlive: s.keepAlive,
		APIKey: s.key, CORS: s.cors, MaxBody: int64(s.maxBody) << 20, Local: local,
	})
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintf(s.err, "listening on http://%s, %d at once with %d positions each\n", l.Addr(), s.parallel, o.Context)
	if !local && s.key == "" {
		fmt.Fprintln(s.err, "everybody who reaches this address can use the server: --api-key asks for a key")
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if err := server.Load(ctx); err != nil {
			stop(err)
			return
		}
		fmt.Fprintf(s.err, "ready: %s\n", file.Name)
	}()
	err = server.Serve(ctx, l)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// mostContext is the largest context that fits the device.
func (s *service) mostContext(file *gguf.File, o model.Options) (n int, err error) {
	if o.Executor, err = s.executor(s.app.device); err != nil {
		return 0, err
	}
	n, err = s.fit(file, o)
	return n, errors.Join(err, o.Executor.Close())
}

// load opens the model on the device.
func (s *service) load(ctx context.Context, src source, o model.Options) (sched.Loaded, error) {
	x, err := s.executor(s.app.device)
	if err != nil {
		return sched.Loaded{}, err
	}
	s.device.Store(x.Name())
	m, err := s.app.load(ctx, src, x, o)
	if err != nil {
		return sched.Loaded{}, err
	}
	return sched.Loaded{Model: m.Model, Close: m.Close}, nil
}

// modelName is what clients call a model: its file without folder and ending.
func modelName(model string) string {
	if model == "" {
		return "sprig"
	}
	if strings.HasPrefix(model, synthPrefix) {
		return model
	}
	return strings.TrimSuffix(filepath.Base(model), ".gguf")
}
