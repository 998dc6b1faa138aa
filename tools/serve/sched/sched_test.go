package sched

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/tools/internal/synth"
)

func TestMain(m *testing.M) {
	// Without worker threads lavapipe runs tiny dispatches 20 times faster.
	if os.Getenv("LP_NUM_THREADS") == "" {
		os.Setenv("LP_NUM_THREADS", "0")
	}
	os.Exit(m.Run())
}

// device opens the machine's device, or the reference.
func device(t *testing.T) graph.Executor {
	t.Helper()
	d, err := runtime.Open(runtime.Options{CacheDir: "off"})
	if errors.Is(err, graph.ErrNoDevice) {
		return ref.New()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

const vocab = 515 // of the tiny shapes

func noise(t *testing.T, shape string) []byte {
	t.Helper()
	s, err := synth.Lookup(shape)
	if err != nil {
		t.Fatal(err)
	}
	if shape == "tiny" {
		s.Layers = 1
	}
	data, err := s.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// open loads noise in a shape for a configuration.
func open(t *testing.T, x graph.Executor, data []byte, c Config) *model.Model {
	t.Helper()
	m, err := model.OpenBytes(context.Background(), "noise", data, model.Options{Executor: x, Context: c.Context, Sequences: c.Parallel, Chunk: c.Chunk})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func engine(t *testing.T, x graph.Executor, shape string, c Config) *Engine {
	t.Helper()
	data := noise(t, shape)
	if c.Load == nil {
		c.Load = func(context.Context) (Loaded, error) {
			m := open(t, x, data, c)
			return Loaded{m, m.Close}, nil
		}
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = -1
	}
	e := New(c)
	t.Cleanup(func() { e.Close() })
	return e
}

// prompts are sequences of noise, many of which begin alike.
func prompts(n int) (list [][]int32) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n int) (ids []int32) {
		for range n {
			ids = append(ids, int32(r.IntN(vocab)))
		}
		return ids
	}
	system := random(70)
	for i := range n {
		switch i % 3 {
		case 0:
			list = append(list, random(1+r.IntN(20)))
		case 1:
			list = append(list, append(slices.Clone(system), random(1+r.IntN(10))...))
		default: // goes on from another
			list = append(list, append(slices.Clone(list[r.IntN(len(list))]), random(1+r.IntN(5))...))
		}
	}
	return list
}

var samplings = []model.Sampling{{}, {Temperature: 1.5, TopK: 40, Seed: 5}, {Temperature: 1, TopP: 0.9, Seed: 6}, {RepeatPenalty: 1.3}}

// alone is what a request gives when nothing else runs.
func alone(t *testing.T, m *model.Model, r Request) (ids []int32) {
	t.Helper()
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for g, err := range s.Generate(context.Background(), r.Prompt, r.Sampling, r.Limit) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, g.ID)
	}
	return ids
}

// hold keeps an engine from taking steps, until it is released.
func hold(t *testing.T, e *Engine) (release func()) {
	held, free := make(chan struct{}), make(chan struct{})
	go e.Do(t.Context(), func(*model.Model) error {
		close(held)
		<-free
		return nil
	})
	<-held
	return func() { close(free) }
}

func collect(ctx context.Context, s *Stream) (ids []int32, err error) {
	for {
		tok, err := s.Next(ctx)
		if err == io.EOF {
			return ids, nil
		}
		if err != nil {
			return ids, err
		}
		ids = append(ids, tok.ID)
	}
}

