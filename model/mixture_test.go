package model

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/op"
)

func goldenFile(t *testing.T, name string) (goldenModel, file) {
	t.Helper()
	for _, g := range goldenModels(t) {
		if g.name == name {
			return g, readFile(t, g.path)
		}
	}
	t.Fatalf("no golden model %s", name)
	return goldenModel{}, file{}
}

func (f *file) tensor(name string) *fileTensor {
	for i := range f.tensors {
		if f.tensors[i].name == name {
			return &f.tensors[i]
		}
	}
	return nil
}

// What does not fit a mixture of experts is refused by its key or tensor.
func TestBadMixtures(t *testing.T) {
	_, good := goldenFile(t, "qwen35moe")
	for _, c := range []struct {
		key   string
		value any
		want  string
	}{
		{"expert_count", nil, "expert_count"},
		{"expert_count", uint32(9), "ffn_"},
		{"expert_count", uint32(5000), "expert_count"},
		{"expert_used_count", uint32(0), "expert_used_count"},
		{"expert_used_count", uint32(9), "expert_used_count"},
		{"expert_feed_forward_length", uint32(128), "ffn_gate_exps"},
		{"expert_feed_forward_length", uint32(96), "expert_feed_forward_length"},
		{"expert_shared_feed_forward_length", uint32(64), "ffn_gate_shexp"},
		{"expert_gating_func", uint32(2), "expert_gating_func"},
	} {
		f := good
		f.change("qwen35moe."+c.key, c.value)
		m, err := openData(f.bytes(t), Options{})
		if err == nil {
			m.Close()
			t.Errorf("%s = %v was accepted", c.key, c.value)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: %q does not name %s", c.key, c.value, err, c.want)
		}
	}
	f := good
	f.tensors = slices.DeleteFunc(slices.Clone(f.tensors), func(d fileTensor) bool { return d.name == "blk.1.ffn_down_exps.weight" })
	if _, err := openData(f.bytes(t), Options{}); err == nil || !strings.Contains(err.Error(), "blk.1.ffn_down_exps.weight") {
		t.Errorf("without a tensor: %v", err)
	}
}

// Gates and ups of all experts in one tensor, as some converters write them, are the
// same model; so is one whose shared expert's size is only in its tensors.
func TestFusedExperts(t *testing.T) {
	g, f := goldenFile(t, "qwen35moe")
	g.Prompts = g.Prompts[:2]
	fused := f
	fused.tensors = nil
	for _, d := range f.tensors {
		prefix, isGate := strings.CutSuffix(d.name, "ffn_gate_exps.weight")
		switch {
		case isGate:
			up := f.tensor(prefix + "ffn_up_exps.weight")
			size, k := int(d.dims[0]*d.dims[1]), d.dims[0]
			both := fileTensor{prefix + "ffn_gate_up_exps.weight", []uint64{k, 2 * d.dims[1], d.dims[2]}, nil}
			for e := range int(d.dims[2]) {
				both.data = append(append(both.data, d.data[e*size:][:size]...), up.data[e*size:][:size]...)
			}
			fused.tensors = append(fused.tensors, both)
		case !strings.HasSuffix(d.name, "ffn_up_exps.weight"):
			fused.tensors = append(fused.tensors, d)
		}
	}
	fused.change("qwen35moe.expert_shared_feed_forward_length", nil)
	m, err := openData(fused.bytes(t), Options{Activations: op.F32})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	split, err := openData(f.bytes(t), Options{Activations: op.F32})
	if err != nil {
		t.Fatal(err)
	}
	defer split.Close()
	same(t, "gates and ups in one tensor", g.evaluate(t, split), g.evaluate(t, m))
}

// Experts that tie are taken in order of their numbers: a router of zeros takes the
// first ones, with equal weights.
func TestTiedRouters(t *testing.T) {
	g, f := goldenFile(t, "qwen3moe")
	ids := g.Prompts[1]
	logits := func(edit func(name string, expert int, data []float32)) [][]float32 {
		e := f
		e.tensors = slices.Clone(f.tensors)
		for i := range e.tensors {
			d := &e.tensors[i]
			d.data = slices.Clone(d.data)
			if strings.Contains(d.name, "gate_inp") {
				clear(d.data)
			}
			if strings.Contains(d.name, "_exps") {
				size := len(d.data) / 8
				for x := range 8 {
					edit(d.name, x, d.data[x*size:][:size])
				}
			}
		}
		m, err := openData(e.bytes(t), Options{Activations: op.F32})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s := newSession(t, m)
		rows, err := s.Eval(context.Background(), ids, true)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	plain := logits(func(string, int, []float32) {})
	same(t, "experts 3 to 7 are not used", plain, logits(func(_ string, expert int, data []float32) {
		if expert >= 3 {
			clear(data)
		}
	}))
	if other := logits(func(_ string, expert int, data []float32) {
		if expert == 2 {
			clear(data)
		}
	}); slices.Equal(other[0], plain[0]) {
		t.Error("expert 2 is not used")
	}
}
