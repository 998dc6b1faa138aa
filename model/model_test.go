package model

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/testdata/sprig"
)

type goldenCase struct {
	Rendered  string    `json:"rendered"`
	PromptIDs []int32   `json:"prompt_ids"`
	GreedyIDs []int32   `json:"greedy_ids"`
	Gaps      []float64 `json:"greedy_gaps"`
	Answer    string    `json:"answer"`
}

func golden(t *testing.T) (cases []goldenCase, logits [][]float32) {
	t.Helper()
	data, err := os.ReadFile("../testdata/sprig/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct{ Cases []goldenCase }
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../testdata/sprig/golden-logits.f32")
	if err != nil {
		t.Fatal(err)
	}
	vocab := len(raw) / 4 / len(g.Cases)
	for i := range g.Cases {
		row := make([]float32, vocab)
		for j := range row {
			row[j] = math.Float32frombits(binary.LittleEndian.Uint32(raw[(i*vocab+j)*4:]))
		}
		logits = append(logits, row)
	}
	return g.Cases, logits
}

func openSprig(t testing.TB, o Options) *Model {
	t.Helper()
	m, err := OpenBytes(context.Background(), "sprig", sprig.Model, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// Sprig on the reference against transformers' float32 logits and greedy ids, and
// what int8 activations cost: the mean KL divergence from f32 over all positions of
// prompts and answers. Long prompts are left out unless TERN_CONFORM=all.
func TestSprigAgainstTransformers(t *testing.T) {
	sequential(t)
	cases, logits := golden(t)
	longest := 60
	if os.Getenv("TERN_CONFORM") == "all" {
		longest = math.MaxInt
	}
	exact := map[int][][]float32{} // by case, in f32
	for _, c := range []struct {
		act        op.Act
		bound, gap float64
	}{{op.F32, 5e-3, 0.05}, {op.F16, 1e-2, 0.05}, {op.I8, math.Inf(1), 0.5}} {
		t.Run(c.act.String(), func(t *testing.T) {
			m := openSprig(t, Options{Executor: ref.New(), Activations: c.act, Context: 2048})
			var divergence float64
			positions := 0
			for i, g := range cases {
				if len(g.PromptIDs) > longest {
					continue
				}
				s, err := m.NewSession()
				if err != nil {
					t.Fatal(err)
				}
				answer := g.GreedyIDs[:len(g.GreedyIDs)-1] // the last ends the turn
				got, err := s.Eval(t.Context(), slices.Concat(g.PromptIDs, answer), true)
				if err != nil {
					t.Fatal(err)
				}
				s.Close()
				after := got[len(g.PromptIDs)-1:]
				worst := 0.0
				for j, v := range after[0] {
					worst = max(worst, math.Abs(float64(v-logits[i][j])))
				}
				t.Logf("case %d: %d tokens, max |difference| %.2g", i, len(g.PromptIDs), worst)
				if worst > c.bound {
					t.Errorf("case %d: logits differ by %g, at most %g", i, worst, c.bound)
				}
				for j, row := range after {
					if g.Gaps[j] < c.gap {
						break
					}
					if best := largest(row); int32(best) != g.GreedyIDs[j] {
						t.Errorf("case %d: token %d of the answer is %d, want %d", i, j, best, g.GreedyIDs[j])
					}
				}
				if c.act == op.F32 {
					exact[i] = got
				}
				for j, row := range got {
					divergence += kl(exact[i][j], row)
					positions++
				}
			}
			mean := divergence / float64(positions)
			t.Logf("mean KL divergence from f32 over %d positions: %.2g", positions, mean)
			if !(mean < 4e-4) {
				t.Errorf("mean KL divergence %g, want less than 4e-4", mean)
			}
		})
	}
}

func largest(row []float32) int {
	best := 0
	for i, v := range row {
		if v > row[best] {
			best = i
		}
	}
	return best
}

// kl is the divergence of the distribution that logits q give from that of p.
func kl(p, q []float32) float64 {
	norm := func(l []float32) float64 {
		top, sum := float64(slices.Max(l)), 0.0
		for _, v := range l {
			sum += math.Exp(float64(v) - top)
		}
		return top + math.Log(sum)
	}
	np, nq, d := norm(p), norm(q), 0.0
	for i := range p {
		lp := float64(p[i]) - np
		d += math.Exp(lp) * (lp - (float64(q[i]) - nq))
	}
	return d
}

// Generation stops where the model ends its turn, and reuses what the session
// has.
func TestGenerate(t *testing.T) {
	cases, _ := golden(t)
	m := openSprig(t, Options{Executor: ref.New(), Context: 2048})
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for turn, reused := range []int{0, len(cases[0].PromptIDs) - 1} {
		var ids []int32
		for tok, err := range s.Generate(t.Context(), cases[0].PromptIDs, Sampling{}, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if tok.Reused != reused || tok.Prompt != len(cases[0].PromptIDs) {
				t.Fatalf("turn %d: %d of %d tokens reused, want %d of %d", turn, tok.Reused, tok.Prompt, reused, len(cases[0].PromptIDs))
			}
			ids = append(ids, tok.ID)
		}
		if want := cases[0].GreedyIDs; !slices.Equal(ids, want[:len(want)-1]) {
			t.Errorf("turn %d: answer %v, want %v", turn, ids, want)
		}
	}
}

// The executor is opened beside the file, and is the caller's whatever becomes of it.
func TestConnect(t *testing.T) {
	var opened int
	refused := errors.New("refused")
	o := Options{Context: 64, Connect: func() (graph.Executor, error) {
		opened++
		return ref.New(), nil
	}}
	m, err := OpenBytes(t.Context(), "sprig", sprig.Model, o)
	if err != nil {
		t.Fatal(err)
	}
	if opened != 1 || m.x == nil || m.Tokenizer() == nil {
		t.Errorf("%d executors were opened, the model's is %v", opened, m.x)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := OpenBytes(t.Context(), "half", sprig.Model[:len(sprig.Model)/2], o); err == nil || opened != 2 {
		t.Errorf("half a file: error %v, %d executors opened", err, opened)
	}
	o.Connect = func() (graph.Executor, error) { return nil, refused }
	if _, err := OpenBytes(t.Context(), "sprig", sprig.Model, o); !errors.Is(err, refused) {
		t.Errorf("an executor that cannot be opened: %v", err)
	}
	o.Connect = nil
	if _, err := OpenBytes(t.Context(), "sprig", sprig.Model, o); !errors.Is(err, graph.ErrNoDevice) {
		t.Errorf("no executor: %v", err)
	}
}
