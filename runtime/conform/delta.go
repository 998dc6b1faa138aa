package conform

import (
	"fmt"
	"math/rand/v2"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// Edges of gated delta nets.
var (
	deltaKeys   = []int{1, 2, 4, 3}
	deltaRep    = []int{1, 2, 3}
	deltaDims   = []int{128, 64, 128, 256, 128}
	deltaTaps   = []int{4, 2, 4, 4, 3, 5, 4}
	deltaTokens = []int{1, 2, 9, 3, 17, 5, 4, 1, 33, 8, 65}
)

// deltaBatch is sequences of a batch over slots of state.
type deltaBatch struct {
	op.Delta
	n, seqs, slots int
	counts         []int
	read, write    []uint32
}

func deltaBatchOf(c *Case, r *rand.Rand) deltaBatch {
	g := deltaBatch{n: c.from(deltaTokens)}
	g.Delta = op.Delta{Keys: c.from(deltaKeys), Dim: c.from(deltaDims), Taps: c.from(deltaTaps)}
	g.Values = g.Keys * c.from(deltaRep)
	g.seqs = 1 + r.IntN(min(g.n, 4))
	if r.IntN(4) == 0 {
		g.seqs = g.n // all single tokens
	}
	g.slots = 2*g.seqs + r.IntN(3)
	slots := r.Perm(g.slots)
	for s := range g.seqs {
		g.counts = append(g.counts, g.n*(s+1)/g.seqs-g.n*s/g.seqs)
		read := uint32(op.Fresh)
		if r.IntN(3) > 0 {
			read = uint32(slots[2*s])
		}
		g.read, g.write = append(g.read, read), append(g.write, uint32(slots[2*s+1]))
	}
	return g
}

func (g *deltaBatch) String() string {
	return fmt.Sprintf("heads %d/%d of %d, %d taps, n %d, %d sequences", g.Values, g.Keys, g.Dim, g.Taps, g.n, g.seqs)
}

// deltaBatch lays the records out and makes the state.
func (m *maker) deltaBatch(g *deltaBatch, v values) op.State {
	m.Layout = op.NewSequenceLayout(g.n, 1, g.seqs)
	words := make([]uint32, m.Layout.Pages)
	first := 0
	for s, count := range g.counts {
		copy(words[m.Layout.Sequences+s*op.SequenceWords:], []uint32{uint32(first), uint32(count), g.read[s], g.write[s]})
		for range count {
			words[m.Layout.Members+first] = uint32(s)
			first++
		}
	}
	m.Batch = m.input("batch", graph.U32, words)
	conv, rule := op.StateBytes(g.Delta, g.slots)
	a := m.input("conv", graph.F32, wordsOf(v.floats(m.r, int(conv/4))))
	b := m.input("state", graph.F32, wordsOf(v.floats(m.r, int(rule/4))))
	return op.NewState("state", a.Buffer, b.Buffer, g.Delta, g.slots)
}

// deltaRows is rows of a product, and what an earlier run left behind them.
func (m *maker) deltaRows(g *deltaBatch, v values, gates values) op.Rows {
	x := v.floats(m.r, g.n*(g.Row()+g.Channels()))
	for t := range g.n {
		copy(x[(t+1)*g.Row()-2*g.Values:], gates.floats(m.r, 2*g.Values))
	}
	return op.Rows{Value: m.input("delta", graph.F32, wordsOf(x), g.Row(), g.n), N: g.n, K: g.Row()}
}

func deltaInputs(c *Case, r *rand.Rand) {
	g := deltaBatchOf(c, r)
	v := pick(r, normal, outliers, wide, tiny, huge, zeros, special)
	c.shape(2*g.Keys+g.Values+1, g.n, uint64(20*g.n*g.Channels()), "%v, %s", &g, v.name)
	c.record = func(m *maker) {
		state := m.deltaBatch(&g, v)
		m.constant(normal.floats(r, r.IntN(9)))
		weights := m.constant(normal.floats(r, g.Channels()*g.Taps))
		a, dt := m.constant(normal.floats(r, g.Values)), m.constant(normal.floats(r, g.Values))
		m.setConsts()
		m.DeltaInputs(m.deltaRows(&g, v, v), g.Delta, state, weights, a, dt, 1e-6)
	}
}

func deltaRule(c *Case, r *rand.Rand) {
	g := deltaBatchOf(c, r)
	v := pick(r, values{"small", func(r *rand.Rand) float32 { return float32(r.NormFloat64() / 8) }}, normal, wide, zeros, special)
	c.shape(g.Inner(), g.seqs, uint64(6*g.n*g.Inner()*g.Dim), "%v, %s", &g, v.name)
	c.record = func(m *maker) {
		state := m.deltaBatch(&g, v)
		m.DeltaRule(m.deltaRows(&g, v, values{"", func(r *rand.Rand) float32 { return r.Float32() }}), g.Delta, state)
	}
}

func deltaNorm(act op.Act) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		g := deltaBatchOf(c, r)
		v := pick(r, normal, outliers, wide, tiny, huge, zeros, halves, special)
		c.shape(g.Values, g.n, uint64(40*g.n*g.Inner()), "%v, %s", &g, v.name)
		c.record = func(m *maker) {
			m.constant(normal.floats(r, r.IntN(9)))
			weight := m.constant(normal.floats(r, g.Dim))
			m.setConsts()
			m.DeltaNorm(m.deltaRows(&g, v, v), g.Delta, weight, 1e-6)
		}
	}
}

func sigmoidMul(act op.Act) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		n, k := c.from(rowTokens), c.from(actK)
		v := pick(r, normal, outliers, wide, tiny, huge, zeros, halves, special)
		before, after := r.IntN(100), r.IntN(100)
		c.shape(k/[...]int{op.I8: 4, op.F16: 2, op.F32: 1}[act], n, uint64(32*n*k), "n %d, k %d, %s", n, k, v.name)
		c.record = func(m *maker) {
			m.SigmoidMul("act", m.rows("x", n, k, v), m.rows("gates", n, before+k+after, v), before)
		}
	}
}
