package model

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// file is a GGUF file taken apart, with float32 tensors.
type file struct {
	meta    []gguf.KV
	tensors []fileTensor
}

type fileTensor struct {
	name string
	dims []uint64
	data []float32
}

// readFile reads a golden file, its ternary matrices as floats.
func readFile(t *testing.T, path string) (f file) {
	t.Helper()
	g, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	f.meta = slices.Clone(g.Meta)
	for i := range g.Tensors {
		s := &g.Tensors[i]
		d := fileTensor{s.Name, s.Dims, make([]float32, s.Elements())}
		switch s.Type {
		case gguf.F32:
			for i := range d.data {
				d.data[i] = math.Float32frombits(binary.LittleEndian.Uint32(s.Data()[4*i:]))
			}
		case gguf.Q2_0:
			for i := range d.data {
				b := s.Data()[i/64*18:]
				d.data[i] = ref.F32(binary.LittleEndian.Uint16(b)) * float32(int(b[2+i%64/4]>>(i%4*2)&3)-1)
			}
		default:
			t.Fatalf("%s is %s", s.Name, s.Type)
		}
		f.tensors = append(f.tensors, d)
	}
	return f
}

func (f *file) set(key string, value any) { f.meta = append(f.meta, gguf.KV{Key: key, Value: value}) }

