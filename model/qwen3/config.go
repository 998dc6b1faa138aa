// Package qwen3 is the Qwen3 family: grouped-query attention with norms on query
// and key heads, rotary embeddings (YaRN), SwiGLU,
// dense or as a mixture of experts.
package qwen3

import (
	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/model/gguf"
)

// Values of general.architecture: with dense feed-forward blocks, and with mixtures
// of experts.
const (
	Dense   = "qwen3"
	Mixture = "qwen3moe"
)

// Read reads and checks the metadata of f.
func Read(f *gguf.File, architecture string) (*Model, error) {
	r := family.NewReader(f, architecture)
	m := &Model{Config: family.ReadConfig(r)}
	m.ReadFeedForward(r, architecture == Mixture)
	r.Require(m.Rope.Dim == m.Heads.Dim, "rope.dimension_count %d: want all %d", m.Rope.Dim, m.Heads.Dim)
	if r.Err() == nil {
		m.layers = make([]layer, m.Layers)
	}
	return m, r.Err()
}
