package model

import (
	"strings"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/graph"
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
	Context                                 int // positions that it is for
	Weights, Constants, Cache, State, Batch uint64
	Scratch                                 uint64 // of a piece of a prompt, or a step of all sessions
	CachePerToken                           uint64
}

// Total is the sum.
func (e Estimate) Total() uint64 {
	return e.Weights + e.Constants + e.Cache + e.State + e.Batch + e.Scratch
}

// need is the estimate as executors check it.
func (e Estimate) need() [graph.NumPurposes]uint64 {
	return [graph.NumPurposes]uint64{graph.Weights: e.Weights, graph.Constants: e.Constants, graph.Cache: e.Cache + e.State,
		graph.Batch: e.Batch, graph.Scratch: e.Scratch}
}

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
// anything is allocated. Options.Executor may be nil.
func EstimateMemory(f *gguf.File, o Options) (Estimate, error) {
	b, err := newBudget(f, o)
	if err != nil {
		return Estimate{}, err
	}
	return b.estimate(b.options)
}
