package constrain

import (
	"encoding/binary"
	"errors"
	"slices"
)

// automaton follows bytes through a grammar. What may come next is a set of stacks
// of positions in the rules; a set that was met before is found again, with where
// each byte leads from it. It is for one goroutine.
type automaton struct {
	g      *Grammar
	frames []frame // stacks, as lists that share their ends
	frame  map[frame]int32
	states []*state
	state  map[string]int32
	work   int // stacks gathered for the present token
	err    error
}

// frame is a position with what comes after its rule; below is -1 at the bottom.
type frame struct{ at, below int32 }

// state is a set of stacks, each of which waits for a byte.
type state struct {
	stacks  []int32
	accepts bool // the text may end here
	next    [256]int32
	allowed []uint64 // tokens, once computed
}

// What next holds besides states.
const (
	unknown = 0
	dead    = -1
)

// Bounds of what an automaton remembers between two tokens, and of what it does for
// one: stacks that are gathered at a time and in all, and states.
const (
	maxStates = 4096
	maxFrames = 1 << 18
	maxStacks = 2048
	maxWork   = 1 << 22
	maxNew    = 1 << 16
)

// ErrComplex is the error of a grammar that takes too much work to follow.
var ErrComplex = errors.New("the grammar is too ambiguous to be followed")

func newAutomaton(g *Grammar) (*automaton, int32, error) {
	a := &automaton{g: g}
	a.clear()
	c := closure{a: a, seen: map[int32]bool{}}
	for _, at := range g.rules[g.root] {
		c.add(frame{at, -1})
	}
	return a, a.intern(&c), a.err
}

func (a *automaton) clear() {
	a.frames, a.frame = nil, map[frame]int32{}
	a.states, a.state = []*state{nil}, map[string]int32{} // from 1: 0 is unknown
}

func (a *automaton) push(f frame) int32 {
	id, ok := a.frame[f]
	if !ok {
		id = int32(len(a.frames))
		a.frames, a.frame[f] = append(a.frames, f), id
	}
	return id
}

// closure gathers stacks until each waits for a byte.
type closure struct {
	a       *automaton
	seen    map[int32]bool
	stacks  []int32
	accepts bool
}

func (c *closure) add(f frame) {
	a, g := c.a, c.a.g
	s := g.symbols[f.at]
	if s == end {
		if f.below < 0 {
			c.accepts = true
			return
		}
		c.add(a.frames[f.below])
		return
	}
	id := a.push(f)
	if c.seen[id] {
		return
	}
	c.seen[id] = true
	if a.work++; len(c.seen) > maxStacks || a.work > maxWork || len(a.states) > maxStates+maxNew {
		a.err = ErrComplex
		return
	}
	if !s.isRule() {
		c.stacks = append(c.stacks, id)
		return
	}
	below := f.below
	if g.symbols[f.at+1] != end { // a rule at the end of another takes its place
		below = a.push(frame{f.at + 1, f.below})
	}
	for _, at := range g.rules[s.rule()] {
		c.add(frame{at, below})
	}
}

// intern finds the state of a set; dead for none.
func (a *automaton) intern(c *closure) int32 {
	if len(c.stacks) == 0 && !c.accepts || a.err != nil {
		return dead
	}
	slices.Sort(c.stacks)
	key := make([]byte, 0, 4*len(c.stacks)+1)
	for _, s := range c.stacks {
		key = binary.LittleEndian.AppendUint32(key, uint32(s))
	}
	if c.accepts {
		key = append(key, 1)
	}
	id, ok := a.state[string(key)]
	if !ok {
		id = int32(len(a.states))
		a.states = append(a.states, &state{stacks: c.stacks, accepts: c.accepts})
		a.state[string(key)] = id
	}
	return id
}

// step follows a byte.
func (a *automaton) step(from int32, b byte) int32 {
	s := a.states[from]
	if s.next[b] == unknown {
		c := closure{a: a, seen: map[int32]bool{}}
		for _, id := range s.stacks {
			if f := a.frames[id]; a.g.classes[a.g.symbols[f.at]].has(b) {
				c.add(frame{f.at + 1, f.below})
			}
		}
		s.next[b] = a.intern(&c)
	}
	return s.next[b]
}

// compact prepares for the next token: it forgets all but one state, when too much is
// remembered. It returns the state's new number.
func (a *automaton) compact(at int32) int32 {
	a.work = 0
	if len(a.states) <= maxStates && len(a.frames) <= maxFrames {
		return at
	}
	old, frames := a.states[at], a.frames
	a.clear()
	var move func(id int32) int32
	move = func(id int32) int32 {
		if id < 0 {
			return id
		}
		return a.push(frame{frames[id].at, move(frames[id].below)})
	}
	c := closure{a: a, accepts: old.accepts}
	for _, id := range old.stacks {
		c.stacks = append(c.stacks, move(id))
	}
	return a.intern(&c)
}
