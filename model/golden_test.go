package model

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// goldenModel is a small random model with transformers' float32 logits of some
// prompts (testdata/goldens).
type goldenModel struct {
	name, path string
	Vocab      int         `json:"vocab"`
	Prompts    [][]int32   `json:"prompts"`
	logits     [][]float32 // by position of all prompts
}

func goldenModels(t *testing.T) (list []goldenModel) {
	t.Helper()
	files, err := filepath.Glob("../testdata/goldens/*.json")
	if err != nil || len(files) < 7 {
		t.Fatalf("golden models: %d, %v", len(files), err)
	}
	for _, f := range files {
		base := strings.TrimSuffix(f, ".json")
		g := goldenModel{name: filepath.Base(base), path: base + ".gguf"}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &g); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(base + ".f32")
		if err != nil {
			t.Fatal(err)
		}
		for ; len(raw) > 0; raw = raw[4*g.Vocab:] {
			row := make([]float32, g.Vocab)
			for i := range row {
				row[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			}
			g.logits = append(g.logits, row)
		}
		list = append(list, g)
	}
	return list
}

// evaluate runs every prompt, whole, on a new session.
func (g *goldenModel) evaluate(t *testing.T, m *Model) (logits [][]float32) {
	t.Helper()
	for _, ids := range g.Prompts {
		s, err := m.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		rows, err := s.Eval(context.Background(), ids, true)
		if err != nil {
			t.Fatal(err)
		}
		logits = append(logits, rows...)
		s.Close()
	}
	return logits
}

func (g *goldenModel) open(t *testing.T, o Options) *Model {
	t.Helper()
	if o.Executor == nil {
		o.Executor = ref.New()
	}
	m, err := Open(context.Background(), g.path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// Each family against transformers: float32 activations by the largest difference
// at any position, int8 by the mean divergence.
func TestGoldenLogits(t *testing.T) {
	if testing.Short() {
		t.Skip("the reference over all prompts")
	}
	for _, g := range goldenModels(t) {
		t.Run(g.name, func(t *testing.T) {
			top, worst, at := 0.0, 0.0, 0
			for i, row := range g.evaluate(t, g.open(t, Options{Activations: op.F32})) {
				for j, v := range row {
					top = max(top, math.Abs(float64(g.logits[i][j])))
					if d := math.Abs(float64(v - g.logits[i][j])); !(d <= worst) {
						worst, at = d, i
					}
				}
			}
			kl := 0.0
			for i, row := range g.evaluate(t, g.open(t, Options{Activations: op.I8})) {
				kl += divergence(g.logits[i], row)
			}
			kl /= float64(len(g.logits))
			t.Logf("f32: largest difference %.2g of max |logit| %.2f, at row %d; int8: mean KL %.2g", worst/top, top, at, kl)
			if !(worst/top <= 1e-3) {
				t.Errorf("f32 activations are %.2g of max |logit| off at row %d, at most 1e-3", worst/top, at)
			}
			if !(kl <= 2e-3) {
				t.Errorf("int8 activations: mean KL %.2g, at most 2e-3", kl)
			}
		})
	}
}

// divergence is the KL divergence of softmax(b) from softmax(a).
func divergence(a, b []float32) (kl float64) {
	norm := func(x []float32) (logs []float64) {
		m, sum := float64(slices.Max(x)), 0.0
		for _, v := range x {
			sum += math.Exp(float64(v) - m)
		}
		for _, v := range x {
			logs = append(logs, float64(v)-m-math.Log(sum))
		}
		return logs
	}
	p, q := norm(a), norm(b)
	for i := range p {
		kl += math.Exp(p[i]) * (p[i] - q[i])
	}
	return kl
}
