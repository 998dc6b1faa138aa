package ref

import "github.com/ternvk/tern/runtime/graph"

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
		x, signs := Floats(args[0]), Floats(args[1])[p[2]:]
		parallel(n, func(t int) {
			row := make([]float32, k)
			for e := range row {
				head := e / dim
				from := (head/rep+keys*(head%rep))*dim + e%dim
				row[e] = float32(x[t*k+from] * signs[e])
			}
			for at := 0; at < k; at += block {
				fwht(row[at:][:block], scale)
			}
			a.store(args[2], n, t, row)
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
