package op

import "github.com/ternvk/tern/runtime/graph"

// Experts is the geometry of a mixture: Used of Count experts for each token.
type Experts struct {
	Count, Used int
}

// ExpertRows is the rows of a product by experts: those of a token's first expert,
// of its second, and so on; the experts' numbers lie behind them.
type ExpertRows struct {
	Rows
	ids, used int
}

// ExpertRows is room for a product of the batch's tokens by experts with rows of k.
func (b *Builder) ExpertRows(label string, e Experts, k int) ExpertRows {
	n := b.Layout.N
	return NewExpertRows(b.G.Temp(b.prefix+label, graph.F32, ExpertRowsBytes(n, e, k), k, e.Used, n), n, e, k)
}

// ExpertRowsBytes is the size of such rows: results, then the experts' numbers, then
// weights.
func ExpertRowsBytes(n int, e Experts, k int) uint64 {
	return uint64(n*e.Used*(k+1)+n*(e.Used+1)) * 4
}

// NewExpertRows views a value as such rows of n tokens.
func NewExpertRows(v *graph.Value, n int, e Experts, k int) ExpertRows {
	return ExpertRows{Rows{v, n * e.Used, k}, n * e.Used * k, e.Used}
}

// Route chooses the experts of every token by the router's logits, in whose rows
// the logit of the shared expert, if there is one, follows those of the experts.
// They are noted behind the first and the last product by experts.
func (b *Builder) Route(logits Rows, e Experts, first, last ExpertRows) {
	shared := logits.K - e.Count
	must(e.Used >= 1 && e.Used <= e.Count && e.Count <= MaxExperts && (shared == 0 || shared == 1), "%d of %d experts, %d logits", e.Used, e.Count, logits.K)
	b.add("route", "experts_route_f32", logits.N, 1, nil, u32(logits.N, e.Count, e.Used, logits.K, first.ids, last.ids, shared),
		uint64(logits.N*e.Count*e.Count), logits.Bytes,
		graph.In(logits.Value), graph.InOut(first.Value), graph.InOut(last.Value))
}

// MaxExperts is the largest number of experts.
const MaxExperts = 1024

// MulMatExperts is the product of each row of y with the matrix of its expert; w is
// the matrices of all experts, stacked. The activations are a row for each token, or
// a row for each row of y.
func (b *Builder) MulMatExperts(label string, y ExpertRows, e Experts, w *Matrix, a Acts) {
	must(w.Rows == e.Count*y.K && y.K%groupRows == 0 && y.N%a.N == 0 && a.K == w.K, "%s: [%d][%d] activations by %d experts' [%d][%d] weights into [%d][%d]", label, a.N, a.K, e.Count, w.Rows, w.K, y.N, y.K)
	for _, s := range w.segments {
		spec := append(u32(productLanes(w.blocks()), w.blocks()), s.shared()...)
		b.add(label, "mul_mat_id_"+s.Kernel+"_"+b.Act.suffix(), y.K, y.N, spec, u32(y.K, a.N, s.width(w), s.row0, s.rows, y.N/a.N, y.ids),
			uint64(y.N)*uint64(y.K)*uint64(w.K), s.bytes()/uint64(e.Count)*uint64(min(y.N, e.Count))+a.Bytes+uint64(y.N*y.K*4),
			s.args(graph.In(a.Value), graph.InOut(y.Value))...)
	}
}

// SumExperts is the weighted sum of each token's rows, and of the shared expert's if
// there is one: [n][K].
func (b *Builder) SumExperts(x ExpertRows, shared *Rows) Rows {
	n := x.N / x.used
	y := b.rows("experts", n, x.K)
	has, second := 0, x.Value
	if shared != nil {
		must(shared.N == n && shared.K == x.K, "experts: [%d][%d] and shared [%d][%d]", n, x.K, shared.N, shared.K)
		has, second = 1, shared.Value
	}
	b.add("experts_sum", "experts_sum_f32", x.K, n, nil, u32(n, x.used, x.K, x.ids, has), uint64(2*x.N*x.K), x.Bytes+y.Bytes,
		graph.In(x.Value), graph.In(second), graph.Out(y.Value))
	return y
}
