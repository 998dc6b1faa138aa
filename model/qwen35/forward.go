package qwen35

import (
	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/runtime/op"
)

// Forward records the model for one batch.
func (m *Model) Forward(b *op.Builder, mem *family.Memory) op.Rows {
	x := b.Embed(m.embd) // [n, hidden]
	var y *op.Rows       // what is still to be added to x: [n, hidden]
	for i := range m.layers {
		l := &m.layers[i]
		b.Layer(i)
		h := b.Norm("attn_norm", x, y, l.attnNorm, m.Eps) // [n, hidden]
		var mixed op.Rows                                 // [n, hidden]
		if m.HasState(i) {
			mixed = m.delta(b, l, h, mem.States[i])
		} else {
			mixed = m.attention(b, l, h, mem.Caches[i])
		}
		next := l.feed.Forward(b, &m.Config, "post_attention_norm", x, &mixed, l.postNorm) // [n, hidden]
		y = &next
	}
	b.Layer(-1)
	b.AddCheck("residual", x, *y)
	if b.Layout.Out == 0 {
		return op.Rows{}
	}
	head := m.head
	if m.Tied {
		head = m.embd
	}
	out := b.Norm("output_norm", b.Outputs(x), nil, m.outputNorm, m.Eps) // [outputs, hidden]
	return b.MulMat("output", head, out)                                 // [outputs, vocab]
}

// attention is softmax attention whose output is multiplied by sigmoids of gates.
func (m *Model) attention(b *op.Builder, l *layer, h op.Acts, cache op.Cache) op.Rows {
	qkv := b.MulMat("attn_qkv", l.qkv, h)                                                        // [n, (q + 2 kv + q) * dim]
	b.QKVRopeCache(qkv, m.Heads, cache, l.qNorm, l.kNorm, m.rope, m.Rope.Dim, m.Eps, m.QScale()) // q in place; k, v cached
	attn := op.Rows(b.Float().Attention(qkv, m.Heads, cache))                                    // [n, q * dim]
	gated := b.SigmoidMul("attn_gated", attn, qkv, (m.Heads.Q+2*m.Heads.KV)*m.Heads.Dim)         // [n, q * dim]
	return b.MulMat("attn_output", l.o, gated)                                                   // [n, hidden]
}

// delta is a gated delta net.
func (m *Model) delta(b *op.Builder, l *layer, h op.Acts, state op.State) op.Rows {
	d := m.Delta
	x := b.DeltaRows(d)                                                   // [n, q k v z heads, beta, alpha]
	b.MulMatInto("attn_qkv_gate", x, 0, l.in, h)                          //
	b.MulMatInto("ssm_beta_alpha", x, d.Channels()+d.Inner(), l.gates, h) //
	b.DeltaInputs(x, d, state, l.conv, l.a, l.dt, m.Eps)                  // convolution, norms, gates
	b.DeltaRule(x, d, state)                                              // v becomes the output
	return b.MulMat("ssm_out", l.out, b.DeltaNorm(x, d, l.norm, m.Eps))   // [n, hidden]
}
