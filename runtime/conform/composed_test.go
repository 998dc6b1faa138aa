package conform

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// onBoth runs a test on the reference and on the machine's device.
func onBoth(t *testing.T, body func(t *testing.T, x graph.Executor)) {
	t.Run("reference", func(t *testing.T) { body(t, ref.New()) })
	t.Run("device", func(t *testing.T) {
		d, err := open(t, runtime.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		body(t, d)
	})
}

// evaluate records a graph from a seed, runs it, and returns the words that its
// last node writes, binding after binding.
func evaluate(t *testing.T, x graph.Executor, act op.Act, record func(m *maker)) (out []uint32) {
	t.Helper()
	m := newMaker(x, rand.New(rand.NewPCG(7, 7)), act)
	record(m)
	if m.err != nil {
		t.Fatal(m.err)
	}
	p, err := x.Compile(m.G)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := x.Run(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	last := m.G.Nodes[len(m.G.Nodes)-1]
	for _, a := range last.Args {
		if a.Access&graph.Write == 0 {
			continue
		}
		words := make([]uint32, a.Bytes/4)
		buf, at := p.Place(a.Value)
		if err := x.Read(buf, at, asBytes(words)); err != nil {
			t.Fatal(err)
		}
		out = append(out, words...)
	}
	return out
}

func equalWords(t *testing.T, what string, got, want []uint32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d words, want %d", what, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: word %d is %#08x, want %#08x", what, i, got[i], want[i])
		}
	}
}

// quantized makes activations of float32 activations in a step of their own.
func (m *maker) quantized(act op.Act, x op.Acts) {
	m.Act = act
	m.Quantize("act", op.Rows(x))
}

// Fused kernels equal the kernels that they are made of. (Not for blocks whose
// values are all about 2^-60, which the separate kernels tidy one by one.)
func TestFusedEqualsComposed(t *testing.T) {
	onBoth(t, func(t *testing.T, x graph.Executor) {
		for _, act := range []op.Act{op.I8, op.F16} {
			norm := func(m *maker) op.Acts {
				weight := m.constant(normal.floats(m.r, 576))
				m.setConsts()
				y := m.rows("y", 5, 576, outliers)
				return m.Norm("norm", m.rows("x", 5, 576, outliers), &y, weight, 1e-6)
			}
			fused := evaluate(t, x, act, func(m *maker) { norm(m) })
			equalWords(t, "rms_norm "+act.String(), fused[5*576:], evaluate(t, x, op.F32, func(m *maker) { m.quantized(act, norm(m)) }))

			silu := func(m *maker) op.Acts { return m.SiluMul("silu", m.rows("x", 3, 2*448, outliers)) }
			fused = evaluate(t, x, act, func(m *maker) { silu(m) })
			equalWords(t, "silu_mul "+act.String(), fused, evaluate(t, x, op.F32, func(m *maker) { m.quantized(act, silu(m)) }))
		}
	})
}

// A product of halves equals that of the same values as float32.
func TestHalfProductEqualsFloatProduct(t *testing.T) {
	onBoth(t, func(t *testing.T, x graph.Executor) {
		w := weights{format: op.Formats()[0], codes: "any", scales: "plain"}
		round := func(v []float32) []float32 {
			for i := range v {
				v[i] = ref.F32(ref.F16(v[i]))
			}
			return v
		}
		product := func(act op.Act) []uint32 {
			return evaluate(t, x, act, func(m *maker) {
				matrix := m.matrix(w, 70, 1088)
				rows := op.Rows{Value: m.input("x", graph.F32, wordsOf(round(outliers.floats(m.r, 6*1088))), 1088, 6), N: 6, K: 1088}
				m.MulMat("product", matrix, m.Quantize("act", rows))
			})
		}
		equalWords(t, "mul_mat", product(op.F16), product(op.F32))
	})
}

// BL-36: sums beyond the range of halves are exact: 4096 weights of +1 with
// activations of 40.
func TestLargeSums(t *testing.T) {
	const k, want = 4096, 163840
	block := append([]byte{0, 0x3c}, bytes.Repeat([]byte{0xaa}, 16)...) // scale 1, codes +1
	x40 := make([]float32, k)
	for i := range x40 {
		x40[i] = 40
	}
	onBoth(t, func(t *testing.T, x graph.Executor) {
		for _, act := range []op.Act{op.F32, op.F16, op.I8} {
			out := evaluate(t, x, act, func(m *maker) {
				matrix, err := op.Upload(x, "ones", op.Source{Name: "ones", Format: op.Formats()[0], Rows: 1, K: k, Data: bytes.Repeat(block, k/64)})
				if err != nil {
					t.Fatal(err)
				}
				rows := op.Rows{Value: m.input("x", graph.F32, wordsOf(x40), k, 1), N: 1, K: k}
				m.MulMat("product", matrix, m.Quantize("act", rows))
			})
			got := math.Float32frombits(out[0])
			if off := math.Abs(float64(got) - want); act != op.I8 && off != 0 || !(off <= want*1e-6) {
				t.Errorf("%v: the sum is %g, want %d", act, got, want)
			}
		}
	})
}

