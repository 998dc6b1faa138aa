package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// siluMul: activations of silu(gate) * up, with gate and up the two halves of
// a row.
//
//	push  n, k
//	0 in  x[n][2k]   1 out activations of k elements
func siluMul(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		n, k := int(node.Push[0]), int(node.Push[1])
		x := Floats(args[0])
		parallel.For(n, func(t int) {
			gate, up := x[2*t*k:][:k], x[(2*t+1)*k:][:k]
			out := make([]float32, k)
			for i := range out {
				out[i] = float32(Silu(gate[i]) * up[i])
			}
			a.store(args[1], n, t, out)
		})
	}
}
