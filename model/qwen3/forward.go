package qwen3

import (
	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/runtime/op"
)

// Forward records the model for one batch.
func (m *Model) Forward(b *op.Builder, mem *family.Memory) op.Rows {
	x := m.ends.Embed(b) // [n, hidden]
	var y *op.Rows       // what is still to be added to x: [n, hidden]
	for i := range m.layers {
		l, cache := &m.layers[i], mem.Caches[i]
		b.Layer(i)
		of, short := b, m.Short(b, i, x, &y)
		h := l.qkv.In(b, func(b *op.Builder) op.Acts { return b.Norm("attn_norm", x, y, l.attnNorm, m.Eps) }) // [n, hidden]
		qkv := b.MulMat("attn_qkv", l.qkv.Matrix, h)                                                          // [n, (q + 2 kv) * dim]
		b.QKVRopeCache(qkv, m.Heads, cache, l.qNorm, l.kNorm, m.rope, m.Rope.Dim, m.Eps, m.QScale())          // q in place; k, v cached
		if short {
			if b.Layout.Out == 0 {
				return op.Rows{}
			}
			qkv, x, of = b.Outputs("attn_qkv_outputs", qkv), b.Outputs("outputs", x), b.OfOutputs() // n is outputs from here on
		}
		a := l.o.In(of, func(b *op.Builder) op.Acts { return b.Attention(qkv, m.Heads, cache) }) // [n, q * dim]
		o := of.MulMat("attn_output", l.o.Matrix, a)                                             // [n, hidden]
		next := l.feed.Forward(of, &m.Config, "ffn_norm", x, &o, l.ffnNorm)                      // [n, hidden]
		y = &next
	}
	return m.ends.Logits(b, &m.Config, x, *y) // [outputs, vocab]
}
