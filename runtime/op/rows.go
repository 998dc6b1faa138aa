package op

import "github.com/ternvk/tern/runtime/graph"

// Norm is RMS norm of x into activations. With y, x += y first.
func (b *Builder) Norm(label string, x Rows, y *Rows, weight Const, eps float32) Acts {
	must(weight.Len == x.K, "%s: weight of %d for rows of %d", label, weight.Len, x.K)
	a := b.acts(label, x.N, x.K)
	adds, first, second := 0, graph.In(x.Value), x.Value
	if y != nil {
		must(y.N == x.N && y.K == x.K, "%s: [%d][%d] += [%d][%d]", label, x.N, x.K, y.N, y.K)
		adds, first, second = 1, graph.InOut(x.Value), y.Value
	}
	push := u32(x.N, x.K, weight.Offset, adds)
	push = append(push, f32(1/float32(x.K)), f32(eps))
	b.add(label, "rms_norm_"+b.Act.suffix(), x.N, 1, nil, push, uint64(4*x.N*x.K), 2*x.Bytes+a.Bytes,
		first, graph.In(second), graph.In(b.Consts), graph.Out(a.Value))
	return a
}

// SiluMul is silu(gate) * up of rows that hold gate then up.
func (b *Builder) SiluMul(label string, x Rows) Acts {
	k := x.K / 2
	a := b.acts(label, x.N, k)
	b.add(label, "silu_mul_"+b.Act.suffix(), k/b.Act.perWord(), x.N, nil, u32(x.N, k), uint64(32*x.N*k), x.Bytes+a.Bytes,
		graph.In(x.Value), graph.Out(a.Value))
	return a
}

// Quantize makes activations of float32 rows.
func (b *Builder) Quantize(label string, x Rows) Acts {
	if b.Act == F32 {
		return Acts(x)
	}
	a := b.acts(label, x.N, x.K)
	b.add(label, "quantize_"+b.Act.suffix(), x.K/b.Act.perWord(), x.N, nil, u32(x.N, x.K), uint64(4*x.N*x.K), x.Bytes+a.Bytes,
		graph.In(x.Value), graph.Out(a.Value))
	return a
}

// AddCheck is x += y; the batch's status tells if a sum is not finite.
func (b *Builder) AddCheck(label string, x, y Rows) {
	must(y.N == x.N && y.K == x.K, "%s: [%d][%d] += [%d][%d]", label, x.N, x.K, y.N, y.K)
	b.add(label, "add_check_f32", x.N*x.K, 1, nil, u32(x.N*x.K), uint64(x.N*x.K), 3*x.Bytes,
		graph.InOut(x.Value), graph.In(y.Value), graph.InOut(b.Batch))
}

// Outputs picks the rows whose logits are wanted: [Out][K].
func (b *Builder) Outputs(label string, x Rows) Rows {
	y := b.rows(label, b.Layout.Out, x.K)
	b.add(label, "pick_rows_f32", x.K, y.N, nil, u32(x.K, b.Layout.Outputs), uint64(y.N*x.K), 2*y.Bytes,
		graph.In(x.Value), graph.In(b.Batch), graph.Out(y.Value))
	return y
}

// OfOutputs is the builder of what is of the rows whose logits are wanted alone.
func (b *Builder) OfOutputs() *Builder {
	of := *b
	of.Layout.N, of.Layout.Positions, of.Layout.Tables = b.Layout.Out, b.Layout.OutPositions, b.Layout.OutTables
	return &of
}

// Argmax writes the index of the largest value of each row to the batch's results.
func (b *Builder) Argmax(x Rows) {
	b.add("argmax", "argmax_f32", x.N, 1, nil, u32(x.K, b.Layout.Results), uint64(x.N*x.K), x.Bytes,
		graph.In(x.Value), graph.InOut(b.Batch))
}
