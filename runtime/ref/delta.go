package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// A gated delta net mixes tokens through a matrix of state for every value head.
// Its three contracts work on rows x of one product, a row being
//
//	q heads, k heads, v heads (all of dim elements), z [v heads][dim],
//	beta [v heads], alpha [v heads]
//
// and, behind all rows, on rows of outputs: q, k and v heads. Value head h reads
// query and key head h mod the number of these.
//
// The batch says which sequence a token belongs to: batch[members + t] is the
// index i of its record, the words batch[sequences + 4i + 0..3]: first token,
// number of tokens (consecutive in the batch), slot of the state to read
// (0xffffffff: all zeros), slot to write. A slot is never both in one run.
type deltaRows struct {
	x              []float32
	n              int
	keyHeads       int
	valueHeads     int
	dim            int
	stride, second int // words of a row; where the outputs begin
}

func newDeltaRows(x []uint32, spec []uint32, n int) deltaRows {
	d := deltaRows{x: Floats(x), n: n, dim: int(spec[0]), keyHeads: int(spec[1]), valueHeads: int(spec[2])}
	d.stride = d.channels() + d.valueHeads*(d.dim+2)
	d.second = n * d.stride
	return d
}

func (d *deltaRows) channels() int { return (2*d.keyHeads + d.valueHeads) * d.dim }

// raw is the product's row of a token, out its outputs.
func (d *deltaRows) raw(t int) []float32 { return d.x[t*d.stride:][:d.stride] }
func (d *deltaRows) out(t int) []float32 { return d.x[d.second+t*d.channels():][:d.channels()] }

type sequence struct{ first, count, read, write int }

const fresh = 0xffff_ffff // slot of a sequence that begins

func sequenceAt(batch []uint32, at int) sequence {
	w := batch[at:][:4]
	return sequence{int(w[0]), int(w[1]), int(w[2]), int(w[3])}
}

// deltaInputs: for token t, the j-th of its sequence in this batch, and channel c
// of its q, k and v heads, the causal convolution
//
//	s = sum over i = 0..taps-1 in order of float32(w[c*taps + i] * u_i)
//	y = silu(s)
//
// where u_i is the channel's raw element of the token taps-1-i before t; the
// state read holds those of the taps-1 tokens before the batch's first, oldest
// first. Then outputs:
//
//	v heads:  tidy(y)
//	k heads:  tidy(y * r), r = rsqrt(sumSquares over the head + eps)
//	q heads:  tidy(float32(y * r) * q_scale)
//
// The last token of a sequence writes u_1 .. u_taps-1 to the state. In place, each
// token's beta = tidy(sigmoid(beta)) and its alpha becomes the decay
// tidy(exp(a * softplus(alpha + dt))).
//
//	spec  dim, k heads, v heads, taps
//	push  n, weights, a, dt (offsets in consts), members, sequences (offsets in
//	      batch), eps, q_scale
//	0 io  x   1 io state [slot][taps-1][channels]   2 in batch   3 in consts
//	domain: q, k and v heads and one more, n
func deltaInputs(node *graph.Node, args [][]uint32) {
	p, taps := node.Push, int(node.Spec[3])
	d := newDeltaRows(args[0], node.Spec, int(p[0]))
	state, batch, consts := Floats(args[1]), args[2], Floats(args[3])
	weights, a, dt := consts[p[1]:], consts[p[2]:], consts[p[3]:]
	eps, scale := fromBits(p[6]), fromBits(p[7])
	channels := d.channels()
	parallel.For(d.n, func(t int) {
		s := sequenceAt(batch, int(p[5]+4*batch[int(p[4])+t]))
		u := func(i, c int) float32 { // of the token taps-1-i before t
			at := t - (taps - 1 - i)
			switch {
			case at >= s.first:
				return d.raw(at)[c]
			case s.read == fresh:
				return 0
			}
			return state[(s.read*(taps-1)+at-s.first+taps-1)*channels+c]
		}
		out := d.out(t)
		for c := range channels {
			var y float32
			for i := range taps {
				y = y + float32(weights[c*taps+i]*u(i, c))
			}
			out[c] = Silu(y)
			for i := 1; i < taps && t == s.first+s.count-1; i++ {
				state[(s.write*(taps-1)+i-1)*channels+c] = u(i, c)
			}
		}
		for h := range 2*d.keyHeads + d.valueHeads {
			head := out[h*d.dim:][:d.dim]
			r := Rsqrt(sumSquares(head) + eps)
			for i, y := range head {
				if h < 2*d.keyHeads {
					y = float32(y * r)
				}
				if h < d.keyHeads {
					y = float32(y * scale)
				}
				head[i] = Tidy(y)
			}
		}
		beta := d.raw(t)[channels+d.valueHeads*d.dim:]
		alpha := beta[d.valueHeads:]
		for h := range d.valueHeads {
			beta[h] = Tidy(Sigmoid(beta[h]))
			alpha[h] = Tidy(Exp(float32(a[h] * Softplus(alpha[h]+dt[h]))))
		}
	})
}

