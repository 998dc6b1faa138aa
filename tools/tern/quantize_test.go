package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ternvk/tern/testdata/sprig"
)

// The embedded model goes through every format that keeps ternary weights, back to
// the bytes that it had.
func TestQuantize(t *testing.T) {
	in := modelFile(t)
	dir := filepath.Dir(in)
	f16, out := filepath.Join(dir, "f16.gguf"), filepath.Join(dir, "out.gguf")
	prepare(t, "", "quantize", in, f16, "--type", "F16").noVulkan().exits(t, 0)
	c := prepare(t, "", "quantize", f16, out, "--type", "q2_0", "--check").noVulkan().exits(t, 0)
	if table := c.out.String(); strings.Contains(table, "lossy") || strings.Count(table, "lossless") != 90 || strings.Contains(c.err.String(), "warning") {
		t.Errorf("a ternary model: %s%s", table, c.err.String())
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if tensors := sprig.Model[len(sprig.Model)-2200000:]; !bytes.HasSuffix(data, tensors) {
		t.Error("the blocks are other ones than before")
	}
	answer := prepare(t, "", "run", "-m", f16, "--device", "reference", "What is the capital of France?").exits(t, 0)
	if answer.out.String() != "The capital of France is Paris.\n" {
		t.Errorf("F16 says %q", answer.out.String())
	}
	c = prepare(t, "", "quantize", in, "--type", "q8_0", "--tensor", "ffn_=q1_0", "--check").noVulkan().exits(t, 0)
	if table := c.out.String(); !strings.Contains(table, "no code for zero") || !strings.Contains(c.err.String(), "with loss") || strings.Contains(c.err.String(), "wrote") ||
		!strings.Contains(c.err.String(), "24 ternary tensors are not kept as they were, --check tells why: blk.0.ffn_") {
		t.Errorf("--check alone: %s%s", table, c.err.String())
	}
}

func TestQuantizeRefuses(t *testing.T) {
	in := modelFile(t)
	out := filepath.Join(filepath.Dir(in), "out.gguf")
	for _, c := range []struct {
		args  []string
		parts []string
	}{
		{[]string{in, out}, []string{"--type is needed", "ptq1_0"}},
		{[]string{in, out, "--type", "q5_k"}, []string{`"q5_k"`, "q2_0_g128"}},
		{[]string{in, "--type", "q2_0"}, []string{"--check"}},
		{[]string{in, in, "--type", "q2_0"}, []string{"both IN and OUT"}},
		{[]string{in, out, "--type", "q2_0", "--tensor", "attn"}, []string{"PATTERN=TYPE"}},
		{[]string{in, out, "--type", "q2_0", "--tensor", "(=q8_0"}, []string{"--tensor"}},
		{[]string{"missing.gguf", out, "--type", "q2_0"}, []string{"missing.gguf"}},
	} {
		prepare(t, "", append([]string{"quantize"}, c.args...)...).exits(t, exitUsage).complains(t, c.parts...)
	}
	prepare(t, "", "quantize", in, out, "--type", "q2_0", "--tensor", "no_such=q8_0").exits(t, exitFailure).complains(t, "no_such")
	if _, err := os.Stat(out); err == nil {
		t.Error("a refused command leaves a file")
	}
}

// A rotated file stays one, keys and all, in whatever format (BL-04).
func TestQuantizeRotated(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.gguf"), filepath.Join(dir, "out.gguf")
	prepare(t, "", "synth", "--shape", "tiny-hybrid", "--rotate", in).exits(t, 0)
	prepare(t, "", "quantize", in, out, "--type", "f16").exits(t, 0)
	var logits [2][]float32
	for i, path := range []string{in, out} {
		file := filepath.Join(dir, "logits")
		prepare(t, "", "logits", "-m", path, "--ids", "1,2,3", "--device", "reference", "--activations", "f32", "-o", file).exits(t, 0)
		raw := mustRead(t, file)
		logits[i] = make([]float32, len(raw)/4)
		if _, err := binary.Decode(raw, binary.LittleEndian, logits[i]); err != nil {
			t.Fatal(err)
		}
	}
	top, worst := 0.0, 0.0
	for i, x := range logits[0] {
		top, worst = max(top, math.Abs(float64(x))), max(worst, math.Abs(float64(x-logits[1][i])))
	}
	if !(worst < 1e-3*top) {
		t.Errorf("logits differ by %g, of %g", worst, top)
	}
}
