package model

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

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

// Sprig on the reference against transformers' float32 logits and greedy ids.
func TestSprigAgainstTransformers(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes on the reference; the race detector makes them an hour")
	}
	cases, logits := golden(t)
	for _, c := range []struct {
		act        op.Act
		bound, gap float64
	}{{op.F32, 5e-3, 0.05}, {op.F16, 1e-2, 0.05}, {op.I8, math.Inf(1), 0.5}} {
		t.Run(c.act.String(), func(t *testing.T) {
			m := openSprig(t, Options{Executor: ref.New(), Activations: c.act, Context: 2048})
			for i, g := range cases {
				s, err := m.NewSession()
				if err != nil {
					t.Fatal(err)
				}
				got, err := s.Eval(t.Context(), g.PromptIDs, false)
				if err != nil {
					t.Fatal(err)
				}
				worst := 0.0
				for j, v := range got[0] {
					worst = max(worst, math.Abs(float64(v-logits[i][j])))
				}
				t.Logf("case %d: %d tokens, max |difference| %.2g", i, len(g.PromptIDs), worst)
				if worst > c.bound {
					t.Errorf("case %d: logits differ by %g, at most %g", i, worst, c.bound)
				}
				var ids []int32
				for tok, err := range s.Generate(t.Context(), g.PromptIDs, Sampling{}, len(g.GreedyIDs)) {
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, tok.ID)
				}
				n := slices.IndexFunc(g.Gaps, func(gap float64) bool { return gap < c.gap })
				if n < 0 {
					n = len(g.Gaps)
				}
				n = min(n, len(g.GreedyIDs)-1) // the last ends the turn
				if len(ids) < n || !slices.Equal(ids[:n], g.GreedyIDs[:n]) {
					t.Errorf("case %d: greedy ids %v, want %v", i, ids, g.GreedyIDs[:n])
				}
				s.Close()
			}
		})
	}
}
