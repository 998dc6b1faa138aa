package ref

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
)

// What a kernel with the bound of products may do stays within it, and within a quarter
// in the mean; a product without one of the terms does not, whichever it is.
func TestProductBound(t *testing.T) {
	const rows, n, nb, row0, stride = 40, 3, 2, 1, 43
	r := rand.New(rand.NewPCG(1, 2))
	codes, scales := make([]uint32, 64*nb*4), make([]uint32, 64*2)
	for i := range codes {
		codes[i] = r.Uint32()
	}
	for i := range scales {
		scales[i] = uint32(F16(float32(0.1*r.NormFloat64()))) | uint32(F16(float32(0.1*r.NormFloat64())))<<16
	}
	acts := make([]uint32, n*nb*18)
	for i := range n {
		v := make([]float32, nb*64)
		for j := range v {
			v[j] = float32(r.NormFloat64())
		}
		actI8.store(acts, n, i, v)
	}
	node := &graph.Node{Spec: []uint32{0, nb, 0}, Push: []uint32{rows, n, nb, row0, stride}}
	args := [][]uint32{codes, scales, acts, make([]uint32, n*stride)}
	mulMatQ2_0I8(node, args)
	rule := BoundOf("product")
	want, bound := Floats(args[3]), rule.Of(node, args)

	// The product of halves, of all terms but one of each row.
	product := func(without int) (worst, mean float64) {
		w := q2_0{codes, scales, nb, 0}
		for row := range rows {
			for i := range n {
				y := 0.0
				for b := range nb {
					q, s := w.block(row, b)
					d := F32(F16(float32(32 * fromBits(acts[n*nb*16+actBlock(n, i, b)*2]))))
					for e := range 64 {
						x := int8(acts[actBlock(n, i, b)*16+e&^15/4+e%4] >> (e % 16 / 4 * 8))
						if b*64+e != without {
							y += 4 * float64(s) * float64(int(q[e/16]>>(e%16*2)&3)-1) * float64(F32(F16(float32(float32(x)/128*d))))
						}
					}
				}
				at := i*stride + row0 + row
				share := math.Abs(y-float64(want[at])) / float64(bound[at])
				worst, mean = max(worst, share), mean+share/(rows*n)
			}
		}
		return worst, mean
	}
	if worst, mean := product(-1); worst > 0.5 || mean > rule.Mean {
		t.Errorf("rounded to halves: %.3f of the bound, %.4f in the mean", worst, mean)
	}
	for j := range nb * 64 {
		if worst, mean := product(j); worst <= 1 && mean <= rule.Mean {
			t.Errorf("without term %d: %.3f of the bound, %.4f in the mean", j, worst, mean)
		}
	}

	claimed := func(row, token int) bool { return !math.IsInf(float64(rule.Of(node, args)[token*stride+row0+row]), 1) }
	acts[n*nb*16+actBlock(n, 1, 1)*2] = bits(2048)
	scales[7*2] = scales[7*2]&^0xffff | 0x7bff // of row 7
	codes[7*4] |= 3                            // twice the largest half
	for _, c := range []struct {
		row, token int
		want       bool
	}{{0, 0, true}, {0, 1, false}, {0, 2, true}, {7, 0, false}, {8, 2, true}} {
		if claimed(c.row, c.token) != c.want {
			t.Errorf("row %d, token %d: claimed %v", c.row, c.token, !c.want)
		}
	}
}
