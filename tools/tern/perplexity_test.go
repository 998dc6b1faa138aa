package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ternvk/tern/tools/internal/perplexity"
)

const sprigText = "../../testdata/perplexity/sprig.txt"

// measured runs perplexity on the reference with JSON output.
func measured(t *testing.T, args ...string) (f struct {
	perplexity.Figures
	Context int `json:"n_ctx"`
	Chunks  int `json:"n_chunk"`
}) {
	t.Helper()
	c := prepare(t, "", append([]string{"perplexity", "--device", "reference", "--json"}, args...)...).exits(t, 0)
	decode(t, c.out.Bytes(), &f)
	return f
}

// The perplexity is that of the logits which the logits command gives, chunk by
// chunk; a base that is written and read shows a model to be itself.
func TestPerplexity(t *testing.T) {
	if testing.Short() {
		t.Skip("programs, which the race detector does not see")
	}
	dir := t.TempDir()
	base, html := filepath.Join(dir, "base.kld"), filepath.Join(dir, "r.html")
	const n, chunks = 48, 3
	f := measured(t, "-f", sprigText, "-c", fmt.Sprint(n), "--chunks", fmt.Sprint(chunks), "--kl-divergence-base", base)
	ids := strings.Split(strings.TrimSpace(prepare(t, "", "tokenize", "--ids", "--", string(mustRead(t, sprigText))).exits(t, 0).out.String()), ",")
	nll, scored := 0.0, 0
	var all []byte
	for c := range chunks {
		chunk := ids[c*n:][:n]
		file := filepath.Join(dir, "chunk.f32")
		prepare(t, "", "logits", "--device", "reference", "--ids", strings.Join(chunk, ","), "-o", file).exits(t, 0)
		raw := mustRead(t, file)
		all = append(all, raw...)
		for i := n / 2; i < n-1; i++ {
			row := make([]float32, len(raw)/n/4)
			if _, err := binary.Decode(raw[i*len(row)*4:][:len(row)*4], binary.LittleEndian, row); err != nil {
				t.Fatal(err)
			}
			next, err := strconv.Atoi(chunk[i+1])
			if err != nil {
				t.Fatal(err)
			}
			nll += perplexity.LogSumExp(row) - float64(row[next])
			scored++
		}
	}
	if want := math.Exp(nll / float64(scored)); math.Abs(f.PPL.Value-want) > 1e-9*want || f.Tokens != scored || f.Chunks != chunks || f.Context != n {
		t.Errorf("PPL %v of %d tokens, want %g of %d", f.PPL, f.Tokens, want, scored)
	}
	self := measured(t, "--kl-divergence-base", base, "--kl-divergence", "--html", html)
	if self.KL.Value > 1e-5 || self.SameTop.Value != 1 || self.PPL != f.PPL || self.Tokens != scored {
		t.Errorf("against itself: %+v", self)
	}
	if page := mustRead(t, html); !bytes.Contains(page, []byte("Same top p")) || bytes.Count(page, []byte("<svg")) != 5 {
		t.Errorf("the report has %d plots", bytes.Count(page, []byte("<svg")))
	}
	c := prepare(t, "", "perplexity", "--device", "reference", "--kl-divergence-base", base, "--kl-divergence", "--chunks", "1").exits(t, 0)
	for _, part := range []string{"Mean PPL(Q)", "Mean KLD", "99.9% KLD", "RMS Δp", "Same top p : 100.000"} {
		if !strings.Contains(c.out.String(), part) {
			t.Errorf("the figures lack %q:\n%s", part, c.out.String())
		}
	}
	againstPython(t, dir, base, f.PPL.Value, all, strings.Join(ids[:n*chunks], ","))
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// againstPython lets an implementation of its own read a base, write one from other
// logits, and compute the figures.
func againstPython(t *testing.T, dir, base string, ppl float64, logits []byte, ids string) {
	var program string
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(p, "-c", "import numpy").Run() == nil {
			program = p
			break
		}
	}
	if program == "" {
		t.Log("no Python with numpy: the file is not read by another implementation")
		return
	}
	python := func(v any, args ...string) {
		t.Helper()
		out, err := exec.Command(program, append([]string{"../goldens/base_logits.py"}, args...)...).Output()
		if err != nil {
			t.Fatalf("base_logits.py %s: %v", args[0], err)
		}
		decode(t, out, v)
	}
	var shown struct {
		Context int     `json:"n_ctx"`
		Vocab   int     `json:"n_vocab"`
		Chunks  int     `json:"n_chunk"`
		Tokens  []int32 `json:"tokens"`
		PPL     float64 `json:"ppl"`
		Mass    float64 `json:"mass"`
	}
	python(&shown, "show", base)
	want, err := parseIDs(ids, shown.Vocab)
	// What is more than 16 below the largest logit is raised, which adds to the mass.
	if err != nil || shown.Context != 48 || shown.Vocab != 2048 || shown.Chunks != 3 || !slices.Equal(shown.Tokens, want) ||
		!(math.Abs(shown.Mass-1) < 1e-3) || !(math.Abs(shown.PPL-ppl) < 0.05*ppl) {
		t.Errorf("Python reads %d tokens, vocabulary %d, %d chunks, PPL %g and not %g, probabilities that sum to %g", shown.Context, shown.Vocab, shown.Chunks, shown.PPL, ppl, shown.Mass)
	}

	// The model's logits, in a file; and a base made by Python of others.
	file, other, made := filepath.Join(dir, "q.f32"), filepath.Join(dir, "other.f32"), filepath.Join(dir, "made.kld")
	changed := slices.Clone(logits)
	for i := 0; i < len(changed); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(changed[i:]))
		binary.LittleEndian.PutUint32(changed[i:], math.Float32bits(x*0.75+float32(i/4*2654435761%1000)/800))
	}
	for name, data := range map[string][]byte{file: logits, other: changed} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var none struct{}
	python(&none, "write", other, "48", ids, made)
	f := measured(t, "--kl-divergence-base", made, "--kl-divergence")
	var p map[string]float64
	python(&p, "compare", made, file)
	for name, got := range map[string]float64{
		"ppl": f.PPL.Value, "ppl_base": f.BasePPL.Value, "ppl_ratio": f.Ratio.Value, "correlation": f.Correlation, "kl": f.KL.Value, "kl_error": f.KL.Error,
		"kl_max": f.KLQuantiles[0].Value, "kl_95": f.KLQuantiles[3].Value, "kl_median": f.KLQuantiles[5].Value,
		"delta_p": f.DeltaP.Value, "delta_p_99": f.DeltaPs[2].Value, "rms_delta_p": f.RMS.Value, "same_top_p": f.SameTop.Value,
	} {
		if want, ok := p[name]; !ok || !(math.Abs(got-want) <= 1e-6*max(1, math.Abs(want))) {
			t.Errorf("%s is %g, Python has %g", name, got, want)
		}
	}
	if f.KL.Value < 0.01 {
		t.Errorf("the models differ by %g only", f.KL.Value)
	}
}