// 64 clients at once, of which many hang up, and each gets what it would get alone:
// what a client has read of an answer is the beginning of that. BL-44.
func TestManyClientsEqualOne(t *testing.T) {
	all := os.Getenv("TERN_CONFORM") == "all"
	for _, shape := range []string{"tiny", "tiny-hybrid"} {
		clients := 64
		if shape == "tiny-hybrid" && !all {
			clients = 20
		}
		if testing.Short() {
			clients /= 4
		}
		x := device(t)
		cfg := Config{Context: 160, Parallel: 12, Chunk: 96, Queue: clients, StepTime: time.Millisecond}
		var requests []Request
		var want [][]int32
		m := open(t, x, noise(t, shape), cfg)
		free := m.Room()
		ends := func(id int32) bool { return m.Tokenizer().EndsTurn(id) }
		for i, p := range prompts(clients / 2) {
			r := Request{Prompt: p, Limit: 3 + i%5, Sampling: samplings[i%len(samplings)], EndsTurn: ends, Client: strconv.Itoa(i % 7)}
			requests, want = append(requests, r), append(want, alone(t, m, r))
		}
		cfg.Load = func(context.Context) (Loaded, error) { return Loaded{m, func() error { return nil }}, nil }
		var reused, whole atomic.Int64
		e := engine(t, x, shape, cfg)
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				i := c % len(requests)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := requests[i]
				r.Logprobs = c%5 == 0 // chosen by the host, and the same
				s, err := e.Submit(ctx, r)
				if err != nil {
					t.Error(err)
					return
				}
				stopAfter := math.MaxInt
				if c%3 == 0 {
					stopAfter = c % 4
				}
				var got []int32
				for len(got) < stopAfter {
					tok, err := s.Next(ctx)
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Error(err)
						return
					}
					got = append(got, tok.ID)
				}
				if stopAfter == math.MaxInt {
					whole.Add(1)
					stats, _ := s.Stats()
					reused.Add(int64(stats.Reused))
					if !slices.Equal(got, want[i]) {
						t.Errorf("%s, client %d: %v, alone %v", shape, c, got, want[i])
					}
				} else if !slices.Equal(got, want[i][:min(len(got), len(want[i]))]) {
					t.Errorf("%s, client %d: %v, alone %v", shape, c, got, want[i])
				}
			})
		}
		wg.Wait()
		e.Close()
		t.Logf("%s: %d answers, %d tokens of prompts reused", shape, whole.Load(), reused.Load())
		if whole.Load() < int64(clients)/2 {
			t.Errorf("%s: %d answers of %d clients", shape, whole.Load(), clients)
		}
		if got := m.Room(); got != free {
			t.Errorf("%s: %+v is left, of %+v", shape, got, free)
		}
		m.Close()
	}
}

// A full queue refuses at once, and nobody waits longer than allowed. The clock stands
// still while anything runs: a busy machine changes nothing.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, ref.New(), "tiny", Config{Context: 4096, Parallel: 1, Chunk: 128, Queue: 2, MaxWait: 300 * time.Millisecond,
			Observe: Observer{Step: func(int, int, time.Duration) { time.Sleep(time.Millisecond) }}}) // or the first is done before the others give up
		long := Request{Prompt: []int32{1, 2}, Client: "a"}
		running, err := e.Submit(t.Context(), long)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := running.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		var waiting []*Stream
		for range 2 {
			s, err := e.Submit(t.Context(), long)
			if err != nil {
				t.Fatal(err)
			}
			waiting = append(waiting, s)
		}
		if s := e.Status(); s.Waiting != 2 {
			t.Errorf("%d wait", s.Waiting)
		}
		if _, err := e.Submit(t.Context(), long); !errors.Is(err, ErrBusy) {
			t.Errorf("a third waiting request: %v", err)
		}
		for _, s := range waiting {
			if _, err := s.Next(t.Context()); !errors.Is(err, ErrBusy) {
				t.Errorf("after the longest wait: %v", err)
			}
		}
		if _, err := running.Next(t.Context()); err != nil {
			t.Errorf("the running request: %v", err)
		}
		e.Close()
		if _, err := collect(t.Context(), running); !errors.Is(err, ErrClosed) {
			t.Errorf("the running request after Close: %v", err)
		}
		if _, err := e.Submit(t.Context(), long); !errors.Is(err, ErrClosed) {
			t.Errorf("a request after Close: %v", err)
		}
	})
}

