package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// topKF32: the k largest elements of each part of a row, in order: larger ones
// first, equal ones (so are -0 and +0) by position. A row is cut into parts of the
// given number of elements; the last may be short. NaN is never among them; where
// there are fewer than k, NaN 0x7fc00000 with the id 0xffffffff stands. An
// element's id is its position, or lies behind the values of all rows. As lists
// hold equal values in order of their ids, lists of parts are joined by the same
// contract, with all of them as one part.
//
//	push  width, elements of a part, parts, k (1 to 128), n, ids in 0 (0, 1)
//	0 in  x[n][width], ids[n][width] if there are any
//	1 out values[n][parts][k], ids[n][parts][k]
//	domain: parts x n
func topKF32(node *graph.Node, args [][]uint32) {
	p := node.Push
	width, part, parts, k, n := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])
	x, values, ids := args[0], args[1], args[1][n*parts*k:]
	parallel.For(parts*n, func(i int) {
		from := i / parts * width
		first := i % parts * part
		row := x[from+first:][:min(part, width-first)]
		order := largest(Floats(row), k)
		for r := range k {
			value, id := uint32(0x7fc0_0000), uint32(0xffff_ffff)
			if r < len(order) {
				value, id = row[order[r]], uint32(first+order[r])
				if p[5] != 0 {
					id = x[n*width+from+int(id)]
				}
			}
			values[i*k+r], ids[i*k+r] = value, id
		}
	})
}
