package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// Float weights F16, BF16 and F32, for rows of any number of elements. They are
// tidied when they are packed.
//
// Packed (written by runtime/op): rows in groups of 32, the last group padded, in
// blocks of 64 elements, the last filled up with zeros: [group][block][word of the
// block][row in group]. A word is one float32, or two halves or bfloat16, the lower
// element in the low bits.
type floatFormat struct {
	perWord int
	widen   func(word uint32, i int) float32
}

var floatFormats = map[string]*floatFormat{
	"f32":  {1, func(word uint32, _ int) float32 { return fromBits(word) }},
	"f16":  {2, func(word uint32, i int) float32 { return F32(uint16(word >> (16 * i))) }},
	"bf16": {2, func(word uint32, i int) float32 { return fromBits(word >> (16 * i) << 16) }},
}

// row widens a row of packed weights.
func (f *floatFormat) row(dst []float32, words []uint32, row int) {
	nb := (len(dst) + 63) / 64
	at := row/32*nb*64/f.perWord*32 + row%32
	for i := 0; i < len(dst); at += 32 {
		for j := 0; j < f.perWord && i < len(dst); j++ {
			dst[i] = f.widen(words[at], j)
			i++
		}
	}
}

// dequant: y = the weights of a whole packed tensor.
//
//	push  rows, k
//	0 in  weights   1 out y[rows][k]
//	domain: blocks of 64, rows rounded up to 32
func (f *floatFormat) dequant(node *graph.Node, args [][]uint32) {
	rows, k := int(node.Push[0]), int(node.Push[1])
	y := Floats(args[1])
	parallel.For(rows, func(row int) { f.row(y[row*k:][:k], args[0], row) })
}

// getRows: y[t] = the weights of row batch[tokens + t] - row0; tokens whose
// row lies outside [row0, row0 + rows) are left to another segment.
//
//	push  rows, k, row0, tokens (offset in batch)
//	0 in  weights   1 in batch   2 out y[n][k]
//	domain: blocks of 64 in a row x n
func (f *floatFormat) getRows(node *graph.Node, args [][]uint32) {
	p := node.Push
	k, y := int(p[1]), Floats(args[2])
	for t := range int(node.Domain[1]) {
		if row := args[1][int(p[3])+t] - p[2]; row < p[0] {
			f.row(y[t*k:][:k], args[0], int(row))
		}
	}
}

// mulMat is the matrix product y[t][row0 + r] = sum over k of w[r][k] * x[t][k]:
//
//	c_j   = the sum of w_i * x_i over quarter j (16 elements) of a block, in
//	        order; x is the integer of int8 activations, or the float
//	C     = (c_0 + c_1) + (c_2 + c_3)
//	term  = i8: C * d_a;   f16, f32: C
//	slice = the terms of 8 blocks (the last slice may be short), in order
//	y     = tidy(the slices, in order)
//
// All sums and products are rounded to float32, one by one; elements beyond k are
// not added. Only f32 activations may have a k that is no multiple of 64.
//
//	spec  lanes (a hint for workgroup sizes), blocks a row
//	push  rows, n, k, row0, stride of y
//	0 in  weights   1 in activations   2 out y[n][stride]
//	domain: rows x n
func (f *floatFormat) mulMat(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		p := node.Push
		rows, n, k, row0, stride := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
		nb := (k + 63) / 64
		y := Floats(args[2])
		var x []float32
		scale := func(t, b int) float32 { return 1 }
		switch a {
		case actF32:
			x = Floats(args[1])
		case actF16:
			x = widened(args[1], n*k)
		case actI8:
			x = make([]float32, n*k)
			for i, v := range bytesInOrder(args[1], n, nb) {
				x[i] = float32(v)
			}
			pairs := args[1][n*k/4:]
			scale = func(t, b int) float32 { return fromBits(pairs[actBlock(n, t, b)*2]) }
		}
		parallel.For(rows, func(row int) {
			w := make([]float32, k)
			f.row(w, args[0], row)
			for t := range n {
				y[t*stride+row0+row] = sumTerms(nb, 8, func(b int) float32 {
					var c [4]float32
					ws, xs := w[b*64:min(b*64+64, k)], x[t*k+b*64:]
					if len(ws) == 64 { // the quarters side by side
						w, x := (*[64]float32)(ws), (*[64]float32)(xs)
						for i := range 16 {
							c[0] = c[0] + float32(w[i]*x[i])
							c[1] = c[1] + float32(w[16+i]*x[16+i])
							c[2] = c[2] + float32(w[32+i]*x[32+i])
							c[3] = c[3] + float32(w[48+i]*x[48+i])
						}
					} else {
						for i, w := range ws {
							c[i/16] = c[i/16] + float32(w*xs[i])
						}
					}
					return float32(((c[0] + c[1]) + (c[2] + c[3])) * scale(t, b))
				})
			}
		})
	}
}
