package conform

import (
	"math/rand/v2"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// Edges of row operations: K of activations are multiples of 64, around
// workgroups of 64 to 1024 words of each contract.
var (
	rowTokens = []int{1, 3, 2, 64, 5, 17, 33}
	actK      = []int{64, 448, 128, 2560, 192, 256, 1088, 320, 512, 4096, 4160}
	anyK      = []int{1, 64, 63, 128, 65, 127, 129, 1024, 151, 2, 70001, 255, 257}
)

func quantize(act op.Act) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		n, k := c.from(rowTokens), c.from(actK)
		v := pick(r, normal, outliers, wide, tiny, huge, zeros, ties, halves, special)
		c.shape(k/[...]int{op.I8: 4, op.F16: 2}[act], n, uint64(4*n*k), "n %d, k %d, %s", n, k, v.name)
		c.record = func(m *maker) { m.Quantize("act", m.rows("x", n, k, v)) }
	}
}

func rmsNorm(act op.Act) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		n, k := c.from(rowTokens), c.from(actK)
		v := pick(r, normal, outliers, wide, tiny, huge, zeros, halves, special)
		adds := r.IntN(2) == 0
		c.shape(n, 1, uint64(4*n*k), "n %d, k %d, adds %v, %s", n, k, adds, v.name)
		c.record = func(m *maker) {
			m.constant(normal.floats(r, r.IntN(100)))
			weight := m.constant(normal.floats(r, k))
			m.setConsts()
			x := m.rows("x", n, k, v)
			var y *op.Rows
			if adds {
				rows := m.rows("y", n, k, v)
				y = &rows
			}
			m.Norm("norm", x, y, weight, []float32{1e-6, 1e-5}[r.IntN(2)])
		}
	}
}

func siluMul(act op.Act) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		n, k := c.from(rowTokens), c.from(actK)
		v := pick(r, normal, outliers, wide, tiny, huge, zeros, halves, special)
		c.shape(k/[...]int{op.I8: 4, op.F16: 2, op.F32: 1}[act], n, uint64(32*n*k), "n %d, k %d, %s", n, k, v.name)
		c.record = func(m *maker) { m.SiluMul("act", m.rows("x", n, 2*k, v)) }
	}
}

func addCheck(c *Case, r *rand.Rand) {
	n, k := c.from(rowTokens), c.from(anyK)
	v := pick(r, normal, wide, tiny, huge, zeros, special)
	c.shape(n*k, 1, uint64(n*k), "n %d, k %d, %s", n, k, v.name)
	c.record = func(m *maker) {
		m.Batch = m.input("batch", graph.U32, make([]uint32, 16))
		m.AddCheck("add", m.rows("x", n, k, v), m.rows("y", n, k, v))
	}
}

func pickRowsF32(c *Case, r *rand.Rand) {
	out, k := c.from(rowTokens), c.from(anyK)
	n := 1 + r.IntN(40)
	v := pick(r, normal, special)
	c.shape(k, out, uint64(out*k), "%d of %d rows, k %d, %s", out, n, k, v.name)
	c.record = func(m *maker) {
		m.Layout = op.NewLayout(n, out)
		words := make([]uint32, op.BatchWords(n, out, 0))
		for i := range out {
			words[m.Layout.Outputs+i] = uint32(r.IntN(n))
		}
		m.Batch = m.input("batch", graph.U32, words)
		m.Outputs("outputs", m.rows("x", n, k, v))
	}
}

func argmax(c *Case, r *rand.Rand) {
	n, k := c.from(rowTokens), c.from(anyK)
	v := pick(r, normal, wide, zeros, special, equal, hopeless)
	c.shape(n, 1, uint64(n*k), "n %d, k %d, %s", n, k, v.name)
	c.record = func(m *maker) {
		m.Layout = op.NewLayout(1, n)
		m.Batch = m.input("batch", graph.U32, make([]uint32, op.BatchWords(1, n, 3)))
		m.Argmax(m.rows("x", n, k, v))
	}
}
