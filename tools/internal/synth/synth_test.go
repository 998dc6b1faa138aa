package synth

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/x448/float16"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/token"
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
		for b := range len(embd.Data()) / blockBytes {
			block := embd.Data()[b*blockBytes:][:blockBytes]
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
		"ternary-bonsai-1.7b": {1720028160, 484218688},
		"ternary-bonsai-4b":   {4021784576, 1131856144},
		"ternary-bonsai-8b":   {8188548096, 2304175360},
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
	if _, err := Lookup("huge"); err == nil {
		t.Error("an unknown shape is found")
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	s := small()
	if err := s.Create(path); err != nil {
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