// Of those that wait, clients with less running come first, and by turns.
func TestClientsTakeTurns(t *testing.T) {
	e := engine(t, ref.New(), "tiny", Config{Context: 512, Parallel: 2, Chunk: 128, Queue: 10})
	release := hold(t, e)
	var mu sync.Mutex
	var order []string
	var all sync.WaitGroup
	for i, name := range []string{"a", "a", "a", "a", "b", "c"} {
		s, err := e.Submit(t.Context(), Request{Prompt: []int32{int32(i)}, Limit: 5 + 40*i, Client: name})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			<-s.Started()
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			if _, err := collect(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	release()
	all.Wait()
	slices.Sort(order[:2]) // these start together
	if got := fmt.Sprint(order); got != "[a b c a a a]" {
		t.Errorf("started in the order %v", got)
	}
}

// Requests that come together and begin alike have their common beginning evaluated
// once.
func TestCommonBeginnings(t *testing.T) {
	for shape, least := range map[string]int{"tiny": 128, "tiny-hybrid": 64} {
		var tokens atomic.Int64
		e := engine(t, device(t), shape, Config{Context: 256, Parallel: 4, Chunk: 96, Queue: 10,
			Observe: Observer{Step: func(n, _ int, _ time.Duration) { tokens.Add(int64(n)) }}})
		release := hold(t, e)
		system := make([]int32, 150)
		for i := range system {
			system[i] = int32(i*i) % 256
		}
		var list []*Stream
		for i := range 4 {
			s, err := e.Submit(t.Context(), Request{Prompt: append(slices.Clone(system), int32(i), 7), Limit: 2})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, s)
		}
		release()
		for i, s := range list {
			if _, err := collect(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if stats, _ := s.Stats(); i > 0 && stats.Reused < least {
				t.Errorf("%s: request %d reused %d tokens", shape, i, stats.Reused)
			}
		}
		if most := int64(4*154 - 3*least); tokens.Load() > most {
			t.Errorf("%s: %d tokens were evaluated, at most %d", shape, tokens.Load(), most)
		}
	}
}

// When clients go, in the queue, within the prompt or while they read, their places
// are free a step later, and what waits for nobody never runs. BL-57.
func TestClientsGone(t *testing.T) {
	var started atomic.Int64
	e := engine(t, ref.New(), "tiny", Config{Context: 512, Parallel: 1, Chunk: 64, Queue: 10,
		Observe: Observer{Started: func(time.Duration) { started.Add(1) }}})
	submit := func(n int) (*Stream, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		prompt := make([]int32, n)
		for i := range prompt {
			prompt[i] = int32(i*7+n) % 256
		}
		s, err := e.Submit(ctx, Request{Prompt: prompt, Limit: 40})
		if err != nil {
			t.Fatal(err)
		}
		return s, cancel
	}
	reading, hangUp := submit(4)
	if _, err := reading.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	queued, leave := submit(5)
	leave()
	if _, err := collect(t.Context(), queued); !errors.Is(err, context.Canceled) {
		t.Errorf("a queued request whose client left: %v", err)
	}
	inPrompt, stop := submit(400)
	last, _ := submit(3)
	hangUp()
	<-inPrompt.Started()
	stop()
	if _, err := collect(t.Context(), inPrompt); !errors.Is(err, context.Canceled) {
		t.Errorf("a request whose client left within the prompt: %v", err)
	}
	if ids, err := collect(t.Context(), last); err != nil || len(ids) != 40 {
		t.Errorf("the last request: %d tokens, %v", len(ids), err)
	}
	if n := started.Load(); n != 3 {
		t.Errorf("%d requests ran, the queued one included", n)
	}
	if stats, _ := reading.Stats(); stats.Generated >= 40 {
		t.Error("the first request ran to its end")
	}
}

// A prompt up to the context runs, a longer one is refused with both numbers, and
// what reaches the context ends there. BL-58.
func TestContextBorder(t *testing.T) {
	e := engine(t, ref.New(), "tiny", Config{Context: 64, Parallel: 2, Chunk: 64, Queue: 4})
	for n, want := range map[int]int{60: 5, 63: 2, 64: 1} {
		s, err := e.Submit(t.Context(), Request{Prompt: make([]int32, n)})
		if err != nil {
			t.Fatal(err)
		}
		ids, err := collect(t.Context(), s)
		if _, f := s.Stats(); err != nil || len(ids) != want || f != Length {
			t.Errorf("after %d tokens: %d more, %q, %v", n, len(ids), f, err)
		}
	}
	_, err := e.Submit(t.Context(), Request{Prompt: make([]int32, 65)})
	if !errors.Is(err, ErrTooLong) || err.Error() != "the prompt is too long: 65 tokens in a context of 64" {
		t.Error(err)
	}
}

// faulty is an executor on which runs fail as told.
type faulty struct {
	graph.Executor
	fail func(run int) error
	runs int
}

func (f *faulty) Run(ctx context.Context, p graph.Program) error {
	f.runs++
	if err := f.fail(f.runs); err != nil {
		return err
	}
	return f.Executor.Run(ctx, p)
}

// What one request does to the numbers is that request's error only. BL-35.
func TestOneFailsAlone(t *testing.T) {
	failed := false
	x := &faulty{Executor: ref.New()}
	x.fail = func(run int) error {
		if failed = run == 4 || run == 6; failed { // a step of all, then the second alone
			return fmt.Errorf("the hidden state: %w", graph.ErrNonFinite)
		}
		return nil
	}
	e := engine(t, x, "tiny", Config{Context: 64, Parallel: 3, Chunk: 128, Queue: 4})
	release := hold(t, e)
	var streams []*Stream
	for i := range 3 {
		s, err := e.Submit(t.Context(), Request{Prompt: []int32{int32(i), 7}, Limit: 8})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	release()
	for i, s := range streams {
		ids, err := collect(t.Context(), s)
		if i == 1 {
			if !errors.Is(err, graph.ErrNonFinite) {
				t.Errorf("request %d: %v", i, err)
			}
			continue
		}
		m := open(t, ref.New(), noise(t, "tiny"), Config{Context: 64, Parallel: 1, Chunk: 128})
		if want := alone(t, m, Request{Prompt: []int32{int32(i), 7}, Limit: 8}); err != nil || !slices.Equal(ids, want) {
			t.Errorf("request %d beside a bad one: %v, %v, alone %v", i, ids, err, want)
		}
		m.Close()
	}
}

// A lost device fails what runs, and the next request opens the model again. BL-27.
func TestDeviceLost(t *testing.T) {
	loads := 0
	data := noise(t, "tiny")
	cfg := Config{Context: 64, Parallel: 2, Chunk: 128, Queue: 4}
	cfg.Load = func(context.Context) (Loaded, error) {
		loads++
		x := &faulty{Executor: ref.New(), fail: func(run int) error {
			if loads == 1 && run == 3 {
				return fmt.Errorf("submit: %w", graph.ErrDeviceLost)
			}
			return nil
		}}
		m := open(t, x, data, cfg)
		return Loaded{m, m.Close}, nil
	}
	e := engine(t, nil, "tiny", cfg)
	for i := range 2 {
		s, err := e.Submit(t.Context(), Request{Prompt: []int32{1}, Limit: 5})
		if err != nil {
			t.Fatal(err)
		}
		ids, err := collect(t.Context(), s)
		if lost := errors.Is(err, graph.ErrDeviceLost); lost != (i == 0) || !lost && len(ids) != 5 {
			t.Errorf("request %d: %d tokens, %v", i, len(ids), err)
		}
	}
	if loads != 2 {
		t.Errorf("%d loads", loads)
	}
}

// An idle model is unloaded, and a request loads it again. A model that cannot be
// loaded fails its request and no other. BL-61.
func TestUnloadWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := noise(t, "tiny")
		var open64, loads atomic.Int64
		cfg := Config{Context: 64, Parallel: 2, Chunk: 128, Queue: 4, KeepAlive: 30 * time.Millisecond}
		cfg.Load = func(context.Context) (Loaded, error) {
			if loads.Add(1) == 2 {
				return Loaded{}, graph.ErrOutOfMemory
			}
			open64.Add(1)
			m := open(t, ref.New(), data, cfg)
			return Loaded{m, func() error { open64.Add(-1); return m.Close() }}, nil
		}
		e := engine(t, nil, "tiny", cfg)
		for i := range 4 {
			s, err := e.Submit(t.Context(), Request{Prompt: []int32{1}, Limit: 2})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := collect(t.Context(), s); errors.Is(err, graph.ErrOutOfMemory) != (i == 1) {
				t.Errorf("request %d: %v", i, err)
			}
			for e.Status().Loaded {
				time.Sleep(5 * time.Millisecond)
			}
			if n := open64.Load(); n != 0 {
				t.Errorf("%d models are open", n)
			}
		}
	})
}

// Log probabilities are a distribution's, the likeliest in order.
func TestLikelihoods(t *testing.T) {
	logits := []float32{1, 3, 3, -2, 0}
	p, top := likelihoods(logits, 0, 3)
	sum := 0.0
	for i := range logits {
		q, none := likelihoods(logits, int32(i), 0)
		if sum += math.Exp(q); none != nil {
			t.Errorf("%v", none)
		}
	}
	if math.Abs(sum-1) > 1e-12 || math.Abs(top[2].Logprob-p) > 1e-12 {
		t.Errorf("sum %g, %g, %v", sum, p, top)
	}
	if top[0].ID != 1 || top[1].ID != 2 || top[2].ID != 0 {
		t.Errorf("%v", top)
	}
}
