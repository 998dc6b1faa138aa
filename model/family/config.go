// Package family is what the model families share: the sizes that every
// configuration has, reading them from metadata, and loading the tensors that a
// family lists. A family itself is a package beside this one with three files:
// config.go reads and checks the metadata, weights.go lists the tensors,
// forward.go records the graph.
package family

import (
	"fmt"
	"math"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/rope"
	"github.com/ternvk/tern/runtime/op"
)

// Model is a model of some family: a checked configuration, and weights once
// [Weights.Fill] has filled them.
type Model interface {
	Base() *Config
	// Tensors lists what the file must hold and where it goes.
	Tensors() *Tensors
	// Forward records the model for one batch: n tokens with their positions
	// and pages in the batch words, what is remembered of them into the memory,
	// and the logits [outputs][vocab] of the tokens that the batch asks for,
	// none if it asks for none.
	Forward(b *op.Builder, m *Memory) op.Rows
}

// Memory is what a model remembers of its sequences, by layer: keys and values of
// those with attention, state of those that are recurrent.
type Memory struct {
	Caches []op.Cache
	States []op.State
}

// Config is the sizes that all families have.
type Config struct {
	Architecture        string // general.architecture
	Layers, Hidden, FFN int
	Heads               op.Heads
	Vocab               int // rows of token_embd; metadata may say otherwise
	Context             int // positions the model was made for
	Eps                 float32
	Rope                rope.Config
	Tied                bool       // no output.weight: the embedding is the head
	Rotation            *Rotation  // of the inputs of matrices; nil for none
	Experts             op.Experts // zero without
	ExpertFFN           int
	SharedFFN           int  // of the expert that every token takes; 0 without
	FusedExperts        bool // gates and ups of the experts lie in one tensor
	// Recurrent tells the layers with a gated delta net instead of attention;
	// nil if there are none.
	Recurrent []bool
	Delta     op.Delta
}

// HasState reports whether layer i is recurrent.
func (c *Config) HasState(i int) bool { return c.Recurrent != nil && c.Recurrent[i] }

// Short reports whether layer i is the last one of a batch of more tokens than outputs:
// behind its cache and state it is of the outputs alone. Then x += y is checked to be finite
// in all rows, and nothing is to be added any more.
func (c *Config) Short(b *op.Builder, i int, x op.Rows, y **op.Rows) bool {
	if i < c.Layers-1 || !b.Layout.LastIsShort() {
		return false
	}
	if *y != nil {
		b.AddCheck("residual", x, **y)
		*y = nil
	}
	return true
}

// Base returns c, for models that embed it.
func (c *Config) Base() *Config { return c }

// QScale is the factor on queries that makes scores exponents of 2:
// log2(e) / sqrt(dim).
func (c *Config) QScale() float32 {
	return float32(math.Log2E / math.Sqrt(float64(c.Heads.Dim)))
}

// ReadConfig reads and checks the sizes that all families have.
func ReadConfig(r *Reader) Config {
	c := Config{
		Architecture: r.arch,
		Layers:       r.Int("block_count", 0),
		Hidden:       r.Int("embedding_length", 0),
		FFN:          r.Optional("feed_forward_length"),
		Context:      r.Int("context_length", 0),
		Eps:          r.Float("attention.layer_norm_rms_epsilon", 0),
	}
	c.Heads.Q = r.Int("attention.head_count", 0)
	c.Heads.KV = r.Int("attention.head_count_kv", c.Heads.Q)
	c.Heads.Dim = r.Int("attention.key_length", c.Hidden/max(c.Heads.Q, 1))
	value := r.Int("attention.value_length", c.Heads.Dim)
	c.Rope = r.rope(&c)
	if r.err != nil {
		return c
	}
	embd := r.f.Tensor("token_embd.weight")
	if embd == nil || len(embd.Dims) != 2 {
		r.keep(fmt.Errorf("%s: no matrix token_embd.weight", r.f.Name))
		return c
	}
	c.Vocab, c.Tied = int(embd.Dims[1]), r.f.Tensor("output.weight") == nil
	c.Rotation = readRotation(r, c.Tied)
	h := c.Heads
	r.Require(c.Layers >= 1 && c.Layers <= 1024, "block_count %d", c.Layers)
	r.Require(c.Hidden >= 64 && c.Hidden%64 == 0 && c.Hidden <= 1<<20, "embedding_length %d: want a multiple of 64", c.Hidden)
	r.Require(h.Q >= 1 && h.KV >= 1 && h.Q%h.KV == 0 && h.Q <= 4096, "attention.head_count %d, head_count_kv %d: the first must be a multiple of the second", h.Q, h.KV)
	r.Require(h.Dim == 64 || h.Dim == 128 || h.Dim == 256, "attention.key_length %d: want 64, 128 or 256", h.Dim)
	r.Require(value == h.Dim, "attention.value_length %d differs from key_length %d", value, h.Dim)
	r.Require(c.Context >= 1 && c.Context <= 1<<20, "context_length %d: want 1 to 1,048,576", c.Context)
	r.Require(c.Eps >= 1e-12 && c.Eps < 1, "attention.layer_norm_rms_epsilon %g", c.Eps)
	r.Require(c.Rope.Base > 1, "rope.freq_base %g", c.Rope.Base)
	return c
}

