package ref

import "github.com/ternvk/tern/runtime/graph"

// The record of a draw, for each output, in the batch's words:
//
//	0, 1    first word of its pairs of (token, count) in the batch, number of pairs
//	2..5    repeat, 1/repeat, presence, frequency
//	6..9    factor t of the weights, top-k (a number of tokens), top-p, min-p
//	10..13  seed, position: the lower words first
const drawWords = 14

// penaliseF32: for each pair (token, count) of row t, as [Penalise] has it,
//
//	x[t][token] = tidy(l - (count*frequency + presence)),
//	l = x[t][token] * (x[t][token] > 0 ? 1/repeat : repeat)
//
// The tokens of a row's pairs are distinct, the counts positive and below 2^24;
// repeat is at least 2^-60, as some drivers take a denormal for 0.
//
//	push  k, records (offset in batch)
//	0 io x[n][k]   1 in batch        domain n
func penaliseF32(node *graph.Node, args [][]uint32) {
	k, x, batch := int(node.Push[0]), Floats(args[0]), args[1]
	for t := range int(node.Domain[0]) {
		r := batch[int(node.Push[1])+t*drawWords:][:drawWords]
		pairs := batch[r[0]:][:2*r[1]]
		for i := 0; i < len(pairs); i += 2 {
			l := &x[t*k+int(pairs[i])]
			*l = penalised(*l, pairs[i+1], fromBits(r[2]), fromBits(r[3]), fromBits(r[4]), fromBits(r[5]))
		}
	}
}
