package constrain

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ternvk/tern/model/token"
)

// Vocabulary is the tokens of a model in the order of their bytes. It is safe for
// concurrent use.
type Vocabulary struct {
	tokens *token.Tokenizer
	order  []int32 // normal tokens by bytes
	shared []int32 // bytes that each has in common with the one before
	ends   []int32 // the tokens that end a turn
}

// NewVocabulary sorts the tokens of a tokenizer.
func NewVocabulary(t *token.Tokenizer) *Vocabulary {
	v := &Vocabulary{tokens: t}
	for id := range int32(t.Len()) {
		switch {
		case t.EndsTurn(id):
			v.ends = append(v.ends, id)
		case len(t.Piece(id)) > 0 && (t.Type(id) == token.Normal || t.Type(id) == token.Byte):
			v.order = append(v.order, id)
		}
	}
	slices.SortFunc(v.order, func(a, b int32) int { return bytes.Compare(t.Piece(a), t.Piece(b)) })
	v.shared = make([]int32, len(v.order))
	for i := 1; i < len(v.order); i++ {
		a, b := t.Piece(v.order[i-1]), t.Piece(v.order[i])
		for n := 0; n < len(a) && n < len(b) && a[n] == b[n]; n++ {
			v.shared[i]++
		}
	}
	return v
}

// Guide holds one answer to a grammar: it says which tokens may follow. It is for one
// goroutine at a time.
type Guide struct {
	v     *Vocabulary
	a     *automaton
	at    int32
	done  bool
	after int32 // the token that ends what comes before, -1: nothing does
	out   int32 // the token that leads out of the grammar at its beginning, -1: none
	begun bool
	free  bool // led out
}

// Options of a guide: ids of tokens, -1 for none.
type Options struct {
	// After is the token from which on the grammar holds, such as the one that closes
	// a thought; until then everything may come but the end.
	After int32
	// Out is a token that may begin the answer and ends the guidance, such as the one
	// that opens a call of a tool.
	Out int32
}

// Start begins an answer.
func (v *Vocabulary) Start(g *Grammar, o Options) (*Guide, error) {
	if len(v.ends) == 0 {
		return nil, errors.New("the vocabulary has no token that ends an answer")
	}
	a, at, err := newAutomaton(g)
	if err != nil {
		return nil, err
	}
	return &Guide{v: v, a: a, at: at, after: o.After, out: o.Out}, nil
}

// Mask sets the logits of tokens that must not follow to minus infinity. It fails if
// none may.
func (c *Guide) Mask(logits []float32) error {
	never := float32(math.Inf(-1))
	if c.free {
		return nil
	}
	if c.after >= 0 {
		for _, id := range c.v.ends {
			logits[id] = never
		}
		return nil
	}
	if !c.done {
		c.at = c.a.compact(c.at)
	}
	s := c.a.states[c.at]
	if s.allowed == nil {
		s.allowed = c.allow()
		if c.a.err != nil {
			return c.a.err
		}
	}
	some := false
	for id := range logits {
		if id/64 >= len(s.allowed) || s.allowed[id/64]>>(id%64)&1 == 0 {
			if !c.begun && int32(id) == c.out {
				some = true
				continue
			}
			logits[id] = never
		} else {
			some = true
		}
	}
	if !some {
		return errors.New("no token of the vocabulary can go on with what the grammar wants")
	}
	return nil
}

// allow lists the tokens that may follow.
func (c *Guide) allow() []uint64 {
	v, a := c.v, c.a
	allowed := make([]uint64, (v.tokens.Len()+63)/64)
	set := func(id int32) { allowed[id/64] |= 1 << (id % 64) }
	if a.states[c.at].accepts {
		for _, id := range v.ends {
			set(id)
		}
	}
	path := []int32{c.at} // states after the bytes of the token before, as far as it went
	for i, id := range v.order {
		from := int(v.shared[i])
		if from >= len(path) { // begins as one that led nowhere
			continue
		}
		path = path[:from+1]
		piece := v.tokens.Piece(id)
		at := path[from]
		for _, b := range piece[from:] {
			if at = a.step(at, b); at == dead {
				break
			}
			path = append(path, at)
		}
		if a.err != nil {
			return nil
		}
		if at != dead {
			set(id)
		}
	}
	return allowed
}

// Accept notes the token that follows. It fails if that must not.
func (c *Guide) Accept(id int32) error {
	switch {
	case c.free:
		return nil
	case c.after >= 0:
		if id == c.after {
			c.after = -1
		}
		return nil
	case !c.begun && id == c.out:
		c.free = true
		return nil
	}
	c.begun = true
	if slices.Contains(c.v.ends, id) {
		if !c.a.states[c.at].accepts {
			return errors.New("the answer ends before the grammar does")
		}
		c.done = true
		return nil
	}
	at := c.at
	for _, b := range c.v.tokens.Piece(id) {
		if at = c.a.step(at, b); at == dead {
			return fmt.Errorf("token %d does not go on with what the grammar wants", id)
		}
	}
	c.at = at
	return nil
}

// Complete reports whether the answer may end here.
func (c *Guide) Complete() bool {
	return c.free || c.after < 0 && c.a.states[c.at].accepts
}

// Ends returns the tokens that end an answer; the slice must not be changed.
func (v *Vocabulary) Ends() []int32 { return v.ends }
