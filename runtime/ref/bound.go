package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// A Bound says how far the words of a kernel of class bound:NAME may lie from its twin's.
type Bound struct {
	// Of gives the largest distance for each word of the floats that a node writes,
	// +Inf where nothing is claimed. args are the words of the node's bindings before it.
	// Where the twin's word is not finite, the kernel's must not be either, unless
	// nothing is claimed.
	Of func(n *graph.Node, args [][]uint32) []float32
	// Mean is how far words may lie from the twin's in the mean of a node, of 1, their
	// bounds: these are of the worst case, in which all roundings go one way.
	Mean float64
}

// BoundOf returns the rule of a name, nil if there is none.
func BoundOf(name string) *Bound {
	return map[string]*Bound{"attention": {attentionBound, 1.0 / 32}, "product": {productBound, 1.0 / 4}}[name]
}

// attentionBound is that of kernels which round queries and weights to halves, to
// nearest or towards zero, and add products of halves in float32 in any order. Of a
// query, let w_j be the weights of the positions that it sees, which sum to 1. A score is off by at most
//
//	delta = max over j of (2^-10 + dim*2^-22) * sum over d of |q_d*k_jd|, + 2^-24 * sum over d of |k_jd|
//
// and the result by
//
//	(2^(2 delta + 2^-8 + count*2^-22) - 1) * sum over j of w_j*|v_jd|, + 2^-30 * sum over j of |v_jd|, + 2^-60
//
// whose last terms are halves and floats too small to be told from 0. Nothing is claimed
// of a query with elements that are no halves, beyond 65504 or not finite, or with a delta
// above 32.
func attentionBound(node *graph.Node, args [][]uint32) []float32 {
	if len(node.Spec) == 5 {
		node, args = inHalves(node, args)
	}
	p := node.Push
	c := cacheF16{args[1], int(p[4]), int(node.Spec[0]), int(node.Spec[1])}
	share, stride, batch := int(node.Spec[2]), int(p[1]), args[2]
	heads := c.kvHeads * share
	q := Floats(args[0])
	bound := make([]float32, len(args[3]))
	parallel.For(int(p[0])*heads, func(i int) {
		t, h := i/heads, i%heads
		count := int(batch[int(p[2])+t]) + 1
		table := batch[batch[int(p[3])+t]:]
		copy(bound[i*c.dim:], c.bound(q[t*stride+h*c.dim:][:c.dim], table, h/share, count))
	})
	return bound
}

// bound is that of the results of one query.
func (c cacheF16) bound(q []float32, table []uint32, head, count int) []float32 {
	w, l, top, delta := make([]float32, count), float32(0), float32(0), float32(0)
	for j := range w {
		var products, keys float32
		for d := range c.dim {
			k := half(c.words, c.key(int(table[j/page]), head, j%page, d), d)
			a := float32(q[d] * k)
			w[j] = w[j] + a
			products, keys = products+abs(a), keys+abs(k)
		}
		if w[j] > top || j == 0 {
			top = w[j]
		}
		if e := float32(products*(0x1p-10+float32(float32(c.dim)*0x1p-22))) + float32(keys*0x1p-24); e > delta {
			delta = e
		}
	}
	for j := range w {
		w[j] = Exp2(w[j] - top)
		l = l + w[j]
	}
	claimed := delta <= 32
	for _, v := range q {
		claimed = claimed && abs(v) <= 65504
	}
	relative, inv := Exp2(delta+delta+0x1p-8+float32(float32(count)*0x1p-22))-1, Recip(l)
	out := make([]float32, c.dim)
	for d := range out {
		var sum, all float32
		for j, w := range w {
			v := abs(half(c.words, c.value(int(table[j/page]), head, j%page, d), d))
			sum, all = sum+float32(w*v), all+v
		}
		out[d] = float32(float32(relative*sum)*inv) + float32(all*0x1p-30) + 0x1p-60
		if !claimed {
			out[d] = fromBits(0x7f80_0000)
		}
	}
	return out
}