func TestPerplexityRefuses(t *testing.T) {
	dir := t.TempDir()
	short, other := filepath.Join(dir, "short.txt"), filepath.Join(dir, "other.kld")
	if err := os.WriteFile(short, []byte("The capital of France is Paris."), 0o644); err != nil {
		t.Fatal(err)
	}
	h := perplexity.Header{Context: 4, Vocab: 3, Chunks: 1, Tokens: []int32{0, 1, 2, 0}}
	w, err := perplexity.Create(other, h)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(perplexity.NewRow([]float32{1, 2, 3})); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		args   []string
		parts  []string
	}{
		{exitUsage, nil, []string{"-f is needed"}},
		{exitUsage, []string{"--kl-divergence"}, []string{"--kl-divergence-base"}},
		{exitUsage, []string{"-f", short, "--kl-divergence", "--kl-divergence-base", other}, []string{"exclude each other"}},
		{exitUsage, []string{"-f", short, "-c", "3"}, []string{"--context 3"}},
		{exitUsage, []string{"-f", "missing.txt"}, []string{"missing.txt"}},
		{exitUsage, []string{"-c", "8", "--kl-divergence", "--kl-divergence-base", other}, []string{"made with 4"}},
		{exitFailure, []string{"-f", short}, []string{"1024 are needed"}},
		{exitFailure, []string{"--kl-divergence", "--kl-divergence-base", short}, []string{"not a file of base logits"}},
		{exitFailure, []string{"--kl-divergence", "--kl-divergence-base", other}, []string{"vocabulary of 3", "2048"}},
	} {
		prepare(t, "", append([]string{"perplexity", "--device", "reference"}, c.args...)...).exits(t, c.status).complains(t, c.parts...)
	}
}

// Halves with float activations against ternary weights with int8 ones: the same
// weights, so that all there is between them is the rounding of activations.
func TestFloatsAgainstTernary(t *testing.T) {
	if testing.Short() {
		t.Skip("programs, which the race detector does not see")
	}
	dir := t.TempDir()
	f16, base := filepath.Join(dir, "f16.gguf"), filepath.Join(dir, "base.kld")
	prepare(t, "", "quantize", modelFile(t), f16, "--type", "f16").exits(t, 0)
	text := []string{"-f", sprigText, "-c", "32", "--chunks", "2"}
	float := measured(t, append(text, "-m", f16, "--activations", "f32", "--kl-divergence-base", base)...)
	f := measured(t, "--kl-divergence-base", base, "--kl-divergence")
	if f.KL.Value > 1e-3 || f.SameTop.Value != 1 || math.Abs(f.PPL.Value/float.PPL.Value-1) > 0.01 || f.PPL == float.PPL {
		t.Errorf("KL %g, same top %g, PPL %g and %g", f.KL.Value, f.SameTop.Value, f.PPL.Value, float.PPL.Value)
	}
}
