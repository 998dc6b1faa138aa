package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// sigmoidMul: activations of x * sigmoid(gate), with gates that lie in wider rows.
//
//	push  n, k, stride, first (the gate of element i of row t is
//	      gates[t*stride + first + i])
//	0 in  x[n][k]   1 in gates[n][stride]   2 out activations of k elements
func sigmoidMul(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		p := node.Push
		n, k, stride, first := int(p[0]), int(p[1]), int(p[2]), int(p[3])
		x, gates := Floats(args[0]), Floats(args[1])
		parallel.For(n, func(t int) {
			out := make([]float32, k)
			for i := range out {
				out[i] = float32(x[t*k+i] * Sigmoid(gates[t*stride+first+i]))
			}
			a.store(args[2], n, t, out)
		})
	}
}
