// Package convert turns a Hugging Face folder (config.json, safetensors,
// tokenizer.json) of the Qwen3 and Qwen3.5 families, dense or as mixtures of
// experts, into the metadata and tensors of a GGUF file.
//
// The numbers are those of the folder, but for what GGUF's readers expect: norms of
// Qwen3.5, which are centred on zero, get 1 added; A_log becomes -exp(A_log); value
// heads of delta nets are put in the order first of every key head, second of every
// key head, and so on; experts are stacked.
package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/ternvk/tern/model/gguf"
)

// config is what matters of config.json.
type config struct {
	Type       string  `json:"model_type"`
	Text       *config `json:"text_config"` // of models that see as well
	Tied       *bool   `json:"tie_word_embeddings"`
	Layers     int     `json:"num_hidden_layers"`
	Hidden     int     `json:"hidden_size"`
	FFN        int     `json:"intermediate_size"`
	Heads      int     `json:"num_attention_heads"`
	KVHeads    int     `json:"num_key_value_heads"`
	HeadDim    int     `json:"head_dim"`
	Vocab      int     `json:"vocab_size"`
	Context    int     `json:"max_position_embeddings"`
	Eps        float64 `json:"rms_norm_eps"`
	Activation string  `json:"hidden_act"`
	Bias       bool    `json:"attention_bias"`
	Sliding    bool    `json:"use_sliding_window"`
	// Rotary embeddings: newer files have all in RopeParameters.
	RopeTheta      float64         `json:"rope_theta"`
	RopeScaling    *ropeParameters `json:"rope_scaling"`
	RopeParameters *ropeParameters `json:"rope_parameters"`
	PartialRotary  float64         `json:"partial_rotary_factor"`
	Quantization   json.RawMessage `json:"quantization_config"`
	// Mixtures of experts.
	Experts     int   `json:"num_experts"`
	Local       int   `json:"num_local_experts"` // the same, as transformers 5 writes it for qwen3_moe
	ExpertsUsed int   `json:"num_experts_per_tok"`
	ExpertFFN   int   `json:"moe_intermediate_size"`
	SharedFFN   int   `json:"shared_expert_intermediate_size"`
	NormTopK    *bool `json:"norm_topk_prob"`
	SparseStep  int   `json:"decoder_sparse_step"`
	DenseLayers []int `json:"mlp_only_layers"`
	// Delta nets.
	Kinds     []string `json:"layer_types"`
	Interval  int      `json:"full_attention_interval"`
	KeyHeads  int      `json:"linear_num_key_heads"`
	ValHeads  int      `json:"linear_num_value_heads"`
	KeyDim    int      `json:"linear_key_head_dim"`
	ValDim    int      `json:"linear_value_head_dim"`
	Taps      int      `json:"linear_conv_kernel_dim"`
	OutGate   *bool    `json:"attn_output_gate"`
	EOS       ids      `json:"eos_token_id"`
	recurrent []bool
	arch      string // GGUF's name
}

type ropeParameters struct {
	Type     string   `json:"rope_type"`
	OldType  string   `json:"type"`
	Theta    float64  `json:"rope_theta"`
	Factor   float64  `json:"factor"`
	Original int      `json:"original_max_position_embeddings"`
	Partial  float64  `json:"partial_rotary_factor"`
	Sections []int32  `json:"mrope_section"`
	Fast     float64  `json:"beta_fast"`
	Slow     float64  `json:"beta_slow"`
	Scale    *float64 `json:"attention_factor"`
	MScale   *float64 `json:"mscale"`
	MScales  *float64 `json:"mscale_all_dim"`
	Truncate *bool    `json:"truncate"`
}

// ids is one id or a list of them.
type ids []int32

func (v *ids) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '[' && string(b) != "null" {
		b = slices.Concat([]byte("["), b, []byte("]"))
	}
	return json.Unmarshal(b, (*[]int32)(v))
}

var architectures = map[string]string{
	"qwen3": "qwen3", "qwen3_moe": "qwen3moe",
	"qwen3_5": "qwen35", "qwen3_5_text": "qwen35", "qwen3_5_moe": "qwen35moe", "qwen3_5_moe_text": "qwen35moe",
}

