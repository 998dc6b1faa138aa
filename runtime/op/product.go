package op

import "github.com/ternvk/tern/runtime/graph"

// Embed looks up the rows of the batch's tokens: [n][K] float32.
func (b *Builder) Embed(table *Matrix) Rows {
	n, nb := b.Layout.N, table.K/64
	y := b.rows("embd", n, table.K)
	for i, s := range table.segments {
		out := graph.Out(y.Value)
		if i > 0 { // segments fill the rows that the others leave
			out = graph.InOut(y.Value)
		}
		b.add("token_embd", "get_rows_q2_0", nb, n, nil, u32(s.rows, nb, s.row0, b.Layout.Tokens),
			uint64(n*table.K), uint64(n*nb*18+n*table.K*4),
			graph.In(s.codes), graph.In(s.scales), graph.In(b.Batch), out)
	}
	return y
}

// MulMat is the product of activations [n][K] with a matrix: [n][Rows].
func (b *Builder) MulMat(label string, w *Matrix, a Acts) Rows {
	must(a.K == w.K, "%s: activations of %d elements, weights of %d", w.Name, a.K, w.K)
	y := b.rows(label, a.N, w.Rows)
	for i, s := range w.segments {
		out := graph.Out(y.Value)
		if i > 0 {
			out = graph.InOut(y.Value)
		}
		b.add(label, "mul_mat_q2_0_"+b.Act.suffix(), s.rows, a.N, nil, u32(s.rows, a.N, w.K/64, s.row0, w.Rows),
			uint64(a.N)*uint64(s.rows)*uint64(w.K), s.codes.Bytes+s.scales.Bytes+a.Bytes+uint64(a.N*s.rows*4),
			graph.In(s.codes), graph.In(s.scales), graph.In(a.Value), out)
	}
	return y
}

// Dequant is a whole matrix as float32 [rows][K].
func (b *Builder) Dequant(w *Matrix) []Rows {
	var out []Rows
	nb := w.K / 64
	for _, s := range w.segments {
		y := b.rows(w.Name, s.rows, w.K)
		b.add("dequant", "dequant_q2_0", padded(s.rows)*nb, 1, nil, u32(s.rows, nb), uint64(s.rows*w.K), s.codes.Bytes+y.Bytes,
			graph.In(s.codes), graph.In(s.scales), graph.Out(y.Value))
		out = append(out, y)
	}
	return out
}
