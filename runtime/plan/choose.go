package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/spirv"
)

// MaxFold is the largest value of specialisation constant 0, the number of
// workgroups on x above which the grid goes on along z.
const MaxFold = 0x7fffffff

// ParseKernels reads a comma list of contract=impl overrides; contract= names
// the base implementation.
func ParseKernels(list string) (map[string]string, error) {
	out := map[string]string{}
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		contract, impl, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("kernel override %q: want contract=impl", part)
		}
		out[contract] = impl
	}
	return out, nil
}

func (p *Plan) checkOverride(contract, impl string) error {
	var known []string
	for _, k := range spirv.Contract(contract) {
		if k.Impl == impl {
			if why := p.lacks(k); why != "" {
				return fmt.Errorf("kernel override %s=%s: %s: %w", contract, impl, why, graph.ErrUnsupported)
			}
			return nil
		}
		known = append(known, k.Impl)
	}
	if known == nil {
		return fmt.Errorf("kernel override: no contract %q", contract)
	}
	return fmt.Errorf("kernel override: contract %s has no implementation %q, only %q", contract, impl, known)
}

// lacks says what the plan lacks to run a kernel, "" when nothing.
func (p *Plan) lacks(k *spirv.Kernel) string {
	if k.Bound() != "" && !p.fast {
		return "belongs to --profile fast"
	}
	for _, need := range k.Needs {
		if !p.features[need] {
			return "needs " + need
		}
	}
	api := map[string]Version{"vulkan1.2": MakeVersion(1, 2, 0), "vulkan1.3": MakeVersion(1, 3, 0), "vulkan1.4": MakeVersion(1, 4, 0)}[k.Env]
	l := &p.Limits
	size := k.LocalSize
	switch {
	case p.API < api:
		return fmt.Sprintf("needs Vulkan %v, the device has %v", api, p.API)
	case size[0]*size[1]*size[2] > l.Invocations || size[0] > l.LocalSize[0] || size[1] > l.LocalSize[1] || size[2] > l.LocalSize[2]:
		return fmt.Sprintf("workgroups of %v, the device allows %d invocations, %v", size, l.Invocations, l.LocalSize)
	case uint32(k.Bindings) > l.StorageBuffers:
		return fmt.Sprintf("%d storage buffers, the device allows %d", k.Bindings, l.StorageBuffers)
	case uint32(k.PushBytes) > l.PushBytes:
		return fmt.Sprintf("%d bytes of push constants, the device allows %d", k.PushBytes, l.PushBytes)
	}
	return ""
}

// admits reports whether a kernel's tile keys minx, maxx, miny and maxy, which
// bound the domain, allow it. The key gpu=1 marks a shape that does not suit
// processors, and cpu=1 one for them alone, as wide as their vectors; fill=1 one that
// smaller shapes outrun where its workgroups are fewer than two thirds of the device's
// multiprocessors, fill=2 than four thirds, if it tells their number.
func (p *Plan) admits(k *spirv.Kernel, domain [2]uint32) bool {
	if k.Tile.Get("gpu", 0) == 1 && p.Type == CPU || k.Tile.Get("cpu", 0) == 1 && p.Type != CPU {
		return false
	}
	groups := uint64(1)
	for i, axis := range [2]string{"x", "y"} {
		groups *= uint64(ceil(domain[i], k.Tile.Get(axis, 1)))
		if domain[i] < k.Tile.Get("min"+axis, 0) || domain[i] > k.Tile.Get("max"+axis, 0xffffffff) {
			return false
		}
	}
	return 3*groups >= 2*uint64(k.Tile.Get("fill", 0))*uint64(p.Processors)
}

// Choose returns the implementation of a contract for a domain and specialisation
// constants: the override if there is one that takes them, or else what a tuning found,
// or else the first of the list, of the given ones before all others, that the device
// can run and whose bounds admit the domain.
func (p *Plan) Choose(contract string, domain [2]uint32, spec ...uint32) (*spirv.Kernel, error) {
	return p.choose(contract, spirv.Contract(contract), domain, spec...)
}

