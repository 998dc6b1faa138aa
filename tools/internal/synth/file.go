package synth

import (
	"bytes"
	"context"
	"strconv"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/token"
)

// Bytes returns the model as a GGUF file in memory.
func (s Shape) Bytes() ([]byte, error) { return s.BytesContext(context.Background()) }

// BytesContext is Bytes until ctx ends.
func (s Shape) BytesContext(ctx context.Context) ([]byte, error) {
	var size uint64
	for _, t := range s.tensors() {
		elements, bytes := t.Type.Block()
		size += product(t.Dims)/elements*bytes + 64
	}
	var b bytes.Buffer
	b.Grow(int(size) + 32*s.Vocab + 1<<16)
	w, err := gguf.NewWriter(&b, s.meta(), specs(s.tensors()))
	if err == nil {
		err = s.stream(ctx, w)
	}
	if err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// Create writes the model as a GGUF file, which appears at path when complete.
func (s Shape) Create(ctx context.Context, path string) error {
	w, err := gguf.Create(path, s.meta(), specs(s.tensors()))
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := s.stream(ctx, w); err != nil {
		return err
	}
	return w.Close()
}

// tensor is a tensor of the file and what fills it: noise weights if width is 0, or
// else F32 numbers in mid +- width/2.
type tensor struct {
	gguf.Spec
	mid, width float32
	turn       turn
}

// turn says what rotation does to the rows of a matrix.
type turn int

const (
	unturned turn = iota
	turned        // its input is rotated
	latent        // an embedding, whose rows are
	grouped       // its input is rotated, value heads of a key head brought together first
)

func specs(tensors []tensor) []gguf.Spec {
	list := make([]gguf.Spec, len(tensors))
	for i, t := range tensors {
		list[i] = t.Spec
	}
	return list
}

// list collects tensors.
type list struct {
	s       Shape
	tensors []tensor
	prefix  string
}

func (l *list) add(t gguf.Type, name string, dims ...int) *tensor {
	spec := gguf.Spec{Name: l.prefix + name, Type: t}
	for _, d := range dims {
		spec.Dims = append(spec.Dims, uint64(d))
	}
	l.tensors = append(l.tensors, tensor{Spec: spec})
	return &l.tensors[len(l.tensors)-1]
}

// matrix is weights of the shape's type, if that takes rows of k.
func (l *list) matrix(name string, how turn, k int, rows ...int) {
	typ := l.s.Type
	if elements, _ := typ.Block(); k%int(elements) != 0 {
		typ = gguf.Q8_0
	}
	l.add(typ, name+".weight", append([]int{k}, rows...)...).turn = how
}

// vector is numbers in mid +- width/2.
func (l *list) vector(name string, mid, width float32, dims ...int) {
	t := l.add(gguf.F32, name, dims...)
	t.mid, t.width = mid, width
}

func (l *list) norm(name string, n int) { l.vector(name+".weight", 1, 0.5, n) }

func (s Shape) tensors() []tensor {
	l := &list{s: s}
	l.matrix("token_embd", latent, s.Hidden, s.Vocab)
	l.vector("output_norm.weight", 1/max(1, s.Softer), 0.5/max(1, s.Softer), s.Hidden)
	if !s.Tied {
		l.matrix("output", turned, s.Hidden, s.Vocab)
	}
	for i := range s.Layers {
		l.prefix = "blk." + strconv.Itoa(i) + "."
		l.norm("attn_norm", s.Hidden)
		if s.attends(i) {
			l.attention()
		} else {
			l.delta()
		}
		if s.recurrent() {
			l.norm("post_attention_norm", s.Hidden)
		} else {
			l.norm("ffn_norm", s.Hidden)
		}
		if s.MoE.Experts > 0 {
			l.experts()
		} else {
			l.feedForward("", s.FFN)
		}
	}
	return l.tensors
}

func (l *list) attention() {
	s := l.s
	q, kv := s.Heads*s.Head, s.KVHeads*s.Head
	rows := q
	if s.recurrent() { // a gate beside each query head
		rows = 2 * q
	}
	l.matrix("attn_q", turned, s.Hidden, rows)
	l.matrix("attn_k", turned, s.Hidden, kv)
	l.matrix("attn_v", turned, s.Hidden, kv)
	l.matrix("attn_output", turned, q, s.Hidden)
	l.norm("attn_q_norm", s.Head)
	l.norm("attn_k_norm", s.Head)
}

func (l *list) delta() {
	s, d := l.s, l.s.Delta
	inner, channels := d.Values*d.Dim, (2*d.Keys+d.Values)*d.Dim
	l.matrix("attn_qkv", turned, s.Hidden, channels)
	l.matrix("attn_gate", turned, s.Hidden, inner)
	for _, name := range []string{"ssm_alpha", "ssm_beta"} {
		if s.Gates == gguf.F32 {
			l.matrix(name, unturned, s.Hidden, d.Values)
		} else {
			l.add(s.Gates, name+".weight", s.Hidden, d.Values)
		}
	}
	l.vector("ssm_conv1d.weight", 0, 1.2, taps, channels)
	l.vector("ssm_a", -0.75, 1.4, d.Values)
	l.vector("ssm_dt.bias", -0.5, 3, d.Values)
	l.norm("ssm_norm", d.Dim)
	l.matrix("ssm_out", grouped, inner, s.Hidden)
}

func (l *list) feedForward(suffix string, n int) {
	l.matrix("ffn_gate"+suffix, turned, l.s.Hidden, n)
	l.matrix("ffn_up"+suffix, turned, l.s.Hidden, n)
	l.matrix("ffn_down"+suffix, turned, n, l.s.Hidden)
}

func (l *list) experts() {
	s, m := l.s, l.s.MoE
	l.vector("ffn_gate_inp.weight", 0, 0.5, s.Hidden, m.Experts)
	l.matrix("ffn_gate_exps", turned, s.Hidden, m.FFN, m.Experts)
	l.matrix("ffn_up_exps", turned, s.Hidden, m.FFN, m.Experts)
	l.matrix("ffn_down_exps", turned, m.FFN, s.Hidden, m.Experts)
	if m.Shared > 0 {
		l.vector("ffn_gate_inp_shexp.weight", 0, 0.5, s.Hidden)
		l.feedForward("_shexp", m.Shared)
	}
}

const taps = 4 // of the convolution

func (s Shape) meta() []gguf.KV {
	var kvs []gguf.KV
	add := func(key string, v any) { kvs = append(kvs, gguf.KV{Key: key, Value: v}) }
	u := func(key string, n int) { add(s.Arch+"."+key, uint32(n)) }
	add("general.architecture", s.Arch)
	add("general.name", "Synthetic "+s.Name)
	add("general.file_type", uint32(41))
	u("block_count", s.Layers)
	u("context_length", s.Context)
	u("embedding_length", s.Hidden)
	u("feed_forward_length", s.FFN)
	u("attention.head_count", s.Heads)
	u("attention.head_count_kv", s.KVHeads)
	u("attention.key_length", s.Head)
	u("attention.value_length", s.Head)
	add(s.Arch+".attention.layer_norm_rms_epsilon", float32(1e-6))
	add(s.Arch+".rope.freq_base", s.RopeBase)
	if s.YaRNFactor != 0 {
		add(s.Arch+".rope.scaling.type", "yarn")
		add(s.Arch+".rope.scaling.factor", s.YaRNFactor)
		u("rope.scaling.original_context_length", s.YaRNOriginal)
	}
	if s.recurrent() {
		pairs := s.Head / 8 // a quarter of the head turns
		u("rope.dimension_count", 2*pairs)
		add(s.Arch+".rope.dimension_sections", []int32{int32(pairs+2) / 3, int32(pairs+1) / 3, int32(pairs) / 3, 0})
		u("full_attention_interval", 4)
		u("ssm.conv_kernel", taps)
		u("ssm.state_size", s.Delta.Dim)
		u("ssm.group_count", s.Delta.Keys)
		u("ssm.time_step_rank", s.Delta.Values)
		u("ssm.inner_size", s.Delta.Values*s.Delta.Dim)
	}
	if m := s.MoE; m.Experts > 0 {
		u("expert_count", m.Experts)
		u("expert_used_count", m.Used)
		u("expert_feed_forward_length", m.FFN)
		if m.Shared > 0 {
			u("expert_shared_feed_forward_length", m.Shared)
		}
	}
	if s.Rotate {
		kvs = append(kvs, s.rotationKeys()...)
	}
	return append(kvs, s.vocabulary()...)
}

// vocabulary has a token for each byte, names nobody types for the rest, and an
// end-of-text token.
func (s Shape) vocabulary() []gguf.KV {
	tokens, kinds := make([]string, s.Vocab), make([]token.Type, s.Vocab)
	for i := range tokens {
		tokens[i], kinds[i] = "tok"+strconv.Itoa(i), token.Normal
	}
	other := 0x100
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || 0x7f <= b && b <= 0xa0 || b == 0xad { // not printable
			r = rune(other)
			other++
		}
		tokens[b] = string(r)
	}
	eos := int32(s.Vocab - 1)
	tokens[eos], kinds[eos] = "<|endoftext|>", token.Control
	pre := "qwen2"
	if s.recurrent() {
		pre = "qwen35"
	}
	vocab := token.Vocab{Pre: pre, Tokens: tokens, Types: kinds, Merges: []string{}, BOS: -1, EOS: eos, EOT: -1, Pad: -1}
	var kvs []gguf.KV
	for _, e := range vocab.Metadata() {
		kvs = append(kvs, gguf.KV(e))
	}
	return kvs
}

func product(dims []uint64) uint64 {
	n := uint64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}
