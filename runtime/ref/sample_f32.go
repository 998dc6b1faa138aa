package ref

import "github.com/ternvk/tern/runtime/graph"

// sampleF32: batch[result + t] = the token that [Sample] draws for output t by its
// record, from the first top-k entries of a list of k in order; 0xffffffff if the
// list is empty. It ends before an id 0xffffffff.
//
//	push  k (at most 128), n, records, result (offsets in batch)
//	0 in  values[n][k], ids[n][k]   1 io batch        domain n
func sampleF32(node *graph.Node, args [][]uint32) {
	p, batch := node.Push, args[1]
	k, n := int(p[0]), int(p[1])
	for t := range n {
		r := batch[int(p[2])+t*drawWords:][:drawWords]
		values, ids := Floats(args[0][t*k:][:k]), args[0][(n+t)*k:][:k]
		size := 0
		for size < min(k, int(r[7])) && ids[size] != 0xffff_ffff {
			size++
		}
		id := uint32(0xffff_ffff)
		if size > 0 {
			u := Uniform(uint64(r[11])<<32|uint64(r[10]), uint64(r[13])<<32|uint64(r[12]))
			id = ids[draw(values[:size], fromBits(r[6]), fromBits(r[8]), fromBits(r[9]), u)]
		}
		batch[int(p[3])+t] = id
	}
}
