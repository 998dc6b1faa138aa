package model

import (
	"math"
	"strings"
	"testing"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/ref"
)

// Metadata and tensors that make no model are errors that name the file and the
// key or tensor.
func TestBadModels(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	set := func(key string, value any) func(*content) {
		return func(c *content) { c.set(key, value) }
	}
	drop := func(name string) func(*content) {
		return func(c *content) {
			for i, s := range c.specs {
				if s.Name == name {
					c.specs[i].Name = "unused"
				}
			}
		}
	}
	for _, b := range []struct {
		name   string
		change func(*content)
		want   string
	}{
		{"no architecture", set("general.architecture", ""), "architecture"},
		{"other architecture", set("general.architecture", "llama"), `architecture "llama"`},
		{"architecture type", set("general.architecture", uint32(3)), "general.architecture"},
		{"no layers", set("qwen3.block_count", uint32(0)), "block_count"},
		{"more layers", set("qwen3.block_count", uint32(2)), "blk.1."},
		{"endless layers", set("qwen3.block_count", uint32(math.MaxUint32)), "block_count"},
		{"layers as text", set("qwen3.block_count", "8"), "block_count"},
		{"no width", set("qwen3.embedding_length", uint32(0)), "embedding_length"},
		{"odd width", set("qwen3.embedding_length", uint32(100)), "embedding_length"},
		{"other width", set("qwen3.embedding_length", uint32(320)), "320"},
		{"huge width", set("qwen3.embedding_length", uint32(math.MaxUint32&^63)), "embedding_length"},
		{"no heads", set("qwen3.attention.head_count", uint32(0)), "head_count"},
		{"heads that do not divide", set("qwen3.attention.head_count_kv", uint32(3)), "head_count"},
		{"endless heads", set("qwen3.attention.head_count", uint32(math.MaxUint32)), "head_count"},
		{"head size", set("qwen3.attention.key_length", uint32(96)), "key_length 96"},
		{"two head sizes", set("qwen3.attention.value_length", uint32(64)), "value_length"},
		{"feed-forward", set("qwen3.feed_forward_length", uint32(832)), "ffn"},
		{"no context", set("qwen3.context_length", uint32(0)), "context_length"},
		{"endless context", set("qwen3.context_length", uint32(math.MaxUint32)), "context_length"},
		{"epsilon 0", set("qwen3.attention.layer_norm_rms_epsilon", float32(0)), "layer_norm_rms_epsilon"},
		{"epsilon NaN", set("qwen3.attention.layer_norm_rms_epsilon", nan), "layer_norm_rms_epsilon"},
		{"base 0", set("qwen3.rope.freq_base", float32(0)), "freq_base"},
		{"base NaN", set("qwen3.rope.freq_base", nan), "freq_base"},
		{"base infinite", set("qwen3.rope.freq_base", inf), "freq_base"},
		{"rotated dimensions", set("qwen3.rope.dimension_count", uint32(64)), "dimension_count"},
		{"scaling", set("qwen3.rope.scaling.type", "longrope"), `"longrope"`},
		{"yarn without a factor", set("qwen3.rope.scaling.type", "yarn"), "rope.scaling.factor"},
		{"yarn of 0", yarn("factor", float32(0)), "rope.scaling.factor"},
		{"yarn of NaN", yarn("factor", nan), "rope.scaling.factor"},
		{"yarn from 0", yarn("original_context_length", uint32(0)), "original_context_length"},
		{"magnitude NaN", yarn("attn_factor", nan), "attn_factor"},
		{"magnitude infinite", yarn("yarn_attn_factor", inf), "yarn_attn_factor"},
		{"mix NaN", yarn("yarn_ext_factor", nan), "yarn_ext_factor"},
		{"beta 0", yarn("yarn_beta_fast", float32(0)), "yarn_beta_fast"},
		{"beta infinite", yarn("yarn_beta_slow", inf), "yarn_beta_slow"},
		{"magnitude rule of others", yarn("yarn_log_multiplier", float32(0.1)), "yarn_log_multiplier"},
		{"no embedding", drop("token_embd.weight"), "token_embd.weight"},
		{"no norm", drop("output_norm.weight"), "output_norm.weight"},
		{"no matrix", drop("blk.0.ffn_down.weight"), "blk.0.ffn_down.weight"},
		{"norm NaN", func(c *content) { copy(c.data[len(c.data)-1], []byte{0, 0, 0xc0, 0x7f}) }, "weight"},
		{"head of other width", func(c *content) { c.add("output.weight", gguf.Q2_0, make([]byte, 18*2048), 64, 2048) }, "output.weight"},
		{"vocabulary of another kind", set("tokenizer.ggml.model", "llama"), "tokenizer.ggml.model"},
		{"more tokens than rows", func(c *content) {
			for i, kv := range c.meta {
				switch v := kv.Value.(type) {
				case []string:
					if kv.Key == "tokenizer.ggml.tokens" {
						c.meta[i].Value = append(v[:len(v):len(v)], "one more")
					}
				case []int32:
					c.meta[i].Value = append(v[:len(v):len(v)], 1)
				}
			}
		}, "2049 tokens"},
		{"end token outside", set("tokenizer.ggml.eos_token_id", uint32(5000)), "eos"},
	} {
		c := first(t)
		b.change(c)
		m, err := OpenBytes(t.Context(), "bad.gguf", c.file(t), Options{Executor: ref.New(), Context: 32})
		if err == nil {
			m.Close()
			t.Errorf("%s: it loads", b.name)
			continue
		}
		if !strings.HasPrefix(err.Error(), "bad.gguf: ") || !strings.Contains(err.Error(), b.want) {
			t.Errorf("%s: error %q does not name the file and %q", b.name, err, b.want)
		}
	}
}

// yarn sets a working scaling, and then one of its keys.
func yarn(key string, value any) func(*content) {
	return func(c *content) {
		const scaling = "qwen3.rope.scaling."
		c.set(scaling+"type", "yarn")
		c.set(scaling+"factor", float32(4))
		c.set(scaling+"original_context_length", uint32(512))
		c.set(scaling+key, value)
	}
}
