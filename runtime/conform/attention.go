package conform

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// Edges of attention: heads, sharing (GQA), dimension, tokens, and the position
// that the first token has in its sequence.
var (
	headDims  = []int{128, 64, 256}
	kvHeads   = []int{1, 2, 8, 3, 1}
	shares    = []int{1, 2, 4, 6, 8, 3, 5}
	fewTokens = []int{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 8}
	tokens    = []int{1, 9, 2, 17, 3, 8, 33, 5, 4, 64, 65}
	starts    = []int{0, 63, 1, 64, 62, 127, 100, 65, 500, 128, 191, 31, 1000}
)

// heads are KV heads of a dimension from the lists; a contract of caches of few bits
// takes any two types but halves alone.
func (c *Case) heads(r *rand.Rand) op.Heads {
	h := op.Heads{KV: c.from(kvHeads), Dim: c.from(headDims)}
	h.Q = h.KV * c.from(shares)
	for strings.HasSuffix(c.Contract, "_q") && h.Keys == op.CacheF16 && h.Values == op.CacheF16 {
		h.Keys, h.Values = op.CacheType(r.IntN(3)), op.CacheType(r.IntN(3))
	}
	return h
}

// geometry is a batch over a paged cache.
type geometry struct {
	op.Heads
	n, start, sequences int
	maxPos, pages       int
	pos                 []int // by token
	seq                 []int // sequence of each token
}

// batchOf splits n tokens over up to three sequences; the first starts at
// start, the others anywhere up to it.
func batchOf(r *rand.Rand, h op.Heads, n, start int) geometry {
	g := geometry{Heads: h, n: n, start: start, sequences: 1 + r.IntN(min(n, 3))}
	for s := range g.sequences {
		first, count := start, n*(s+1)/g.sequences-n*s/g.sequences
		if s > 0 {
			first = r.IntN(start + 1)
		}
		for i := range count {
			g.pos, g.seq = append(g.pos, first+i), append(g.seq, s)
			g.maxPos = max(g.maxPos, first+i)
		}
		g.pages += (first+count-1)/op.PageTokens + 1
	}
	g.pages += r.IntN(3) // some belong to nobody
	return g
}

func (g *geometry) String() string {
	return fmt.Sprintf("heads %d/%d of %d in %v/%v, n %d, %d sequences up to position %d", g.Q, g.KV, g.Dim, g.Keys, g.Values, g.n, g.sequences, g.maxPos)
}

func (g *geometry) work() (w uint64) {
	for _, pos := range g.pos {
		w += uint64(2 * (pos + 1) * g.Q * g.Dim)
	}
	return w
}

// batch lays positions and page lists out; every sequence has pages of its own,
// in random order.
func (m *maker) batch(g *geometry) {
	m.Layout = op.NewLayout(g.n, 1)
	words := make([]uint32, op.BatchWords(g.n, 1, g.pages))
	words[1] = uint32(m.r.IntN(5)) // saturations so far
	free := m.r.Perm(g.pages)
	at := m.Layout.Pages
	for first := 0; first < g.n; {
		end := first
		for end < g.n && g.seq[end] == g.seq[first] {
			words[m.Layout.Positions+end] = uint32(g.pos[end])
			words[m.Layout.Tables+end] = uint32(at)
			end++
		}
		count := g.pos[end-1]/op.PageTokens + 1
		for _, p := range free[:count] {
			words[at] = uint32(p)
			at++
		}
		free, first = free[count:], end
	}
	m.Batch = m.input("batch", graph.U32, words)
	m.Chunks = g.maxPos/op.PageTokens + 1 + m.r.IntN(2)
}

// cache is all random: what lies beyond a sequence must not matter. Stray halves
// are NaN now and then, as the kernels that fill it leave them.
func (m *maker) cache(g *geometry, kind string, nan int) op.Cache {
	words := make([]uint32, op.CacheBytes(g.Heads, g.pages)/4)
	one := func() uint32 {
		if nan > 0 && m.r.IntN(nan) == 0 {
			return 0x7e00
		}
		return uint32(half(m.r, kind, 1))
	}
	c := op.NewCache("cache", nil, g.Heads, g.pages)
	for i := range words {
		t := g.Keys
		if i >= c.VBase {
			t = g.Values
		}
		a, b := one(), one()
		if t != op.CacheF16 { // elements, or scales of so few bits that values are halves
			a, b = scaleHalf(a, t), scaleHalf(b, t)
		}
		words[i] = a | b<<16
	}
	c.Value = m.input("cache", graph.Raw, words)
	return c
}

// scaleHalf makes a half a scale that a cache type may have.
func scaleHalf(h uint32, t op.CacheType) uint32 {
	switch {
	case h&0x7c00 == 0x7c00: // NaN stays
		return h
	case h&0x7fff >= 0x6000: // 512
		h = 0x3c00 | h&0x83ff
	}
	if t == op.CacheQ8_0 {
		return h &^ 0x7f
	}
	return h &^ 0x7
}

