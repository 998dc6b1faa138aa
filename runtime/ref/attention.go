package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// Attention of query head h at position pos over the cached positions 0..pos of
// its sequence, cut into chunks of 64 counted from 0. For chunk c:
//
//	s_j = sum over d in order of q_d * k_jd     products exact (13 + 11 bits; finite, so
//	                                            that fused or not is no matter: |q_d| < 2^111)
//	e_c = tidy(roundEven(max s_j))
//	p_j = round13(exp2(s_j - e_c))
//	l_c = tidy(sum over j in order of p_j)
//	o_c = tidy(sum over j in order of p_j * v_jd)        products exact
//
// and the chunks joined in order, starting with the first:
//
//	m = max(e, e_c), a = 2^(e-m), b = 2^(e_c-m) (0 below 2^-60)
//	l = tidy(l*a + l_c*b)   o = tidy(o*a + o_c*b)        products exact
//	result = tidy(o * recip(l))
//
// Positions beyond pos are not looked at. Query head h reads kv head h/share.

type chunk struct {
	e, l float32
	o    []float32
}

func (c cacheF16) chunk(q []float32, pg, head, count int) chunk {
	var s [page]float32
	r := chunk{o: make([]float32, c.dim)}
	for j := range count {
		for d := range c.dim {
			s[j] = s[j] + float32(q[d]*half(c.words, c.key(pg, head, j, d), d))
		}
	}
	m := s[0]
	for _, v := range s[1:count] {
		if v > m {
			m = v
		}
	}
	r.e = Tidy(RoundEven(m))
	for j := range count {
		s[j] = Round13(Exp2(s[j] - r.e))
		r.l = r.l + s[j]
	}
	r.l = Tidy(r.l)
	for d := range c.dim {
		for j := range count {
			r.o[d] = r.o[d] + float32(s[j]*half(c.words, c.value(pg, head, j, d), d))
		}
		r.o[d] = Tidy(r.o[d])
	}
	return r
}

// join adds the next chunk to r.
func (r *chunk) join(next chunk) {
	m := r.e
	if next.e > m {
		m = next.e
	}
	a, b := Pow2(r.e-m), Pow2(next.e-m)
	r.e = m
	r.l = Tidy(float32(r.l*a) + float32(next.l*b))
	for d, v := range r.o {
		r.o[d] = Tidy(float32(v*a) + float32(next.o[d]*b))
	}
}

func (r *chunk) finish() {
	inv := Recip(r.l)
	for d, v := range r.o {
		r.o[d] = Tidy(float32(v * inv))
	}
}

// attentionF16: the whole of it, for many queries.
//
//	spec  dim, kv heads, share
//	push  n, q_stride (a multiple of 4), positions, tables (offsets in batch),
//	      v_base (a multiple of 4)
//	0 in  q[n][q_stride]   1 in cache   2 in batch   3 out y[n][heads][dim]
//	domain: heads x n
func attentionF16(node *graph.Node, args [][]uint32) {
	p := node.Push
	c := cacheF16{args[1], int(p[4]), int(node.Spec[0]), int(node.Spec[1])}
	share, stride, batch := int(node.Spec[2]), int(p[1]), args[2]
	heads := c.kvHeads * share
	q, y := Floats(args[0]), Floats(args[3])
	parallel.For(int(p[0])*heads, func(i int) {
		t, h := i/heads, i%heads
		count := int(batch[int(p[2])+t]) + 1
		table := batch[batch[int(p[3])+t]:]
		var all chunk
		for at := 0; at < count; at += page {
			next := c.chunk(q[t*stride+h*c.dim:], int(table[at/page]), h/share, min(page, count-at))
			if at == 0 {
				all = next
			} else {
				all.join(next)
			}
		}
		all.finish()
		copy(y[i*c.dim:], all.o)
	})
}

// attentionPartF16: the chunks, each by itself: o_c, e_c, l_c. Chunks beyond a
// token's position are not written.
//
//	spec  dim, kv heads, share
//	push  chunks, q_stride (a multiple of 4), positions, tables (offsets in batch),
//	      v_base (a multiple of 4)
//	0 in  q[n][q_stride]   1 in cache   2 in batch
//	3 out y[n][heads][chunks][dim + 2]
//	domain: chunks x n * kv heads
func attentionPartF16(node *graph.Node, args [][]uint32) {
	p := node.Push
	c := cacheF16{args[1], int(p[4]), int(node.Spec[0]), int(node.Spec[1])}
	share, chunks, stride, batch := int(node.Spec[2]), int(p[0]), int(p[1]), args[2]
	heads := c.kvHeads * share
	q, y := Floats(args[0]), Floats(args[3])
	parallel.For(int(node.Domain[1])*share, func(i int) {
		t, h := i/heads, i%heads
		count := int(batch[int(p[2])+t]) + 1
		table := batch[batch[int(p[3])+t]:]
		for k := 0; k < chunks && k*page < count; k++ {
			r := c.chunk(q[t*stride+h*c.dim:], int(table[k]), h/share, min(page, count-k*page))
			out := y[(i*chunks+k)*(c.dim+2):]
			copy(out, r.o)
			out[c.dim], out[c.dim+1] = r.e, r.l
		}
	})
}

// attentionJoin: the chunks of attentionPartF16 joined in order, and the
// activations of the result.
//
//	spec  dim
//	push  n, heads, chunks, positions (offset in batch)
//	0 in  parts[n][heads][chunks][dim + 2]   1 in batch
//	2 out activations of heads * dim elements
//	domain: heads * dim elements x n
func attentionJoin(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		p := node.Push
		n, heads, chunks, dim := int(p[0]), int(p[1]), int(p[2]), int(node.Spec[0])
		x := Floats(args[0])
		for t := range n {
			pos := int(args[1][int(p[3])+t])
			row := make([]float32, heads*dim)
			for h := range heads {
				var all chunk
				for k := range pos/page + 1 {
					part := x[((t*heads+h)*chunks+k)*(dim+2):]
					next := chunk{part[dim], part[dim+1], part[:dim]}
					if k == 0 {
						all = chunk{next.e, next.l, append([]float32(nil), next.o...)}
					} else {
						all.join(next)
					}
				}
				all.finish()
				copy(row[h*dim:], all.o)
			}
			a.store(args[2], n, t, row)
		}
	}
}
