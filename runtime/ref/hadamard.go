package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// fwht is the Walsh-Hadamard transform of v, whose length is a power of two, in
// place: for len = 1, 2, 4, .. and every pair (i, i+len) with bit len of i clear,
// (a, b) becomes (a+b, a-b); then every element times scale = 1/sqrt(length).
func fwht(v []float32, scale float32) {
	for l := 1; l < len(v); l *= 2 {
		for i := range v {
			if i&l == 0 {
				a, b := v[i], v[i+l]
				v[i], v[i+l] = a+b, a-b
			}
		}
	}
	for i, x := range v {
		v[i] = float32(x * scale)
	}
}

// hadamard: activations of the transform, block by block, of signs times x. Heads of
// dim elements are taken in another order first: element e of head r + rep*k is
// that of head k + keys*r of x, with r below rep and k below keys (keys = rep = 1 and
// dim the whole row: as they stand).
//
//	spec  block
//	push  n, k, signs (offset in consts), scale, dim, keys, rep
//	0 in  x[n][k]   1 in consts   2 out activations of k elements
//	domain: blocks in a row, n
func hadamard(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		p, block := node.Push, int(node.Spec[0])
		n, k, scale := int(p[0]), int(p[1]), fromBits(p[3])
		dim, keys, rep := int(p[4]), int(p[5]), int(p[6])
		x := Floats(args[0])
		rotate(a, args[2], n, k, block, scale, Floats(args[1])[p[2]:], func(t, e int) float32 {
			head := e / dim
			return x[t*k+(head/rep+keys*(head%rep))*dim+e%dim]
		})
	}
}

// rotate stores the transforms of signs times element(t, e).
func rotate(a act, dst []uint32, n, k, block int, scale float32, signs []float32, element func(t, e int) float32) {
	parallel.For(n, func(t int) {
		row := make([]float32, k)
		for e := range row {
			row[e] = float32(element(t, e) * signs[e])
		}
		for at := 0; at < k; at += block {
			fwht(row[at:][:block], scale)
		}
		a.store(dst, n, t, row)
	})
}

// siluMulHadamard equals siluMul with float32 activations and then hadamard.
//
//	spec  block
//	push  n, k, signs (offset in consts), scale
//	0 in  x[n][2k]   1 in consts   2 out activations of k elements
//	domain: blocks in a row, n
func siluMulHadamard(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		p := node.Push
		n, k := int(p[0]), int(p[1])
		x := Floats(args[0])
		rotate(a, args[2], n, k, int(node.Spec[0]), fromBits(p[3]), Floats(args[1])[p[2]:], func(t, e int) float32 {
			return Tidy(float32(Silu(x[2*t*k+e]) * x[(2*t+1)*k+e]))
		})
	}
}

// sigmoidMulHadamard equals sigmoidMul with float32 activations and then hadamard.
//
//	spec  block
//	push  n, k, signs (offset in consts), scale, stride, first
//	0 in  x[n][k]   1 in gates[n][stride]   2 in consts   3 out activations of k elements
//	domain: blocks in a row, n
func sigmoidMulHadamard(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		p := node.Push
		n, k, stride, first := int(p[0]), int(p[1]), int(p[4]), int(p[5])
		x, gates := Floats(args[0]), Floats(args[1])
		rotate(a, args[3], n, k, int(node.Spec[0]), fromBits(p[3]), Floats(args[2])[p[2]:], func(t, e int) float32 {
			return Tidy(float32(x[t*k+e] * Sigmoid(gates[t*stride+first+e])))
		})
	}
}

// deltaNormHadamard equals deltaNorm with float32 activations and then hadamard, of
// blocks of whole heads, whose order changes if grouped is set: keys and rep are then
// those of the delta net.
//
//	spec  dim, k heads, v heads, block
//	push  n, weight, signs (offsets in consts), grouped (0, 1), inv_dim, eps, scale
//	0 in  x   1 in consts   2 out activations of v heads * dim elements
//	domain: blocks in a row, n
func deltaNormHadamard(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		p := node.Push
		d := newDeltaRows(args[0], node.Spec, int(p[0]))
		consts, k := Floats(args[1]), d.valueHeads*d.dim
		keys, rep := 1, 1
		dim := k
		if p[3] != 0 {
			dim, keys, rep = d.dim, d.keyHeads, d.valueHeads/d.keyHeads
		}
		rows := make([][]float32, d.n)
		for t := range rows {
			rows[t] = d.normed(t, consts[p[1]:], fromBits(p[4]), fromBits(p[5]))
		}
		rotate(a, args[2], d.n, k, int(node.Spec[3]), fromBits(p[6]), consts[p[2]:], func(t, e int) float32 {
			head := e / dim
			return Tidy(rows[t][(head/rep+keys*(head%rep))*dim+e%dim])
		})
	}
}

// hadamardInverse: x = tidy(signs times the transform of x), block by block, in place.
//
//	spec  block
//	push  n, k, signs (offset in consts), scale
//	0 io  x[n][k]   1 in consts
//	domain: blocks in a row, n
func hadamardInverse(node *graph.Node, args [][]uint32) {
	p, block := node.Push, int(node.Spec[0])
	n, k, scale := int(p[0]), int(p[1]), fromBits(p[3])
	x, signs := Floats(args[0]), Floats(args[1])[p[2]:]
	for t := range n {
		row := x[t*k:][:k]
		for at := 0; at < k; at += block {
			fwht(row[at:][:block], scale)
		}
		for e, v := range row {
			row[e] = Tidy(float32(v * signs[e]))
		}
	}
}
