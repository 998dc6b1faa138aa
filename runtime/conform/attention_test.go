package conform

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// BL-38: attention against the textbook's in float64, at lengths around the tiles
// of implementations, with every sharing of heads: the normalised mean square error
// is about 1e-9, where other programs allow 5e-4.
func TestAttentionNearTruth(t *testing.T) {
	dims, shares, queries := []int{128, 256}, []int{1, 4, 6, 8}, []int{1, 3, 32, 75}
	onBoth(t, func(t *testing.T, x graph.Executor) {
		for i, length := range []int{1, 17, 31, 33, 63, 65, 113, 127, 129, 255, 257, 1025} {
			n := min(queries[(i+1)%4], length)
			h := op.Heads{KV: 1 + i%2, Dim: dims[i/2%2]}
			h.Q = h.KV * shares[i/3%4]
			g := batchOf(rand.New(rand.NewPCG(uint64(i), 38)), h, n, length-n)
			var want []float64
			got := evaluate(t, x, op.F32, func(m *maker) {
				m.batch(&g)
				q, cache := m.queries(&g, normal, 0.3), m.cache(&g, "plain", 0)
				if m.err == nil {
					want = plainAttention(&g, m.Layout, q.K, contents(t, x, m.Batch), contents(t, x, q.Value), contents(t, x, cache.Value), cache.VBase)
				}
				m.wholeAttention(&g, q, cache)
			})
			if len(got) != len(want) {
				t.Fatalf("%v: %d results, want %d", &g, len(got), len(want))
			}
			var off, sum float64
			for j, w := range want {
				d := float64(math.Float32frombits(got[j])) - w
				off, sum = off+d*d, sum+w*w
			}
			if !(off <= 1e-8*sum) {
				t.Errorf("%v: normalised mean square error %g", &g, off/sum)
			}
			t.Logf("%v: %.2g", &g, off/sum)
		}
	})
}

// contents are the words of an input.
func contents(t *testing.T, x graph.Executor, v *graph.Value) []uint32 {
	t.Helper()
	words := make([]uint32, v.Bytes/4)
	if err := x.Read(v.Buffer, v.Offset, asBytes(words)); err != nil {
		t.Fatal(err)
	}
	return words
}

// plainAttention is softmax over powers of 2 and the weighted mean, in float64.
func plainAttention(g *geometry, l op.Layout, row int, batch, q, cache []uint32, vBase int) []float64 {
	half := func(word, d int) float64 { return float64(ref.F32(uint16(cache[word] >> (d % 2 * 16)))) }
	out := make([]float64, 0, g.n*g.Q*g.Dim)
	for t := range g.n {
		table, pos := batch[int(batch[l.Tables+t]):], g.pos[t]
		for head := range g.Q {
			kv := head / g.Share()
			score, top := make([]float64, pos+1), math.Inf(-1)
			for p := range score {
				for d := range g.Dim {
					// keys of a page: [kv head][dim/8][position][8 halves]
					at := ((int(table[p/64])*g.KV+kv)*(g.Dim/8)+d/8)*64*4 + p%64*4 + d%8/2
					score[p] += float64(math.Float32frombits(q[t*row+head*g.Dim+d])) * half(at, d)
				}
				top = max(top, score[p])
			}
			sum, mean := 0.0, make([]float64, g.Dim)
			for p, s := range score {
				w := math.Exp2(s - top)
				sum += w
				for d := range mean {
					// values of a page: [kv head][position][dim]
					mean[d] += w * half(vBase+((int(table[p/64])*g.KV+kv)*64+p%64)*(g.Dim/2)+d/2, d)
				}
			}
			for _, v := range mean {
				out = append(out, v/sum)
			}
		}
	}
	return out
}
