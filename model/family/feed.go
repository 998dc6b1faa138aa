package family

import "github.com/ternvk/tern/runtime/op"

// FeedForward is the second half of a block: SwiGLU, dense or a mixture of experts.
type FeedForward struct {
	gateUp, down             *op.Matrix // dense, or of all experts, one after the other
	router                   *op.Matrix // experts, and the gate of the shared expert
	sharedGateUp, sharedDown *op.Matrix
}

// Tensors lists the tensors of the block with prefix p.
func (f *FeedForward) Tensors(t *Tensors, p string, c *Config) {
	if c.Experts.Count == 0 {
		t.Matrix(&f.gateUp, p+"ffn_gate_up", c.Hidden, Rows(p+"ffn_gate", c.FFN), Rows(p+"ffn_up", c.FFN))
		t.Matrix(&f.down, p+"ffn_down", c.FFN, Rows(p+"ffn_down", c.Hidden))
		return
	}
	n, width := c.Experts.Count, c.ExpertFFN
	router := []Part{Rows(p+"ffn_gate_inp", n)}
	var up []Part
	for e := range n {
		expert := func(name string) Part {
			return Part{Name: p + name, First: e * width, Rows: width, Shape: []int{width, n}}
		}
		up = append(up, expert("ffn_gate_exps"), expert("ffn_up_exps"))
	}
	if c.FusedExperts {
		up = []Part{{Name: p + "ffn_gate_up_exps", Rows: n * 2 * width, Shape: []int{2 * width, n}}}
	}
	t.Matrix(&f.gateUp, p+"ffn_gate_up_exps", c.Hidden, up...)
	t.Matrix(&f.down, p+"ffn_down_exps", width, Part{Name: p + "ffn_down_exps", Rows: n * c.Hidden, Shape: []int{c.Hidden, n}})
	if c.SharedFFN > 0 {
		router = append(router, Part{Name: p + "ffn_gate_inp_shexp", Rows: 1}) // a vector
		t.Matrix(&f.sharedGateUp, p+"ffn_gate_up_shexp", c.Hidden, Rows(p+"ffn_gate_shexp", c.SharedFFN), Rows(p+"ffn_up_shexp", c.SharedFFN))
		t.Matrix(&f.sharedDown, p+"ffn_down_shexp", c.SharedFFN, Rows(p+"ffn_down_shexp", c.Hidden))
	}
	t.Matrix(&f.router, p+"ffn_gate_inp", c.Hidden, router...)
}

// Forward is the norm of x += y and the block: [n][hidden], to be added to x.
func (f *FeedForward) Forward(b *op.Builder, c *Config, label string, x op.Rows, y *op.Rows, norm op.Const) op.Rows {
	if c.Experts.Count == 0 {
		return f.dense(b, f.gateUp, f.down, "ffn", b.Norm(label, x, y, norm, c.Eps))
	}
	h := op.Rows(b.Float().Norm(label, x, y, norm, c.Eps))      // [n, hidden]
	logits := b.MulMatF32("ffn_router", f.router, h)            // [n, experts (+ 1)]
	a := b.Quantize("ffn_act", h)                               // [n, hidden]
	up := b.ExpertRows("ffn_gate_up", c.Experts, 2*c.ExpertFFN) // [n, used, 2 * ffn]
	down := b.ExpertRows("ffn_down", c.Experts, c.Hidden)       // [n, used, hidden]
	b.Route(logits, c.Experts, up, down)                        // which experts, behind up and down
	b.MulMatExperts("ffn_gate_up", up, c.Experts, f.gateUp, a)  //
	s := b.SiluMul("ffn_silu_mul", up.Rows)                     // [n, used, ffn]
	b.MulMatExperts("ffn_down", down, c.Experts, f.down, s)     //
	if c.SharedFFN == 0 {
		return b.SumExperts(down, nil) // [n, hidden]
	}
	shared := f.dense(b, f.sharedGateUp, f.sharedDown, "ffn_shared", a) // [n, hidden]
	return b.SumExperts(down, &shared)                                  // [n, hidden]
}

func (f *FeedForward) dense(b *op.Builder, gateUp, down *op.Matrix, label string, h op.Acts) op.Rows {
	up := b.MulMat(label+"_gate_up", gateUp, h)                            // [n, 2 * ffn]
	return b.MulMat(label+"_down", down, b.SiluMul(label+"_silu_mul", up)) // [n, hidden]
}