func qkvRopeCache(c *Case, r *rand.Rand) {
	h := c.heads(r)
	g := batchOf(r, h, c.from(tokens), c.from(starts))
	v := pick(r, normal, outliers, wide, tiny, huge, zeros, halves, special)
	slots := h.Q + 2*h.KV
	rotated, more := h.Dim, 0
	if r.IntN(2) == 0 {
		rotated, more = []int{0, 2, h.Dim / 4, h.Dim / 2}[r.IntN(4)], h.Dim*r.IntN(h.Q+1)
	}
	c.shape(slots, g.n, uint64(10*g.n*slots*h.Dim), "%v, %d rotated, %d more, %s", &g, rotated, more, v.name)
	c.record = func(m *maker) {
		m.batch(&g)
		m.constant(normal.floats(r, r.IntN(9)))
		qNorm, kNorm := m.constant(normal.floats(r, h.Dim)), m.constant(normal.floats(r, h.Dim))
		table := make([]float32, (g.maxPos+1)*rotated)
		for i := 0; i < len(table); i += 2 {
			sin, cos := math.Sincos(r.Float64() * 2 * math.Pi)
			table[i], table[i+1] = float32(cos), float32(sin)
		}
		rope := m.constant(table)
		m.setConsts()
		cache := m.cache(&g, "any", 0)
		m.QKVRopeCache(m.rows("qkv", g.n, slots*h.Dim+more, v), h, cache, qNorm, kNorm, rope, rotated, 1e-6, float32(math.Log2E/math.Sqrt(float64(h.Dim))))
	}
}

// queries are qkv rows whose queries have 13 significant bits and are below 2^111, or
// infinite: products with halves that overflow are no matter of the contract.
func (m *maker) queries(g *geometry, v values, scale float32) op.Rows {
	k := (g.Q + 2*g.KV) * g.Dim
	x := v.floats(m.r, g.n*k)
	for i := range x {
		x[i] = ref.Tidy(ref.Round13(x[i] * scale))
		if q := math.Abs(float64(x[i])); q >= 0x1p111 && q <= math.MaxFloat32 {
			x[i] *= 0x1p-20
		}
	}
	return op.Rows{Value: m.input("qkv", graph.F32, wordsOf(x), k, g.n), N: g.n, K: k}
}

// scores says how queries and cache are made up.
type scores struct {
	queries values
	cache   string
	nan     int // one half of the cache in so many is NaN
}

func pickScores(r *rand.Rand) scores {
	s := scores{normal, "plain", 0}
	switch r.IntN(8) {
	case 0:
		s.cache = "any"
	case 1:
		s.cache = "edge"
	case 2:
		s.queries = special
	case 3:
		s.nan = 2000
	case 4:
		s.queries = pick(r, wide, tiny, zeros, outliers)
	}
	return s
}

func (s scores) String() string {
	if s.nan > 0 {
		return fmt.Sprintf("%s queries, %s cache with NaN", s.queries.name, s.cache)
	}
	return fmt.Sprintf("%s queries, %s cache", s.queries.name, s.cache)
}

func attention(c *Case, r *rand.Rand) {
	h := c.heads(r)
	g := batchOf(r, h, c.from(tokens), c.from(starts))
	s := pickScores(r)
	c.shape(h.Q, g.n, g.work(), "%v, %v", &g, s)
	c.record = func(m *maker) {
		m.batch(&g)
		m.wholeAttention(&g, m.queries(&g, s.queries, 0.3), m.cache(&g, s.cache, s.nan))
	}
}

// wholeAttention is attention_f16 for any number of queries; the builder gives a
// few to attention_part.
func (m *maker) wholeAttention(g *geometry, q op.Rows, cache op.Cache) op.Rows {
	l, k := m.Layout, g.Q*g.Dim
	y := op.Rows{Value: m.G.Temp("attn", graph.F32, uint64(g.n*k*4), k, g.n), N: g.n, K: k}
	contract, spec := g.Contract("attention", g.Dim, g.KV, g.Share())
	m.G.Add(&graph.Node{
		Contract: contract, Domain: [2]uint32{uint32(g.Q), uint32(g.n)}, Spec: spec,
		Push: []uint32{uint32(g.n), uint32(q.K), uint32(l.Positions), uint32(l.Tables), uint32(cache.VBase)},
		Args: []graph.Arg{graph.In(q.Value), graph.In(cache.Value), graph.In(m.Batch), graph.Out(y.Value)},
	})
	return y
}

// attentionPart: the cases of attention_part, and of attention_join in the
// contract of its activations.
func attentionPart(act op.Act) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		h := c.heads(r)
		g := batchOf(r, h, c.from(fewTokens), c.from(starts))
		s := pickScores(r)
		c.shape((g.maxPos+64)/64, g.n*h.KV, g.work(), "%v, %v", &g, s)
		if strings.HasPrefix(c.Contract, "attention_join") {
			c.Domain = [2]uint32{uint32(h.Q * h.Dim / [...]int{op.I8: 4, op.F16: 2, op.F32: 1}[act]), uint32(g.n)}
		}
		c.record = func(m *maker) {
			m.batch(&g)
			m.Attention(m.queries(&g, s.queries, 0.3), h, m.cache(&g, s.cache, s.nan))
		}
	}
}
