package ref

import (
	"slices"

	"github.com/ternvk/tern/runtime/graph"
)

// productBound is that of kernels which multiply halves, to nearest or towards zero, and
// add their products in float32 in any order: weights w = (code - 1) * d_w, exactly, by
// activations x * d_a / 4, of which d_a / 4 is rounded, then the product. Of a result over K
// it is
//
//	(2^-9 + K*2^-23) * sum of |w*x*d_a|, + 2^-22 * sum of |w| + 2^-60
//
// where the second sum is for halves that are subnormal. Nothing is claimed of a row
// with weights, nor of a token with a d_a, that are no halves then: beyond 65504, or finite and 2047 or more.
func productBound(node *graph.Node, args [][]uint32) []float32 {
	p := node.Push
	rows, n, nb, row0, stride := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	codes := slices.Clone(args[0])
	for i, q := range codes { // code 0, which is -1, becomes 2
		codes[i] = q | ^(q|q>>1)&0x5555_5555<<1
	}
	scales := slices.Clone(args[1])
	for i := range scales {
		scales[i] &= 0x7fff_7fff
	}
	acts := slices.Clone(args[2])
	magnitudes, ones := acts[:n*nb*16], make([]uint32, nb*18)
	for i, x := range magnitudes {
		var sum uint32
		for m := 0; m < 32; m += 8 {
			v := uint32(max(int8(x>>m), -int8(x>>m)))
			x, sum = x&^(0xff<<m)|v<<m, sum+v
		}
		magnitudes[i] = x
		pair := acts[n*nb*16+i/16*2:]
		if i%16 == 0 {
			pair[1] = 0
		}
		pair[1] += sum
	}
	for b := range nb {
		for i := range 16 {
			ones[b*16+i] = 0x0101_0101
		}
		ones[nb*16+b*2], ones[nb*16+b*2+1] = bits(1), 64
	}
	product := func(acts []uint32, n int) []float32 {
		y := make([]uint32, n*rows)
		of := *node
		of.Push = []uint32{p[0], uint32(n), p[2], 0, p[0]}
		mulMatQ2_0I8(&of, [][]uint32{codes, scales, acts, y})
		return Floats(y)
	}
	sums, widths := product(acts, n), product(ones, 1)
	w := q2_0{codes, scales, nb, node.Spec[2]}
	wide := make([]bool, rows)
	for row := range rows {
		for b := range nb {
			codes, d := w.block(row, b)
			wide[row] = wide[row] || d > 65504/2 && slices.ContainsFunc(codes, func(q uint32) bool { return q&(q>>1)&0x5555_5555 != 0 })
		}
	}
	bound := make([]float32, len(args[3]))
	relative := 0x1p-9 + float32(float32(nb*64)*0x1p-23)
	for t := range n {
		large := false
		for b := range nb {
			d := fromBits(acts[n*nb*16+actBlock(n, t, b)*2])
			large = large || d >= 2047 && bits(d) < infBits
		}
		for row := range rows {
			at := &bound[t*stride+row0+row]
			*at = float32(relative*sums[t*rows+row]) + float32(0x1p-22*widths[row]) + 0x1p-60
			if large || wide[row] {
				*at = fromBits(infBits)
			}
		}
	}
	return bound
}
