package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/quantize"
	"github.com/ternvk/tern/model/safetensors"
)

// tensors collects the tensors of the file from those of a folder.
type tensors struct {
	c      *config
	folder *safetensors.Folder
	prefix string // of the layers' names in the folder
	used   map[string]bool
	list   []quantize.Tensor
	err    error
}

// source is a matrix of the folder, or a part of one: rows of k numbers.
type source struct {
	name    string
	typ     gguf.Type
	rows, k int
	read    func(dst []float32, row int) error
}

var types = map[string]gguf.Type{"F32": gguf.F32, "F16": gguf.F16, "BF16": gguf.BF16}

func (t *tensors) keep(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// take finds a tensor by its name, which must have the shape.
func (t *tensors) take(name string, shape ...int) source {
	s := t.folder.Tensors[name]
	if s == nil {
		t.keep("there is no tensor %s", name)
		return source{}
	}
	t.used[name] = true
	n := make([]uint64, len(shape))
	for i, d := range shape {
		n[i] = uint64(d)
	}
	typ, ok := types[s.Type]
	switch {
	case !slices.Equal(s.Shape, n):
		t.keep("tensor %s has shape %v, config.json asks for %v", name, s.Shape, n)
	case !ok:
		t.keep("tensor %s is %s: F32, F16 and BF16 can be converted", name, s.Type)
	}
	if t.err != nil {
		return source{}
	}
	k := shape[len(shape)-1]
	_, size := typ.Block()
	row := k * int(size)
	return source{name, typ, len(s.Data) / row, k, func(dst []float32, i int) error {
		return quantize.Decode(typ, dst, s.Data[i*row:][:row])
	}}
}

func (t *tensors) has(name string) bool { return t.folder.Tensors[name] != nil }

// add puts a tensor of the file together; dims are in ggml's order.
func (t *tensors) add(name string, s source, dims ...int) {
	if t.err != nil {
		return
	}
	out := quantize.Tensor{Name: name, From: s.typ, Row: func(dst []float32, row int) error {
		if err := s.read(dst, row); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		return nil
	}}
	for _, d := range dims {
		out.Dims = append(out.Dims, uint64(d))
	}
	t.list = append(t.list, out)
}

// each changes the numbers one by one.
func (s source) each(f func(float32) float32) source {
	read := s.read
	s.read = func(dst []float32, row int) error {
		err := read(dst, row)
		for i, x := range dst {
			dst[i] = f(x)
		}
		return err
	}
	return s
}

// permute takes row at(i) for row i.
func (s source) permute(at func(row int) int) source {
	read := s.read
	s.read = func(dst []float32, row int) error { return read(dst, at(row)) }
	return s
}

// columns takes column at(j) for column j.
func (s source) columns(at func(column int) int) source {
	read := s.read
	s.read = func(dst []float32, row int) error {
		whole := make([]float32, s.k)
		err := read(whole, row)
		for j := range dst {
			dst[j] = whole[at(j)]
		}
		return err
	}
	return s
}

// stack puts sources of the same shape one under the other.
func stack(list []source) source {
	s := list[0]
	each := s.rows
	s.rows *= len(list)
	s.read = func(dst []float32, row int) error { return list[row/each].read(dst, row%each) }
	return s
}

// norm adds a vector; those of Qwen3.5 are centred on zero, but for the delta nets'.
func (t *tensors) norm(name, from string, n int) {
	s := t.take(from, n)
	if t.c.hybrid() && !strings.HasSuffix(name, "ssm_norm.weight") && t.err == nil {
		s = s.each(func(x float32) float32 { return 1 + x })
	}
	t.add(name, s, n)
}

func (t *tensors) matrix(name, from string, rows, k int) { t.add(name, t.take(from, rows, k), k, rows) }

// collect lists all tensors.
func collect(c *config, folder *safetensors.Folder) ([]quantize.Tensor, error) {
	t := &tensors{c: c, folder: folder, prefix: "model.", used: map[string]bool{}}
	if t.has("model.language_model.embed_tokens.weight") {
		t.prefix = "model.language_model."
	}
	t.matrix("token_embd.weight", t.prefix+"embed_tokens.weight", c.Vocab, c.Hidden)
	for i := range c.Layers {
		t.layer(fmt.Sprintf("blk.%d.", i), fmt.Sprintf("%slayers.%d.", t.prefix, i), i)
	}
	t.norm("output_norm.weight", t.prefix+"norm.weight", c.Hidden)
	if c.tied() {
		t.used["lm_head.weight"] = true // some files have it all the same
	} else {
		t.matrix("output.weight", "lm_head.weight", c.Vocab, c.Hidden)
	}
	for name := range folder.Tensors {
		if !t.used[name] && !skipped(name) {
			t.keep("tensor %s is not known", name)
		}
	}
	return t.list, t.err
}

// skipped are the parts that are not run: what sees, and what predicts further
// tokens.
func skipped(name string) bool {
	for _, p := range []string{"mtp.", "model.mtp.", "visual.", "model.visual."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return strings.HasSuffix(name, ".rotary_emb.inv_freq")
}

func (t *tensors) layer(to, from string, i int) {
	c := t.c
	t.norm(to+"attn_norm.weight", from+"input_layernorm.weight", c.Hidden)
	if c.hybrid() && c.recurrent[i] {
		t.delta(to, from+"linear_attn.")
	} else {
		t.attention(to, from+"self_attn.")
	}
	post := "ffn_norm.weight"
	if c.hybrid() {
		post = "post_attention_norm.weight"
	}
	t.norm(to+post, from+"post_attention_layernorm.weight", c.Hidden)
	if c.mixture() {
		t.experts(to, from+"mlp.")
	} else {
		t.feedForward(to, from+"mlp.", "", c.FFN)
	}
}

func (t *tensors) attention(to, from string) {
	c := t.c
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	rows := q
	if c.hybrid() { // a gate beside each query head
		rows = 2 * q
	}
	t.matrix(to+"attn_q.weight", from+"q_proj.weight", rows, c.Hidden)
	t.matrix(to+"attn_k.weight", from+"k_proj.weight", kv, c.Hidden)
	t.matrix(to+"attn_v.weight", from+"v_proj.weight", kv, c.Hidden)
	t.matrix(to+"attn_output.weight", from+"o_proj.weight", c.Hidden, q)
	t.norm(to+"attn_q_norm.weight", from+"q_norm.weight", c.HeadDim)
	t.norm(to+"attn_k_norm.weight", from+"k_norm.weight", c.HeadDim)
}

// tiled is the place in the folder of element i of value heads of the given size:
// the file has the first value head of every key head, then the second ones, and so
// on; the folder has the value heads of a key head together.
func (c *config) tiled(size int) func(i int) int {
	per := c.ValHeads / c.KeyHeads
	return func(i int) int {
		head := i / size
		return (head%c.KeyHeads*per+head/c.KeyHeads)*size + i%size
	}
}

func (t *tensors) delta(to, from string) {
	c := t.c
	keys, inner := 2*c.KeyHeads*c.KeyDim, c.ValHeads*c.ValDim
	values := func(i int) int { // behind rows that stay
		if i < keys {
			return i
		}
		return keys + c.tiled(c.ValDim)(i-keys)
	}
	add := func(name, of string, at func(int) int, rows, k int) {
		if s := t.take(from+of, rows, k); t.err == nil {
			t.add(to+name, s.permute(at), k, rows)
		}
	}
	add("attn_qkv.weight", "in_proj_qkv.weight", values, keys+inner, c.Hidden)
	add("attn_gate.weight", "in_proj_z.weight", c.tiled(c.ValDim), inner, c.Hidden)
	add("ssm_alpha.weight", "in_proj_a.weight", c.tiled(1), c.ValHeads, c.Hidden)
	add("ssm_beta.weight", "in_proj_b.weight", c.tiled(1), c.ValHeads, c.Hidden)
	conv, dt, a := t.take(from+"conv1d.weight", keys+inner, 1, c.Taps), t.take(from+"dt_bias", c.ValHeads), t.take(from+"A_log", c.ValHeads)
	out := t.take(from+"out_proj.weight", c.Hidden, inner)
	if t.err != nil {
		return
	}
	t.add(to+"ssm_conv1d.weight", conv.permute(values), c.Taps, keys+inner)
	t.add(to+"ssm_dt.bias", dt.columns(c.tiled(1)), c.ValHeads)
	t.add(to+"ssm_a", a.columns(c.tiled(1)).each(func(x float32) float32 { return float32(-math.Exp(float64(x))) }), c.ValHeads)
	t.norm(to+"ssm_norm.weight", from+"norm.weight", c.ValDim)
	t.add(to+"ssm_out.weight", out.columns(c.tiled(c.ValDim)), inner, c.Hidden)
}

func (t *tensors) feedForward(to, from, suffix string, width int) {
	t.matrix(to+"ffn_gate"+suffix+".weight", from+"gate_proj.weight", width, t.c.Hidden)
	t.matrix(to+"ffn_up"+suffix+".weight", from+"up_proj.weight", width, t.c.Hidden)
	t.matrix(to+"ffn_down"+suffix+".weight", from+"down_proj.weight", t.c.Hidden, width)
}

// experts are stacked in the folder, gates and ups fused, or stand one by one.
func (t *tensors) experts(to, from string) {
	c := t.c
	n, width := c.Experts, c.ExpertFFN
	t.matrix(to+"ffn_gate_inp.weight", from+"gate.weight", n, c.Hidden)
	if fused := from + "experts.gate_up_proj"; t.has(fused) {
		both, down := t.take(fused, n, 2*width, c.Hidden), t.take(from+"experts.down_proj", n, c.Hidden, width)
		if t.err != nil {
			return
		}
		half := func(first int) source {
			return both.permute(func(i int) int { return i/width*2*width + first + i%width })
		}
		t.add(to+"ffn_gate_exps.weight", half(0), c.Hidden, width, n)
		t.add(to+"ffn_up_exps.weight", half(width), c.Hidden, width, n)
		t.add(to+"ffn_down_exps.weight", down, width, c.Hidden, n)
	} else {
		t.stacked(to+"ffn_gate_exps.weight", from, "gate_proj", width, c.Hidden)
		t.stacked(to+"ffn_up_exps.weight", from, "up_proj", width, c.Hidden)
		t.stacked(to+"ffn_down_exps.weight", from, "down_proj", c.Hidden, width)
	}
	if c.SharedFFN > 0 {
		t.feedForward(to, from+"shared_expert.", "_shexp", c.SharedFFN)
		t.add(to+"ffn_gate_inp_shexp.weight", t.take(from+"shared_expert_gate.weight", 1, c.Hidden), c.Hidden)
	}
}

func (t *tensors) stacked(to, from, name string, rows, k int) {
	var list []source
	for e := range t.c.Experts {
		list = append(list, t.take(fmt.Sprintf("%sexperts.%d.%s.weight", from, e, name), rows, k))
	}
	if t.err == nil {
		t.add(to, stack(list), k, rows, t.c.Experts)
	}
}
