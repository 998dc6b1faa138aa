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
		h := l.qkv.In(b, func(b *op.Builder) op.Acts { return b.Norm("attn_norm", x, y, l.attnNorm, m.Eps) }) // [n, hidden]
		qkv := b.MulMat("attn_qkv", l.qkv.Matrix, h)                                                          // [n, (q + 2 kv) * dim]
		b.QKVRopeCache(qkv, m.Heads, cache, l.qNorm, l.kNorm, m.rope, m.Rope.Dim, m.Eps, m.QScale())          // q in place; k, v cached
		a := l.o.In(b, func(b *op.Builder) op.Acts { return b.Attention(qkv, m.Heads, cache) })               // [n, q * dim]
		o := b.MulMat("attn_output", l.o.Matrix, a)                                                           // [n, hidden]
		next := l.feed.Forward(b, &m.Config, "ffn_norm", x, &o, l.ffnNorm)                                    // [n, hidden]
		y = &next
	}
	return m.ends.Logits(b, &m.Config, x, *y) // [outputs, vocab]
}
