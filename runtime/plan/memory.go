package plan

import (
	"fmt"

	"github.com/ternvk/tern/runtime/graph"
)

// Wants lists, best first, the flags that suit a use of memory. Vulkan
// promises one type that is Mapped and one that is DeviceLocal, so the last
// entries of the lists always find something.
type Wants []MemoryFlags

// The uses of memory.
var (
	OnDevice = Wants{DeviceLocal, 0}
	// Unified is memory of devices that share it with the host.
	Unified = Wants{DeviceLocal | Mapped | HostCached, DeviceLocal | Mapped, Mapped, 0}
	// Staged is host memory for copies. It must be cached: reading write-combined memory is
	// slow, and so is packing weights into it, a few bytes here and there.
	Staged = Wants{Mapped | HostCached, Mapped}
)

// WantsOf returns the flags for buffers of a purpose: on the device, and mapped
// as well where the device shares the host's memory.
func (s *Snapshot) WantsOf(graph.Purpose) Wants {
	if s.Unified() {
		return Unified
	}
	return OnDevice
}

// MemoryType picks a memory type among those allowed by the bits of a buffer's
// requirements: for each entry of wants in turn, the first type that has all its
// flags. Types with flags beyond the four plain ones (protected, lazily
// allocated, uncached device-coherent) are used by nobody here.
func (s *Snapshot) MemoryType(allowed uint32, wants Wants) (int, error) {
	for _, want := range wants {
		for i, t := range s.Types {
			if allowed&(1<<i) != 0 && t.Flags&want == want && t.Flags&^plain == 0 {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("no memory type among %#x has one of the flags %#x: %w", allowed, []MemoryFlags(wants), graph.ErrUnsupported)
}

// Room is how much memory of a heap may be used, and which figure says so.
type Room struct {
	Bytes uint64
	Why   string
}

// Room returns what may still be allocated from a heap, given what this
// executor has allocated there. The driver's budget counts if it makes sense; a
// budget that is absent, 0 or larger than the heap does not, and then it is the
// heap without a margin of an eighth.
func (s *Snapshot) Room(heap int, used uint64) Room {
	h := s.Heaps[heap]
	switch {
	case s.HasBudget && h.Budget > 0 && h.Budget <= h.Bytes:
		// Usage includes used, and what the rest of this process took.
		return Room{below(h.Budget, max(h.Usage, used)), fmt.Sprintf("the driver's budget of %d MiB", h.Budget>>20)}
	case s.HasBudget && h.Budget > h.Bytes:
		return Room{below(h.Bytes-h.Bytes/8, used), fmt.Sprintf("7/8 of the heap of %d MiB (the driver's budget is larger than it)", h.Bytes>>20)}
	case s.HasBudget && h.Budget == 0:
		return Room{below(h.Bytes-h.Bytes/8, used), fmt.Sprintf("7/8 of the heap of %d MiB (the driver's budget is 0)", h.Bytes>>20)}
	}
	return Room{below(h.Bytes-h.Bytes/8, used), fmt.Sprintf("7/8 of the heap of %d MiB (the driver tells no budget)", h.Bytes>>20)}
}

func below(limit, used uint64) uint64 { return limit - min(limit, used) }

// Check tells before anything is allocated whether buffers of the given sizes
// fit beside what is used of each heap. The error wraps graph.ErrOutOfMemory and
// gives need, room and the figure that limits it.
func (s *Snapshot) Check(need [graph.NumPurposes]uint64, used []uint64) error {
	perHeap := make([]uint64, len(s.Heaps))
	for p := range graph.NumPurposes {
		if need[p] == 0 {
			continue
		}
		t, err := s.MemoryType(^uint32(0), s.WantsOf(p))
		if err != nil {
			return err
		}
		perHeap[s.Types[t].Heap] += need[p]
	}
	for heap, bytes := range perHeap {
		var taken uint64
		if heap < len(used) {
			taken = used[heap]
		}
		if room := s.Room(heap, taken); bytes > room.Bytes {
			return fmt.Errorf("%w: %d MiB are needed, %d MiB are left of %s", graph.ErrOutOfMemory, bytes>>20, room.Bytes>>20, room.Why)
		}
	}
	return nil
}

// BlockBytes is the size of the allocations that buffers of a purpose share on
// a device; larger buffers get their own.
func (s *Snapshot) BlockBytes(p graph.Purpose) uint64 {
	size := uint64(16 << 20)
	switch p {
	case graph.Weights:
		size = 256 << 20
	case graph.Batch, graph.Constants, graph.Scratch:
		size = 4 << 20
	}
	for _, h := range s.Heaps {
		if h.DeviceLocal {
			size = min(size, max(1<<20, h.Bytes/32))
		}
	}
	return min(size, s.Limits.Buffer, s.Limits.Allocation)
}
