package plan

import (
	"testing"
)

// The kernel's division by a factor and a shift is exact for the slices that its teams
// begin with.
func TestTapeDivision(t *testing.T) {
	const teams = 32
	for slices := uint32(1); teams*slices < 1<<20; slices++ {
		per := (1<<20 + slices - 1) / slices
		for i := range uint32(teams) {
			if got := i * per >> 20; got != i/slices {
				t.Fatalf("%d / %d gives %d", i, slices, got)
			}
		}
	}
}

// A pass has all units of a workgroup, or a number that ends with a round of loads.
func TestMost(t *testing.T) {
	for _, c := range []struct{ limit, mine, slices, round, want uint32 }{
		{4, 3, 32, 128, 3}, {4, 9, 32, 128, 4}, {6, 12, 128, 128, 6}, {5, 9, 32, 128, 4}, {3, 9, 32, 128, 0}, {4, 0, 32, 128, 1},
	} {
		if got := most(c.limit, c.mine, c.slices, c.round); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Workgroups of a resident kernel: one for each processor.
func TestResidents(t *testing.T) {
	many, unknown := importing(), h200()
	many.Processors = 1100
	for _, c := range []struct {
		s    Snapshot
		want uint32
	}{{importing(), 132}, {unknown, 1}, {cpu(), 1}, {many, maxResident}} {
		if got := made(t, c.s, Config{}).residents(); got != c.want {
			t.Errorf("%d processors: %d workgroups, want %d", c.s.Processors, got, c.want)
		}
	}
}
