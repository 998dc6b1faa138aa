package family

import (
	"maps"
	"slices"

	"github.com/ternvk/tern/runtime/op"
)

// Linear is a matrix with what the file wants to be done to its input first.
type Linear struct {
	*op.Matrix
	rotation *Rotation // nil for nothing
}

// In is the input of the matrix: what make records, rotated if the file asks for it.
func (l *Linear) In(b *op.Builder, make func(b *op.Builder) op.Acts) op.Acts {
	if l.rotation == nil {
		return make(b)
	}
	return l.rotate(b, op.Rows(make(b.Float())), op.HeadOrder{})
}

// DeltaNorm is the input that is the output of a gated delta net, whose heads some
// files want in another order.
func (l *Linear) DeltaNorm(b *op.Builder, x op.Rows, d op.Delta, weight op.Const, eps float32) op.Acts {
	r := l.rotation
	switch {
	case r == nil:
		return b.DeltaNorm(x, d, weight, eps)
	case r.block%d.Dim == 0:
		return b.DeltaNormHadamard(x, d, weight, eps, r.signs[d.Inner()].at, r.block, r.grouped)
	}
	var order op.HeadOrder
	if r.grouped {
		order = op.HeadOrder{Dim: d.Dim, Keys: d.Keys, Rep: d.Values / d.Keys}
	}
	return l.rotate(b, op.Rows(b.Float().DeltaNorm(x, d, weight, eps)), order)
}

// InBoth is In, and the same input as it is.
func (l *Linear) InBoth(b *op.Builder, make func(b *op.Builder) op.Acts) (rotated, plain op.Acts) {
	if l.rotation == nil {
		a := make(b)
		return a, a
	}
	x := op.Rows(make(b.Float()))
	return l.rotate(b, x, op.HeadOrder{}), b.Quantize("act", x)
}

// SiluMul is the input silu(gate) * up of rows that hold gate then up.
func (l *Linear) SiluMul(b *op.Builder, label string, x op.Rows) op.Acts {
	if l.rotation == nil {
		return b.SiluMul(label, x)
	}
	return b.SiluMulHadamard(label, x, l.rotation.signs[x.K/2].at, l.rotation.block)
}

// SigmoidMul is the input x * sigmoid(gate), the gates being elements first.. of
// wider rows.
func (l *Linear) SigmoidMul(b *op.Builder, label string, x, gates op.Rows, first int) op.Acts {
	if l.rotation == nil {
		return b.SigmoidMul(label, x, gates, first)
	}
	return b.SigmoidMulHadamard(label, x, gates, first, l.rotation.signs[x.K].at, l.rotation.block)
}

func (l *Linear) rotate(b *op.Builder, x op.Rows, order op.HeadOrder) op.Acts {
	return b.Hadamard("rotate", x, l.rotation.signs[x.K].at, l.rotation.block, order)
}

// widths lists the widths that have signs.
func (c *Rotation) widths() []int {
	if c == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.signs))
}

// Vocabulary is the two ends of a model: the embedding, and the head, which may be
// the same matrix.
type Vocabulary struct {
	embd *op.Matrix
	head Linear
	norm op.Const
	rows *Rotation // of the rows of the embedding
}

// Tensors lists the tensors of the ends.
func (v *Vocabulary) Tensors(t *Tensors, c *Config) {
	t.Plain(&v.embd, "token_embd", c.Hidden, Rows("token_embd", c.Vocab))
	if !c.Tied {
		t.Linear(&v.head, "output", c.Hidden, Rows("output", c.Vocab))
	}
	t.Vector(&v.norm, "output_norm.weight", c.Hidden)
	if c.Rotation != nil && c.Rotation.embedding {
		v.rows = c.Rotation
		if _, ok := c.Rotation.folded[embedding]; ok && c.Tied {
			c.Rotation.folded[embedding] = true
		}
		if c.Rotation.signs[c.Hidden] == nil {
			t.keep(noSigns(c.Hidden, "token_embd"))
		}
	}
}

// Embed looks up the batch's tokens: [n][hidden].
func (v *Vocabulary) Embed(b *op.Builder) op.Rows {
	x := b.Embed(v.embd)
	if v.rows != nil {
		b.HadamardInverse("rotate_back", x, v.rows.signs[x.K].at, v.rows.block)
	}
	return x
}

// Logits adds y, checks that x is finite and returns the logits of the tokens that
// the batch asks for: [outputs][vocab], none if it asks for none. Of the rows of a batch
// whose last layer is short, x has those of the outputs alone.
func (v *Vocabulary) Logits(b *op.Builder, c *Config, x, y op.Rows) op.Rows {
	b.Layer(-1)
	b.AddCheck("residual", x, y)
	if b.Layout.Out == 0 {
		return op.Rows{}
	}
	head := v.head
	if c.Tied {
		head = Linear{v.embd, v.rows}
	}
	if !b.Layout.LastIsShort() {
		x = b.Outputs("outputs", x) // [outputs, hidden]
	}
	if b.Headless {
		return op.Rows(b.Float().Norm("output_norm", x, nil, v.norm, c.Eps)) // [outputs, hidden]
	}
	h := head.In(b, func(b *op.Builder) op.Acts { return b.Norm("output_norm", x, nil, v.norm, c.Eps) })
	return b.MulMat("output", head.Matrix, h)
}