func (p *Plan) choose(contract string, list []*spirv.Kernel, domain [2]uint32, spec ...uint32) (*spirv.Kernel, error) {
	override, forced := p.kernels[contract]
	forced = forced && !slices.ContainsFunc(list, func(k *spirv.Kernel) bool { return k.Impl == override && !k.Takes(spec) })
	list = slices.DeleteFunc(slices.Clone(list), func(k *spirv.Kernel) bool { return !k.Takes(spec) })
	if k := p.tuned(contract, list, domain); k != nil && !forced {
		return k, nil
	}
	if len(p.given) > 0 {
		slices.SortStableFunc(list, func(a, b *spirv.Kernel) int { return p.place(a) - p.place(b) })
	}
	var why []string
	for _, k := range list {
		lacks := p.lacks(k)
		switch {
		case forced && k.Impl != override:
		case lacks != "":
			why = append(why, k.Name+" "+lacks)
		case !forced && !p.admits(k, domain):
			why = append(why, fmt.Sprintf("%s does not take %dx%d", k.Name, domain[0], domain[1]))
		default:
			return k, nil
		}
	}
	if len(list) == 0 {
		why = append(why, "no such contract")
	}
	return nil, fmt.Errorf("contract %s on %s: %w (%s)", contract, p.Name, graph.ErrUnsupported, strings.Join(why, "; "))
}

// place is 0 for a given kernel, which comes first, or 1.
func (p *Plan) place(k *spirv.Kernel) int {
	if slices.Contains(p.given, k.Name) {
		return 0
	}
	return 1
}

// Grid is how a domain is cut into workgroups: Groups in one dispatch, and
// where x was folded onto z and does not fill the last layer, Tail workgroups
// on x of that layer in a second dispatch, by a pipeline whose first workgroup is
// number First. So exactly the workgroups of the domain run.
type Grid struct {
	Groups [3]uint32
	Tail   uint32
}

// First is the number of the tail's first workgroup.
func (g Grid) First() uint32 { return g.Groups[0] * g.Groups[2] }

// Fold is the value of specialisation constant 0 on this device.
func (p *Plan) Fold() uint32 { return min(p.Limits.Groups[0], MaxFold) }

// Grid cuts a domain by a kernel's tile. The key places=N is of kernels whose workgroups
// take tiles in turn: not more run than the device has multiprocessors, or than N if it
// does not tell.
func (p *Plan) Grid(k *spirv.Kernel, domain [2]uint32) (Grid, error) {
	x, y, fold := ceil(domain[0], k.Tile.Get("x", 1)), ceil(domain[1], k.Tile.Get("y", 1)), p.Fold()
	if k.IsPTX() {
		fold = MaxFold // which all cards that take PTX allow
	}
	if places := k.Tile.Get("places", 0); places > 0 {
		if p.Processors > 0 {
			places = p.Processors
		}
		x, y = uint32(min(uint64(x)*uint64(y), uint64(places))), 1
	}
	g := Grid{Groups: [3]uint32{x, y, 1}}
	if x > fold {
		g = Grid{Groups: [3]uint32{fold, y, x / fold}, Tail: x % fold}
	}
	layers := g.Groups[2]
	if g.Tail > 0 {
		layers++
	}
	if y > p.Limits.Groups[1] || layers > p.Limits.Groups[2] {
		return Grid{}, fmt.Errorf("kernel %s: %d x %d workgroups, the device allows %v: %w", k.Name, x, y, p.Limits.Groups, graph.ErrUnsupported)
	}
	return g, nil
}

func ceil(n, by uint32) uint32 { return n/by + min(1, n%by) }

// SubgroupSize is the size that a kernel's pipeline must ask for because of a
// need like sg32, 0 when it need not ask.
func (p *Plan) SubgroupSize(k *spirv.Kernel) uint32 {
	if p.pinned {
		return p.Subgroup.Size
	}
	for _, need := range k.Needs {
		var n uint32
		if _, err := fmt.Sscanf(need, "sg%d", &n); err == nil && p.Subgroup.Min != p.Subgroup.Max && p.Subgroup.Min != 0 {
			return n
		}
	}
	return 0
}
