package gguf_test

import (
	"testing"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/testdata/sprig"
)

func TestSprig(t *testing.T) {
	f, err := gguf.Parse("sprig", sprig.Model)
	if err != nil {
		t.Fatal(err)
	}
	if arch, _, err := f.String("general.architecture"); arch != "qwen3" || err != nil {
		t.Errorf("architecture %q, %v", arch, err)
	}
	var params uint64
	for i := range f.Tensors {
		g := &f.Tensors[i]
		params += g.Elements()
		if want := map[bool]gguf.Type{true: gguf.Q2_0, false: gguf.F32}[len(g.Dims) == 2]; g.Type != want {
			t.Errorf("tensor %s is %v, want %v", g.Name, g.Type, want)
		}
	}
	if params != 8395008 {
		t.Errorf("%d parameters", params)
	}
	tokens, _, err := f.Strings("tokenizer.ggml.tokens")
	if len(tokens) != 2048 || err != nil {
		t.Errorf("%d tokens, %v", len(tokens), err)
	}
}
