package model

import (
	"fmt"
	"sort"

	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// budget estimates what a file takes with different options.
type budget struct {
	f       *gguf.File
	net     family.Model
	options Options // with defaults
	scratch *scratch
}

func newBudget(f *gguf.File, o Options) (*budget, error) {
	net, err := readFamily(f)
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(net.Base()); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	s, err := newScratch(f, o)
	return &budget{f, net, o, s}, err
}

// estimate is for options with defaults.
func (b *budget) estimate(o Options) (e Estimate, err error) {
	c := b.net.Base()
	e.Context = o.Context
	if e.Weights, e.Constants, err = b.net.Tensors().Bytes(b.f, o.Context); err != nil {
		return Estimate{}, err
	}
	for i := range c.Layers {
		if c.HasState(i) {
			conv, rule := op.StateBytes(c.Delta, stateSlots(c, o))
			e.State += conv + rule
			continue
		}
		e.Cache += op.CacheBytes(c.Heads, cachePages(o))
		e.CachePerToken += op.CacheBytes(c.Heads, 1) / op.PageTokens
	}
	e.Batch = uint64(batchWords(c, o)) * 4
	e.Scratch = b.scratch.bytes(o)
	return e, nil
}

// slack is what allocations may take beyond the buffers in them: the end of the
// last one of each purpose.
func (e Estimate) slack() Estimate {
	share := func(bytes, most uint64) uint64 { return bytes + min(bytes/8, most) }
	e.Weights, e.Cache, e.Scratch = share(e.Weights, 256<<20), share(e.Cache, 16<<20), share(e.Scratch, 16<<20)
	return e
}

// fits tells whether the file fits the executor with a context. room is what is
// asked for, given the estimate.
func (b *budget) fits(context int, room func(Estimate) Estimate) (Estimate, error) {
	o, c := b.options, b.net.Base()
	o.Context = context
	e, err := b.estimate(o)
	if err != nil {
		return e, err
	}
	for i := range c.Layers {
		if c.HasState(i) {
			continue
		}
		if err := bindable(o.Executor, fmt.Sprintf("cache.%d", i), op.CacheBytes(c.Heads, cachePages(o)), "a smaller context"); err != nil {
			return e, fmt.Errorf("%s: %w", b.f.Name, err)
		}
		break // the layers' caches are alike
	}
	if x, ok := o.Executor.(graph.Checker); ok {
		if err := x.Check(room(e).need()); err != nil {
			return e, fmt.Errorf("%s: %d MiB of weights and %d MiB of cache for %d sequences of %d positions: %w",
				b.f.Name, (e.Weights+e.Constants)>>20, (e.Cache+e.State)>>20, o.Sequences, context, err)
		}
	}
	return e, nil
}

// Fit finds the largest context with which f fits the executor beside what is
// there, with some room for the ends of allocations: a multiple of 64 positions, or all that the model was trained for.
// o.Context, if not 0, is an upper bound. When not even 64 positions fit, the error wraps
// graph.ErrOutOfMemory.
func Fit(f *gguf.File, o Options) (context int, e Estimate, err error) {
	if o.Executor == nil {
		return 0, e, fmt.Errorf("%s: Options.Executor is nil: %w", f.Name, graph.ErrNoDevice)
	}
	bound := o.Context
	b, err := newBudget(f, o)
	if err != nil {
		return 0, e, err
	}
	if bound == 0 {
		bound = b.net.Base().Context
	}
	positions := func(pages int) int { return min(pages*op.PageTokens, bound) }
	if e, err = b.fits(positions(1), Estimate.slack); err != nil {
		return 0, e, err
	}
	most := (bound + op.PageTokens - 1) / op.PageTokens
	pages := 1 + sort.Search(most-1, func(n int) bool { // n more pages fit, n+1 do not
		_, err := b.fits(positions(n+2), Estimate.slack)
		return err != nil
	})
	context = positions(pages)
	e, err = b.fits(context, Estimate.slack)
	return context, e, err
}
