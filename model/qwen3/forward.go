package qwen3

import (
	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/runtime/op"
)

// Forward records the model for one batch.
func (m *Model) Forward(b *op.Builder, mem *family.Memory) op.Rows {
	x := b.Embed(m.embd) // [n, hidden]
	var y *op.Rows       // what is still to be added to x: [n, hidden]
	for i, l := range m.layers {
		b.Layer(i)
		h := b.Norm("attn_norm", x, y, l.attnNorm, m.Eps)                                                // [n, hidden]
		qkv := b.MulMat("attn_qkv", l.qkv, h)                                                            // [n, (q + 2 kv) * dim]
		b.QKVRopeCache(qkv, m.Heads, mem.Caches[i], l.qNorm, l.kNorm, m.rope, m.Rope.Dim, m.Eps, m.QScale()) // q in place; k, v cached
		attn := b.Attention(qkv, m.Heads, mem.Caches[i])                                                     // [n, q * dim]
		o := b.MulMat("attn_output", l.o, attn)                                                          // [n, hidden]
		h = b.Norm("ffn_norm", x, &o, l.ffnNorm, m.Eps)                                                  // [n, hidden]
		up := b.MulMat("ffn_gate_up", l.gateUp, h)                                                       // [n, 2 * ffn]
		down := b.MulMat("ffn_down", l.down, b.SiluMul("ffn_silu_mul", up))                              // [n, hidden]
		y = &down
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
