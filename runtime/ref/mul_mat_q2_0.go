package ref

import (
	mathbits "math/bits"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

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
//	spec  lanes (a hint for workgroup sizes), blocks a row, share
//	push  rows, n, blocks a row, row0, stride of y
//	0 in  codes   1 in scales   2 in activations   3 out y[n][stride]
//	domain: rows x n

func mulMatQ2_0I8(node *graph.Node, args [][]uint32) {
	p := node.Push
	rows, n, nb, row0, stride := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	w, y := q2_0{args[0], args[1], nb, node.Spec[2]}, Floats(args[3])
	words, pairs := args[2], args[2][n*nb*16:]
	x := make([]lanes, n*nb)
	for i := range n * nb * 64 {
		word := i&^15/4 + i%4 // of element i: 16(w/4) + w%4 + 4m
		v := int8(words[word] >> (i % 16 / 4 * 8))
		x[i/64][i%64/32*8+i%8] |= uint64(int(v)+128) << (i % 32 / 8 * 16)
	}
	parallel.For(rows, func(row int) {
		weights, scale := make([]selector, nb), make([]float32, nb)
		for b := range nb {
			codes, d := w.block(row, b)
			weights[b].set(codes)
			scale[b] = d
		}
		for t := range n {
			y[t*stride+row0+row] = sumTerms(nb, 8, func(b int) float32 {
				at := actBlock(n, t, b)
				pair := pairs[at*2:]
				c := weights[b].dot(&x[at]) - int32(pair[1])
				return float32(float32(c) * float32(scale[b]*fromBits(pair[0])))
			})
		}
	})
}

// C_b is exact, so any way to it will do. Here it is the sum of code * (x + 128),
// less 128 * the sum of codes and the sum of x: bit by bit of the codes, four
// elements at a time in lanes of 16 bits, of which none exceeds 3 * 16 * 255.
// Lane l of word 8j + r belongs to element 32j + 8l + r.
type lanes [16]uint64

// selector has all ones in the lanes whose code has bit 0, and bit 1, set.
type selector struct {
	low, high lanes
	offset    int32 // 128 * the sum of codes
}

func (s *selector) set(codes []uint32) {
	const one = 0x0001_0001_0001_0001
	for j := range 2 {
		q := uint64(codes[2*j]) | uint64(codes[2*j+1])<<32
		for r := range 8 {
			s.low[8*j+r] = q >> (2 * r) & one * 0xffff
			s.high[8*j+r] = q >> (2*r + 1) & one * 0xffff
		}
		const low = 0x5555_5555_5555_5555
		s.offset += 128 * int32(mathbits.OnesCount64(q&low)+2*mathbits.OnesCount64(q>>1&low))
	}
}

// dot is the sum of code * x, for lanes of x + 128.
func (s *selector) dot(x *lanes) int32 {
	var low, high uint64
	for i, v := range x {
		low += v & s.low[i]
		high += v & s.high[i]
	}
	sum := low + 2*high
	return int32(sum&0xffff+sum>>16&0xffff+sum>>32&0xffff+sum>>48) - s.offset
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
	w, y := q2_0{args[0], args[1], nb, node.Spec[2]}, Floats(args[3])
	parallel.For(rows, func(row int) {
		weights, scale := make([][64]float32, nb), make([]float32, nb)
		for b := range nb {
			codes, d := w.block(row, b)
			scale[b] = d
			for i := range 64 {
				weights[b][i] = float32(int32(codes[i/16]>>(i%16*2)&3) - 1)
			}
		}
		for t := range n {
			y[t*stride+row0+row] = sumTerms(nb, 8, func(b int) float32 {
				var q0, q1, q2, q3 float32
				v, xs := &weights[b], (*[64]float32)(x[(t*nb+b)*64:])
				for i := range 16 {
					q0 = q0 + float32(v[i]*xs[i])
					q1 = q1 + float32(v[16+i]*xs[16+i])
					q2 = q2 + float32(v[32+i]*xs[32+i])
					q3 = q3 + float32(v[48+i]*xs[48+i])
				}
				c := (q0 + q1) + (q2 + q3)
				return float32(c * scale[b])
			})
		}
	})
}
