package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// The matrix product y[t][row0 + r] = sum over k of w[r][k] * x[t][k] of the block
// formats. Each term covers a block (four quarters) or half of one (two):
//
//	i8:       C    = the sum over quarters j of s_j * the sum of q_i * x_i and
//	          M    = the sum over quarters j of n_j * the sum of x_i, in int32;
//	                 |C| < 2^24, so that its float is exact
//	          term = float(C) * (d * d_a) + float(M) * (m * d_a)
//	f16, f32: c_j  = the sum of q_i * x_i, m_j = the sum of x_i, in order
//	          C    = (s_0*c_0 + s_1*c_1) + (s_2*c_2 + s_3*c_3), M likewise of
//	                 n_j*m_j; half a block: of its two quarters
//	          term = C * d + M * m
//	slice = the terms of 8 blocks (the last slice may be short), in order
//	y     = tidy(the slices, in order)
//
// without M and m where a format has no minima. All sums and products are rounded
// to float32, one by one.
//
//	spec  lanes (a hint for workgroup sizes), blocks a row
//	push  rows, n, blocks a row, row0, stride of y
//	0 in  weights   1 in activations   2 out y[n][stride]
//	domain: rows x n

// sumTerms adds count terms, per of them a slice.
func sumTerms(count, per int, term func(i int) float32) float32 {
	var total float32
	for s := 0; s < count; s += per {
		var slice float32
		for i := s; i < min(s+per, count); i++ {
			slice = slice + term(i)
		}
		total = total + slice
	}
	return Tidy(total)
}

// product runs over all rows and tokens; term gives a term of block b of token t.
func (f *blockFormat) product(node *graph.Node, args [][]uint32, term func(w *block, t, b, half int) float32) {
	p := node.Push
	rows, n, nb, row0, stride := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	y := Floats(args[2])
	parallel.For(rows, func(row int) {
		weights := make([]block, nb)
		for b := range weights {
			weights[b] = f.block(args[0], nb, row, b)
		}
		for t := range n {
			y[t*stride+row0+row] = sumTerms(nb*f.terms, 8*f.terms, func(i int) float32 {
				b := i / f.terms
				return term(&weights[b], t, b, i%f.terms)
			})
		}
	})
}

func (f *blockFormat) mulMatI8(node *graph.Node, args [][]uint32) {
	n, nb := int(node.Push[1]), int(node.Push[2])
	x := bytesInOrder(args[1], n, nb)
	pairs := args[1][n*nb*16:]
	lows := make([]int32, len(x)/16) // the sums of the quarters, the same for all rows
	for i, v := range x {
		lows[i/16] += int32(v)
	}
	quarters := 4 / f.terms
	f.product(node, args, func(w *block, t, b, half int) float32 {
		var sum, low int32
		for j := half * quarters; j < (half+1)*quarters; j++ {
			var c int32
			xs := (*[16]int8)(x[(t*nb+b)*64+16*j:])
			for i, q := range w.q[16*j:][:16] {
				c += int32(q) * int32(xs[i])
			}
			sum += w.s[j] * c
			low += w.n[j] * lows[(t*nb+b)*4+j]
		}
		da := fromBits(pairs[actBlock(n, t, b)*2])
		v := float32(float32(sum) * float32(w.d[half]*da))
		if f.minima {
			v = v + float32(float32(low)*float32(w.m[half]*da))
		}
		return v
	})
}

// bytesInOrder is the integers of n rows of int8 activations, row by row in the order
// of the elements.
func bytesInOrder(words []uint32, n, nb int) []int8 {
	x := make([]int8, n*nb*64)
	for i := range x {
		k, m := codeWord(i % 64)
		x[i] = int8(words[actBlock(n, i/64/nb, i/64%nb)*16+k] >> (8 * m))
	}
	return x
}

func (f *blockFormat) mulMatF32(node *graph.Node, args [][]uint32) {
	f.mulMatFloat(node, args, Floats(args[1]))
}

func (f *blockFormat) mulMatF16(node *graph.Node, args [][]uint32) {
	f.mulMatFloat(node, args, widened(args[1], int(node.Push[1]*node.Push[2])*64))
}

// widened is n halves as float32.
func widened(words []uint32, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = F32(uint16(words[i/2] >> (i % 2 * 16)))
	}
	return x
}

func (f *blockFormat) mulMatFloat(node *graph.Node, args [][]uint32, x []float32) {
	nb := int(node.Push[2])
	lows := make([]float32, len(x)/16)
	for i, v := range x[:len(lows)*16] {
		lows[i/16] = lows[i/16] + v
	}
	f.product(node, args, func(w *block, t, b, half int) float32 {
		var c, m [4]float32
		xs := (*[64]float32)(x[(t*nb+b)*64:])
		for i := range 16 { // the quarters side by side
			c[0] = c[0] + float32(float32(w.q[i])*xs[i])
			c[1] = c[1] + float32(float32(w.q[16+i])*xs[16+i])
			c[2] = c[2] + float32(float32(w.q[32+i])*xs[32+i])
			c[3] = c[3] + float32(float32(w.q[48+i])*xs[48+i])
		}
		for j := range 4 {
			c[j] = float32(float32(w.s[j]) * c[j])
			m[j] = float32(float32(w.n[j]) * lows[(t*nb+b)*4+j])
		}
		v := float32(f.join(&c, half) * w.d[half])
		if f.minima {
			v = v + float32(f.join(&m, half)*w.m[half])
		}
		return v
	})
}

// join adds the quarters of a term.
func (f *blockFormat) join(c *[4]float32, half int) float32 {
	if f.terms == 2 {
		return c[2*half] + c[2*half+1]
	}
	return (c[0] + c[1]) + (c[2] + c[3])
}
