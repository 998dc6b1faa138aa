package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// quantize: n float32 rows of k elements to activations (see act).
//
//	push  n, k
//	0 in  x[n][k]   1 out activations
func quantize(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		n, k := int(node.Push[0]), int(node.Push[1])
		x := Floats(args[0])
		parallel.For(n, func(t int) { a.store(args[1], n, t, x[t*k:][:k]) })
	}
}
