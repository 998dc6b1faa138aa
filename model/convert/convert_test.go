package convert

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/quantize"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

const goldens = "../../testdata/goldens/"

// unpack unpacks a folder of testdata/hf.
func unpack(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open("../../testdata/hf/" + name + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return filepath.Join(dir, name)
		}
		if err != nil || !filepath.IsLocal(h.Name) {
			t.Fatal(h, err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// store converts a folder.
func store(t *testing.T, dir string, typ gguf.Type) string {
	t.Helper()
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	steps, err := quantize.Plan(m.Tensors, typ, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "out.gguf")
	if _, err := quantize.Write(context.Background(), path, quantize.Metadata(m.Meta, typ), steps, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

// logits of the prompts, position by position.
func logits(t *testing.T, path string, prompts [][]int32) (rows [][]float32) {
	t.Helper()
	m, err := model.Open(t.Context(), path, model.Options{Executor: ref.New(), Activations: op.F32, Context: 256})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, ids := range prompts {
		s, err := m.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Eval(t.Context(), ids, true)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r...)
		s.Close()
	}
	return rows
}

// Folders of every family give the logits of transformers, as F32 and as Q2_0, which
// loses nothing where a model's matrices are all ternary.
func TestGoldenFolders(t *testing.T) {
	for name, ternary := range map[string]bool{"qwen3": true, "qwen3-tied-yarn": true, "qwen3moe": true, "qwen35-rep3": true, "qwen35moe": false} {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, name)
			var golden struct {
				Vocab   int
				Prompts [][]int32
			}
			data, err := os.ReadFile(goldens + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, &golden); err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(goldens + name + ".f32")
			if err != nil {
				t.Fatal(err)
			}
			types := map[gguf.Type][][]int32{gguf.F32: golden.Prompts[:3], gguf.Q2_0: golden.Prompts[:2]}
			if !ternary {
				delete(types, gguf.Q2_0)
			}
			for typ, prompts := range types {
				top, worst := 0.0, 0.0
				for i, row := range logits(t, store(t, dir, typ), prompts) {
					for j, v := range row {
						want := 2 * float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*(i*golden.Vocab+j):])))
						top, worst = max(top, math.Abs(want)), max(worst, math.Abs(float64(v)-want))
					}
				}
				t.Logf("%s: largest difference %.2g of the largest logit %.2f", typ, worst/top, top)
				if !(worst/top <= 1e-3) || top < 1 {
					t.Errorf("%s: %.2g of the largest logit %.2g off, at most 1e-3", typ, worst/top, top)
				}
			}
		})
	}
}

// The tensors are those of the golden files, whatever writes them (but for the
// softened last norm, and exp in the last place).
func TestGoldenTensors(t *testing.T) {
	for _, name := range []string{"qwen3moe", "qwen35-rep3", "qwen35moe"} {
		a, err := gguf.Open(store(t, unpack(t, name), gguf.F32))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		b, err := gguf.Open(goldens + name + ".gguf")
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if len(a.Tensors) != len(b.Tensors) {
			t.Errorf("%s: %d tensors, want %d", name, len(a.Tensors), len(b.Tensors))
		}
		for _, want := range b.Tensors {
			got := a.Tensor(want.Name)
			if got == nil || !slices.Equal(got.Dims, want.Dims) {
				t.Fatalf("%s: no %s of %v", name, want.Name, want.Dims)
			}
			x, y := make([]float32, got.Elements()), make([]float32, got.Elements())
			if err := errors.Join(quantize.Decode(got.Type, x, got.Data()), quantize.Decode(want.Type, y, want.Data())); err != nil {
				t.Fatal(err)
			}
			for i := range x {
				if want.Name == "output_norm.weight" {
					y[i] *= 2
				}
				if math.Abs(float64(x[i]-y[i])) > 2e-7*math.Abs(float64(y[i])) {
					t.Errorf("%s: %s: number %d is %g, want %g", name, want.Name, i, x[i], y[i])
					break
				}
			}
		}
		for _, kv := range b.Meta {
			got, ok := a.Get(kv.Key)
			if list, isList := kv.Value.([]int32); isList {
				have, _ := got.([]int32)
				ok = slices.Equal(have, list)
			} else if kv.Key != "general.name" && kv.Key != "qwen35moe.feed_forward_length" && kv.Key != "qwen3moe.feed_forward_length" && ok {
				ok = got == kv.Value
			}
			if !ok && kv.Key != "qwen35moe.feed_forward_length" {
				t.Errorf("%s: %s is %v, want %v", name, kv.Key, got, kv.Value)
			}
		}
	}
}

