package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
)

// BL-15.
func TestMemoryType(t *testing.T) {
	noCached := h200()
	noCached.Types = []MemoryType{{DeviceLocal, 0}, {Mapped, 1}}
	onlyFirst := cpu()
	onlyFirst.Types = []MemoryType{{Mapped, 0}, {DeviceLocal, 0}}
	odd := h200()
	odd.Types = []MemoryType{{DeviceLocal | 0x10, 0}, {DeviceLocal | 0x40, 0}, {DeviceLocal, 0}, {Mapped, 1}}
	for _, c := range []struct {
		name    string
		s       Snapshot
		allowed uint32
		wants   Wants
		want    int // -1: an error
	}{
		{"weights", h200(), ^uint32(0), OnDevice, 1},
		{"staged", h200(), ^uint32(0), Staged, 3},
		{"staged without cached", noCached, ^uint32(0), Staged, 1},
		{"only the first is visible", onlyFirst, ^uint32(0), Staged, 0},
		{"only the first is visible, shared", onlyFirst, ^uint32(0), Unified, 0},
		{"shared, cached", uma(), ^uint32(0), Unified, 2},
		{"device memory not allowed", h200(), 0b101, OnDevice, 0},
		{"lazily allocated and uncached types", odd, ^uint32(0), OnDevice, 2},
		{"nothing", h200(), 0b10, Staged, -1},
	} {
		got, err := c.s.MemoryType(c.allowed, c.wants)
		if c.want < 0 {
			if !errors.Is(err, graph.ErrUnsupported) {
				t.Errorf("%s: type %d, error %v", c.name, got, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: type %d, error %v; want %d", c.name, got, err, c.want)
		}
	}
	for _, c := range []struct {
		s       Snapshot
		unified bool
	}{{h200(), false}, {uma(), true}, {cpu(), true}} {
		if c.s.Unified() != c.unified {
			t.Errorf("%s: unified %v", c.s.Name, !c.unified)
		}
	}
}

// BL-17.
func TestRoom(t *testing.T) {
	s := uma()
	for _, c := range []struct {
		name          string
		has           bool
		budget, usage uint64
		used          uint64
		want          uint64
		why           string
	}{
		{"no extension", false, 0, 0, 1 << 30, 27 << 30, "tells no budget"},
		{"budget 0", true, 0, 0, 0, 28 << 30, "budget is 0"},
		{"budget above the heap", true, 64 << 30, 0, 0, 28 << 30, "larger than it"},
		{"a good budget", true, 20 << 30, 3 << 30, 1 << 30, 17 << 30, "budget of 20480 MiB"},
		{"all of it used", true, 20 << 30, 21 << 30, 0, 0, "budget of"},
		{"all of the heap used", false, 0, 0, 32 << 30, 0, "tells no"},
	} {
		s.HasBudget, s.Heaps[0].Budget, s.Heaps[0].Usage = c.has, c.budget, c.usage
		if r := s.Room(0, c.used); r.Bytes != c.want || !strings.Contains(r.Why, c.why) {
			t.Errorf("%s: %d MiB, %q; want %d MiB", c.name, r.Bytes>>20, r.Why, c.want>>20)
		}
	}
}

func TestCheck(t *testing.T) {
	var need [graph.NumPurposes]uint64
	need[graph.Weights], need[graph.Cache], need[graph.Batch] = 100<<30, 20<<30, 90<<30
	s := h200()
	if err := s.Check(need, nil); !errors.Is(err, graph.ErrOutOfMemory) || !strings.Contains(err.Error(), "215040 MiB are needed") {
		t.Errorf("too much: %v", err)
	}
	need[graph.Batch] = 1 << 20
	if err := s.Check(need, nil); err != nil {
		t.Errorf("it fits: %v", err)
	}
	if err := s.Check(need, []uint64{2 << 30, 0}); !errors.Is(err, graph.ErrOutOfMemory) || !strings.Contains(err.Error(), "122881 MiB are needed, 122496 MiB are left") {
		t.Errorf("beside what is used: %v", err)
	}
}

func TestBlockBytes(t *testing.T) {
	s := h200()
	if n := s.BlockBytes(graph.Weights); n != 256<<20 {
		t.Errorf("weights: %d", n)
	}
	s.Limits.Allocation = 64 << 20
	if n := s.BlockBytes(graph.Weights); n != 64<<20 {
		t.Errorf("small allocations: %d", n)
	}
	s.Heaps[0].Bytes = 256 << 20
	if n := s.BlockBytes(graph.Weights); n != 8<<20 {
		t.Errorf("small heap: %d", n)
	}
}

// BL-22.
func TestPick(t *testing.T) {
	card := h200()
	card.Name, card.UUID = "GeForce RTX 3060", UUID{7}
	card.Heaps = []Heap{{Bytes: 12 << 30, DeviceLocal: true}, {Bytes: 32 << 30}}
	// A card that its driver calls integrated: it has memory the host cannot see.
	mislabelled := card
	mislabelled.Type, mislabelled.Name = Integrated, "Arc A770"
	mislabelled.Types = []MemoryType{{DeviceLocal, 0}, {Mapped, 1}}
	small := card
	small.Name, small.Heaps = "GT 1030", []Heap{{Bytes: 2 << 30, DeviceLocal: true}}
	number := func(list ...Snapshot) []Snapshot {
		for i := range list {
			list[i].Index = i
		}
		return list
	}
	for _, c := range []struct {
		name string
		list []Snapshot
		wish string
		want int // -1: the reference, -2: an error
		note string
	}{
		{"cpu alone", number(cpu()), "", 0, "CPU device, no GPU"},
		{"card beside cpu", number(cpu(), card), "auto", 1, "discrete"},
		{"12 GiB card beside 32 GiB of shared memory", number(uma(), card), "auto", 1, "RTX 3060"},
		{"mislabelled card", number(uma(), mislabelled), "auto", 1, "A770"},
		{"larger of two cards", number(small, card), "auto", 1, "RTX 3060"},
		{"integrated beside cpu", number(cpu(), uma()), "auto", 1, "integrated"},
		{"nothing", nil, "auto", -1, "no Vulkan device"},
		{"reference", number(card), "reference", -1, "as asked"},
		{"number", number(cpu(), card), "0", 0, "by number"},
		{"number out of range", number(card), "3", -2, "of this number; device 0 is GeForce"},
		{"name", number(cpu(), card), "rtx", 1, "by name"},
		{"driver's name", number(uma(), card), "RADV", 0, "by name"},
		{"unknown name", number(card), "voodoo", -2, "of this name or UUID; device 0 is GeForce"},
		{"two of a name", number(card, card), "GeForce", -2, "ambiguous"},
		{"uuid", number(cpu(), card), "07000000-0000-0000-0000-000000000000", 1, "by UUID"},
		{"uuid without dashes", number(cpu(), card), "07000000000000000000000000000000", 1, "by UUID"},
		{"a name where there is nothing", nil, "rtx", -2, "no Vulkan device"},
	} {
		got, err := Pick(c.list, c.wish)
		switch {
		case c.want == -2:
			if err == nil || !strings.Contains(err.Error(), c.note) {
				t.Errorf("%s: %+v, error %v", c.name, got, err)
			}
		case err != nil || got.Reference != (c.want == -1) || !got.Reference && got.Device != c.want || !strings.Contains(got.Note, c.note):
			t.Errorf("%s: %+v, error %v", c.name, got, err)
		}
	}
}

// BL-22.
func TestMerge(t *testing.T) {
	amdvlk, radv := uma(), uma()
	amdvlk.DriverID, amdvlk.DriverName, amdvlk.Index = 2, "AMDVLK", 0
	radv.Index = 2
	other := cpu()
	other.Index = 1
	list := Merge([]Snapshot{amdvlk, other, radv})
	if len(list) != 2 || list[0].DriverName != "radv" || list[0].Index != 2 || list[1].Name != "llvmpipe" {
		t.Errorf("merged to %s", names(list))
	}
	a, b := cpu(), cpu()
	a.UUID, b.UUID = UUID{}, UUID{}
	if list := Merge([]Snapshot{a, b}); len(list) != 2 {
		t.Errorf("devices without a UUID are merged to %s", names(list))
	}
}
