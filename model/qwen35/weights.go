package qwen35

import (
	"fmt"

	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/runtime/op"
)

// Model is a model of the family.
type Model struct {
	family.Config
	ends   family.Vocabulary
	rope   op.Const
	layers []layer
}

// layer holds the tensors of one block. Matrices with the same input are stacked.
type layer struct {
	attnNorm, postNorm op.Const
	feed               family.FeedForward
	// of a layer with full attention
	qkv          family.Linear // q heads, k heads, v heads, gates of q heads
	o            family.Linear
	qNorm, kNorm op.Const
	// of a recurrent layer
	in, out           family.Linear // in: q, k, v heads, z, and beta and alpha
	gates             *op.Matrix    // or these by themselves
	conv, a, dt, norm op.Const
}

// Tensors lists the tensors of the file.
func (m *Model) Tensors() *family.Tensors {
	t := family.NewTensors(&m.Config)
	m.ends.Tensors(t, &m.Config)
	t.Rope(&m.rope, m.Rope)
	for i := range m.layers {
		l, p := &m.layers[i], fmt.Sprintf("blk.%d.", i)
		t.Vector(&l.attnNorm, p+"attn_norm.weight", m.Hidden)
		if m.HasState(i) {
			m.deltaTensors(t, l, p)
		} else {
			m.attentionTensors(t, l, p)
		}
		t.Vector(&l.postNorm, p+"post_attention_norm.weight", m.Hidden)
		l.feed.Tensors(t, p, &m.Config)
	}
	return t
}

// attn_q holds for each head its rows of queries, then its rows of gates.
func (m *Model) attentionTensors(t *family.Tensors, l *layer, p string) {
	h := m.Heads
	q, kv := h.Q*h.Dim, h.KV*h.Dim
	head := func(n int) family.Part {
		return family.Part{Name: p + "attn_q", First: n * h.Dim, Rows: h.Dim, Shape: []int{2 * q}}
	}
	var queries, gates []family.Part
	for n := range h.Q {
		queries, gates = append(queries, head(2*n)), append(gates, head(2*n+1))
	}
	parts := append(queries, family.Rows(p+"attn_k", kv), family.Rows(p+"attn_v", kv))
	t.Linear(&l.qkv, p+"attn_qkv", m.Hidden, append(parts, gates...)...)
	t.Vector(&l.qNorm, p+"attn_q_norm.weight", h.Dim)
	t.Vector(&l.kNorm, p+"attn_k_norm.weight", h.Dim)
	t.Linear(&l.o, p+"attn_output", q, family.Rows(p+"attn_output", m.Hidden))
}

func (m *Model) deltaTensors(t *family.Tensors, l *layer, p string) {
	d := m.Delta
	in := []family.Part{family.Rows(p+"attn_qkv", d.Channels()), family.Rows(p+"attn_gate", d.Inner())}
	gates := []family.Part{family.Rows(p+"ssm_beta", d.Values), family.Rows(p+"ssm_alpha", d.Values)}
	if m.Rotation == nil {
		in = append(in, gates...)
	} else { // their input is never rotated
		t.Plain(&l.gates, p+"ssm_beta_alpha", m.Hidden, gates...)
	}
	t.Linear(&l.in, p+"attn_qkv_gate", m.Hidden, in...)
	t.Vector(&l.conv, p+"ssm_conv1d.weight", d.Taps, d.Channels())
	t.Vector(&l.a, p+"ssm_a", d.Values)
	t.Vector(&l.dt, p+"ssm_dt.bias", d.Values)
	t.Vector(&l.norm, p+"ssm_norm.weight", d.Dim)
	t.Linear(&l.out, p+"ssm_out", d.Inner(), family.Rows(p+"ssm_out", m.Hidden))
}
