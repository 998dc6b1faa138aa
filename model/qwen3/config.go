// Package qwen3 is the Qwen3 family: grouped-query attention with norms on query
// and key heads, rotary embeddings (YaRN), SwiGLU.
package qwen3

import (
	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/model/gguf"
)

// Architecture is the value of general.architecture.
const Architecture = "qwen3"

// Read reads and checks the metadata of f.
func Read(f *gguf.File) (*Model, error) {
	r := family.NewReader(f, Architecture)
	m := &Model{Config: family.ReadConfig(r)}
	r.Require(m.Rope.Dim == m.Heads.Dim, "rope.dimension_count %d: want all %d", m.Rope.Dim, m.Heads.Dim)
	if r.Err() == nil {
		m.layers = make([]layer, m.Layers)
	}
	return m, r.Err()
}
