package plan

import (
	"testing"

	"github.com/ternvk/tern/spirv"
)

// The kernel's division by a factor and a shift is exact for the halves of slices that its
// invocations begin with.
func TestTapeDivision(t *testing.T) {
	const first = 2 * 32 // a slice for each team
	for halves := uint32(2); first*halves < 1<<20; halves += 2 {
		per := (1<<20 + halves - 1) / halves
		for i := range uint32(first) {
			if got := i * per >> 20; got != i/halves {
				t.Fatalf("%d / %d gives %d", i, halves, got)
			}
		}
	}
}

// A pass has all units of a workgroup, or a number that ends with a round of loads.
func TestMost(t *testing.T) {
	for _, c := range []struct{ limit, mine, halves, round, want uint32 }{
		{4, 3, 32, 128, 3}, {4, 9, 32, 128, 4}, {6, 12, 128, 128, 6}, {5, 9, 32, 128, 4}, {3, 9, 32, 128, 0}, {4, 0, 32, 128, 1},
	} {
		if got := most(c.limit, c.mine, c.halves, c.round); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Workgroups of a resident kernel: one or so many as its line says for each processor.
func TestResidents(t *testing.T) {
	one, two := kernel("resident_gqa2__one", nil), kernel("resident_gqa2__two", spirv.Tile{{Key: "residents", Value: 2}})
	unknown, many := h200(), importing()
	many.Processors = 600
	for _, c := range []struct {
		s    Snapshot
		k    *spirv.Kernel
		want uint32
	}{{importing(), one, 132}, {importing(), two, 264}, {unknown, two, 1}, {cpu(), two, 1}, {many, two, maxResident}} {
		if got := made(t, c.s, Config{}).residents(c.k); got != c.want {
			t.Errorf("%s on %d processors: %d workgroups, want %d", c.k.Name, c.s.Processors, got, c.want)
		}
	}
}
