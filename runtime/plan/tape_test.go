package plan

import "testing"

// The kernel's division by a factor and a shift is exact within the bound that is
// checked, also in 32 bits, and larger work is refused.
func TestReciprocal(t *testing.T) {
	for per := uint32(1); per <= 64; per++ {
		most := min((1<<18-1)/per, (1<<14-1)*per)
		r, ok := reciprocal(per, most)
		if !ok {
			t.Errorf("%d slices of units of %d are refused", most, per)
		}
		for i := range most + 1 {
			if got := i * r >> 18; got != i/per {
				t.Fatalf("%d / %d gives %d", i, per, got)
			}
		}
	}
	for _, c := range [][2]uint32{{8, 1 << 15}, {1, 1 << 14}, {24, 11000}} {
		if _, ok := reciprocal(c[0], c[1]); ok {
			t.Errorf("%d slices of units of %d are accepted", c[1], c[0])
		}
	}
}
