package op

import "github.com/ternvk/tern/runtime/graph"

// blocks is the number of blocks of 64 in a row.
func (m *Matrix) blocks() int { return (m.K + 63) / 64 }

// width is the push constant that tells the length of a row: in blocks, or, for
// float weights, in elements.
func (s *segment) width(m *Matrix) int {
	if s.kind == float {
		return m.K
	}
	return m.blocks()
}

// shared is the specialisation constant, if any, that tells how many blocks share a
// scale.
func (s *segment) shared() []uint32 {
	if s.kind == joined {
		return u32(s.sharing())
	}
	return nil
}

// Embed looks up the rows of the batch's tokens: [n][K] float32.
func (b *Builder) Embed(table *Matrix) Rows {
	n := b.Layout.N
	y := b.rows("embd", n, table.K)
	for i, s := range table.segments {
		out := graph.Out(y.Value)
		if i > 0 { // segments fill the rows that the others leave
			out = graph.InOut(y.Value)
		}
		b.add("token_embd", "get_rows_"+s.Kernel, table.blocks(), n, s.shared(), u32(s.rows, s.width(table), s.row0, b.Layout.Tokens),
			uint64(n*table.K), uint64(n*(s.rowBytes(table.K)+table.K*4)),
			s.args(graph.In(b.Batch), out)...)
	}
	return y
}

// MulMat is the product of activations [n][K] with a matrix: [n][Rows].
func (b *Builder) MulMat(label string, w *Matrix, a Acts) Rows { return b.mulMat(label, w, b.Act, a) }

// MulMatF32 is the product with float32 rows as they are, whatever the builder's
// activations: for small matrices whose results decide more than their speed.
// K need not be a multiple of 64 if the weights are floats.
func (b *Builder) MulMatF32(label string, w *Matrix, x Rows) Rows {
	return b.mulMat(label, w, F32, Acts(x))
}

func (b *Builder) mulMat(label string, w *Matrix, act Act, a Acts) Rows {
	y := b.rows(label, a.N, w.Rows)
	b.mulMatInto(label, y, 0, w, act, a)
	return y
}

// MulMatInto writes the product to the elements first.. of the rows y; the others
// stay as they are.
func (b *Builder) MulMatInto(label string, y Rows, first int, w *Matrix, a Acts) {
	b.mulMatInto(label, y, first, w, b.Act, a)
}

func (b *Builder) mulMatInto(label string, y Rows, first int, w *Matrix, act Act, a Acts) {
	must(a.K == w.K && a.N == y.N && first+w.Rows <= y.K, "%s: [%d][%d] activations by [%d][%d] weights into %d.. of [%d][%d]", w.Name, a.N, a.K, w.Rows, w.K, first, y.N, y.K)
	for i, s := range w.segments {
		out := graph.Out(y.Value)
		if i > 0 || w.Rows < y.K {
			out = graph.InOut(y.Value)
		}
		spec := append(u32(productLanes(w.blocks()), w.blocks()), s.shared()...)
		b.add(label, "mul_mat_"+s.Kernel+"_"+act.suffix(), s.rows, a.N, spec, u32(s.rows, a.N, s.width(w), first+s.row0, y.K),
			uint64(a.N)*uint64(s.rows)*uint64(w.K), s.bytes()+a.Bytes+uint64(a.N*s.rows*4),
			s.args(graph.In(a.Value), out)...)
	}
}

// productLanes is the size of the workgroups that take 16 rows with an invocation
// for each slice, up to 32 of them: specialisation constant 1 of products.
func productLanes(blocks int) int { return 16 * min((blocks+7)/8, 32) }

// Dequant is a whole matrix as float32 [rows][K], segment by segment.
func (b *Builder) Dequant(w *Matrix) []Rows {
	var out []Rows
	for _, s := range w.segments {
		y := b.rows(w.Name, s.rows, w.K)
		b.add("dequant", "dequant_"+s.Kernel, padded(s.rows)*w.blocks(), 1, s.shared(), u32(s.rows, s.width(w)), uint64(s.rows*w.K), s.bytes()+y.Bytes,
			s.args(graph.Out(y.Value))...)
		out = append(out, y)
	}
	return out
}
