package sched

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/ternvk/tern/model"
)

// Request is a generation.
type Request struct {
	Prompt   []int32
	Limit    int // tokens; 0: as many as the context holds
	Sampling model.Sampling
	// EndsTurn reports whether a token ends the answer; it is not given out.
	EndsTurn func(id int32) bool
	// Bias is added to logits.
	Bias map[int32]float32
	// Logprobs asks for the log probability of each token, and Top for those of the
	// likeliest tokens.
	Logprobs bool
	Top      int
	// Constraint, if not nil, is what the answer has to obey.
	Constraint Constraint
	// Client names who asks; clients with less running come first.
	Client    string
	KeepAlive *time.Duration // replaces the engine's, from now on
}

// Constraint says which tokens an answer may go on with. It is used by one goroutine
// at a time.
type Constraint interface {
	// Mask sets the logits of tokens that must not follow to minus infinity.
	Mask(logits []float32) error
	// Accept notes the token that follows.
	Accept(id int32) error
}

// readsLogits reports whether the engine chooses the tokens from logits that it reads:
// side by side with those of others.
func (r *Request) readsLogits() bool {
	return r.Logprobs || len(r.Bias) > 0 || r.Constraint != nil || !r.Sampling.OnDevice()
}

// Likelihood is the natural logarithm of the probability of a token, before
// penalties, bias, constraint and temperature.
type Likelihood struct {
	ID      int32
	Logprob float64
}

// Token is one of an answer.
type Token struct {
	ID      int32
	Logprob float64      // if asked for
	Top     []Likelihood // the likeliest first
}

// Finish is why an answer ended.
type Finish string

// The reasons.
const (
	Stop   Finish = "stop"   // the model ended its turn
	Length Finish = "length" // the limit, or the context, is reached
)

// Stats is what a generation took.
type Stats struct {
	Prompt, Reused, Generated int
	Waited                    time.Duration // for a place
	Prefill                   time.Duration // from then to the first token
	Decode                    time.Duration // after it
}

// Stream is an answer that is being generated.
type Stream struct {
	mu      sync.Mutex
	tokens  []Token
	stats   Stats
	finish  Finish
	err     error // once it has ended: io.EOF for a good end
	started chan struct{}
	news    chan struct{}
}

func newStream() *Stream {
	return &Stream{started: make(chan struct{}), news: make(chan struct{}, 1)}
}

// Started is closed when the generation begins to run, or has failed.
func (s *Stream) Started() <-chan struct{} { return s.started }

// Next returns the next token; io.EOF when the answer has ended, otherwise why it
// failed.
func (s *Stream) Next(ctx context.Context) (Token, error) {
	for {
		s.mu.Lock()
		if len(s.tokens) > 0 {
			t := s.tokens[0]
			s.tokens = s.tokens[1:]
			s.mu.Unlock()
			return t, nil
		}
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return Token{}, err
		}
		select {
		case <-s.news:
		case <-ctx.Done():
			return Token{}, ctx.Err()
		}
	}
}

// Err returns why the stream failed, so far.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == io.EOF {
		return nil
	}
	return s.err
}

// Stats returns what the generation took until now, and why it ended.
func (s *Stream) Stats() (Stats, Finish) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats, s.finish
}

func (s *Stream) update(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// job is a request on its way.
type job struct {
	Request
	*Stream
	ctx       context.Context
	do        func(*model.Model) error // instead of a generation
	submitted time.Time
	begun     time.Time // to run
	first     time.Time // token

	session *model.Session
	pending []int32 // to be evaluated next
	count   int     // tokens generated
	leader  *job    // whose prompt begins alike and is evaluated first
	share   int     // how far
	over    bool
}

// prefilling reports whether the prompt is still being evaluated.
func (j *job) prefilling() bool { return j.first.IsZero() }

// evaluated is how many tokens the session holds if nothing went wrong.
func (j *job) evaluated() int { return len(j.Prompt) + j.count - len(j.pending) }

// end ends the job: err is io.EOF for a good end.
func (j *job) end(err error, f Finish) {
	j.over = true
	j.update(func() { j.err, j.finish = err, f })
	select {
	case <-j.started:
	default:
		close(j.started)
	}
}
