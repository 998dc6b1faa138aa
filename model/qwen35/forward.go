package qwen35

import (
	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/runtime/op"
)

// Forward records the model for one batch.
func (m *Model) Forward(b *op.Builder, mem *family.Memory) op.Rows {
	x := m.ends.Embed(b) // [n, hidden]
	var y *op.Rows       // what is still to be added to x: [n, hidden]
	for i := range m.layers {
		l := &m.layers[i]
		b.Layer(i)
		of, short := b, m.Short(b, i, x, &y)
		normed := func(b *op.Builder) op.Acts { return b.Norm("attn_norm", x, y, l.attnNorm, m.Eps) } // [n, hidden]
		var mixed op.Rows                                                                             // [n, hidden]
		if m.HasState(i) {
			mixed = m.delta(b, l, normed, mem.States[i])
			if short && b.Layout.Out > 0 {
				mixed = b.Outputs("ssm_out_outputs", mixed)
			}
		} else {
			mixed = m.attention(b, l, normed, mem.Caches[i], short)
		}
		if short {
			if b.Layout.Out == 0 {
				return op.Rows{}
			}
			x, of = b.Outputs("outputs", x), b.OfOutputs() // n is outputs from here on
		}
		next := l.feed.Forward(of, &m.Config, "post_attention_norm", x, &mixed, l.postNorm) // [n, hidden]
		y = &next
	}
	return m.ends.Logits(b, &m.Config, x, *y) // [outputs, vocab]
}

// attention is softmax attention whose output is multiplied by sigmoids of gates; if it is
// short, of the outputs alone.
func (m *Model) attention(b *op.Builder, l *layer, in func(b *op.Builder) op.Acts, cache op.Cache, short bool) op.Rows {
	qkv := b.MulMat("attn_qkv", l.qkv.Matrix, l.qkv.In(b, in))                                   // [n, (q + 2 kv + q) * dim]
	b.QKVRopeCache(qkv, m.Heads, cache, l.qNorm, l.kNorm, m.rope, m.Rope.Dim, m.Eps, m.QScale()) // q in place; k, v cached
	if short {
		if b.Layout.Out == 0 {
			return op.Rows{}
		}
		qkv, b = b.Outputs("attn_qkv_outputs", qkv), b.OfOutputs()
	}
	attn := op.Rows(b.Float().Attention(qkv, m.Heads, cache)) // [n, q * dim]
	gates := (m.Heads.Q + 2*m.Heads.KV) * m.Heads.Dim
	a := l.o.SigmoidMul(b, "attn_gated", attn, qkv, gates) // [n, q * dim]
	return b.MulMat("attn_output", l.o.Matrix, a)          // [n, hidden]
}

// delta is a gated delta net.
func (m *Model) delta(b *op.Builder, l *layer, in func(b *op.Builder) op.Acts, state op.State) op.Rows {
	d := m.Delta
	h, plain := l.in.InBoth(b, in)                      // [n, hidden]
	x := b.DeltaRows(d)                                 // [n, q k v z heads, beta, alpha]
	b.MulMatInto("attn_qkv_gate", x, 0, l.in.Matrix, h) //
	if l.gates != nil {
		b.MulMatInto("ssm_beta_alpha", x, d.Channels()+d.Inner(), l.gates, plain)
	}
	b.DeltaInputs(x, d, state, l.conv, l.a, l.dt, m.Eps) // convolution, norms, gates
	b.DeltaRule(x, d, state)                             // v becomes the output
	a := l.out.DeltaNorm(b, x, d, l.norm, m.Eps)         // [n, inner]
	return b.MulMat("ssm_out", l.out.Matrix, a)          // [n, hidden]
}
