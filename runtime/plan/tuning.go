package plan

import "github.com/ternvk/tern/spirv"

// Tuning is what was measured on a device, instead of the order of the list of kernels.
// Implementations give the same words, but for those of the profile fast, which has tunings
// of its own, so it changes nothing but speed.
type Tuning struct {
	// Kernels are the implementations of contracts that were faster than those which the
	// list prefers, by the domain's y: the tokens of a matrix product.
	Kernels map[string][]TunedRange `json:"kernels,omitempty"`
	Chunk   int                     `json:"chunk,omitempty"` // tokens of a prompt to run at once, 0: the usual number
}

// TunedRange holds for domains whose y lies in From to To.
type TunedRange struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
	Impl string `json:"impl"`
}

// Prefer adds that an implementation is the fastest in a range behind those before.
func (t *Tuning) Prefer(contract string, from, to uint32, impl string) {
	list := t.Kernels[contract]
	if n := len(list); n > 0 && list[n-1].Impl == impl && list[n-1].To+1 == from {
		list[n-1].To = to
		return
	}
	t.Kernels[contract] = append(list, TunedRange{from, to, impl})
}

// Tuning returns what [Plan.Choose] goes by, nil for the list alone.
func (p *Plan) Tuning() *Tuning { return p.tuning.Load() }

// SetTuning has Choose go by t, nil for the list alone. Overrides come first; what the
// device cannot run, or no longer exists, is passed over.
func (p *Plan) SetTuning(t *Tuning) { p.tuning.Store(t) }

// tuned is the implementation that was measured to be the fastest, nil if none was.
func (p *Plan) tuned(contract string, list []*spirv.Kernel, domain [2]uint32) *spirv.Kernel {
	t := p.Tuning()
	if t == nil {
		return nil
	}
	for _, r := range t.Kernels[contract] {
		if domain[1] < r.From || domain[1] > r.To {
			continue
		}
		for _, k := range list {
			if k.Impl == r.Impl && p.lacks(k) == "" {
				return k
			}
		}
	}
	return nil
}

// Runnable lists the implementations of a contract that the device can run, in the
// list's order.
func (p *Plan) Runnable(contract string) (list []*spirv.Kernel) {
	for _, k := range spirv.Contract(contract) {
		if p.lacks(k) == "" {
			list = append(list, k)
		}
	}
	return list
}
