// Package sched runs many generations on one model at once: a goroutine owns the
// device and takes steps, in each of which every running generation gets a token
// and prompts advance by a piece. New requests join the running ones. As the bits
// of a sequence do not depend on its batch, every answer is what its request would
// get alone.
package sched

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ternvk/tern/model"
)

// Errors of requests.
var (
	ErrBusy    = errors.New("too many requests are waiting")
	ErrClosed  = errors.New("the server is shutting down")
	ErrTooLong = errors.New("the prompt is too long")
)

// Loaded is a model that the engine owns until it calls Close.
type Loaded struct {
	*model.Model
	Close func() error
}

// Config of an engine. Load is required.
type Config struct {
	// Load opens the model with at least Parallel sequences of Context positions.
	Load func(ctx context.Context) (Loaded, error)

	Context   int           // positions of a sequence
	Parallel  int           // generations that run at once
	Chunk     int           // tokens of one step at most, as the model's chunk
	Queue     int           // requests that wait at most
	MaxWait   time.Duration // for a place, before a request fails with ErrBusy
	KeepAlive time.Duration // idle time after which the model is unloaded; negative: never
	StepTime  time.Duration // that pieces of prompts may take while others generate

	Observe Observer
}

// Observer is told what happens, from the engine's goroutine; it must be quick.
// Functions may be nil.
type Observer struct {
	Started func(waited time.Duration)
	First   func(sinceSubmitted time.Duration) // a first token
	Step    func(tokens, outputs int, took time.Duration)
}

// Engine is the scheduler. Its methods may be called from several goroutines.
type Engine struct {
	cfg    Config
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	gone   chan struct{} // closed when the goroutine has ended

	mu        sync.Mutex
	waiting   []*job
	count     map[string]int    // of running jobs by client
	turn      map[string]uint64 // when a client's last job started
	turns     uint64
	keepAlive time.Duration
	closed    bool
	status    Status

	// Of the goroutine.
	loaded  Loaded
	running []*job
	idle    []*kept
	rate    float64 // seconds that a token of a prompt takes
}

// Status is what an engine is doing.
type Status struct {
	Running, Waiting int
	Loaded           bool
	Room             model.Room // while loaded
	Idle             int        // sequences kept for requests that begin alike
}

// New starts an engine. The caller closes it.
func New(cfg Config) *Engine {
	e := &Engine{cfg: cfg, wake: make(chan struct{}, 1), gone: make(chan struct{}), count: map[string]int{}, turn: map[string]uint64{}, keepAlive: cfg.KeepAlive}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	go e.loop()
	return e
}

// Do has f called by the engine's goroutine between two steps, with the model loaded,
// and returns its error. f may be called again when it fails for want of cache pages.
func (e *Engine) Do(ctx context.Context, f func(*model.Model) error) error {
	j := &job{ctx: ctx, do: f, Stream: newStream(), submitted: time.Now()}
	if err := e.enqueue(j); err != nil {
		return err
	}
	if _, err := j.Next(ctx); err != io.EOF {
		return err
	}
	return nil
}

// Submit queues a request. Its generation ends early when ctx ends. A prompt that is
// longer than the context is an error that wraps ErrTooLong, a full queue one that
// wraps ErrBusy.
func (e *Engine) Submit(ctx context.Context, r Request) (*Stream, error) {
	switch {
	case len(r.Prompt) == 0:
		return nil, errors.New("the prompt is empty")
	case len(r.Prompt) > e.cfg.Context:
		return nil, fmt.Errorf("%w: %d tokens in a context of %d", ErrTooLong, len(r.Prompt), e.cfg.Context)
	}
	if err := r.Sampling.Check(); err != nil {
		return nil, err
	}
	j := &job{ctx: ctx, Request: r, Stream: newStream(), submitted: time.Now()}
	j.stats.Prompt = len(r.Prompt)
	if err := e.enqueue(j); err != nil {
		return nil, err
	}
	return j.Stream, nil
}

func (e *Engine) enqueue(j *job) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	if len(e.waiting) >= e.cfg.Queue {
		return fmt.Errorf("%w: %d, the limit", ErrBusy, e.cfg.Queue)
	}
	e.waiting = append(e.waiting, j)
	if j.KeepAlive != nil {
		e.keepAlive = *j.KeepAlive
	}
	context.AfterFunc(j.ctx, e.poke) // so that a job whose client has gone is noticed
	e.poke()
	return nil
}

// poke wakes the goroutine if it sleeps.
func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Status returns what the engine is doing.
func (e *Engine) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	s.Waiting = len(e.waiting)
	return s
}

// Close ends all generations with ErrClosed and unloads the model.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	<-e.gone
	return nil
}

// loop is the engine's goroutine.
func (e *Engine) loop() {
	defer close(e.gone)
	defer e.unload()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var active time.Time // when something ran last
	for e.ctx.Err() == nil {
		e.retire()
		e.admit()
		e.publish()
		if len(e.running) > 0 {
			e.step()
			active = time.Now()
			continue
		}
		if left, ok := e.idleFor(time.Since(active)); ok {
			if left <= 0 {
				e.unload()
				continue
			}
			timer.Reset(left)
		}
		select {
		case <-e.wake:
		case <-timer.C:
		case <-e.ctx.Done():
		}
	}
	e.failAll(ErrClosed)
}

// idleFor is how long the model still stays loaded after being idle for some time;
// false if it just stays.
func (e *Engine) idleFor(idle time.Duration) (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keepAlive - idle, e.loaded.Model != nil && e.keepAlive >= 0 && len(e.waiting) == 0
}

func (e *Engine) publish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = Status{Running: len(e.running), Loaded: e.loaded.Model != nil, Idle: len(e.idle)}
	if e.status.Loaded {
		e.status.Room = e.loaded.Room()
	}
}

// SetKeepAlive replaces how long an idle model stays loaded.
func (e *Engine) SetKeepAlive(d time.Duration) {
	e.mu.Lock()
	e.keepAlive = d
	e.mu.Unlock()
	e.poke()
}
