package model

import (
	"context"
	"fmt"

	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// stateSlots is the number of slots of recurrent state: for each sequence its
// state, the one that a run writes, and snapshots.
func stateSlots(c *family.Config, o Options) int {
	if c.Recurrent == nil {
		return 0
	}
	return o.Sequences * (2 + o.Snapshots)
}

func cachePages(o Options) int {
	return (o.Context + op.PageTokens - 1) / op.PageTokens * o.Sequences
}

// pairsOf is the number of tokens that a sequence can have penalised.
func pairsOf(o Options) int { return min(o.Context, maxPairs) }

// batchWords is the size of the largest batch.
func batchWords(c *family.Config, o Options) int {
	seqs := 0
	if c.Recurrent != nil {
		seqs = o.Chunk
	}
	return op.NewSequenceLayout(o.Chunk, o.Chunk, seqs).WithDraws().Pages + cachePages(o) + 2*pairsOf(o)*o.Sequences
}

// check tells whether the model fits, before anything is allocated, and what comes.
func (m *Model) check() error {
	x, ok := m.x.(graph.Checker)
	if !ok {
		return nil
	}
	o := m.options
	o.Executor = m.x
	b, err := newBudget(m.file, o)
	if err != nil {
		return err
	}
	e, err := b.fits(o.Context, func(e Estimate) Estimate { return e })
	if err != nil {
		return err
	}
	x.Reserve([graph.NumPurposes]uint64{graph.Weights: e.Weights, graph.Constants: e.Constants, graph.Cache: e.Cache + e.State, graph.Batch: e.Batch})
	return nil
}

// until is an executor that allocates and fills nothing more when its context has ended.
type until struct {
	graph.Executor
	ctx context.Context
}

func (u until) Alloc(p graph.Purpose, name string, bytes uint64) (graph.Buffer, error) {
	if err := u.ctx.Err(); err != nil {
		return nil, err
	}
	return u.Executor.Alloc(p, name, bytes)
}

func (u until) Fill(b graph.Buffer, offset, bytes uint64, fill func(off uint64, p []byte) error) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	return u.Executor.Fill(b, offset, bytes, fill)
}

// allocMemory allocates what the layers remember.
func (m *Model) allocMemory() error {
	pages, slots := cachePages(m.options), stateSlots(m.config, m.options)
	m.pages, m.slots = newPool(pages), newPool(slots)
	m.memory = family.Memory{Caches: make([]op.Cache, m.config.Layers), States: make([]op.State, m.config.Layers)}
	for i := range m.config.Layers {
		name := fmt.Sprintf("cache.%d", i)
		if !m.config.HasState(i) {
			buf, err := m.alloc(name, op.CacheBytes(m.config.Heads, pages), "a smaller context")
			if err != nil {
				return err
			}
			m.memory.Caches[i] = op.NewCache(name, buf, m.config.Heads, pages)
			continue
		}
		conv, rule := op.StateBytes(m.config.Delta, slots)
		convBuf, err := m.alloc(name+".conv", conv, "fewer sequences")
		if err != nil {
			return err
		}
		ruleBuf, err := m.alloc(name+".state", rule, "fewer sequences or snapshots")
		if err != nil {
			return err
		}
		m.memory.States[i] = op.NewState(name, convBuf, ruleBuf, m.config.Delta, slots)
	}
	return nil
}

func (m *Model) alloc(name string, bytes uint64, less string) (graph.Buffer, error) {
	if err := bindable(m.x, name, bytes, less); err != nil {
		return nil, fmt.Errorf("%s: %w", m.file.Name, err)
	}
	buf, err := m.x.Alloc(graph.Cache, name, bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", m.file.Name, name, err)
	}
	m.remembered = append(m.remembered, buf)
	return buf, nil
}

// bindable tells whether a buffer can be bound as a whole.
func bindable(x graph.Executor, name string, bytes uint64, less string) error {
	if limit := x.Limits().MaxBinding; bytes > limit {
		return fmt.Errorf("%s takes %d bytes, a binding spans at most %d: use %s: %w", name, bytes, limit, less, graph.ErrOutOfMemory)
	}
	return nil
}

func (m *Model) freeMemory() {
	for _, b := range m.remembered {
		m.x.Free(b)
	}
	m.remembered = nil
}