func (f *file) bytes(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	var specs []gguf.Spec
	for _, d := range f.tensors {
		specs = append(specs, gguf.Spec{Name: d.name, Dims: d.dims, Type: gguf.F32})
	}
	w, err := gguf.NewWriter(&b, f.meta, specs)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.tensors {
		if _, err := w.Write(floatBytes(d.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// rotate folds the rotation into the file's matrices: a row w becomes H (s w), block
// by block, and ssm_out has its value heads grouped by key head first.
func (f *file) rotate(r *rand.Rand, block, keys, rep, dim int, tied bool) {
	signs := map[int][]float64{}
	var names []string
	var widths, values []int32
	for i := range f.tensors {
		d := &f.tensors[i]
		if len(d.dims) < 2 || strings.Contains(d.name, "conv") || strings.Contains(d.name, "alpha") || strings.Contains(d.name, "beta") || strings.Contains(d.name, "inp") {
			continue
		}
		k := int(d.dims[0])
		if signs[k] == nil {
			for range k {
				s := int32(1 - 2*r.IntN(2))
				signs[k], values = append(signs[k], float64(s)), append(values, s)
			}
			widths = append(widths, int32(k))
		}
		if d.name != "token_embd.weight" {
			names = append(names, d.name)
		}
		for row := 0; row < len(d.data); row += k {
			w := d.data[row:][:k]
			if strings.Contains(d.name, "ssm_out") {
				tiled := slices.Clone(w)
				for e := range w {
					head := e / dim
					w[e] = tiled[(head/rep+keys*(head%rep))*dim+e%dim]
				}
			}
			for at := 0; at < k; at += block {
				x := make([]float64, block)
				for i := range x { // entry (i, j) of H is (-1)^popcount(i and j) / sqrt(block)
					for j, v := range w[at:][:block] {
						sign := 1 - 2*float64(popcount(i&j)%2)
						x[i] += sign * float64(v) * signs[k][at+j]
					}
				}
				for i, v := range x {
					w[at+i] = float32(v / math.Sqrt(float64(block)))
				}
			}
		}
	}
	f.set("prism.hadamard.version", uint32(1))
	f.set("prism.hadamard.block_size", uint32(block))
	f.set("prism.hadamard.transform", "normalized-sylvester-walsh-hadamard")
	f.set("prism.hadamard.axis", "input-last-dimension")
	f.set("prism.hadamard.sign_mode", "explicit")
	f.set("prism.hadamard.weight_names", names)
	f.set("prism.hadamard.inverse_weight_names", []string{"token_embd.weight"})
	f.set("prism.hadamard.sign_widths", widths)
	f.set("prism.hadamard.sign_values", values)
	f.set("prism.hadamard.gdn_v_grouped", true)
	if tied {
		f.change("prism.hadamard.version", uint32(2))
		f.set("prism.hadamard.tied_output", true)
	}
}

// change sets a key to another value, or removes it if that is nil.
func (f *file) change(key string, value any) {
	f.meta = slices.DeleteFunc(slices.Clone(f.meta), func(kv gguf.KV) bool { return kv.Key == key })
	if value != nil {
		f.set(key, value)
	}
}

func popcount(x int) (n int) {
	for ; x > 0; x &= x - 1 {
		n++
	}
	return n
}

func openData(data []byte, o Options) (*Model, error) {
	o.Executor = ref.New()
	return OpenBytes(context.Background(), "test", data, o)
}

// A rotated model gives the logits of the model that it was made of.
func TestRotatedEqualsPlain(t *testing.T) {
	for _, g := range goldenModels(t) {
		var keys, rep int
		switch g.name {
		case "qwen35-rep3":
			keys, rep = 2, 3
		case "qwen35-rep1-tied":
			keys, rep = 2, 1
		case "qwen3":
			keys, rep = 1, 1
		default:
			continue
		}
		if testing.Short() && g.name != "qwen3" {
			continue
		}
		f := readFile(t, g.path)
		f.rotate(rand.New(rand.NewPCG(1, 2)), 64, keys, rep, 128, g.name == "qwen35-rep1-tied")
		m, err := openData(f.bytes(t), Options{Activations: op.F32})
		if err != nil {
			t.Fatal(err)
		}
		g.Prompts = g.Prompts[1:3]
		plain := g.evaluate(t, g.open(t, Options{Activations: op.F32}))
		worst, top := 0.0, 0.0
		for i, row := range g.evaluate(t, m) {
			for j, v := range row {
				worst = max(worst, math.Abs(float64(v-plain[i][j])))
				top = max(top, math.Abs(float64(v)))
			}
		}
		t.Logf("%s: rotated is %.2g of max |logit| off", g.name, worst/top)
		if !(worst/top < 5e-4) {
			t.Errorf("%s: rotated is %.2g of max |logit| off, at most 5e-4", g.name, worst/top)
		}
		m.Close()
	}
}

// What a file asks for and is not known is refused by its key.
func TestRotationIsRefusedByKey(t *testing.T) {
	var rotated file
	for _, g := range goldenModels(t) {
		if g.name == "qwen35-rep3" {
			rotated = readFile(t, g.path)
		}
	}
	rotated.rotate(rand.New(rand.NewPCG(1, 2)), 64, 2, 3, 128, false)
	for _, c := range []struct {
		key   string
		value any
		want  string // in the error; the key if empty
	}{
		{key: "version", value: uint32(3)},
		{key: "version", value: nil},
		{key: "version", value: uint32(2), want: "tied_output"},
		{key: "transform", value: "dct"},
		{key: "axis", value: "output"},
		{key: "sign_mode", value: "random"},
		{key: "block_size", value: uint32(96)},
		{key: "block_size", value: uint32(256), want: "sign_widths"},
		{key: "block_size", value: nil},
		{key: "sign_widths", value: []int32{128, 512}, want: "sign_"},
		{key: "sign_values", value: []int32{1, -1, 2}},
		{key: "sign_values", value: nil},
		{key: "weight_names", value: []string{"blk.0.attn_qkv.weight"}},
		{key: "weight_names", value: []string{"blk.0.ssm_alpha.weight"}},
		{key: "inverse_weight_names", value: []string{"output.weight"}},
		{key: "tied_output", value: true, want: "version"},
	} {
		f := rotated
		f.change("prism.hadamard."+c.key, c.value)
		want := "prism.hadamard." + c.want
		if c.want == "" {
			want = "prism.hadamard." + c.key
		}
		m, err := openData(f.bytes(t), Options{})
		if err == nil {
			m.Close()
			t.Errorf("%s = %v was accepted", c.key, c.value)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %v: %q does not name %s", c.key, c.value, err, want)
		} else if c.value != nil && !errors.Is(err, graph.ErrUnsupported) {
			t.Errorf("%s = %v: %q is no ErrUnsupported", c.key, c.value, err)
		}
	}
}