// readConfig reads and checks config.json.
func readConfig(dir string) (*config, error) {
	path := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	outer := &config{}
	if err := json.Unmarshal(data, outer); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c := outer
	if c.Text != nil {
		c = c.Text
		if c.Tied == nil {
			c.Tied = outer.Tied
		}
		if c.Type == "" {
			c.Type = outer.Type
		}
		if c.EOS == nil {
			c.EOS = outer.EOS
		}
	}
	if c.Quantization == nil {
		c.Quantization = outer.Quantization
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c *config) mixture() bool { return c.Experts > 0 }
func (c *config) hybrid() bool  { return c.recurrent != nil }
func (c *config) tied() bool    { return c.Tied != nil && *c.Tied }

// check refuses what would not be computed, and fills in what is left out.
func (c *config) check() error {
	var ok bool
	if c.arch, ok = architectures[c.Type]; !ok {
		return fmt.Errorf("model_type %q: qwen3, qwen3_moe, qwen3_5 and qwen3_5_moe can be converted", c.Type)
	}
	mixture, hybrid := c.arch == "qwen3moe" || c.arch == "qwen35moe", c.arch == "qwen35" || c.arch == "qwen35moe"
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.Experts == 0 {
		c.Experts = c.Local
	}
	for _, n := range []struct {
		key  string
		n    int
		need bool
	}{
		{"num_hidden_layers", c.Layers, true}, {"hidden_size", c.Hidden, true}, {"num_attention_heads", c.Heads, true}, {"head_dim", c.HeadDim, true},
		{"vocab_size", c.Vocab, true}, {"max_position_embeddings", c.Context, true}, {"intermediate_size", c.FFN, !mixture},
		{"num_experts", c.Experts, mixture}, {"num_experts_per_tok", c.ExpertsUsed, mixture}, {"moe_intermediate_size", c.ExpertFFN, mixture},
		{"linear_num_key_heads", c.KeyHeads, hybrid}, {"linear_num_value_heads", c.ValHeads, hybrid}, {"linear_key_head_dim", c.KeyDim, hybrid},
		{"linear_value_head_dim", c.ValDim, hybrid}, {"linear_conv_kernel_dim", c.Taps, hybrid},
	} {
		if n.n < 0 || n.n > 1<<24 || n.need && n.n == 0 {
			return fmt.Errorf("%s is %d", n.key, n.n)
		}
	}
	switch {
	case c.Quantization != nil && string(c.Quantization) != "null":
		return fmt.Errorf("the weights are quantised (quantization_config): take the model's unquantised folder")
	case c.Activation != "" && c.Activation != "silu":
		return fmt.Errorf("hidden_act %q: only silu is known", c.Activation)
	case c.Bias:
		return fmt.Errorf("attention_bias: biases are not known")
	case c.Sliding:
		return fmt.Errorf("use_sliding_window: sliding windows are not known")
	case c.NormTopK != nil && !*c.NormTopK:
		return fmt.Errorf("norm_topk_prob false: only experts whose weights sum to 1 are known")
	case mixture && (c.SparseStep > 1 || len(c.DenseLayers) > 0):
		return fmt.Errorf("decoder_sparse_step, mlp_only_layers: layers without experts in a mixture are not known")
	case c.OutGate != nil && !*c.OutGate:
		return fmt.Errorf("attn_output_gate false: only gated attention is known")
	case !(c.Eps > 0 && c.Eps < 1):
		return fmt.Errorf("rms_norm_eps is %g", c.Eps)
	case hybrid && (c.KeyDim != c.ValDim || c.ValHeads%c.KeyHeads != 0):
		return fmt.Errorf("delta nets of %d key heads of %d and %d value heads of %d are not known", c.KeyHeads, c.KeyDim, c.ValHeads, c.ValDim)
	}
	if !mixture {
		c.Experts = 0
	}
	if !hybrid {
		return nil
	}
	return c.readKinds()
}

// readKinds finds which layers are recurrent.
func (c *config) readKinds() error {
	if c.Interval == 0 {
		c.Interval = 4
	}
	c.recurrent = make([]bool, c.Layers)
	for i := range c.recurrent {
		c.recurrent[i] = (i+1)%c.Interval != 0
	}
	if c.Kinds == nil {
		return nil
	}
	if len(c.Kinds) != c.Layers {
		return fmt.Errorf("layer_types has %d entries for %d layers", len(c.Kinds), c.Layers)
	}
	for i, k := range c.Kinds {
		if k != "linear_attention" && k != "full_attention" {
			return fmt.Errorf("layer_types: %q is not known", k)
		}
		c.recurrent[i] = k == "linear_attention"
	}
	return nil
}

// metadata are the keys of the architecture.
func (c *config) metadata() ([]gguf.KV, error) {
	var kvs []gguf.KV
	add := func(key string, v any) { kvs = append(kvs, gguf.KV{Key: c.arch + "." + key, Value: v}) }
	u := func(key string, n int) { add(key, uint32(n)) }
	u("block_count", c.Layers)
	u("context_length", c.Context)
	u("embedding_length", c.Hidden)
	u("vocab_size", c.Vocab) // some readers ask for it where there is no vocabulary
	if c.FFN > 0 {
		u("feed_forward_length", c.FFN)
	}
	u("attention.head_count", c.Heads)
	u("attention.head_count_kv", c.KVHeads)
	u("attention.key_length", c.HeadDim)
	u("attention.value_length", c.HeadDim)
	add("attention.layer_norm_rms_epsilon", float32(c.Eps))
	if c.mixture() {
		u("expert_count", c.Experts)
		u("expert_used_count", c.ExpertsUsed)
		u("expert_feed_forward_length", c.ExpertFFN)
		if c.SharedFFN > 0 {
			u("expert_shared_feed_forward_length", c.SharedFFN)
		}
	}
	if c.hybrid() {
		u("full_attention_interval", c.Interval)
		if c.Kinds != nil {
			add("attention.recurrent_layers", c.recurrent)
		}
		u("ssm.conv_kernel", c.Taps)
		u("ssm.state_size", c.KeyDim)
		u("ssm.group_count", c.KeyHeads)
		u("ssm.time_step_rank", c.ValHeads)
		u("ssm.inner_size", c.ValHeads*c.ValDim)
	}
	return kvs, c.rope(add)
}

// rope adds the keys of rotary embeddings.
func (c *config) rope(add func(key string, v any)) error {
	p := ropeParameters{Theta: c.RopeTheta, Partial: c.PartialRotary}
	for _, q := range []*ropeParameters{c.RopeScaling, c.RopeParameters} {
		if q != nil {
			p = *q
			p.Theta = or(q.Theta, c.RopeTheta)
			p.Partial = or(q.Partial, c.PartialRotary)
		}
	}
	if p.Type == "" {
		p.Type = p.OldType
	}
	if !(p.Theta > 1) {
		return fmt.Errorf("config.json: rope_theta is %g", p.Theta)
	}
	add("rope.freq_base", float32(p.Theta))
	if c.hybrid() {
		turned := int(math.Round(float64(c.HeadDim) * or(p.Partial, 0.25)))
		add("rope.dimension_count", uint32(turned))
		if p.Sections != nil {
			if len(p.Sections) != 3 {
				return fmt.Errorf("config.json: mrope_section %v: want three numbers", p.Sections)
			}
			add("rope.dimension_sections", append(slices.Clone(p.Sections), 0))
		}
	} else if p.Partial != 0 && p.Partial != 1 {
		return fmt.Errorf("config.json: partial_rotary_factor %g: only whole heads are known here", p.Partial)
	}
	switch p.Type {
	case "", "default":
		return nil
	case "yarn":
	default:
		return fmt.Errorf("config.json: rope_type %q: default and yarn are known", p.Type)
	}
	if p.MScale != nil || p.MScales != nil || p.Truncate != nil && !*p.Truncate {
		return fmt.Errorf("config.json: mscale, mscale_all_dim and truncate of YaRN are not known")
	}
	if !(p.Factor >= 1) {
		return fmt.Errorf("config.json: YaRN's factor is %g", p.Factor)
	}
	add("rope.scaling.type", "yarn")
	add("rope.scaling.factor", float32(p.Factor))
	add("rope.scaling.original_context_length", uint32(or(p.Original, c.Context)))
	if p.Scale != nil { // what readers multiply by has a magnitude of its own
		add("rope.scaling.attn_factor", float32(*p.Scale/(0.1*math.Log(p.Factor)+1)))
	}
	if p.Fast != 0 {
		add("rope.scaling.yarn_beta_fast", float32(p.Fast))
	}
	if p.Slow != 0 {
		add("rope.scaling.yarn_beta_slow", float32(p.Slow))
	}
	return nil
}

func or[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}
