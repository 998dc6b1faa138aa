package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ternvk/tern/runtime/graph"
)

// Choice is the device that a wish led to.
type Choice struct {
	Reference bool // the Go reference, no device
	Device    int  // position in the list
	Note      string
}

// driverRank orders drivers that offer one physical device: lower is better,
// and drivers not listed come between the native ones and the translating ones.
// Numbers are VkDriverId.
func driverRank(s *Snapshot) int {
	switch s.DriverID {
	case 4, 3, 6, 18, 19, 22: // NVIDIA, RADV, ANV, Turnip, V3DV, PanVK
		return 0
	case 2, 1, 5: // AMDVLK, AMD, Intel
		return 1
	case 14: // MoltenVK
		return 3
	case 23: // dozen, over D3D12
		return 4
	}
	return 2
}

// Merge drops devices that are another entry of the list under a second
// driver: equal device UUIDs. Of each group the better driver stays, in the
// place of the first.
func Merge(list []Snapshot) []Snapshot {
	var out []Snapshot
	for _, s := range list {
		i := slices.IndexFunc(out, func(o Snapshot) bool { return s.UUID != UUID{} && o.UUID == s.UUID })
		switch {
		case i < 0:
			out = append(out, s)
		case driverRank(&s) < driverRank(&out[i]) || driverRank(&s) == driverRank(&out[i]) && s.API > out[i].API:
			out[i] = s
		}
	}
	return out
}

// Pick chooses from a merged list by the user's wish: "auto" or "", a number of
// the list, part of a name, a UUID, or "reference".
func Pick(list []Snapshot, wish string) (Choice, error) {
	switch lower := strings.ToLower(wish); lower {
	case "reference":
		return Choice{Reference: true, Note: "the Go reference, as asked"}, nil
	case "", "auto":
		return auto(list)
	default:
		if len(list) == 0 {
			return Choice{}, fmt.Errorf("device %q: %w: no Vulkan device was found", wish, graph.ErrNoDevice)
		}
		if n, err := strconv.Atoi(wish); err == nil {
			i := slices.IndexFunc(list, func(s Snapshot) bool { return s.Index == n })
			if i < 0 {
				return Choice{}, fmt.Errorf("device %d: %w of this number; %s", n, graph.ErrNoDevice, names(list))
			}
			return Choice{Device: i, Note: list[i].Title() + ", by number"}, nil
		}
		var found []int
		for i, s := range list {
			id := s.UUID.String()
			if lower == id || lower == strings.ReplaceAll(id, "-", "") {
				return Choice{Device: i, Note: s.Title() + ", by UUID"}, nil
			}
			if strings.Contains(strings.ToLower(s.Title()), lower) {
				found = append(found, i)
			}
		}
		switch len(found) {
		case 0:
			return Choice{}, fmt.Errorf("device %q: %w of this name or UUID; %s", wish, graph.ErrNoDevice, names(list))
		case 1:
			return Choice{Device: found[0], Note: list[found[0]].Title() + ", by name"}, nil
		}
		return Choice{}, fmt.Errorf("device %q is ambiguous; %s", wish, names(list))
	}
}

func auto(list []Snapshot) (Choice, error) {
	if len(list) == 0 {
		return Choice{Reference: true, Note: "the Go reference: no Vulkan device was found"}, nil
	}
	best := 0
	for i := range list {
		if better(&list[i], &list[best]) {
			best = i
		}
	}
	note := list[best].Title()
	switch {
	case list[best].Type == CPU:
		note += ": a CPU device, no GPU was found"
	case len(list) > 1:
		note += fmt.Sprintf(": %s, the best of %d devices", list[best].Type, len(list))
	}
	return Choice{Device: best, Note: note}, nil
}

// better prefers the kind of device, then the memory of its own.
func better(a, b *Snapshot) bool {
	kind := func(s *Snapshot) int {
		return map[DeviceType]int{Discrete: 0, Virtual: 1, Integrated: 2, Other: 3, CPU: 4}[s.kind()]
	}
	if kind(a) != kind(b) {
		return kind(a) < kind(b)
	}
	return a.local() > b.local()
}

// kind is the device's type; a card whose driver calls it integrated although
// it has memory that the host cannot see is discrete.
func (s *Snapshot) kind() DeviceType {
	if s.Type == Integrated && s.privateHeap() {
		return Discrete
	}
	return s.Type
}

func (s *Snapshot) privateHeap() bool {
	for i, h := range s.Heaps {
		if h.DeviceLocal && len(s.Heaps) > 1 && !slices.ContainsFunc(s.Types, func(t MemoryType) bool { return t.Heap == i && t.Flags&HostVisible != 0 }) {
			return true
		}
	}
	return false
}

func (s *Snapshot) local() uint64 {
	var n uint64
	for _, h := range s.Heaps {
		if h.DeviceLocal {
			n += h.Bytes
		}
	}
	return n
}

// names lists the devices for a complaint about the choice.
func names(list []Snapshot) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%d is %s", s.Index, s.Title()))
	}
	return "device " + strings.Join(out, ", device ")
}
