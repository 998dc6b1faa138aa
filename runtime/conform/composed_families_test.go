package conform

import (
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// A fused product and transform equals the two, one after the other.
func TestRotatedProductsEqualTheirParts(t *testing.T) {
	const n, k, block = 3, 512, 128
	onBoth(t, func(t *testing.T, x graph.Executor) {
		for _, act := range []op.Act{op.I8, op.F16, op.F32} {
			run := func(record func(m *maker, signs op.Const, x, gates op.Rows)) []uint32 {
				return evaluate(t, x, act, func(m *maker) {
					signs := m.constant(signsOf(m.r, k))
					m.setConsts()
					record(m, signs, m.rows("x", n, 2*k, outliers), m.rows("gates", n, 2*k+7, normal))
				})
			}
			fused := run(func(m *maker, signs op.Const, x, _ op.Rows) { m.SiluMulHadamard("act", x, signs, block) })
			parts := run(func(m *maker, signs op.Const, x, _ op.Rows) {
				m.Hadamard("act", op.Rows(m.Float().SiluMul("silu", x)), signs, block, op.HeadOrder{})
			})
			equalWords(t, "silu_mul_hadamard "+act.String(), fused, parts)
			half := func(x op.Rows) op.Rows { return op.Rows{Value: x.Value, N: n, K: k} }
			fused = run(func(m *maker, signs op.Const, x, gates op.Rows) {
				m.SigmoidMulHadamard("act", half(x), gates, 5, signs, block)
			})
			parts = run(func(m *maker, signs op.Const, x, gates op.Rows) {
				m.Hadamard("act", op.Rows(m.Float().SigmoidMul("gated", half(x), gates, 5)), signs, block, op.HeadOrder{})
			})
			equalWords(t, "sigmoid_mul_hadamard "+act.String(), fused, parts)
		}
	})
}

// Transforming back what was transformed gives the rows again, but for rounding.
func TestHadamardIsItsOwnInverse(t *testing.T) {
	onBoth(t, func(t *testing.T, x graph.Executor) {
		const n, k, block = 2, 3072, 1024
		var before []float32
		after := evaluate(t, x, op.F32, func(m *maker) {
			signs := m.constant(signsOf(m.r, k))
			m.setConsts()
			before = normal.floats(m.r, n*k)
			rows := op.Rows{Value: m.input("x", graph.F32, wordsOf(before), k, n), N: n, K: k}
			m.HadamardInverse("back", op.Rows(m.Hadamard("there", rows, signs, block, op.HeadOrder{})), signs, block)
		})
		for i, v := range ref.Floats(after) {
			if d := v - before[i]; d > 1e-5 || d < -1e-5 {
				t.Fatalf("element %d: %g became %g", i, before[i], v)
			}
		}
	})
}

// A product by experts equals the product of each row with its expert's matrix.
func TestProductByExpertsEqualsProducts(t *testing.T) {
	onBoth(t, func(t *testing.T, x graph.Executor) {
		const n, rows, k = 5, 64, 192
		e := op.Experts{Count: 3, Used: 2}
		for _, act := range []op.Act{op.I8, op.F16, op.F32} {
			data := func(m *maker) (stack *op.Matrix, each []*op.Matrix, ids []uint32, acts []float32) {
				w := weights{format: op.Formats()[0], codes: "any", scales: "plain"}
				file := w.data(m.r, e.Count*rows, k)
				size := len(file) / e.Count
				upload := func(rows int, data []byte) *op.Matrix {
					matrix, err := op.Upload(x, "weights", op.Source{Name: "weights", Format: w.format, Rows: rows, K: k, Data: data})
					if err != nil {
						m.err = err
					}
					return matrix
				}
				for i := range e.Count {
					each = append(each, upload(rows, file[i*size:][:size]))
				}
				for range n * e.Used {
					ids = append(ids, uint32(m.r.IntN(e.Count)))
				}
				return upload(e.Count*rows, file), each, ids, normal.floats(m.r, n*k)
			}
			var ids []uint32
			got := evaluate(t, x, act, func(m *maker) {
				stack, _, chosen, acts := data(m)
				ids = chosen
				words := make([]uint32, op.ExpertRowsBytes(n, e, rows)/4)
				copy(words[n*e.Used*rows:], ids)
				y := op.NewExpertRows(m.input("y", graph.F32, words, rows, n*e.Used), n, e, rows)
				m.MulMatExperts("product", y, e, stack, m.Quantize("act", op.Rows{Value: m.input("x", graph.F32, wordsOf(acts), k, n), N: n, K: k}))
			})
			for i, id := range ids {
				want := evaluate(t, x, act, func(m *maker) {
					_, each, _, acts := data(m)
					row := acts[i/e.Used*k:][:k]
					m.MulMat("product", each[id], m.Quantize("act", op.Rows{Value: m.input("x", graph.F32, wordsOf(row), k, 1), N: 1, K: k}))
				})
				equalWords(t, "mul_mat_id "+act.String(), got[i*rows:][:rows], want)
			}
		}
	})
}

// The norm of a delta net and the transform in one equal the two.
func TestRotatedDeltaNormEqualsItsParts(t *testing.T) {
	onBoth(t, func(t *testing.T, x graph.Executor) {
		g := deltaBatch{Delta: op.Delta{Keys: 2, Values: 6, Dim: 64, Taps: 4}, n: 3}
		for _, act := range []op.Act{op.I8, op.F16, op.F32} {
			for _, grouped := range []bool{false, true} {
				run := func(record func(m *maker, x op.Rows, weight, signs op.Const)) []uint32 {
					return evaluate(t, x, act, func(m *maker) {
						weight, signs := m.constant(normal.floats(m.r, g.Dim)), m.constant(signsOf(m.r, g.Inner()))
						m.setConsts()
						record(m, m.deltaRows(&g, outliers, normal), weight, signs)
					})
				}
				fused := run(func(m *maker, x op.Rows, weight, signs op.Const) {
					m.DeltaNormHadamard(x, g.Delta, weight, 1e-6, signs, 128, grouped)
				})
				parts := run(func(m *maker, x op.Rows, weight, signs op.Const) {
					var order op.HeadOrder
					if grouped {
						order = op.HeadOrder{Dim: g.Dim, Keys: g.Keys, Rep: g.Values / g.Keys}
					}
					m.Hadamard("act", op.Rows(m.Float().DeltaNorm(x, g.Delta, weight, 1e-6)), signs, 128, order)
				})
				equalWords(t, "delta_norm_hadamard "+act.String(), fused, parts)
			}
		}
	})
}
