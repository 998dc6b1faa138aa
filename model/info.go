package model

import (
	"strings"

	"github.com/ternvk/tern/model/family"
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
	Experts, ExpertsUsed    int    // of a mixture; 0 without
	Recurrent               int    // layers with recurrent state
	MatrixBytesPerToken     uint64 // weights read to decode one token
}

// Estimate is the device memory that a model takes, in bytes.
type Estimate struct {
	Weights, Constants, Cache, State, Batch uint64
	CachePerToken                           uint64
}

// Total is the sum, without the scratch memory of the executor.
func (e Estimate) Total() uint64 { return e.Weights + e.Constants + e.Cache + e.State + e.Batch }

// Describe reads what a file holds, without an executor.
func Describe(f *gguf.File) (Info, error) {
	net, err := readFamily(f)
	if err != nil {
		return Info{}, err
	}
	c := net.Base()
	i := Info{
		Architecture: c.Architecture, Layers: c.Layers, Hidden: c.Hidden, FFN: c.FFN,
		Heads: c.Heads.Q, KVHeads: c.Heads.KV, HeadDim: c.Heads.Dim,
		Vocab: c.Vocab, TrainedContext: c.Context, Tied: c.Tied,
		Experts: c.Experts.Count, ExpertsUsed: c.Experts.Used,
	}
	for layer := range c.Layers {
		if c.HasState(layer) {
			i.Recurrent++
		}
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
		switch {
		case t.Name == "token_embd.weight" && !c.Tied:
		case strings.HasSuffix(t.Name, "_exps.weight"):
			i.MatrixBytesPerToken += t.Size / uint64(c.Experts.Count) * uint64(c.Experts.Used)
		default:
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
	net, err := readFamily(f)
	if err != nil {
		return Estimate{}, err
	}
	if o, err = o.withDefaults(net.Base()); err != nil {
		return Estimate{}, err
	}
	return estimate(f, net, o)
}

// estimate is EstimateMemory for options with defaults.
func estimate(f *gguf.File, net family.Model, o Options) (e Estimate, err error) {
	c := net.Base()
	if e.Weights, e.Constants, err = net.Tensors().Bytes(f, o.Context); err != nil {
		return Estimate{}, err
	}
	for i := range c.Layers {
		if c.HasState(i) {
			conv, rule := op.StateBytes(c.Delta, stateSlots(c, o))
			e.State += conv + rule
			continue
		}
		e.Cache += op.CacheBytes(c.Heads, cachePages(o))
		e.CachePerToken += op.CacheBytes(c.Heads, 1) / op.PageTokens
	}
	e.Batch = uint64(batchWords(c, o)) * 4
	return e, nil
}
