package synth

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/x448/float16"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// TestOutput holds the generator to the first outputs of splitmix64 for seed
// 1234567, as published with xoshiro's test vectors.
func TestOutput(t *testing.T) {
	want := []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821}
	for n, w := range want {
		if got := output(1234567, uint64(n)); got != w {
			t.Errorf("output %d is %d, want %d", n, got, w)
		}
	}
}

func small() Shape {
	s := Wide
	s.Hidden, s.FFN, s.Heads, s.KVHeads, s.Vocab = 256, 192, 4, 2, 515
	return s
}

func TestModel(t *testing.T) {
	for _, code3 := range []bool{false, true} {
		s := small()
		s.Code3 = code3
		data, err := s.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(s.Name, data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := token.FromGGUF(f); err != nil {
			t.Fatal(err)
		}
		embd := f.Tensor("token_embd.weight")
		if embd == nil || embd.Dims[0] != 256 || embd.Dims[1] != 515 {
			t.Fatalf("embedding: %+v", embd)
		}
		var count [4]int
		for b := range len(embd.Data()) / 18 {
			block := embd.Data()[18*b:][:18]
			d := float16.Frombits(uint16(block[0]) | uint16(block[1])<<8).Float32()
			if unit := float32(1.2 / 16); d < 0.49*unit || d > 1.51*unit {
				t.Fatalf("block %d has scale %g", b, d)
			}
			for _, c := range block[2:] {
				for range 4 {
					count[c&3]++
					c >>= 2
				}
			}
		}
		total := float64(embd.Elements())
		for c := range 3 {
			if share := float64(count[c]) / total; math.Abs(share-1./3) > 0.015 {
				t.Errorf("code %d has a share of %.4f", c, share)
			}
		}
		switch share := float64(count[3]) / total; {
		case !code3 && share != 0, code3 && (share < 0.02 || share > 0.03):
			t.Errorf("code 3 has a share of %.4f", share)
		}
	}
}

// TestWide freezes the bytes of Wide: hashes of logits belong to them.
func TestWide(t *testing.T) {
	data, err := Wide.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	const want = "50a69e88a8d1fc0a3f325ae2ead927ac6d3c494590754aed29d7772749a1c8db"
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("Wide has SHA-256 %s, want %s", got, want)
	}
}

// TestParameters holds the shapes to the published counts of parameters and of
// bytes of tensors.
func TestParameters(t *testing.T) {
	for name, want := range map[string][2]uint64{
		"ternary-bonsai-1.7b":           {1720028160, 484218688},
		"ternary-bonsai-1.7b:q2_0_g128": {1720028160, 457345184},
		"ternary-bonsai-1.7b:ptq1_0":    {1720028160, 376724672},
		"ternary-bonsai-1.7b:q1_0":      {1720028160, 242357152},
		"ternary-bonsai-4b":             {4021784576, 1131856144},
		"ternary-bonsai-8b":             {8188548096, 2304175360},
		"ternary-bonsai-27b":            {26895998464, 7574337536},
		"ternary-bonsai-27b:pq2_0":      {26895998464, 7154128896},
		"bonsai-2-27b:pq2_0":            {26895998464, 7195047936},
		"bonsai-2-27b:ptq1_0":           {26895998464, 5935527936},
	} {
		s, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		var n, size uint64
		for _, spec := range s.tensors() {
			elements, bytes := spec.Type.Block()
			n += product(spec.Dims)
			size += product(spec.Dims) / elements * bytes
		}
		if n != want[0] || size != want[1] {
			t.Errorf("%s has %d parameters in %d bytes, want %d", name, n, size, want)
		}
	}
	for _, name := range []string{"huge", "tiny:q9", "tiny:"} {
		if _, err := Lookup(name); err == nil {
			t.Errorf("%s is found", name)
		}
	}
}

// Every type fills rows with numbers of the same size.
func TestSizes(t *testing.T) {
	for _, typ := range Types() {
		s, err := Lookup("tiny:" + typ)
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(s.Name, data)
		if err != nil {
			t.Fatal(err)
		}
		embd := f.Tensor("token_embd.weight")
		if embd.Type != types[typ] {
			t.Errorf("%s: the embedding is %s", typ, embd.Type)
		}
		var sum, squares float64
		values := weights(t, embd)
		for _, v := range values {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		n := float64(len(values))
		mean, rms := sum/n*math.Sqrt(256), math.Sqrt(squares/n*256)
		if math.Abs(mean) > 0.15 || rms < 0.7 || rms > 1.6 {
			t.Errorf("%s: mean %.3f, root of the mean square %.3f", typ, mean, rms)
		}
	}
}

// The ternary types hold the same weights when blocks that one of them joins share
// their scales.
func TestSameWeights(t *testing.T) {
	var want []float32
	for _, typ := range []string{"q2_0", "q2_0_g128", "pq2_0", "tq2_0", "ptq1_0", "tq1_0"} {
		s, err := Lookup("tiny:" + typ)
		if err != nil {
			t.Fatal(err)
		}
		s.Join = 4
		data, err := s.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(s.Name, data)
		if err != nil {
			t.Fatal(err)
		}
		got := weights(t, f.Tensor("blk.3.ffn_down.weight"))
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s holds other weights", typ)
		}
	}
}

// weights are the numbers of a tensor, by way of the packed form.
func weights(t *testing.T, w *gguf.Tensor) []float32 {
	t.Helper()
	format, err := op.FormatOf(w.Type.String())
	if err != nil {
		t.Fatal(err)
	}
	x := ref.New()
	defer x.Close()
	m, err := op.Upload(x, w.Name, op.Source{Name: w.Name, Format: format, Rows: int(w.Dims[1]), K: int(w.Dims[0]), Data: w.Data()})
	if err != nil {
		t.Fatal(err)
	}
	b := op.Builder{G: graph.New("dequant")}
	y := b.Dequant(m)[0]
	p, err := x.Compile(b.G)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, y.N*y.K)
	buf, at := p.Place(y.Value)
	if err := x.Read(buf, at, unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), 4*len(out))); err != nil {
		t.Fatal(err)
	}
	return out
}

// Rotated rows do to rotated inputs what the rows did to the inputs.
func TestRotate(t *testing.T) {
	s, err := Lookup("tiny-hybrid:f32")
	if err != nil {
		t.Fatal(err)
	}
	const k = 256
	w, x := make([]float32, k), make([]float32, k)
	for i := range w {
		w[i], x[i] = uniform(1, uint64(i))-0.5, uniform(2, uint64(i))-0.5
	}
	dot := func() (sum float64) {
		for i := range w {
			sum += float64(w[i]) * float64(x[i])
		}
		return sum
	}
	for _, how := range []turn{turned, grouped} {
		before := dot()
		s.rotate(w, how)
		s.rotate(x, how)
		if after := dot(); math.Abs(after-before) > 1e-5 {
			t.Errorf("%d: the product was %g, is %g", how, before, after)
		}
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	s := small()
	if err := s.Create(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := s.Bytes(); string(got) != string(want) {
		t.Error("Create and Bytes differ")
	}
}