// deltaRule: for every sequence, value head and element j of the value, the
// column m of the state, m[i] for i = 0..dim-1, goes through the tokens in order:
//
//	m[i] = float32(m[i] * decay)
//	e = float32(beta * (v[j] - dot(m, k)))
//	m[i] = tidy(m[i] + float32(e * k[i]))
//	v[j] = tidy(dot(m, q))
//
// dot: part p = 0..7 is the sum over i = p*dim/8 .. (p+1)*dim/8 - 1 in order of
// float32(a[i] * b[i]); the parts are joined by the tree of sumSquares. The last
// state is written.
//
//	spec  dim, k heads, v heads
//	push  n, sequences (offset in batch)
//	0 io  x   1 io state [slot][v heads][j][i]   2 in batch
//	domain: v heads * dim, sequences
func deltaRule(node *graph.Node, args [][]uint32) {
	p := node.Push
	d := newDeltaRows(args[0], node.Spec, int(p[0]))
	state, dim, channels := Floats(args[1]), d.dim, d.channels()
	heads := d.valueHeads * int(node.Domain[1])
	parallel.For(heads*dim, func(w int) {
		h, j := w/dim%d.valueHeads, w%dim
		s := sequenceAt(args[2], int(p[1])+4*(w/dim/d.valueHeads))
		m := make([]float32, dim)
		for i := range m {
			if s.read != fresh {
				m[i] = state[((s.read*d.valueHeads+h)*dim+j)*dim+i]
			}
		}
		for t := s.first; t < s.first+s.count; t++ {
			row := d.out(t)
			q, k := row[h%d.keyHeads*dim:][:dim], row[(d.keyHeads+h%d.keyHeads)*dim:][:dim]
			v := &row[(2*d.keyHeads+h)*dim+j]
			gates := d.raw(t)[channels+d.valueHeads*dim:]
			beta, decay := gates[h], gates[d.valueHeads+h]
			for i := range m {
				m[i] = float32(m[i] * decay)
			}
			e := float32(beta * (*v - dot8(m, k)))
			for i := range m {
				m[i] = Tidy(m[i] + float32(e*k[i]))
			}
			*v = Tidy(dot8(m, q))
		}
		for i := range m {
			state[((s.write*d.valueHeads+h)*dim+j)*dim+i] = m[i]
		}
	})
}

func dot8(a, b []float32) float32 {
	var part [8]float32
	n := len(a) / 8
	for p := range part {
		for i := p * n; i < (p+1)*n; i++ {
			part[p] = part[p] + float32(a[i]*b[i])
		}
	}
	for h := 4; h > 0; h /= 2 {
		for p := range h {
			part[p] = part[p] + part[p+h]
		}
	}
	return part[0]
}

// deltaNorm: activations of norm(v) * silu(z), head by head: element i is
// float32(u * silu(z[i])), u = (v[i] * r) * weight[i] with r as in rmsNorm over
// the head.
//
//	spec  dim, k heads, v heads
//	push  n, weight (offset in consts), inv_dim, eps
//	0 in  x   1 in consts   2 out activations of v heads * dim elements
//	domain: v heads, n
func deltaNorm(a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		p := node.Push
		d := newDeltaRows(args[0], node.Spec, int(p[0]))
		weight, inv, eps := Floats(args[1])[p[1]:], fromBits(p[2]), fromBits(p[3])
		parallel.For(d.n, func(t int) { a.store(args[2], d.n, t, d.normed(t, weight, inv, eps)) })
	}
}

// normed is the normed value heads of a token times silu(z).
func (d *deltaRows) normed(t int, weight []float32, inv, eps float32) []float32 {
	v, z := d.out(t)[2*d.keyHeads*d.dim:], d.raw(t)[d.channels():]
	row := make([]float32, d.valueHeads*d.dim)
	for h := range d.valueHeads {
		normRow(row[h*d.dim:][:d.dim], v[h*d.dim:][:d.dim], weight, inv, eps)
	}
	for i, u := range row {
		row[i] = float32(u * Silu(z[i]))
	}
	return row
}
