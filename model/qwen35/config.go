// Package qwen35 is the Qwen3.5 family: three layers of gated delta net to one of
// full attention whose output is gated, rotary embeddings of a part of each head,
// SwiGLU, dense or as a mixture of experts.
package qwen35

import (
	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/op"
)

// Values of general.architecture: with dense feed-forward blocks, and with mixtures
// of experts.
const (
	Dense   = "qwen35"
	Mixture = "qwen35moe"
)

// Read reads and checks the metadata of f.
func Read(f *gguf.File, architecture string) (*Model, error) {
	r := family.NewReader(f, architecture)
	m := &Model{Config: family.ReadConfig(r)}
	m.ReadFeedForward(r, architecture == Mixture)
	m.readHybrid(r)
	if r.Err() == nil {
		m.layers = make([]layer, m.Layers)
	}
	return m, r.Err()
}

// readHybrid reads which layers are recurrent and the sizes of the delta nets.
func (m *Model) readHybrid(r *family.Reader) {
	d := op.Delta{
		Keys:   r.Int("ssm.group_count", 0),
		Values: r.Int("ssm.time_step_rank", 0),
		Dim:    r.Int("ssm.state_size", 0),
		Taps:   r.Int("ssm.conv_kernel", 0),
	}
	inner := r.Int("ssm.inner_size", d.Inner())
	r.Require(d.Keys >= 1 && d.Values >= 1 && d.Values <= 1024 && d.Values%max(d.Keys, 1) == 0, "ssm.time_step_rank %d, group_count %d: the first must be a multiple of the second", d.Values, d.Keys)
	r.Require(d.Dim == 64 || d.Dim == 128 || d.Dim == 256, "ssm.state_size %d: want 64, 128 or 256", d.Dim)
	r.Require(d.Taps >= 2 && d.Taps <= 16, "ssm.conv_kernel %d: want 2 to 16", d.Taps)
	r.Require(inner == d.Inner(), "ssm.inner_size %d: want state_size %d times time_step_rank %d", inner, d.Dim, d.Values)
	r.Require(m.Rope.Dim%2 == 0 && m.Rope.Dim <= m.Heads.Dim, "rope.dimension_count %d of heads of %d", m.Rope.Dim, m.Heads.Dim)
	if s := r.Ints("rope.dimension_sections"); s != nil {
		r.Require(len(s) >= 3 && covers(s, m.Rope.Dim/2), "rope.dimension_sections %v: they leave out some of %d pairs", s, m.Rope.Dim/2)
	}
	extra := r.Optional("nextn_predict_layers")
	r.Require(extra >= 0 && extra < max(m.Layers, 1), "nextn_predict_layers %d of %d blocks", extra, m.Layers)
	m.Layers -= extra // blocks that predict further tokens are not run
	every := r.Int("full_attention_interval", 4)
	r.Require(every >= 1, "full_attention_interval %d", every)
	kinds := r.Flags("attention.recurrent_layers")
	r.Require(kinds == nil || len(kinds) >= m.Layers, "attention.recurrent_layers: %d for %d layers", len(kinds), m.Layers)
	if r.Err() != nil {
		return
	}
	m.Delta = d
	m.Recurrent = make([]bool, m.Layers)
	for i := range m.Recurrent {
		if m.Recurrent[i] = (i+1)%every != 0; kinds != nil {
			m.Recurrent[i] = kinds[i]
		}
	}
}

// covers reports whether every pair turns with one of the three positions of a
// token (time, height, width), which for text are the same: pair i belongs to
// section i%3 if it is below three times that section's size.
func covers(sections []int32, pairs int) bool {
	for i := range pairs {
		if i >= 3*int(sections[i%3]) {
			return false
		}
	}
	return true
}
