package qwen3

import "github.com/ternvk/tern/runtime/op"

// Forward records the whole model for one batch: n tokens with their positions
// and pages in the batch words, keys and values into caches (one a layer), and
// the logits [outputs][vocab] of the tokens that the batch asks for.
func (c Config) Forward(b *op.Builder, w *Weights, caches []op.Cache) op.Rows {
	x := b.Embed(w.Embd) // [n, hidden]
	var y *op.Rows       // what is still to be added to x: [n, hidden]
	for i, l := range w.Layers {
		b.Layer(i)
		h := b.Norm("attn_norm", x, y, l.AttnNorm, c.Eps)                                    // [n, hidden]
		qkv := b.MulMat("attn_qkv", l.QKV, h)                                                // [n, (q + 2 kv) * dim]
		b.QKVRopeCache(qkv, c.Heads, caches[i], l.QNorm, l.KNorm, w.Rope, c.Eps, c.QScale()) // q in place; k, v cached
		attn := b.Attention(qkv, c.Heads, caches[i])                                         // [n, q * dim]
		o := b.MulMat("attn_output", l.O, attn)                                              // [n, hidden]
		h = b.Norm("ffn_norm", x, &o, l.FFNNorm, c.Eps)                                      // [n, hidden]
		up := b.MulMat("ffn_gate_up", l.GateUp, h)                                           // [n, 2 * ffn]
		down := b.MulMat("ffn_down", l.Down, b.SiluMul("ffn_silu_mul", up))                  // [n, hidden]
		y = &down
	}
	b.Layer(-1)
	b.AddCheck("residual", x, *y)
	if b.Layout.Out == 0 {
		return op.Rows{}
	}
	out := b.Norm("output_norm", b.Outputs(x), nil, w.OutputNorm, c.Eps) // [outputs, hidden]
	return b.MulMat("output", w.Head, out)                               // [outputs, vocab]
}
