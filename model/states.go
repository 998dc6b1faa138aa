package model

import (
	"fmt"
	"slices"

	"github.com/ternvk/tern/runtime/op"
)

// states is the recurrent state of a session: slots hold it after some token. A run
// reads one slot and writes another, so that a run that fails changes nothing and
// the state before it can be kept.
type states struct {
	now   []uint32 // the slot of the current state; none before the first token
	kept  []snapshot
	steps int // tokens of the last run
}

type snapshot struct {
	pos  int // tokens that it has seen
	slot []uint32
}

// slot is the slot to read.
func (s *states) slot() uint32 {
	if len(s.now) == 0 {
		return op.Fresh
	}
	return s.now[0]
}

// takeSlots finds a slot for each part to write. When none is free, snapshots are
// given up.
func (m *Model) takeSlots(parts []*part) error {
	for i, p := range parts {
		for !m.slots.take(&p.write, 1) {
			if !m.forget() {
				for _, p := range parts[:i] {
					m.slots.give(&p.write, 0)
				}
				return fmt.Errorf("%s: no state left for another sequence: close a session or open the model with more sequences: %w", m.file.Name, ErrContextFull)
			}
		}
	}
	return nil
}

// settle ends a run: what was written is the state now, if the run was good. The
// state before is kept as a snapshot but for that between single tokens.
func (m *Model) settle(parts []*part, good bool) {
	for _, p := range parts {
		s := p.session
		if !good {
			m.slots.give(&p.write, 0)
			continue
		}
		before := s.done - p.count
		if len(s.now) > 0 && (p.count > 1 || s.steps > 1) && m.options.Snapshots > 0 {
			s.kept = append(s.kept, snapshot{before, s.now})
			s.now = nil
		}
		m.slots.give(&s.now, 0)
		s.now, s.steps = p.write, p.count
		for len(s.kept) > m.options.Snapshots {
			m.slots.give(&s.drop().slot, 0)
		}
	}
}

// drop removes the snapshot that leaves the smallest gap, never the latest but for
// the last one.
func (s *states) drop() *snapshot {
	least, gap := 0, 0
	for i := range len(s.kept) - 1 {
		from := 0
		if i > 0 {
			from = s.kept[i-1].pos
		}
		if g := s.kept[i+1].pos - from; i == 0 || g < gap {
			least, gap = i, g
		}
	}
	k := s.kept[least]
	s.kept = slices.Delete(s.kept, least, least+1)
	return &k
}

// forget gives up a snapshot of the session that has most of them.
func (m *Model) forget() bool {
	var most *Session
	for s := range m.sessions {
		if len(s.kept) > 0 && (most == nil || len(s.kept) > len(most.kept)) {
			most = s
		}
	}
	if most == nil {
		return false
	}
	m.slots.give(&most.drop().slot, 0)
	return true
}

// restore goes back to the last snapshot that has seen at most n tokens, or to the
// beginning.
func (s *Session) restore(n int) {
	slots := &s.m.slots
	slots.give(&s.now, 0)
	s.done = 0
	for len(s.kept) > 0 {
		k := s.kept[len(s.kept)-1]
		s.kept = s.kept[:len(s.kept)-1]
		if k.pos <= n && n > 0 {
			s.now, s.done, s.steps = k.slot, k.pos, 2
			return
		}
		slots.give(&k.slot, 0)
	}
}
