package ref

import (
	mathbits "math/bits"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// rmsNorm: u = x (adds = 0) or x = u = tidy(x + y) (adds = 1); then
// activations of (u * r) * weight with r = rsqrt(S * inv_k + eps) and S the
// sum of squares in the order of sumSquares. inv_k is float32(1/k).
//
//	push  n, k, weight (offset in consts), adds, inv_k, eps
//	0 io  x[n][k]   1 in y[n][k]   2 in consts   3 out activations
func rmsNorm(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		p := node.Push
		n, k, adds := int(p[0]), int(p[1]), p[3] != 0
		x, y, weight := Floats(args[0]), Floats(args[1]), Floats(args[2])[p[2]:]
		inv, eps := fromBits(p[4]), fromBits(p[5])
		parallel.For(n, func(t int) {
			u := x[t*k:][:k]
			if adds {
				for i, v := range y[t*k:][:k] {
					u[i] = Tidy(u[i] + v)
				}
			}
			out := make([]float32, k)
			normRow(out, u, weight, inv, eps)
			a.store(args[3], n, t, out)
		})
	}
}

func normRow(out, u, weight []float32, inv, eps float32) {
	s := sumSquares(u)
	r := Rsqrt(float32(s*inv) + eps)
	for i, v := range u {
		out[i] = float32(float32(v*r) * weight[i])
	}
}

// sumSquares adds the squares of u in P strided partial sums (element i belongs
// to partial i mod P, in order of i) and joins these by a binary tree,
// part[i] += part[i + h] for h = P/2, P/4, ... 1. P is the largest power of two
// that is at most min(256, len(u)).
func sumSquares(u []float32) float32 {
	parts := 1 << min(8, mathbits.Len(uint(len(u)))-1)
	var part [256]float32
	for i, v := range u {
		p := i % parts
		part[p] = part[p] + float32(v*v)
	}
	for h := parts / 2; h > 0; h /= 2 {
		for i := range h {
			part[i] = part[i] + part[i+h]
		}
	}
	return part[0]
}
