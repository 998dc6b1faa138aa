package qwen3

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
	attnNorm, qNorm, kNorm op.Const
	qkv, o                 family.Linear
	ffnNorm                op.Const
	feed                   family.FeedForward
}

// Tensors lists the tensors of the file.
func (m *Model) Tensors() *family.Tensors {
	t := family.NewTensors(&m.Config)
	h := m.Heads
	q, kv := h.Q*h.Dim, h.KV*h.Dim
	m.ends.Tensors(t, &m.Config)
	t.Rope(&m.rope, m.Rope)
	for i := range m.layers {
		l, p := &m.layers[i], fmt.Sprintf("blk.%d.", i)
		t.Vector(&l.attnNorm, p+"attn_norm.weight", m.Hidden)
		t.Linear(&l.qkv, p+"attn_qkv", m.Hidden, family.Rows(p+"attn_q", q), family.Rows(p+"attn_k", kv), family.Rows(p+"attn_v", kv))
		t.Vector(&l.qNorm, p+"attn_q_norm.weight", h.Dim)
		t.Vector(&l.kNorm, p+"attn_k_norm.weight", h.Dim)
		t.Linear(&l.o, p+"attn_output", q, family.Rows(p+"attn_output", m.Hidden))
		t.Vector(&l.ffnNorm, p+"ffn_norm.weight", m.Hidden)
		l.feed.Tensors(t, p, &m.Config)
	}
	return t
}
