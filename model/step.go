package model

import (
	"context"
	"fmt"
	"slices"
)

// Turn is what one session adds to a step: tokens to evaluate, and how the one
// that follows them is chosen.
type Turn struct {
	Session  *Session
	Tokens   []int32
	Sampling *Sampling // nil: no token is chosen, as within a prompt
	Logits   bool      // the caller chooses, from the logits after the last token
}

// Next is what follows the tokens of a turn.
type Next struct {
	Token  int32     // chosen by the turn's Sampling; -1 without, and with Logits
	Logits []float32 // [vocab], for a turn with Logits: the caller's own
}

// Step evaluates turns of different sessions, pieces of prompts beside single
// tokens, in one submission if the chunk size allows. Sampling gives the tokens
// that Generate gives. After an error no session holds a token of its turn, but
// for turns of more tokens than a chunk.
func (m *Model) Step(ctx context.Context, turns []Turn) ([]Next, error) {
	requests := make([]Request, len(turns))
	order := make([]int, len(turns)) // those that the host reads last, so that they lie together
	host := make([]bool, len(turns))
	var drawn, read int
	greedy := true
	for i, t := range turns {
		order[i] = i
		r := Request{Session: t.Session, Tokens: t.Tokens, None: t.Sampling == nil && !t.Logits}
		switch {
		case r.None:
		case len(t.Tokens) == 0:
			return nil, fmt.Errorf("%s: a turn without tokens", m.file.Name)
		case t.Logits:
			r.draw = Sampling{}.draw(nil, nil, m.config.Vocab)
		default:
			if err := t.Sampling.Check(); err != nil {
				return nil, err
			}
			if r.draw = t.Sampling.draw(t.Session.tokens, t.Tokens, m.config.Vocab); r.draw == nil {
				host[i] = true
				r.draw = Sampling{}.draw(nil, nil, m.config.Vocab)
			}
			greedy = greedy && t.Sampling.greedy()
		}
		switch host[i] = host[i] || t.Logits; {
		case host[i]:
			read++
		case !r.None:
			drawn++
		}
		r.logits = host[i]
		requests[i] = r
	}
	by := byBoth
	switch {
	case drawn == 0:
		by = byHost
	case read == 0 && greedy:
		by = byLargest
	case read == 0:
		by = byDraw
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank(host[a]) - rank(host[b]) })
	sorted := make([]Request, len(turns))
	for i, at := range order {
		sorted[i] = requests[at]
	}
	next := make([]Next, len(turns))
	for i := range next {
		next[i].Token = -1
	}
	err := m.eval(ctx, sorted, by, func(request int, row []float32, token uint32) {
		i := order[request]
		if host[i] {
			next[i].Logits = row
		} else {
			next[i].Token = int32(token)
		}
	})
	if err != nil {
		return nil, err
	}
	for i, t := range turns {
		if host[i] && !t.Logits {
			if next[i].Token, err = t.Sampling.choose(next[i].Logits, t.Session.tokens); err != nil {
				return nil, err
			}
			next[i].Logits = nil
		}
	}
	return next, nil
}

func rank(later bool) int {
	if later {
		return 1
	}
	return 0
}

// OnDevice reports whether devices draw by these settings, which holds as long as they
// penalise few different tokens; else each draw reads the logits of its sequence.
func (s Sampling) OnDevice() bool { return s.draw(nil, nil, 1) != nil }

// Choose picks the token that follows tokens from its logits [vocab], which it
// changes: the token that a device picks by the same settings.
func (s Sampling) Choose(logits []float32, tokens []int32) (int32, error) {
	return s.choose(logits, tokens)
}

// Hidden evaluates tokens in an empty session and returns the hidden state after
// each of them, normed as for the head: [len(tokens)][hidden].
func (m *Model) Hidden(ctx context.Context, tokens []int32) ([][]float32, error) {
	s, err := m.NewSession()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	states := make([][]float32, 0, len(tokens))
	err = m.eval(ctx, []Request{{Session: s, Tokens: tokens, Every: true}}, byNobody, func(_ int, row []float32, _ uint32) {
		states = append(states, slices.Clone(row))
	})
	return states, err
}

// Room is what is left of the memory that sessions share.
type Room struct {
	Pages, AllPages int // of the cache, of PagePositions positions each
	Slots, AllSlots int // of recurrent state
}

// Room returns what is left for sessions.
func (m *Model) Room() Room {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Room{Pages: len(m.pages.free), AllPages: cachePages(m.options), Slots: len(m.slots.free), AllSlots: stateSlots(m.config, m.options)}
}
