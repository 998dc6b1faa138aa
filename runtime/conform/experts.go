package conform

import (
	"math/rand/v2"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// Edges of mixtures of experts.
var (
	expertCounts = []int{8, 1, 64, 65, 2, 256, 127, 1024, 3}
	expertUsed   = []int{1, 2, 8, 3, 10}
	expertTokens = []int{1, 3, 2, 17, 5, 64, 9}
	expertRows   = []int{32, 64, 160, 96}
	expertK      = []int{64, 128, 576, 192, 1088}
)

func expertsOf(c *Case) op.Experts {
	e := op.Experts{Count: c.from(expertCounts)}
	e.Used = min(c.from(expertUsed), e.Count)
	return e
}

func expertsRoute(c *Case, r *rand.Rand) {
	e, n, shared := expertsOf(c), c.from(expertTokens), r.IntN(2)
	v := pick(r, normal, outliers, wide, tiny, zeros, equal)
	c.shape(n, 1, uint64(n*e.Count*e.Count), "n %d, %d of %d experts, %d shared, %s", n, e.Used, e.Count, shared, v.name)
	c.record = func(m *maker) {
		m.Layout = op.NewLayout(n, 1)
		m.Route(m.rows("logits", n, e.Count+shared, v), e, m.ExpertRows("first", e, 64), m.ExpertRows("last", e, 32))
	}
}

// expertRowsOf is rows of a product with the experts chosen, and random words where
// its results go.
func (m *maker) expertRowsOf(n, k int, e op.Experts, v values) op.ExpertRows {
	words := wordsOf(v.floats(m.r, int(op.ExpertRowsBytes(n, e, k)/4)))
	for i := range n * e.Used {
		words[n*e.Used*k+i] = uint32(m.r.IntN(e.Count))
	}
	return op.NewExpertRows(m.input("rows", graph.F32, words, k, e.Used, n), n, e, k)
}

func expertsSum(c *Case, r *rand.Rand) {
	e, n, k := expertsOf(c), c.from(expertTokens), c.from(anyK)
	v := pick(r, normal, outliers, wide, tiny, huge, zeros, special)
	shared := r.IntN(2) == 0
	c.shape(k, n, uint64(n*k*e.Used), "n %d, %d experts, width %d, shared %v, %s", n, e.Used, k, shared, v.name)
	c.record = func(m *maker) {
		var s *op.Rows
		if shared {
			rows := m.rows("shared", n, k, v)
			s = &rows
		}
		m.SumExperts(m.expertRowsOf(n, k, e, v), s)
	}
}

// mulMatExperts: activations of each token, or of each of its experts.
func mulMatExperts(act op.Act, formats []*op.Format) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		e := op.Experts{Count: 1 + r.IntN(9)}
		e.Used = min(c.from(expertUsed), e.Count)
		n, rows, k, share := c.from(expertTokens), c.from(expertRows), c.from(expertK), 1
		if r.IntN(2) == 0 {
			share = e.Used
		}
		w, v := c.weights(r, formats, &k, true), pick(r, normal, outliers, wide, tiny, huge, zeros, ties, halves, special)
		c.shape(rows, n*e.Used, uint64(rows)*uint64(k)*uint64(n*e.Used), "%d experts of %d rows, k %d, %d tokens of %d each, %v, %s", e.Count, rows, k, n, e.Used, w, v.name)
		if w.codes != "same" {
			c.Products = int64(rows) * int64(n*e.Used)
		}
		c.record = func(m *maker) {
			matrix := m.matrix(w, e.Count*rows, k)
			if m.err == nil {
				m.MulMatExperts("product", m.expertRowsOf(n, rows, e, normal), e, matrix, m.Quantize("act", m.rows("x", n*e.Used/share, k, v)))
			}
		}
	}
}
