package ref

import "github.com/ternvk/tern/runtime/graph"

// pickRowsF32: y[i] = x[batch[rows + i]], words unchanged.
//
//	push  k, rows (offset in batch)
//	0 in  x[][k]   1 in batch   2 out y[m][k]        domain k x m
func pickRowsF32(node *graph.Node, args [][]uint32) {
	k, rows := int(node.Push[0]), args[1][node.Push[1]:]
	for i := range int(node.Domain[1]) {
		copy(args[2][i*k:][:k], args[0][int(rows[i])*k:][:k])
	}
}

// addCheckF32: x = tidy(x + y) element by element; if a sum is not finite,
// batch[0] = 1.
//
//	push  count
//	0 io  x   1 in y   2 io batch
func addCheckF32(node *graph.Node, args [][]uint32) {
	x, y := Floats(args[0]), Floats(args[1])
	for i := range int(node.Push[0]) {
		x[i] = Tidy(x[i] + y[i])
		if bits(x[i])&0x7fff_ffff >= infBits {
			args[2][0] = 1
		}
	}
}
