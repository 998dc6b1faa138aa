package model

import (
	"fmt"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// PagePositions is the number of positions in a page of the cache, the unit that
// sessions share.
const PagePositions = op.PageTokens

// Fork begins a session with the first tokens of s, at most n of them, whose memory
// the two share from then on: whole pages of the cache and, of models with recurrent
// layers, a snapshot at the border of two pages. [Session.Tokens] tells how many
// tokens it took, possibly none. The caller closes the new session.
func (s *Session) Fork(n int) (*Session, error) {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.closed || m.closed {
		return nil, fmt.Errorf("%s: fork: %w", m.file.Name, graph.ErrClosed)
	}
	f := &Session{m: m}
	m.sessions[f] = true
	var state []uint32
	n, state = s.border(min(n, s.done))
	f.tokens, f.done = append(f.tokens, s.tokens[:n]...), n
	m.pages.share(&f.pages, s.pages[:n/op.PageTokens])
	m.slots.share(&f.now, state)
	f.steps = 2 // so that the shared state is kept as a snapshot
	return f, nil
}

// Forkable returns how many tokens a fork at n would take.
func (s *Session) Forkable(n int) int {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	n, _ = s.border(min(n, s.done))
	return n
}

// border is the last position up to n where the session can be forked, and the
// state there.
func (s *Session) border(n int) (at int, state []uint32) {
	if s.m.config.Recurrent == nil {
		return n / op.PageTokens * op.PageTokens, nil
	}
	if s.done <= n && s.done%op.PageTokens == 0 {
		return s.done, s.now
	}
	for _, k := range s.kept {
		if k.pos <= n && k.pos%op.PageTokens == 0 {
			at, state = k.pos, k.slot
		}
	}
	return at, state
}

// detach goes back until what the session writes next is its own: the page that
// holds the next position is not shared.
func (s *Session) detach() {
	m := s.m
	for {
		page := s.done / op.PageTokens
		if s.done%op.PageTokens == 0 || page >= len(s.pages) || !m.pages.isShared(s.pages[page]) {
			break
		}
		if s.done = page * op.PageTokens; m.config.Recurrent != nil {
			s.restore(s.done)
		}
	}
	m.pages.give(&s.pages, (s.done+op.PageTokens-1)/op.PageTokens)
}