// ReadFeedForward reads and checks the sizes of the feed-forward blocks: dense ones,
// or mixtures of experts.
func (c *Config) ReadFeedForward(r *Reader, mixture bool) {
	width := func(n int, key string) {
		r.Require(n >= 64 && n%64 == 0 && n <= 1<<20, "%s %d: want a multiple of 64", key, n)
	}
	if !mixture {
		width(c.FFN, "feed_forward_length")
		return
	}
	c.Experts = op.Experts{Count: r.Int("expert_count", 0), Used: r.Int("expert_used_count", 0)}
	c.ExpertFFN = r.Int("expert_feed_forward_length", c.FFN)
	c.SharedFFN = r.Optional("expert_shared_feed_forward_length")
	if t := r.f.Tensor("blk.0.ffn_gate_shexp.weight"); t != nil && c.SharedFFN == 0 && len(t.Dims) == 2 {
		c.SharedFFN = int(t.Dims[1])
	}
	c.FusedExperts = r.f.Tensor("blk.0.ffn_gate_up_exps.weight") != nil
	e := c.Experts
	r.Require(e.Used >= 1 && e.Used <= e.Count && e.Count <= op.MaxExperts, "expert_count %d, expert_used_count %d: want at most %d, of which some are used", e.Count, e.Used, op.MaxExperts)
	width(c.ExpertFFN, "expert_feed_forward_length")
	if c.SharedFFN != 0 {
		width(c.SharedFFN, "expert_shared_feed_forward_length")
	}
	gating := r.Int("expert_gating_func", softmaxGating)
	r.Require(gating == softmaxGating, "expert_gating_func %d: only softmax (%d) is known", gating, softmaxGating)
}

const softmaxGating = 1

// Reader reads the metadata of an architecture and keeps the first error.
type Reader struct {
	f    *gguf.File
	arch string
	err  error
}

// NewReader reads keys "arch.KEY" of f.
func NewReader(f *gguf.File, arch string) *Reader { return &Reader{f: f, arch: arch} }

// File is the file that is read.
func (r *Reader) File() *gguf.File { return r.f }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

func (r *Reader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Require keeps an error that names the architecture if ok is false.
func (r *Reader) Require(ok bool, format string, args ...any) {
	if !ok {
		r.keep(fmt.Errorf("%s: %s.%s", r.f.Name, r.arch, fmt.Sprintf(format, args...)))
	}
}

// value reads a key; a missing one is an error if or is zero.
func value[T comparable](r *Reader, get func(key string) (T, bool, error), key string, or T) T {
	v, ok, err := get(r.arch + "." + key)
	r.keep(err)
	var zero T
	if !ok && or == zero {
		r.keep(fmt.Errorf("%s: metadata lacks %s.%s", r.f.Name, r.arch, key))
	}
	if !ok {
		return or
	}
	return v
}

// Optional reads a whole number, 0 if it is missing.
func (r *Reader) Optional(key string) int {
	v, _, err := r.f.U32(r.arch + "." + key)
	r.keep(err)
	return int(v)
}

// Int reads a whole number; a missing one is an error if or is 0.
func (r *Reader) Int(key string, or int) int { return int(value(r, r.f.U32, key, uint32(or))) }

// Float reads a finite number; a missing one is an error if or is 0.
func (r *Reader) Float(key string, or float32) float32 {
	v := value(r, r.f.F32, key, or)
	r.Require(v-v == 0, "%s %g: want a finite number", key, v)
	return v
}

// Ints reads a list of whole numbers; nil if it is missing.
func (r *Reader) Ints(key string) []int32 {
	v, _, err := r.f.I32s(r.arch + "." + key)
	r.keep(err)
	return v
}

// Flags reads a list of truth values, stored as such or as numbers; nil if it is
// missing.
func (r *Reader) Flags(key string) []bool {
	v, _ := r.f.Get(r.arch + "." + key)
	if list, ok := v.([]bool); ok || v == nil {
		return list
	}
	list := make([]bool, 0)
	for _, n := range r.Ints(key) {
		list = append(list, n != 0)
	}
	return list
}

func (r *Reader) rope(c *Config) rope.Config {
	rc := rope.Config{
		Dim:        r.Int("rope.dimension_count", c.Heads.Dim),
		Base:       float64(r.Float("rope.freq_base", 10000)),
		AttnFactor: float64(r.Float("rope.scaling.attn_factor", 1)),
	}
	kind, ok, err := r.f.String(r.arch + ".rope.scaling.type")
	r.keep(err)
	switch {
	case !ok || kind == "none":
	case kind == "yarn":
		rc.Factor = float64(r.Float("rope.scaling.factor", 0))
		rc.Original = r.Int("rope.scaling.original_context_length", c.Context)
		rc.ExtFactor = float64(r.Float("rope.scaling.yarn_ext_factor", 1))
		rc.AttnFactor = float64(r.Float("rope.scaling.yarn_attn_factor", float32(rc.AttnFactor)))
		rc.BetaFast = float64(r.Float("rope.scaling.yarn_beta_fast", 32))
		rc.BetaSlow = float64(r.Float("rope.scaling.yarn_beta_slow", 1))
		r.Require(rc.Factor >= 1 && rc.Factor <= 1024, "rope.scaling.factor %g: want 1 to 1024", rc.Factor)
		r.Require(rc.Original >= 1, "rope.scaling.original_context_length %d: want 1 or more", rc.Original)
		r.Require(rc.BetaSlow > 0 && rc.BetaFast > 0, "rope.scaling.yarn_beta_fast %g, yarn_beta_slow %g: want more than 0", rc.BetaFast, rc.BetaSlow)
		if v, ok, err := r.f.F32(r.arch + ".rope.scaling.yarn_log_multiplier"); ok || err != nil {
			r.keep(err)
			r.Require(v == 0, "rope.scaling.yarn_log_multiplier %g: only 0 is known", v) // ignored, it would spoil the magnitude
		}
	default:
		r.Require(false, "rope.scaling.type %q: only yarn is known", kind)
	}
	return rc
}
