package conform

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// Edges of products: rows around groups and workgroups, K around slices and
// groups of four blocks, tokens around the tiles of all implementations.
var (
	productRows   = []int{33, 1, 64, 151, 31, 129, 32, 65, 63, 96, 127, 128, 95, 255, 97, 257, 70001}
	productK      = []int{64, 576, 128, 1088, 512, 448, 2560, 192, 320, 1024, 4160}
	productTokens = []int{1, 4, 2, 9, 3, 17, 5, 8, 33, 7, 16, 65, 6, 15, 31, 32, 63, 64, 127, 128, 129, 256, 257}
)

// weights says how a matrix is made up.
type weights struct {
	codes, scales string
	segment       uint64 // bytes that a segment's codes may take; 0: no bound
}

func pickWeights(r *rand.Rand, k int) weights {
	w := weights{codes: "any", scales: "plain"}
	if r.IntN(3) == 0 {
		w.codes = [...]string{"ternary", "same"}[r.IntN(2)]
	}
	if r.IntN(3) == 0 {
		w.scales = [...]string{"any", "edge"}[r.IntN(2)]
	}
	if r.IntN(4) == 0 {
		w.segment = uint64(1+r.IntN(3)) * uint64(k/64) * 32 * 16
	}
	return w
}

func (w weights) String() string {
	s := w.codes + " codes, " + w.scales + " scales"
	if w.segment > 0 {
		s += ", segments"
	}
	return s
}

// limited claims a small bound on bindings.
type limited struct {
	graph.Executor
	limits graph.Limits
}

func (x limited) Limits() graph.Limits { return x.limits }

// matrix packs random weights.
func (m *maker) matrix(w weights, rows, k int) *op.Matrix {
	data := make([]byte, rows*k/64*18)
	same := byte(m.r.IntN(4)) * 0x55
	for at := 0; at < len(data); at += 18 {
		binary.LittleEndian.PutUint16(data[at:], half(m.r, w.scales, 1.2/math.Sqrt(float64(k))))
		lo, hi := m.r.Uint64(), m.r.Uint64()
		switch w.codes {
		case "ternary": // code 3 becomes 1
			lo &^= lo >> 1 & 0x5555_5555_5555_5555 << 1
			hi &^= hi >> 1 & 0x5555_5555_5555_5555 << 1
		case "same":
			lo = uint64(same) * 0x0101_0101_0101_0101
			hi = lo
		}
		binary.LittleEndian.PutUint64(data[at+2:], lo)
		binary.LittleEndian.PutUint64(data[at+10:], hi)
	}
	x := limited{m.x, m.x.Limits()}
	if w.segment > 0 {
		x.limits.MaxBinding = w.segment
	}
	matrix, err := op.Upload(x, "weights", op.Source{Name: "weights", Rows: rows, K: k, Data: data})
	if err != nil {
		m.err = err
	}
	return matrix
}

// mulMat: activations are made by the twin of their contract.
func mulMat(act op.Act) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		rows, k, n := c.from(productRows), c.from(productK), c.from(productTokens)
		if c.Index >= len(productRows)*len(productK)*len(productTokens) {
			rows, k, n = 1+r.IntN(4096), 64*(1+r.IntN(80)), 1+r.IntN(200)
		}
		w, v := pickWeights(r, k), pick(r, normal, outliers, wide, tiny, huge, zeros, ties, halves, special)
		c.shape(rows, n, uint64(rows)*uint64(k)*uint64(n), "%d rows, k %d, n %d, %v, %s", rows, k, n, w, v.name)
		if w.codes != "same" {
			c.Products = int64(rows) * int64(n)
		}
		c.record = func(m *maker) {
			matrix := m.matrix(w, rows, k)
			if m.err == nil {
				m.MulMat("product", matrix, m.Quantize("act", m.rows("x", n, k, v)))
			}
		}
	}
}

func dequant(c *Case, r *rand.Rand) {
	rows, k := c.from(productRows), c.from(productK)
	w := pickWeights(r, k)
	c.shape((rows+31)/32*32*k/64, 1, uint64(rows*k), "%d rows, k %d, %v", rows, k, w)
	c.record = func(m *maker) {
		if matrix := m.matrix(w, rows, k); m.err == nil {
			m.Dequant(matrix)
		}
	}
}

func getRowsQ2_0(c *Case, r *rand.Rand) {
	rows, k, n := c.from(productRows), c.from(productK), c.from(productTokens)
	w := pickWeights(r, k)
	c.shape(k/64, n, uint64(rows*k), "%d rows, k %d, n %d, %v", rows, k, n, w)
	c.record = func(m *maker) {
		matrix := m.matrix(w, rows, k)
		m.Layout = op.NewLayout(n, 1)
		words := make([]uint32, op.BatchWords(n, 1, 0))
		for t := range n {
			words[m.Layout.Tokens+t] = uint32(r.IntN(rows))
		}
		words[m.Layout.Tokens+r.IntN(n)] = uint32(rows - 1)
		m.Batch = m.input("batch", graph.U32, words)
		if m.err == nil {
			m.Embed(matrix)
		}
	}
}
