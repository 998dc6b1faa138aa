package conform

import (
	"math/rand/v2"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// Edges of sampling.
var (
	topKs     = []int{1, 40, 128, 2, 127, 20, 64}
	topKParts = []int{op.TopKPart, 64, 127, 1, 1024, 129, 128, 700}
	drawRows  = []int{1, 3, 2, 17, 5}
)

// someLogits: what models give, and what they should not.
func someLogits(r *rand.Rand) values {
	logits := values{"logits", func(r *rand.Rand) float32 { return float32(4 * r.NormFloat64()) }}
	return pick(r, logits, wide, tiny, huge, zeros, ties, special, equal, hopeless)
}

// draw is a record of random settings, edges among them.
func draw(r *rand.Rand) op.Draw {
	of := func(list ...float32) float32 { return list[r.IntN(len(list))] }
	p := ref.SampleParams{
		Temperature: of(0, 0.6, 1, 1, r.Float32()*3, 1e-6, 100, 1e-44),
		TopK:        1 + r.IntN(op.MaxTopK),
		TopP:        of(0, 1, 0.95, r.Float32(), 0x1p-24, 1e-44, 1-0x1p-24),
		MinP:        of(0, 0, 0.05, r.Float32(), 1, 1e-44),
		Seed:        r.Uint64(), Position: r.Uint64() >> r.IntN(64),
	}
	repeat := of(1, 1.1, 0.5, 0x1p-60, 100)
	return op.Draw{
		Repeat: repeat, Inverse: ref.InverseRepeat(repeat), Presence: of(0, 0.5, -1, 1e-44), Frequency: of(0, 0.25, -2, 1e-44),
		Factor: p.Factor(), TopK: p.Largest(), TopP: p.TopP, MinP: p.MinP, Seed: p.Seed, Position: p.Position,
	}
}

// draws is a batch of n outputs with records, and pairs of tokens below vocab.
func (m *maker) draws(n, vocab int) {
	m.Layout = op.NewLayout(n, n).WithDraws()
	words := make([]uint32, m.Layout.Pages+3)
	for t := range n {
		d := draw(m.r)
		var recent []int32
		for range m.r.IntN(300) {
			recent = append(recent, int32(m.r.IntN(vocab)))
		}
		pairs := ref.Counts(recent, vocab)
		d.Pairs, d.Count = len(words), len(pairs)/2
		words = append(words, pairs...)
		copy(words[m.Layout.Draws+t*op.DrawWords:], d.Words())
	}
	m.Batch = m.input("batch", graph.U32, words)
}

func penalise(c *Case, r *rand.Rand) {
	n, k := c.from(drawRows), c.from(anyK)
	v := someLogits(r)
	c.shape(n, 1, uint64(300*n), "n %d, k %d, %s", n, k, v.name)
	c.record = func(m *maker) {
		m.draws(n, k)
		m.Penalise(m.rows("logits", n, k, v))
	}
}

func topK(c *Case, r *rand.Rand) {
	n, width, k, part := c.from(drawRows), c.from(anyK), c.from(topKs), c.from(topKParts)
	if r.IntN(8) == 0 {
		k = min(width, op.MaxTopK) // all, or as many as there can be
	}
	part = max(part, width/16) // parts enough
	v, parts := someLogits(r), (width+part-1)/part
	c.shape(parts, n, uint64(n*(64*width+parts<<14)), "%d of %d in parts of %d, n %d, %s", k, width, part, n, v.name)
	c.record = func(m *maker) { m.TopK(m.rows("logits", n, width, v), k, part) }
}

func sample(c *Case, r *rand.Rand) {
	n, width, k := c.from(drawRows), c.from([]int{1000, 1, 2048, 128, 7}), c.from(topKs)
	v := someLogits(r)
	c.shape(n, 1, uint64(64*n*k), "%d of %d, n %d, %s", k, width, n, v.name)
	c.record = func(m *maker) {
		m.draws(n, width)
		m.Sample(m.TopK(m.rows("logits", n, width, v), k, op.TopKPart))
	}
}
