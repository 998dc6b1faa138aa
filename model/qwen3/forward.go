package qwen3

import (
	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/runtime/op"
)

// Forward records the model for one batch.
func (m *Model) Forward(b *op.Builder, mem *family.Memory) op.Rows {
	x := b.Embed(m.embd) // [n, hidden]
	var y *op.Rows       // what is still to be added to x: [n, hidden]
	for i := range m.layers {
		l, cache := &m.layers[i], mem.Caches[i]
		b.Layer(i)
		h := b.Norm("attn_norm", x, y, l.attnNorm, m.Eps)                                            // [n, hidden]
		qkv := b.MulMat("attn_qkv", l.qkv, h)                                                        // [n, (q + 2 kv) * dim]
		b.QKVRopeCache(qkv, m.Heads, cache, l.qNorm, l.kNorm, m.rope, m.Rope.Dim, m.Eps, m.QScale()) // q in place; k, v cached
		o := b.MulMat("attn_output", l.o, b.Attention(qkv, m.Heads, cache))                          // [n, hidden]
		next := l.feed.Forward(b, &m.Config, "ffn_norm", x, &o, l.ffnNorm)                           // [n, hidden]
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
