package family

import "github.com/ternvk/tern/runtime/op"

// FeedForward is the second half of a block: SwiGLU, dense or a mixture of experts.
type FeedForward struct {
	dense, shared swiGLU
	experts       swiGLU     // of all experts, one after the other
	router        *op.Matrix // rows of experts, and of the gate of the shared expert
}

type swiGLU struct {
	gateUp, down Linear
}

// Tensors lists the tensors of the block with prefix p.
func (f *FeedForward) Tensors(t *Tensors, p string, c *Config) {
	if c.Experts.Count == 0 {
		f.dense.tensors(t, p, "", c.Hidden, c.FFN)
		return
	}
	n, width := c.Experts.Count, c.ExpertFFN
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
	t.Linear(&f.experts.gateUp, p+"ffn_gate_up_exps", c.Hidden, up...)
	t.Linear(&f.experts.down, p+"ffn_down_exps", width, Part{Name: p + "ffn_down_exps", Rows: n * c.Hidden, Shape: []int{c.Hidden, n}})
	router := []Part{Rows(p+"ffn_gate_inp", n)}
	if c.SharedFFN > 0 {
		router = append(router, Part{Name: p + "ffn_gate_inp_shexp", Rows: 1}) // a vector
		f.shared.tensors(t, p, "_shexp", c.Hidden, c.SharedFFN)
	}
	t.Plain(&f.router, p+"ffn_gate_inp", c.Hidden, router...)
}

func (s *swiGLU) tensors(t *Tensors, p, kind string, hidden, width int) {
	t.Linear(&s.gateUp, p+"ffn_gate_up"+kind, hidden, Rows(p+"ffn_gate"+kind, width), Rows(p+"ffn_up"+kind, width))
	t.Linear(&s.down, p+"ffn_down"+kind, width, Rows(p+"ffn_down"+kind, hidden))
}

// Forward is the norm of x += y and the block: [n][hidden], to be added to x.
func (f *FeedForward) Forward(b *op.Builder, c *Config, label string, x op.Rows, y *op.Rows, norm op.Const) op.Rows {
	normed := func(b *op.Builder) op.Acts { return b.Norm(label, x, y, norm, c.Eps) }
	if c.Experts.Count == 0 {
		return f.dense.forward(b, "ffn", normed)
	}
	h := op.Rows(normed(b.Float())) // [n, hidden]
	acts := func(b *op.Builder) op.Acts { return b.Quantize("ffn_act", h) }
	logits := b.MulMatF32("ffn_router", f.router, h)            // [n, experts (+ 1)]
	up := b.ExpertRows("ffn_gate_up", c.Experts, 2*c.ExpertFFN) // [n, used, 2 * ffn]
	down := b.ExpertRows("ffn_down", c.Experts, c.Hidden)       // [n, used, hidden]
	b.Route(logits, c.Experts, up, down)                        // which experts, behind up and down
	b.MulMatExperts("ffn_gate_up", up, c.Experts, f.experts.gateUp.Matrix, f.experts.gateUp.In(b, acts))
	s := f.experts.down.SiluMul(b, "ffn_silu_mul", up.Rows) // [n, used, ffn]
	b.MulMatExperts("ffn_down", down, c.Experts, f.experts.down.Matrix, s)
	if c.SharedFFN == 0 {
		return b.SumExperts(down, nil) // [n, hidden]
	}
	shared := f.shared.forward(b, "ffn_shared", acts) // [n, hidden]
	return b.SumExperts(down, &shared)                // [n, hidden]
}

func (s *swiGLU) forward(b *op.Builder, label string, h func(b *op.Builder) op.Acts) op.Rows {
	up := b.MulMat(label+"_gate_up", s.gateUp.Matrix, s.gateUp.In(b, h)) // [n, 2 * ffn]
	a := s.down.SiluMul(b, label+"_silu_mul", up)                        // [n, ffn]
	return b.MulMat(label+"_down", s.down.Matrix, a)                     // [n, hidden]
}
