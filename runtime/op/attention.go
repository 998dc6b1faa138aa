package op

import (
	"fmt"

	"github.com/ternvk/tern/runtime/graph"
)

// PageTokens is the number of positions of a cache page, and of an attention chunk.
const PageTokens = 64

// Heads is the geometry of grouped-query attention (GQA).
type Heads struct {
	Q, KV, Dim int
	// Keys and Values are how the cache stores them. Other types than CacheF16 want
	// a Dim that is a multiple of 64.
	Keys, Values CacheType
}

// CacheType is a storage format of cached keys or values.
type CacheType int

const (
	CacheF16  CacheType = iota // halves
	CacheQ8_0                  // 8 bits, a scale for 32 elements
	CacheQ4_0                  // 4 bits, a scale for 32 elements
)

func (t CacheType) String() string { return [...]string{"f16", "q8_0", "q4_0"}[t] }

// ParseCacheType reads f16, q8_0 or q4_0.
func ParseCacheType(s string) (CacheType, error) {
	for _, t := range []CacheType{CacheF16, CacheQ8_0, CacheQ4_0} {
		if t.String() == s {
			return t, nil
		}
	}
	return 0, fmt.Errorf("cache type %q: want f16, q8_0 or q4_0", s)
}

func (t CacheType) bits() int { return [...]int{16, 8, 4}[t] }

// words of the keys or values of one head in a page.
func (t CacheType) words(dim int) int {
	if t == CacheF16 {
		return PageTokens * dim / 2
	}
	return PageTokens*dim*t.bits()/32 + PageTokens*dim/64
}

// Contract adds to a contract's name, and to its specialisation constants, how the
// cache is stored.
func (h Heads) Contract(name string, spec ...int) (string, []uint32) {
	if h.Keys == CacheF16 && h.Values == CacheF16 {
		return name + "_f16", u32(spec...)
	}
	must(h.Dim%64 == 0, "a %v/%v cache of heads of %d", h.Keys, h.Values, h.Dim)
	return name + "_q", u32(append(spec, h.Keys.bits(), h.Values.bits())...)
}

// Share is the number of query heads that read one kv head.
func (h Heads) Share() int { return h.Q / h.KV }

// Cache is the cache of one layer: pages of keys, then pages of values.
type Cache struct {
	*graph.Value
	VBase int // first word of the values
}

// CacheBytes is the size of a layer's cache of the given number of pages.
func CacheBytes(h Heads, pages int) uint64 {
	return uint64(pages) * uint64(h.KV) * uint64(h.Keys.words(h.Dim)+h.Values.words(h.Dim)) * 4
}

// NewCache views a buffer as the cache of a layer.
func NewCache(name string, buf graph.Buffer, h Heads, pages int) Cache {
	v := &graph.Value{Name: name, Kind: graph.Raw, Bytes: CacheBytes(h, pages), Buffer: buf, Shape: []int{h.Dim, h.KV, PageTokens, pages, 2}}
	return Cache{v, pages * h.KV * h.Keys.words(h.Dim)}
}

// QKVRopeCache norms and rotates the query and key heads of the product qkv
// [n][Q+2KV][Dim], leaves the scaled queries in place and writes keys and values
// to the cache. Rows may hold more behind. rope is the table of (cos, sin) pairs,
// [position][rotated/2], for the first elements of each head.
func (b *Builder) QKVRopeCache(qkv Rows, h Heads, c Cache, qNorm, kNorm, rope Const, rotated int, eps float32, qScale float32) {
	slots := h.Q + 2*h.KV
	must(qkv.K >= slots*h.Dim && qNorm.Len == h.Dim && kNorm.Len == h.Dim, "qkv rows of %d for %d heads of %d", qkv.K, slots, h.Dim)
	must(rotated%2 == 0 && rotated <= h.Dim, "rotation of %d elements of heads of %d", rotated, h.Dim)
	must(h.Dim&(h.Dim-1) == 0 && h.Dim <= 256, "head dimension %d: want a power of two up to 256", h.Dim)
	l := b.Layout
	push := u32(h.Q, qkv.K, l.Positions, l.Tables, c.VBase, qNorm.Offset, kNorm.Offset, rope.Offset)
	push = append(push, f32(1/float32(h.Dim)), f32(eps), f32(qScale))
	contract, spec := h.Contract("qkv_rope_cache", h.Dim, h.KV, rotated)
	b.add("qkv_rope_cache", contract, slots, qkv.N, spec, push, uint64(10*qkv.N*qkv.K), 2*qkv.Bytes,
		graph.InOut(qkv.Value), graph.InOut(c.Value), graph.InOut(b.Batch), graph.In(b.Consts))
}

// fewQueries is the largest batch whose attention is split over chunks.
const fewQueries = 8

// Attention of the queries that QKVRopeCache left in qkv, as activations
// [n][Q*Dim]. A few queries are spread over their chunks, many go whole; the
// words are the same.
func (b *Builder) Attention(qkv Rows, h Heads, c Cache) Acts {
	if qkv.N <= fewQueries || b.Spread {
		return b.attentionJoin(b.attentionParts(qkv, h, c), qkv.N, h)
	}
	l := b.Layout
	y := b.rows("attn", qkv.N, h.Q*h.Dim)
	contract, spec := h.Contract("attention", h.Dim, h.KV, h.Share())
	b.add("attn", contract, h.Q, qkv.N, spec, u32(qkv.N, qkv.K, l.Positions, l.Tables, c.VBase),
		uint64(2*qkv.N*h.Q*h.Dim*b.Chunks*PageTokens), uint64(qkv.N)*CacheBytes(h, b.Chunks),
		graph.In(qkv.Value), graph.In(c.Value), graph.In(b.Batch), graph.Out(y.Value))
	return b.Quantize("attn_act", y)
}

func (b *Builder) attentionParts(qkv Rows, h Heads, c Cache) Rows {
	l := b.Layout
	parts := b.rows("attn_parts", qkv.N*h.Q*b.Chunks, h.Dim+2)
	contract, spec := h.Contract("attention_part", h.Dim, h.KV, h.Share())
	b.add("attn_parts", contract, b.Chunks, qkv.N*h.KV, spec, u32(b.Chunks, qkv.K, l.Positions, l.Tables, c.VBase),
		uint64(2*qkv.N*h.Q*h.Dim*b.Chunks*PageTokens), uint64(qkv.N)*CacheBytes(h, b.Chunks),
		graph.In(qkv.Value), graph.In(c.Value), graph.In(b.Batch), graph.Out(parts.Value))
	return parts
}

func (b *Builder) attentionJoin(parts Rows, n int, h Heads) Acts {
	k := h.Q * h.Dim
	a := b.acts("attn_act", n, k)
	b.add("attn_join", "attention_join_"+b.Act.suffix(), k/b.Act.perWord(), n, u32(h.Dim), u32(n, h.Q, b.Chunks, b.Layout.Positions),
		uint64(4*n*k*b.Chunks), parts.Bytes+a.Bytes,
		graph.In(parts.Value), graph.In(b.Batch), graph.Out(a.Value))
	return a
}
