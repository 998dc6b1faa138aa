package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/ternvk/tern/runtime/graph"
)

// Session is a sequence of tokens with what the model remembers of them: cached
// keys and values, and the state of recurrent layers.
type Session struct {
	// Progress, if not nil, is told by Generate how many of the prompt's tokens that
	// are not reused are evaluated, after each run of them.
	Progress func(done, total int)
	// Note is the caller's: bytes that Save saves with the session, at most 64 MiB.
	Note []byte

	m      *Model
	tokens []int32
	done   int    // tokens that the state has seen; the others are run again when needed
	edits  uint64 // counts changes of the above
	pages  []uint32
	states
	finish Finish
	closed bool
}

// NewSession begins an empty sequence. The caller closes it.
func (m *Model) NewSession() (*Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("%s: new session: %w", m.file.Name, graph.ErrClosed)
	}
	s := &Session{m: m}
	m.sessions[s] = true
	return s, nil
}

// Close returns the session's cache pages. Closing again does nothing.
func (s *Session) Close() error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if !s.closed {
		s.closed = true
		delete(s.m.sessions, s)
		s.m.pages.give(&s.pages, 0)
		s.restore(0)
	}
	return nil
}

// Tokens returns the evaluated tokens; the slice must not be changed.
func (s *Session) Tokens() []int32 { return s.tokens }

// Truncate forgets all tokens from position n on. The state of recurrent layers
// goes back to the last snapshot before; the tokens between are run again with the
// next ones.
func (s *Session) Truncate(n int) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if n < 0 || n >= len(s.tokens) {
		return
	}
	s.tokens = s.tokens[:n]
	s.edits++
	if n < s.done {
		s.done = n
		if s.m.config.Recurrent != nil {
			s.restore(n)
		}
	}
	s.detach()
}

// behind lists the tokens that the state has yet to see, for a request.
func (s *Session) behind(request int) (list []entry) {
	for _, id := range s.tokens[s.done:] {
		list = append(list, entry{request: request, session: s, id: id})
	}
	return list
}

// advance notes that a token was run.
func (s *Session) advance(id int32) {
	if s.done == len(s.tokens) {
		s.tokens = append(s.tokens, id)
	}
	s.done++
	s.edits++
}

// Eval appends ids and returns the logits after the last of them, or after each:
// float32 [1][vocab] or [len(ids)][vocab].
func (s *Session) Eval(ctx context.Context, ids []int32, every bool) ([][]float32, error) {
	logits, err := s.m.Eval(ctx, Request{Session: s, Tokens: ids, Every: every})
	return logits[0], err
}

// Reuse truncates the session to what it shares with ids, at most all but the
// last of them, and returns the length of that prefix. A session with recurrent state
// is truncated to its last snapshot within.
func (s *Session) Reuse(ids []int32) int {
	n := 0
	for n < len(s.tokens) && n < len(ids)-1 && s.tokens[n] == ids[n] {
		n++
	}
	s.Truncate(n)
	s.Truncate(s.done)
	return min(n, s.done)
}

// Generated is one token of an answer.
type Generated struct {
	ID    int32
	Piece []byte // its bytes; nil without a vocabulary
	// Reused and Prompt count the prompt's tokens that were in the session and
	// in all.
	Reused, Prompt int
}

// Finish is why a generation ended.
type Finish uint8

// The reasons.
const (
	Unfinished Finish = iota // it goes on, failed, or its caller stopped it
	Stop                     // the model ended its turn
	Length                   // the limit was reached
	ContextEnd               // the context is full
)

func (f Finish) String() string { return [...]string{"unfinished", "stop", "length", "context"}[f] }

// Finish tells why the last Generate of the session ended.
func (s *Session) Finish() Finish { return s.finish }

// Generate makes the session's sequence equal to prompt, reusing what they
// share, and yields up to limit tokens (0: as many as the context holds) until
// the model ends its turn. The token that ends the turn is not yielded. When
// the context is full the sequence just ends; [Session.Finish] tells. A prompt
// longer than the context is an error that wraps ErrContextFull. Cancelling ctx ends it with
// ctx.Err() at the next border between submissions, also within the prompt.
func (s *Session) Generate(ctx context.Context, prompt []int32, sampling Sampling, limit int) iter.Seq2[Generated, error] {
	return func(yield func(Generated, error) bool) {
		s.finish = Unfinished
		err := sampling.Check()
		if len(prompt) == 0 {
			err = errors.New("an empty prompt")
		}
		if err != nil {
			yield(Generated{}, fmt.Errorf("%s: %w", s.m.file.Name, err))
			return
		}
		g := Generated{Reused: s.Reuse(prompt), Prompt: len(prompt)}
		pending := prompt[g.Reused:]
		if s.Progress != nil && len(prompt) <= s.m.options.Context {
			if pending, err = s.runUp(ctx, pending); err != nil {
				yield(Generated{}, err)
				return
			}
		}
		var ahead burst
		for n := 0; limit == 0 || n < limit; n++ {
			if n > 0 && len(s.tokens) >= s.m.options.Context {
				s.finish = ContextEnd
				return
			}
			left := s.m.options.Context
			if limit > 0 {
				left = limit - n
			}
			if g.ID, err = s.next(ctx, pending, sampling, &ahead, left); err != nil {
				yield(Generated{}, err)
				return
			}
			if n == 0 && s.Progress != nil {
				s.Progress(len(prompt)-g.Reused, len(prompt)-g.Reused)
			}
			if s.m.tok != nil {
				if s.m.tok.EndsTurn(g.ID) {
					s.finish = Stop
					return
				}
				g.Piece = s.m.tok.Piece(g.ID)
			}
			if !yield(g, nil) {
				return
			}
			pending = []int32{g.ID}
		}
		s.finish = Length
	}
}

// runUp evaluates all but the last run of ids, which it returns, and tells Progress.
func (s *Session) runUp(ctx context.Context, ids []int32) ([]int32, error) {
	total := len(ids)
	for len(ids) > s.m.options.Chunk {
		run := Request{Session: s, Tokens: ids[:s.m.options.Chunk], None: true}
		if _, err := s.m.Eval(ctx, run); err != nil {
			return nil, err
		}
		ids = ids[len(run.Tokens):]
		s.Progress(total-len(ids), total)
	}
	return ids, nil
}

// next evaluates ids and chooses the following token; of the largest logit, up to left
// tokens may be run ahead.
func (s *Session) next(ctx context.Context, ids []int32, sampling Sampling, ahead *burst, left int) (id int32, err error) {
	request := []Request{{Session: s, Tokens: ids}}
	chosen := func(_ int, _ []float32, token uint32) { id = int32(token) }
	if sampling.greedy() {
		if id, ok := ahead.take(ctx, s, ids); ok {
			return id, nil
		}
		if n := ahead.length(s, left); n > 1 && len(ids) == 1 {
			id, ok, err := ahead.run(ctx, s, ids[0], n)
			if ok || err != nil {
				return id, err
			}
			ahead.off = true
		}
		began := time.Now()
		if err = s.m.eval(ctx, request, byLargest, chosen); len(ids) == 1 {
			ahead.token = time.Since(began)
		}
		return id, err
	}
	if d := sampling.draw(s.tokens, ids, s.m.config.Vocab); d != nil {
		request[0].draw = d
		err = s.m.eval(ctx, request, byDraw, chosen)
		return id, err
	}
	var logits []float32
	if err = s.m.eval(ctx, request, byHost, func(_ int, row []float32, _ uint32) { logits = row }); err != nil {
		return 0, err
	}
	return sampling.choose(logits, s.tokens)
}
