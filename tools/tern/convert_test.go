package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/quantize"
	"github.com/ternvk/tern/testdata/sprig"
)

// folderNames are the names of a qwen3 model's tensors in a Hugging Face folder.
var folderNames = strings.NewReplacer("token_embd", "model.embed_tokens", "output_norm", "model.norm", "blk.", "model.layers.",
	"attn_q_norm", "self_attn.q_norm", "attn_k_norm", "self_attn.k_norm", "attn_norm", "input_layernorm", "ffn_norm", "post_attention_layernorm",
	"attn_q", "self_attn.q_proj", "attn_k", "self_attn.k_proj", "attn_v", "self_attn.v_proj", "attn_output", "self_attn.o_proj",
	"ffn_gate", "mlp.gate_proj", "ffn_up", "mlp.up_proj", "ffn_down", "mlp.down_proj")

// sprigFolder is the embedded model as a Hugging Face folder, its matrices in halves
// and in two files.
func sprigFolder(t *testing.T, f *gguf.File) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "Sprig-ü")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	save := func(name string, v any) {
		data, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	type m = map[string]any
	where := map[string]string{}
	for file, part := range map[string]string{"model-1.safetensors": `ffn`, "model-2.safetensors": `^[^f]*$`} {
		header, body := m{}, []byte{}
		for i := range f.Tensors {
			tensor := &f.Tensors[i]
			if !regexp.MustCompile(part).MatchString(tensor.Name) {
				continue
			}
			x := make([]float32, tensor.Elements())
			if err := quantize.Decode(tensor.Type, x, tensor.Data()); err != nil {
				t.Fatal(err)
			}
			typ, bytes, shape := gguf.F16, 2, []uint64{}
			if len(tensor.Dims) == 1 {
				typ, bytes = gguf.F32, 4
			}
			for _, d := range tensor.Dims {
				shape = append([]uint64{d}, shape...)
			}
			data := make([]byte, bytes*len(x))
			if err := quantize.Encode(typ, data, x); err != nil {
				t.Fatal(err)
			}
			name := folderNames.Replace(tensor.Name)
			header[name] = m{"dtype": typ.String(), "shape": shape, "data_offsets": []int{len(body), len(body) + len(data)}}
			body, where[name] = append(body, data...), file
		}
		text, err := json.Marshal(header)
		if err != nil {
			t.Fatal(err)
		}
		data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), append(text, body...)...)
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	save("model.safetensors.index.json", m{"weight_map": where})
	save("config.json", m{"architectures": []string{"Qwen3ForCausalLM"}, "model_type": "qwen3", "num_hidden_layers": 8, "hidden_size": 256, "intermediate_size": 768,
		"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 2048, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
		"rope_theta": 1e4, "rope_scaling": nil, "tie_word_embeddings": true, "hidden_act": "silu", "eos_token_id": []int{1, 0}})
	template, _, _ := f.String("tokenizer.chat_template")
	save("tokenizer_config.json", m{"eos_token": m{"content": "<|im_end|>"}, "pad_token": "<|endoftext|>", "bos_token": "<|endoftext|>", "chat_template": template})
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), mustRead(t, "../../testdata/sprig/tokenizer.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A folder of the embedded model becomes that model again: tensors, tokenizer and
// answers.
func TestConvert(t *testing.T) {
	want, err := gguf.Parse("sprig", sprig.Model)
	if err != nil {
		t.Fatal(err)
	}
	dir := sprigFolder(t, want)
	out := filepath.Join(dir, "out.gguf")
	c := prepare(t, "", "convert", dir, out, "--type", "q2_0", "--check").noVulkan().exits(t, 0)
	if strings.Contains(c.out.String(), "lossy") || strings.Contains(c.err.String(), "warning") || strings.Contains(c.err.String(), "no vocabulary") {
		t.Errorf("convert says %s%s", c.out.String(), c.err.String())
	}
	got, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if len(got.Tensors) != len(want.Tensors) {
		t.Errorf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for _, w := range want.Tensors {
		if g := got.Tensor(w.Name); g == nil || g.Type != w.Type || string(g.Data()) != string(w.Data()) {
			t.Errorf("%s differs", w.Name)
		}
	}
	for _, kv := range want.Meta {
		if kv.Key == "general.name" || strings.HasPrefix(kv.Key, "general.") && kv.Key != "general.architecture" {
			continue
		}
		if g, ok := got.Get(kv.Key); !ok || !reflect.DeepEqual(g, kv.Value) {
			t.Errorf("%s is %.80v, want %.80v", kv.Key, g, kv.Value)
		}
	}
	answer := prepare(t, "", "run", "-m", out, "--device", "reference", "What is the capital of France?").exits(t, 0)
	if answer.out.String() != "The capital of France is Paris.\n" {
		t.Errorf("the model says %q", answer.out.String())
	}
	prepare(t, "", "convert", dir, filepath.Join(dir, "f16.gguf")).noVulkan().exits(t, 0)
	f16, err := gguf.Open(filepath.Join(dir, "f16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f16.Close()
	if typ := f16.Tensor("token_embd.weight").Type; typ != gguf.F16 {
		t.Errorf("without --type the embedding is %s, not as in the folder", typ)
	}
	if err := os.Remove(filepath.Join(dir, "model-1.safetensors")); err != nil {
		t.Fatal(err)
	}
	prepare(t, "", "convert", dir, out).exits(t, exitUsage).complains(t, "model-1.safetensors")
	prepare(t, "", "convert", filepath.Join(dir, "none"), out).exits(t, exitUsage).complains(t, "config.json")
}
