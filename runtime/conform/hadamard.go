package conform

import (
	"math/rand/v2"

	"github.com/ternvk/tern/runtime/op"
)

// Edges of Walsh-Hadamard transforms.
var (
	hadamardBlocks = []int{1024, 64, 128, 2048, 256, 512}
	hadamardCounts = []int{1, 5, 2, 3, 17}
)

func signsOf(r *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(1 - 2*r.IntN(2))
	}
	return s
}

func hadamard(act op.Act) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		n, block := c.from(rowTokens), c.from(hadamardBlocks)
		k := block * c.from(hadamardCounts)
		v := pick(r, normal, outliers, wide, tiny, huge, zeros, halves, special)
		var order op.HeadOrder
		if r.IntN(2) == 0 {
			order.Dim = k >> r.IntN(5)
			for order.Dim*(k/order.Dim) != k {
				order.Dim *= 2
			}
			order.Rep = 1
			for _, rep := range []int{2, 3, 5} {
				if heads := k / order.Dim; heads%rep == 0 && r.IntN(2) == 0 {
					order.Rep = rep
				}
			}
			order.Keys = k / order.Dim / order.Rep
		}
		c.shape(k/block, n, uint64(12*n*k), "n %d, k %d, blocks of %d, heads %+v, %s", n, k, block, order, v.name)
		c.record = func(m *maker) {
			m.constant(normal.floats(r, r.IntN(9)))
			signs := m.constant(signsOf(r, k))
			m.setConsts()
			m.Hadamard("act", m.rows("x", n, k, v), signs, block, order)
		}
	}
}

// fusedHadamard: the cases of products of two elements and the transform.
func fusedHadamard(act op.Act, record func(m *maker, n, k, block int, v values, signs op.Const)) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		n, block := c.from(rowTokens), c.from(hadamardBlocks)
		k := block * c.from(hadamardCounts)
		v := pick(r, normal, outliers, wide, tiny, huge, zeros, halves, special)
		c.shape(k/block, n, uint64(44*n*k), "n %d, k %d, blocks of %d, %s", n, k, block, v.name)
		c.record = func(m *maker) {
			m.constant(normal.floats(r, r.IntN(9)))
			signs := m.constant(signsOf(r, k))
			m.setConsts()
			record(m, n, k, block, v, signs)
		}
	}
}

func siluMulHadamard(act op.Act) space {
	return fusedHadamard(act, func(m *maker, n, k, block int, v values, signs op.Const) {
		m.SiluMulHadamard("act", m.rows("x", n, 2*k, v), signs, block)
	})
}

func sigmoidMulHadamard(act op.Act) space {
	return fusedHadamard(act, func(m *maker, n, k, block int, v values, signs op.Const) {
		before := m.r.IntN(100)
		m.SigmoidMulHadamard("act", m.rows("x", n, k, v), m.rows("gates", n, before+k+m.r.IntN(100), v), before, signs, block)
	})
}

func deltaNormHadamard(act op.Act) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		g := deltaBatchOf(c, r)
		block := g.Dim
		for g.Inner()%(2*block) == 0 && block < op.MostHadamard && r.IntN(3) > 0 {
			block *= 2
		}
		v := pick(r, normal, outliers, wide, tiny, huge, zeros, halves, special)
		grouped := r.IntN(2) == 0
		c.shape(g.Inner()/block, g.n, uint64(52*g.n*g.Inner()), "%v, blocks of %d, grouped %v, %s", &g, block, grouped, v.name)
		c.record = func(m *maker) {
			m.constant(normal.floats(r, r.IntN(9)))
			weight, signs := m.constant(normal.floats(r, g.Dim)), m.constant(signsOf(r, g.Inner()))
			m.setConsts()
			m.DeltaNormHadamard(m.deltaRows(&g, v, v), g.Delta, weight, 1e-6, signs, block, grouped)
		}
	}
}

func hadamardInverse(c *Case, r *rand.Rand) {
	n, block := c.from(rowTokens), c.from(hadamardBlocks)
	k := block * c.from(hadamardCounts)
	v := pick(r, normal, outliers, wide, tiny, huge, zeros, special)
	c.shape(k/block, n, uint64(12*n*k), "n %d, k %d, blocks of %d, %s", n, k, block, v.name)
	c.record = func(m *maker) {
		m.constant(normal.floats(r, r.IntN(9)))
		signs := m.constant(signsOf(r, k))
		m.setConsts()
		m.HadamardInverse("x", m.rows("x", n, k, v), signs, block)
	}
}
