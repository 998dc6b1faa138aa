package plan

import "testing"

// The kernel's division by a factor and a shift is exact for the blocks that its
// invocations begin with.
func TestTapeDivision(t *testing.T) {
	const teams = 32
	for blocks := uint32(8); blocks <= 1<<16/teams; blocks += 8 {
		per := (1<<16 + blocks - 1) / blocks
		for i := range uint32(teams) {
			if got := i * per >> 16; got != i/blocks {
				t.Fatalf("%d / %d gives %d", i, blocks, got)
			}
		}
	}
}

// A pass has all units of a workgroup, or a number that ends with a round of loads.
func TestMost(t *testing.T) {
	for _, c := range []struct{ limit, mine, blocks, round, want uint32 }{
		{4, 3, 32, 128, 3}, {4, 9, 32, 128, 4}, {6, 12, 128, 128, 6}, {5, 9, 32, 128, 4}, {3, 9, 32, 128, 0}, {4, 0, 32, 128, 1},
	} {
		if got := most(c.limit, c.mine, c.blocks, c.round); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