// A folder of a model that sees as well: sizes below text_config, other names, and
// tensors that are not run.
func TestVisionFolder(t *testing.T) {
	plain := unpack(t, "qwen35moe")
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join(plain, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var text map[string]any
	if err := json.Unmarshal(data, &text); err != nil {
		t.Fatal(err)
	}
	tied := text["tie_word_embeddings"]
	delete(text, "tie_word_embeddings")
	config, err := json.Marshal(map[string]any{"model_type": "qwen3_5_moe", "text_config": text, "vision_config": map[string]any{}, "tie_word_embeddings": tied})
	if err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(filepath.Join(plain, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(data)
	header := map[string]any{}
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	renamed := map[string]any{}
	for name, v := range header {
		renamed[strings.Replace(name, "model.", "model.language_model.", 1)] = v
	}
	for _, name := range []string{"model.visual.patch_embed.proj.weight", "mtp.fc.weight"} {
		renamed[name] = map[string]any{"dtype": "U8", "shape": []int{0}, "data_offsets": []int{0, 0}}
	}
	renamedHeader, err := json.Marshal(renamed)
	if err != nil {
		t.Fatal(err)
	}
	file := slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(renamedHeader))), renamedHeader, data[8+n:])
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644), os.WriteFile(filepath.Join(dir, "model.safetensors"), file, 0o644)); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.Skipped != 2 || !m.NoTokenizer {
		t.Errorf("%d tensors are skipped, no tokenizer: %v", m.Skipped, m.NoTokenizer)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	body := func(path string) []byte { // most of the tensors' data
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data[len(data)-6<<20:]
	}
	if !slices.Equal(body(store(t, dir, gguf.F32)), body(store(t, plain, gguf.F32))) {
		t.Error("the tensors differ from those of the plain folder")
	}
}

// What cannot be converted is refused by its key or tensor.
func TestRefusals(t *testing.T) {
	dir := unpack(t, "qwen35-rep3")
	path := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	type m = map[string]any
	for _, c := range []struct {
		change m
		want   string
	}{
		{m{"model_type": "llama"}, `model_type "llama"`},
		{m{"hidden_act": "gelu"}, `hidden_act "gelu"`},
		{m{"attention_bias": true}, "attention_bias"},
		{m{"use_sliding_window": true}, "use_sliding_window"},
		{m{"quantization_config": m{"quant_method": "fp8"}}, "quantization_config"},
		{m{"num_hidden_layers": 0}, "num_hidden_layers is 0"},
		{m{"num_hidden_layers": 8, "layer_types": nil}, "there is no tensor model.layers.4."},
		{m{"num_hidden_layers": 3, "layer_types": nil}, "is not known"},
		{m{"layer_types": []string{"linear_attention"}}, "layer_types has 1 entries"},
		{m{"hidden_size": 256}, "config.json asks for [203 256]"},
		{m{"vocab_size": -1}, "vocab_size is -1"},
		{m{"rope_parameters": m{"rope_type": "longrope", "rope_theta": 1e6}}, `rope_type "longrope"`},
		{m{"rope_parameters": m{"rope_type": "default"}}, "rope_theta is 0"},
		{m{"rms_norm_eps": 0}, "rms_norm_eps"},
		{m{"rms_norm_eps": 1e300}, "rms_norm_eps"},
		{m{"linear_key_head_dim": 64}, "delta nets"},
		{m{"attn_output_gate": false}, "attn_output_gate"},
		{m{"num_attention_heads": "many"}, "num_attention_heads"},
	} {
		changed := maps.Clone(config)
		maps.Copy(changed, c.change)
		data, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if m, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.change, err, c.want)
			if err == nil {
				m.Close()
			}
		}
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
}

// Rows of the embedding beyond the tokens get names that no text gives; more tokens
// than rows are refused, and so is a special token that is none.
func TestVocabulary(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile("../../testdata/sprig/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	save := func(config string) {
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o644),
			os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(config), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	get := func(kvs []gguf.KV, key string) any {
		i := slices.IndexFunc(kvs, func(kv gguf.KV) bool { return kv.Key == key })
		if i < 0 {
			return nil
		}
		return kvs[i].Value
	}
	save(`{"eos_token": {"content": "<|im_end|>"}, "pad_token": null, "chat_template": [{"name": "other", "template": "a"}, {"name": "default", "template": "b"}]}`)
	m := &Model{}
	kvs, err := m.vocabulary(dir, &config{Vocab: 2050, EOS: ids{0}})
	if err != nil {
		t.Fatal(err)
	}
	tokens, _ := get(kvs, "tokenizer.ggml.tokens").([]string)
	types, _ := get(kvs, "tokenizer.ggml.token_type").([]int32)
	eos, _ := get(kvs, "tokenizer.ggml.eos_token_id").(uint32)
	if len(tokens) != 2050 || tokens[2049] != "[PAD2049]" || types[2049] != 5 || tokens[eos] != "<|im_end|>" ||
		get(kvs, "tokenizer.chat_template") != "b" || get(kvs, "tokenizer.ggml.padding_token_id") != nil {
		t.Errorf("%d tokens, the last %q, EOS %d, template %v", len(tokens), tokens[len(tokens)-1], eos, get(kvs, "tokenizer.chat_template"))
	}
	if _, err := m.vocabulary(dir, &config{Vocab: 2000}); err == nil || !strings.Contains(err.Error(), "2048 tokens for a vocab_size of 2000") {
		t.Errorf("a small embedding: %v", err)
	}
	save(`{"eos_token": "<|nothing|>"}`)
	if _, err := m.vocabulary(dir, &config{Vocab: 2048}); err == nil || !strings.Contains(err.Error(), `no token "<|nothing|>"`) {
		t.Errorf("an unknown token: %v", err)
	}
}