// Attention by chunks and joined equals attention in one go.
func TestAttentionPartsEqualWhole(t *testing.T) {
	onBoth(t, func(t *testing.T, x graph.Executor) {
		g := batchOf(rand.New(rand.NewPCG(1, 1)), op.Heads{Q: 12, KV: 2, Dim: 64}, 7, 190)
		inputs := func(m *maker) (op.Rows, op.Cache) {
			m.batch(&g)
			return m.queries(&g, normal, 0.3), m.cache(&g, "plain", 0)
		}
		for _, act := range []op.Act{op.F32, op.I8, op.F16} {
			parts := evaluate(t, x, act, func(m *maker) {
				q, cache := inputs(m)
				m.Attention(q, g.Heads, cache)
			})
			whole := evaluate(t, x, act, func(m *maker) {
				q, cache := inputs(m)
				m.Quantize("act", m.wholeAttention(&g, q, cache))
			})
			equalWords(t, "attention "+act.String(), parts, whole)
		}
	})
}

// A product of many tokens equals the products of each.
func TestProductOfBatchEqualsTokens(t *testing.T) {
	onBoth(t, func(t *testing.T, x graph.Executor) {
		const n, rows, k = 19, 67, 704
		for _, act := range []op.Act{op.I8, op.F16, op.F32} {
			product := func(from, to int) []uint32 {
				return evaluate(t, x, act, func(m *maker) {
					matrix := m.matrix(weights{format: op.Formats()[0], codes: "any", scales: "plain"}, rows, k)
					v := normal.floats(m.r, n*k)[from*k : to*k]
					m.MulMat("product", matrix, m.Quantize("act", op.Rows{Value: m.input("x", graph.F32, wordsOf(v), k, to-from), N: to - from, K: k}))
				})
			}
			var single []uint32
			for i := range n {
				single = append(single, product(i, i+1)...)
			}
			equalWords(t, "mul_mat "+act.String(), product(0, n), single)
			equalWords(t, "mul_mat "+act.String()+" in two parts", slices.Concat(product(0, 7), product(7, n)), single)
		}
	})
}

// A prompt in one batch, over the border of a page, equals its tokens one by one.
func TestAttentionOfBatchEqualsTokens(t *testing.T) {
	onBoth(t, func(t *testing.T, x graph.Executor) {
		const n, start = 11, 58
		h := op.Heads{Q: 4, KV: 2, Dim: 64}
		slots := h.Q + 2*h.KV
		// attend records the attention of tokens [from, to), after those before
		// were cached in batches of the given size.
		attend := func(size, from, to int) []uint32 {
			return evaluate(t, x, op.F32, func(m *maker) {
				whole := geometry{Heads: h, pages: 3}
				qNorm, kNorm := m.constant(normal.floats(m.r, h.Dim)), m.constant(normal.floats(m.r, h.Dim))
				rope := m.constant(normal.floats(m.r, (start+n)*h.Dim))
				m.setConsts()
				cache := m.cache(&whole, "plain", 0)
				rows := normal.floats(m.r, n*slots*h.Dim)
				step := func(from, to int) op.Rows {
					g := geometry{Heads: h, n: to - from, pages: 3}
					for i := from; i < to; i++ {
						g.pos, g.seq, g.maxPos = append(g.pos, start+i), append(g.seq, 0), start+i
					}
					m.r = rand.New(rand.NewPCG(3, 3)) // the same pages every time
					m.batch(&g)
					k := slots * h.Dim
					qkv := op.Rows{Value: m.input("qkv", graph.F32, wordsOf(rows[from*k:to*k]), k, g.n), N: g.n, K: k}
					m.QKVRopeCache(qkv, h, cache, qNorm, kNorm, rope, h.Dim, 1e-6, 0.18)
					return qkv
				}
				for i := 0; i < from; i += size {
					step(i, i+size)
				}
				m.Attention(step(from, to), h, cache)
			})
		}
		const row = 4 * 64
		batch := attend(1, 0, n)
		for i := range n {
			equalWords(t, "token by token", attend(1, i, i+1), batch[i*row:][:row])
		}
		equalWords(t, "in two parts", attend(5, 5, n), batch[5*row:])
	})
}
