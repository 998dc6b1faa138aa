package model

import (
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/op"
)

// Info describes a model.
type Info struct {
	Name, Architecture      string
	Quantisation            string // of the largest tensors
	FileBytes, Parameters   uint64 // tensor bytes and elements
	Layers, Hidden, FFN     int
	Heads, KVHeads, HeadDim int
	Vocab, TrainedContext   int
	Tied                    bool
	MatrixBytesPerToken     uint64 // weights read to decode one token
}

// Estimate is the device memory that a model takes, in bytes.
type Estimate struct {
	Weights, Constants, Cache, Batch uint64
	CachePerToken                    uint64
}

// Total is the sum, without the scratch memory of the executor.
func (e Estimate) Total() uint64 { return e.Weights + e.Constants + e.Cache + e.Batch }

// Describe reads what a file holds, without an executor.
func Describe(f *gguf.File) (Info, error) {
	c, err := readConfig(f)
	if err != nil {
		return Info{}, err
	}
	i := Info{
		Architecture: "qwen3", Layers: c.Layers, Hidden: c.Hidden, FFN: c.FFN,
		Heads: c.Heads.Q, KVHeads: c.Heads.KV, HeadDim: c.Heads.Dim,
		Vocab: c.Vocab, TrainedContext: c.Context, Tied: c.Tied,
	}
	i.Name, _, _ = f.String("general.name")
	elements := map[gguf.Type]uint64{}
	for _, t := range f.Tensors {
		i.FileBytes += t.Size
		i.Parameters += t.Elements()
		elements[t.Type] += t.Elements()
		if elements[t.Type] > elements[0] && t.Type != gguf.F32 {
			i.Quantisation = t.Type.String()
		}
		if t.Name != "token_embd.weight" || c.Tied {
			i.MatrixBytesPerToken += t.Size
		}
	}
	return i, nil
}

// Info describes the open model.
func (m *Model) Info() Info {
	i, _ := Describe(m.file) // it was read before
	return i
}

// EstimateMemory tells what opening f with the options will take, before
// anything is allocated.
func EstimateMemory(f *gguf.File, o Options) (Estimate, error) {
	c, err := readConfig(f)
	if err != nil {
		return Estimate{}, err
	}
	if o, err = o.withDefaults(c); err != nil {
		return Estimate{}, err
	}
	pages := (o.Context + op.PageTokens - 1) / op.PageTokens * o.Sequences
	var e Estimate
	e.Weights, e.Constants = c.Bytes(o.Context)
	e.Cache = op.CacheBytes(c.Heads, pages) * uint64(c.Layers)
	e.CachePerToken = op.CacheBytes(c.Heads, 1) * uint64(c.Layers) / op.PageTokens
	e.Batch = uint64(op.BatchWords(o.Chunk, o.Chunk, pages)) * 4
	return e, nil
}
