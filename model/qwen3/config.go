// Package qwen3 is the Qwen3 family: grouped-query attention with norms on query
// and key heads, rotary embeddings (YaRN), SwiGLU. A family is three files:
// config.go reads and checks the metadata, weights.go the tensors, forward.go
// records the graph.
package qwen3

import (
	"fmt"
	"math"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/rope"
	"github.com/ternvk/tern/runtime/op"
)

// Architecture is the value of general.architecture.
const Architecture = "qwen3"

// Config is the shape of a model.
type Config struct {
	Layers, Hidden, FFN int
	Heads               op.Heads
	Vocab               int // rows of token_embd; metadata may say otherwise
	Context             int // positions the model was made for
	Eps                 float32
	Rope                rope.Config
	Tied                bool // no output.weight: the embedding is the head
}

// ReadConfig reads and checks the metadata of f.
func ReadConfig(f *gguf.File) (Config, error) {
	r := reader{f: f}
	c := Config{
		Layers:  r.int("block_count", 0),
		Hidden:  r.int("embedding_length", 0),
		FFN:     r.int("feed_forward_length", 0),
		Context: r.int("context_length", 0),
		Eps:     r.float("attention.layer_norm_rms_epsilon", 0),
	}
	c.Heads.Q = r.int("attention.head_count", 0)
	c.Heads.KV = r.int("attention.head_count_kv", c.Heads.Q)
	c.Heads.Dim = r.int("attention.key_length", c.Hidden/max(c.Heads.Q, 1))
	value := r.int("attention.value_length", c.Heads.Dim)
	c.Rope = r.rope(c)
	if r.err != nil {
		return c, r.err
	}
	embd := f.Tensor("token_embd.weight")
	if embd == nil || len(embd.Dims) != 2 {
		return c, fmt.Errorf("%s: no matrix token_embd.weight", f.Name)
	}
	c.Vocab, c.Tied = int(embd.Dims[1]), f.Tensor("output.weight") == nil
	h := c.Heads
	for _, rule := range []struct {
		ok   bool
		text string
	}{
		{c.Layers >= 1 && c.Layers <= 1024, fmt.Sprintf("block_count %d", c.Layers)},
		{c.Hidden >= 64 && c.Hidden%64 == 0 && c.Hidden <= 1<<20, fmt.Sprintf("embedding_length %d: want a multiple of 64", c.Hidden)},
		{c.FFN >= 64 && c.FFN%64 == 0 && c.FFN <= 1<<20, fmt.Sprintf("feed_forward_length %d: want a multiple of 64", c.FFN)},
		{h.Q >= 1 && h.KV >= 1 && h.Q%h.KV == 0 && h.Q <= 4096, fmt.Sprintf("head_count %d, head_count_kv %d: the first must be a multiple of the second", h.Q, h.KV)},
		{h.Dim == 64 || h.Dim == 128 || h.Dim == 256, fmt.Sprintf("key_length %d: want 64, 128 or 256", h.Dim)},
		{value == h.Dim, fmt.Sprintf("value_length %d differs from key_length %d", value, h.Dim)},
		{c.Context >= 1 && c.Context <= 1<<20, fmt.Sprintf("context_length %d: want 1 to 1,048,576", c.Context)},
		{c.Eps >= 1e-12 && c.Eps < 1, fmt.Sprintf("layer_norm_rms_epsilon %g", c.Eps)},
		{c.Rope.Base > 1, fmt.Sprintf("rope.freq_base %g", c.Rope.Base)},
		{c.Rope.Dim == h.Dim, fmt.Sprintf("rope.dimension_count %d: want all %d", c.Rope.Dim, h.Dim)},
	} {
		if !rule.ok {
			return c, fmt.Errorf("%s: %s.%s", f.Name, Architecture, rule.text)
		}
	}
	return c, nil
}

// QScale is the factor on queries that makes scores exponents of 2:
// log2(e) / sqrt(dim).
func (c Config) QScale() float32 {
	return float32(math.Log2E / math.Sqrt(float64(c.Heads.Dim)))
}

type reader struct {
	f   *gguf.File
	err error
}

func (r *reader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

// int reads a key of the architecture; a missing one is an error if or is 0.
func (r *reader) int(key string, or int) int {
	v, ok, err := r.f.U32(Architecture + "." + key)
	r.keep(err)
	if !ok && or == 0 {
		r.keep(fmt.Errorf("%s: metadata lacks %s.%s", r.f.Name, Architecture, key))
	}
	if !ok {
		return or
	}
	return int(v)
}

func (r *reader) float(key string, or float32) float32 {
	v, ok, err := r.f.F32(Architecture + "." + key)
	r.keep(err)
	if !ok && or == 0 {
		r.keep(fmt.Errorf("%s: metadata lacks %s.%s", r.f.Name, Architecture, key))
	}
	if !ok {
		return or
	}
	return v
}

func (r *reader) rope(c Config) rope.Config {
	rc := rope.Config{
		Dim:        r.int("rope.dimension_count", c.Heads.Dim),
		Base:       float64(r.float("rope.freq_base", 10000)),
		AttnFactor: float64(r.float("rope.scaling.attn_factor", 1)),
	}
	kind, ok, err := r.f.String(Architecture + ".rope.scaling.type")
	r.keep(err)
	switch {
	case !ok || kind == "none":
	case kind == "yarn":
		rc.Factor = float64(r.float("rope.scaling.factor", 0))
		rc.Original = r.int("rope.scaling.original_context_length", c.Context)
		rc.ExtFactor = float64(r.float("rope.scaling.yarn_ext_factor", 1))
		rc.AttnFactor = float64(r.float("rope.scaling.yarn_attn_factor", float32(rc.AttnFactor)))
		rc.BetaFast = float64(r.float("rope.scaling.yarn_beta_fast", 32))
		rc.BetaSlow = float64(r.float("rope.scaling.yarn_beta_slow", 1))
		if !(rc.Factor >= 1 && rc.Factor <= 1024) {
			r.keep(fmt.Errorf("%s: %s.rope.scaling.factor %g: want 1 to 1024", r.f.Name, Architecture, rc.Factor))
		}
	default:
		r.keep(fmt.Errorf("%s: %s.rope.scaling.type %q: only yarn is known", r.f.Name, Architecture, kind))
	}
	return rc
}
