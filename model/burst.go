package model

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// maxBurst bounds the tokens of a burst, and burstTime how long one may take: it is
// how late a token can be told, and what is lost when the sequence ends within.
const (
	maxBurst  = 8
	burstTime = 12 * time.Millisecond
)

// burst is the tokens of a sequence that one submission chose one after the other,
// each from the one before it, as long as the largest logit is what is wanted: a
// token takes a device less than a millisecond, and the host some 5 % more. The
// session gets each when it is asked for, as if it were run then.
type burst struct {
	chosen []int32       // and not asked for
	edits  uint64        // of the session when the last was asked for
	token  time.Duration // what one takes; 0: not known
	off    bool          // the program is not one for bursts
}

// take returns what follows ids if the burst has it. mu is not held.
func (b *burst) take(ctx context.Context, s *Session, ids []int32) (id int32, ok bool) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	same := len(b.chosen) > 1 && b.edits == s.edits && s.done == len(s.tokens) && slices.Equal(ids, b.chosen[:1])
	if !same || s.closed || s.m.usable() != nil || ctx.Err() != nil {
		b.chosen = nil
		return 0, false
	}
	s.advance(b.chosen[0])
	b.chosen, b.edits = b.chosen[1:], s.edits
	return b.chosen[0], true
}

// length is how many tokens the next burst had best have, 1: none. They stay within a
// page, for which all that a run depends on is the same.
func (b *burst) length(s *Session, limit int) int {
	if b.off || b.token == 0 || s.m.config.Recurrent != nil || s.done != len(s.tokens) {
		return 1
	}
	return min(maxBurst, limit, int(s.m.burstTime/b.token), op.PageTokens-s.done%op.PageTokens, s.m.options.Context-s.done)
}

// run evaluates id and the tokens that follow, n in all, and returns the first that was
// chosen. It reports false, and nothing has changed, if that takes single runs.
func (b *burst) run(ctx context.Context, s *Session, id int32, n int) (first int32, ok bool, err error) {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	x, ok := m.x.(graph.Repeater)
	if err := m.usable(); err != nil || !ok {
		return 0, false, err
	}
	if err := m.admit([]Request{{Session: s, Tokens: []int32{id}}}); err != nil {
		return 0, false, err
	}
	run := []entry{{session: s, id: id, wants: true}}
	sh := shape{n: 1, out: 1, chunks: 1, by: byLargest}
	used := m.lay(run, partsOf(run), &sh)
	sh.spread = spreads(1, 1, sh.chunks)
	l, w := sh.layout(), m.words
	chosen := len(w) - maxBurst // behind the rest
	if used > chosen {
		return 0, false, nil
	}
	w[op.Follow] = uint32(chosen)
	p, err := m.program(sh)
	if err != nil {
		return 0, false, err
	}
	buf := m.batch.Buffer
	if err := m.x.Write(buf, 0, wordBytes(w[:used])); err != nil {
		return 0, false, err
	}
	began := time.Now()
	err = x.Repeat(ctx, p.Program, n)
	if errors.Is(err, graph.ErrUnsupported) {
		return 0, false, nil
	}
	if err == nil {
		m.last = p.Program
		err = m.x.Read(buf, 0, wordBytes(w[:l.Members]))
	}
	if err == nil {
		err = m.x.Read(buf, uint64(chosen)*4, wordBytes(w[chosen:]))
	}
	if err != nil {
		return 0, false, err
	}
	if w[0] != 0 {
		return 0, false, nil // single runs tell at which token
	}
	b.chosen = b.chosen[:0]
	for _, id := range w[chosen:][:n] {
		if int(id) >= m.config.Vocab {
			return 0, false, nil
		}
		b.chosen = append(b.chosen, int32(id))
	}
	b.token = time.Since(began) / time.Duration(n)
	s.advance(id)
	b.edits = s.edits
	return b.chosen[0], true, nil
}
