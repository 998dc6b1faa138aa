package quantize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/mapped"
)

// made is a tensor of the given numbers, stored as typ.
func made(t *testing.T, name string, typ gguf.Type, k int, x []float32) Tensor {
	t.Helper()
	raw := make([]byte, size(typ, len(x)))
	if err := Encode(typ, raw, x); err != nil {
		t.Fatal(err)
	}
	n := int(size(typ, k))
	return Tensor{Name: name, Dims: []uint64{uint64(k), uint64(len(x) / k)}, From: typ, Raw: raw, Row: func(dst []float32, row int) error {
		return Decode(typ, dst, raw[row*n:][:n])
	}}
}

// weights are ternary, with scales that join weights share; every fifth group of 64
// is zero.
func weights(n, join int) []float32 {
	x := make([]float32, n)
	for i := range x {
		if i/64%5 != 4 {
			x[i] = (float32(splitmix(uint64(i))%3) - 1) * (1 + float32(i/join%7)/8)
		}
	}
	for i := 0; i < n; i += 64 { // so that the scale shows
		x[i+1] = magnitude(x[i+1])
	}
	return x
}

func plan(t *testing.T, typ gguf.Type, tensors ...Tensor) []Step {
	t.Helper()
	steps, err := Plan(tensors, typ, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func write(t *testing.T, path string, steps []Step) []Result {
	t.Helper()
	results, err := Write(context.Background(), path, nil, steps, nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// Ternary weights in floats survive every ternary format whose groups they fit, and
// every other float; where scales within a group differ, that is told.
func TestTernaryRoundTrip(t *testing.T) {
	const k, rows = 512, 40
	dir := t.TempDir()
	for _, from := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16} {
		for to, c := range codecs {
			if c.encode == nil || to == gguf.Q1_0 || to == gguf.Q8_0 || to == gguf.Q4_0 {
				continue
			}
			for _, join := range []int{64, 128, 256} {
				source := made(t, "w.weight", from, k, weights(k*rows, join))
				path := filepath.Join(dir, "x.gguf")
				r := write(t, path, plan(t, to, source))[0]
				fits := c.coded == nil || c.coded.group <= join
				if r.Lossless() != fits || !r.WasTernary() || fits != (r.Verdict() == "lossless") || !fits && !strings.Contains(r.Verdict(), "scales within a group differ") {
					t.Errorf("%s to %s, scales of %d: %s, %+v", from, to, join, r.Verdict(), r.Stats)
				}
				if !fits {
					continue
				}
				f, err := gguf.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				back := write(t, "", plan(t, from, FromFile(f)...))[0]
				if got := FromFile(f)[0]; !back.Lossless() || got.From != to || !equalRows(t, &got, &source) {
					t.Errorf("%s to %s and back, scales of %d: other numbers", from, to, join)
				}
				f.Close()
			}
		}
	}
}

func equalRows(t *testing.T, a, b *Tensor) bool {
	t.Helper()
	x, y := make([]float32, a.Dims[0]), make([]float32, b.Dims[0])
	for row := range a.rows() {
		if err := errors.Join(a.Row(x, row), b.Row(y, row)); err != nil {
			t.Fatal(err)
		}
		for i := range x {
			if x[i] != y[i] {
				return false
			}
		}
	}
	return a.rows() == b.rows()
}

// The older layout of type id 42 becomes type id 142 byte by byte, and groups of 64
// with the same numbers, code 3 among them.
func TestLegacy(t *testing.T) {
	const k, rows = 384, 33
	raw := make([]byte, size(gguf.Q2_0_G128, k*rows))
	for i := range raw {
		raw[i] = byte(splitmix(uint64(i)))
		if i%34 == 1 {
			raw[i] = 0x2c
		}
	}
	dir := t.TempDir()
	old := filepath.Join(dir, "old.gguf")
	w, err := gguf.Create(old, nil, []gguf.Spec{{Name: "w.weight", Dims: []uint64{k, rows}, Type: gguf.Q2_0_G128}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(old)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Tensors[0].Type != gguf.Q2_0_G128 {
		t.Fatalf("the file is %s", f.Tensors[0].Type)
	}
	for _, to := range []gguf.Type{gguf.PQ2_0, gguf.Q2_0} {
		path := filepath.Join(dir, "new.gguf")
		if r := write(t, path, plan(t, to, FromFile(f)...))[0]; !r.Lossless() || r.To != to {
			t.Errorf("%s: %s", to, r.Verdict())
		}
		g, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		a, b := FromFile(f)[0], FromFile(g)[0]
		if !equalRows(t, &a, &b) || to == gguf.PQ2_0 && !bytes.Equal(b.Raw, raw) || b.From != to {
			t.Errorf("%s: other numbers", to)
		}
		g.Close()
	}
}

// Ordinary weights are told from ternary ones.
func TestOrdinary(t *testing.T) {
	const k = 512
	x := make([]float32, k*8)
	for i := range x {
		x[i] = float32(splitmix(uint64(i))>>40)/(1<<23) - 1
	}
	r := write(t, "", plan(t, gguf.Q2_0, made(t, "w.weight", gguf.F32, k, x)))[0]
	if r.WasTernary() || r.Ternary != 0 || r.Groups != 64 || r.Verdict() != "lossy" || r.RelativeError() < 0.3 || r.MaxErr > 0.51 {
		t.Errorf("%s, %+v, relative error %g", r.Verdict(), r.Stats, r.RelativeError())
	}
	r = write(t, "", plan(t, gguf.Q8_0, made(t, "w.weight", gguf.F32, k, x)))[0]
	if r.Lossless() || r.RelativeError() > 0.01 {
		t.Errorf("Q8_0: relative error %g", r.RelativeError())
	}
	for i := range x { // ternary, with scales that no half holds
		x[i] = float32(int(splitmix(uint64(i))%3)-1) * 0.1
	}
	r = write(t, "", plan(t, gguf.Q2_0, made(t, "w.weight", gguf.F32, k, x)))[0]
	if !strings.Contains(r.Verdict(), "scales were rounded") || r.RelativeError() > 1e-3 {
		t.Errorf("%s, relative error %g", r.Verdict(), r.RelativeError())
	}
}

// What fails is named, and leaves no file (BL-06).
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.gguf")
	x := weights(256*64, 256)
	good := made(t, "good.weight", gguf.F32, 256, x)
	for _, c := range []struct {
		bad  float32
		want error
	}{{float32(math.NaN()), ErrNonFinite}, {float32(math.Inf(1)), ErrNonFinite}, {1e6, ErrRange}} {
		bad := good
		bad.Name = "blk.3.bad.weight"
		bad.Row = func(dst []float32, row int) error {
			copy(dst, x[256*row:])
			if row == 17 {
				dst[200] = c.bad
			}
			return nil
		}
		bad.Raw = nil
		_, err := Write(context.Background(), path, nil, plan(t, gguf.Q2_0, good, bad), nil)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "tensor blk.3.bad.weight: row 17: ") {
			t.Errorf("%g: %v", c.bad, err)
		}
	}
	half := made(t, "half.weight", gguf.F16, 256, x)
	half.Raw[256*2*3+1] = 0x7c // an infinity
	if _, err := Write(context.Background(), path, nil, plan(t, gguf.F16, half), nil); !errors.Is(err, ErrNonFinite) {
		t.Errorf("an infinity that is only copied: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Write(ctx, path, nil, plan(t, gguf.Q2_0, good), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("%d files are left", len(list))
	}
}

// A file that is cut off while its tensors are read is an error that names the tensor.
func TestSourceIsCutOff(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getenv("QEMU_LD_PREFIX") != "" {
		t.Skip("a mapped file cannot be cut off, or an emulator does not tell where a fault is")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "source.gguf")
	x := weights(512*128, 64)
	write(t, path, plan(t, gguf.F32, made(t, "a.weight", gguf.F32, 512, x), made(t, "b.weight", gguf.F32, 512, x)))
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = Write(context.Background(), filepath.Join(dir, "x.gguf"), nil, plan(t, gguf.Q2_0, FromFile(f)...), func(done, _ uint64) {
		if err := os.Truncate(path, int64(f.Tensors[1].Offset)); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, mapped.ErrLost) || !strings.Contains(err.Error(), "tensor b.weight: ") {
		t.Errorf("error %v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("%d files are left, want the source", len(list))
	}
}

func TestPlan(t *testing.T) {
	of := func(name string, from gguf.Type, dims ...uint64) Tensor {
		return Tensor{Name: name, From: from, Dims: dims}
	}
	tensors := []Tensor{
		of("token_embd.weight", gguf.F16, 96, 10), of("blk.0.attn_q.weight", gguf.F16, 192, 4), of("blk.0.attn_k.weight", gguf.F32, 896, 4),
		of("blk.0.attn_norm.weight", gguf.F16, 192), of("blk.0.ssm_conv1d.weight", gguf.F32, 4, 64), of("blk.0.ffn_gate_inp.weight", gguf.BF16, 256, 4),
		of("blk.0.ssm_a", gguf.F32, 32), of("blk.0.ssm_alpha.weight", gguf.BF16, 256, 4),
	}
	for _, c := range []struct {
		typ     gguf.Type
		rotated bool
		want    string
	}{
		{gguf.PQ2_0, false, "[F16 Q2_0 PQ2_0 F32 F32 BF16 F32 PQ2_0]"},
		{gguf.PQ2_0, true, "[F16 Q2_0 PQ2_0 F32 F32 BF16 F32 BF16]"},
		{gguf.TQ1_0, false, "[F16 Q2_0 Q2_0 F32 F32 BF16 F32 TQ1_0]"},
		{gguf.Q2_0_G128, false, "[F16 F16 Q2_0 (group 128) F32 F32 BF16 F32 Q2_0 (group 128)]"},
		{gguf.Q8_0, false, "[Q8_0 Q8_0 Q8_0 F32 F32 BF16 F32 Q8_0]"},
	} {
		steps, err := Plan(tensors, c.typ, nil, c.rotated)
		if err != nil {
			t.Fatal(err)
		}
		var to []gguf.Type
		for _, s := range steps {
			to = append(to, s.To)
			if fell := s.To != c.typ && len(s.Dims) == 2 && s.To != gguf.F32 && s.To != gguf.BF16; fell != (s.Note != "") {
				t.Errorf("%s: note of %s is %q", c.typ, s.Name, s.Note)
			}
		}
		if fmt.Sprint(to) != c.want {
			t.Errorf("%s: %v, want %s", c.typ, to, c.want)
		}
	}
	for _, c := range []struct {
		pattern string
		typ     gguf.Type
		want    string
	}{
		{"attn_[qk]", gguf.Q8_0, ""}, {"token", gguf.PQ2_0, "tensor token_embd.weight: rows of 96 weights are not a multiple of PQ2_0's block of 128"},
		{"nothing", gguf.F32, `no matrix matches "nothing"`}, {"norm", gguf.F16, `no matrix matches "norm"`},
		{"attn_k", gguf.Q2_0_G128, "have the same type id"},
	} {
		steps, err := Plan(tensors, gguf.Q2_0, []Override{{regexp.MustCompile(c.pattern), c.typ}}, false)
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.pattern, err)
			}
		case err != nil || steps[1].To != c.typ || steps[2].To != c.typ || steps[7].To != gguf.Q2_0:
			t.Errorf("%s: %v", c.pattern, err)
		}
	}
}
