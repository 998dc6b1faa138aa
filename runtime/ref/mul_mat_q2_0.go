package ref

import "github.com/ternvk/tern/runtime/graph"

// The matrix product y[t][row0 + r] = sum over k of w[r][k] * x[t][k], for all
// three activation contracts:
//
//	C_b   = sum over the block of t_i * x_i with t = code - 1
//	term  = i8:       float(C_b) * (d_w * d_a)     C_b exact in int32
//	        f16, f32: C_b * d_w                    C_b = (q0+q1) + (q2+q3), each
//	                  quarter the sum of 16 exact products in order
//	slice = the terms of 8 blocks (the last slice may be short), in order
//	y     = tidy(the slices, in order)
//
// All sums and products are rounded to float32, one by one. The order is fixed
// by the shape alone, so a token's result does not depend on its neighbours.
//
//	push  rows, n, blocks a row, row0, stride of y
//	0 in  codes   1 in scales   2 in activations   3 out y[n][stride]
//	domain: rows x n

// sliceSums adds the terms of one row in the order of the contract.
func sliceSums(nb int, term func(b int) float32) float32 {
	var total float32
	for s := 0; s < nb; s += 8 {
		var slice float32
		for b := s; b < min(s+8, nb); b++ {
			slice = slice + term(b)
		}
		total = total + slice
	}
	return Tidy(total)
}

func mulMatQ2_0I8(node *graph.Node, args [][]uint32) {
	p := node.Push
	rows, n, nb, row0, stride := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	w, y := q2_0{args[0], args[1], nb}, Floats(args[3])
	words, pairs := args[2], args[2][n*nb*16:]
	// The integers of every token as bytes in the order of the weights.
	x := make([]int8, n*nb*64)
	for i := range x {
		word := i&^15/4 + i%4 // of element i: 16(w/4) + w%4 + 4m
		x[i] = int8(words[word] >> (i % 16 / 4 * 8))
	}
	parallel(rows, func(row int) {
		weights, scale := make([]int8, nb*64), make([]float32, nb)
		for b := range nb {
			codes, d := w.block(row, b)
			scale[b] = d
			for i := range 64 {
				weights[64*b+i] = int8(codes[i/16]>>(i%16*2)&3) - 1
			}
		}
		for t := range n {
			y[t*stride+row0+row] = sliceSums(nb, func(b int) float32 {
				var c int32
				xs := x[(t*nb+b)*64:][:64]
				for i, v := range weights[64*b:][:64] {
					c += int32(v) * int32(xs[i])
				}
				return float32(float32(c) * float32(scale[b]*fromBits(pairs[(t*nb+b)*2])))
			})
		}
	})
}

func mulMatQ2_0F32(node *graph.Node, args [][]uint32) {
	mulMatFloat(node, args, Floats(args[2]))
}

func mulMatQ2_0F16(node *graph.Node, args [][]uint32) {
	x := make([]float32, int(node.Push[1]*node.Push[2])*64)
	for i := range x {
		x[i] = F32(uint16(args[2][i/2] >> (i % 2 * 16)))
	}
	mulMatFloat(node, args, x)
}

func mulMatFloat(node *graph.Node, args [][]uint32, x []float32) {
	p := node.Push
	rows, n, nb, row0, stride := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	w, y := q2_0{args[0], args[1], nb}, Floats(args[3])
	parallel(rows, func(row int) {
		weights, scale := make([]float32, nb*64), make([]float32, nb)
		for b := range nb {
			codes, d := w.block(row, b)
			scale[b] = d
			for i := range 64 {
				weights[64*b+i] = float32(int32(codes[i/16]>>(i%16*2)&3) - 1)
			}
		}
		for t := range n {
			y[t*stride+row0+row] = sliceSums(nb, func(b int) float32 {
				var q [4]float32
				xs := x[(t*nb+b)*64:][:64]
				for i, v := range weights[64*b:][:64] {
					q[i/16] = q[i/16] + float32(v*xs[i])
				}
				c := (q[0] + q[1]) + (q[2] + q[3])
				return float32(c * scale[b])
			})
		}
	})
}
