package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// Packed Q2_0 (written by runtime/op): rows in groups of 32, the last group
// padded. Codes: [group][block][row in group][4 words]; code i of word j, at
// bits 2i, is element 16j + i of the block. Scales: [group][four blocks][row in
// group][2 words] of four halves, one for 2^share blocks. A weight is
// (code - 1) * scale, for all codes 0..3.
type q2_0 struct {
	codes, scales []uint32
	nb            int    // blocks of a row
	share         uint32 // a specialisation constant
}

func (w q2_0) block(row, b int) (codes []uint32, scale float32) {
	g, r := row/32, row%32
	codes = w.codes[((g*w.nb+b)*32+r)*4:][:4]
	fours, i := ((w.nb-1)>>w.share+4)/4, b>>w.share
	four := w.scales[((g*fours+i/4)*32+r)*2:]
	return codes, F32(uint16(four[i%4/2] >> (i % 2 * 16)))
}

// dequant writes the 64 weights of a block, tidied.
func (w q2_0) dequant(dst []float32, row, b int) {
	codes, d := w.block(row, b)
	for i := range 64 {
		t := float32(int32(codes[i/16]>>(i%16*2)&3) - 1)
		dst[i] = Tidy(float32(t * d))
	}
}

// dequantQ2_0: y = the weights of a whole packed tensor.
//
//	spec  share
//	push  rows, blocks a row
//	0 in  codes   1 in scales   2 out y[rows][64*blocks]
//	domain: blocks, rows rounded up to 32
func dequantQ2_0(node *graph.Node, args [][]uint32) {
	rows, nb := int(node.Push[0]), int(node.Push[1])
	w, y := q2_0{args[0], args[1], nb, node.Spec[0]}, Floats(args[2])
	parallel.For(rows, func(row int) {
		for b := range nb {
			w.dequant(y[(row*nb+b)*64:], row, b)
		}
	})
}

// getRowsQ2_0: y[t] = the weights of row batch[tokens + t] - row0; tokens whose
// row lies outside [row0, row0 + rows) are left to another segment.
//
//	spec  share
//	push  rows, blocks a row, row0, tokens (offset in batch)
//	0 in  codes   1 in scales   2 in batch   3 out y[n][64*blocks]
//	domain: blocks a row x n
func getRowsQ2_0(node *graph.Node, args [][]uint32) {
	p := node.Push
	nb := int(p[1])
	w, y := q2_0{args[0], args[1], nb, node.Spec[0]}, Floats(args[3])
	for t := range int(node.Domain[1]) {
		row := args[2][int(p[3])+t] - p[2]
		if row >= p[0] {
			continue
		}
		for b := range nb {
			w.dequant(y[(t*nb+b)*64:], int(row), b)
		}
	}
}
