package ref

import "github.com/ternvk/tern/runtime/graph"

// argmaxF32: batch[result + t] = the index of the largest value of row t, ties
// to the lower index. NaN is never larger; a row without any other value gives
// 0xffffffff.
//
//	push  k, result (offset in batch)
//	0 in  x[n][k]   1 out batch        domain n
func argmaxF32(node *graph.Node, args [][]uint32) {
	k, result := int(node.Push[0]), args[1][node.Push[1]:]
	x := Floats(args[0])
	for t := range int(node.Domain[0]) {
		best := uint32(0xffff_ffff)
		for i, v := range x[t*k:][:k] {
			if v == v && (best == 0xffff_ffff || v > x[t*k+int(best)]) {
				best = uint32(i)
			}
		}
		result[t] = best
	}
}
