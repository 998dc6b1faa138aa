package main

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/graph"
)

const (
	defaultContext = 4096 // positions, where the model has as many
	defaultChunk   = 512  // tokens of a prompt that run at once
)

// memoryReport is the device memory that a model takes, in bytes.
type memoryReport struct {
	Context          int    `json:"context"`
	Weights          uint64 `json:"weights"`
	Constants        uint64 `json:"constants"`
	Cache            uint64 `json:"cache"`
	CachePerPosition uint64 `json:"cache_per_position"`
	State            uint64 `json:"state"`
	Chunk            int    `json:"chunk"`   // tokens of a prompt that run at once
	Scratch          uint64 `json:"scratch"` // of such a run
	Batch            uint64 `json:"batch"`
	Total            uint64 `json:"total"`
}

// memory tells what the model takes with the context of the flags.
func (a *app) memory(ctx context.Context, f *gguf.File, s source) (*memoryReport, error) {
	info, err := model.Describe(f)
	if err != nil {
		return nil, err
	}
	positions := a.context
	if positions == 0 {
		positions = min(info.TrainedContext, defaultContext)
	}
	o, err := a.options(model.Options{Context: positions})
	if err != nil {
		return nil, err
	}
	e, err := model.EstimateMemory(f, o)
	if err != nil {
		return nil, err
	}
	chunk := min(positions, defaultChunk)
	g, err := a.graph(ctx, s, chunk, positions)
	if err != nil {
		return nil, err
	}
	r := &memoryReport{
		Context: positions, Weights: e.Weights, Constants: e.Constants, Cache: e.Cache, CachePerPosition: e.CachePerToken,
		State: e.State, Chunk: chunk, Scratch: g.Plan(256).Bytes, Batch: e.Batch,
	}
	r.Total = e.Total() + r.Scratch
	return r, nil
}

// graph records the run of n tokens, with the logits of the last, without a
// device.
func (a *app) graph(ctx context.Context, s source, n, positions int) (*graph.Graph, error) {
	m, err := a.load(ctx, s, dry{}, model.Options{Context: positions, Chunk: n})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	p, err := m.Program(n, 1, positions)
	if err != nil {
		return nil, err
	}
	return p.Graph(), nil
}

func (r *memoryReport) print(w io.Writer) {
	fmt.Fprintf(w, "\nmemory with a context of %d\n", r.Context)
	fmt.Fprintf(w, "  weights\t%s\n  constants\t%s\n", sizeText(r.Weights), sizeText(r.Constants))
	fmt.Fprintf(w, "  cache\t%s\t%s a position\n", sizeText(r.Cache), sizeText(r.CachePerPosition))
	if r.State > 0 {
		fmt.Fprintf(w, "  state\t%s\n", sizeText(r.State))
	}
	fmt.Fprintf(w, "  scratch\t%s\tfor %d tokens of a prompt at once\n  batch\t%s\n", sizeText(r.Scratch), r.Chunk, sizeText(r.Batch))
	fmt.Fprintf(w, "  total\t%s\n", sizeText(r.Total))
}

// dry is an executor of graphs that are never run: it holds nothing.
type dry struct{}

type dryBuffer uint64

func (b dryBuffer) Bytes() uint64 { return uint64(b) }

type dryProgram struct{ g *graph.Graph }

func (p dryProgram) Graph() *graph.Graph                         { return p.g }
func (p dryProgram) Place(v *graph.Value) (graph.Buffer, uint64) { return v.Buffer, v.Offset }
func (p dryProgram) Close()                                      {}

func (dry) Name() string { return "nothing" }
func (dry) Limits() graph.Limits {
	return graph.Limits{MaxBinding: math.MaxInt64, MaxBuffer: math.MaxInt64}
}
func (dry) Free(graph.Buffer)                                       {}
func (dry) Write(graph.Buffer, uint64, []byte) error                { return nil }
func (dry) Read(graph.Buffer, uint64, []byte) error                 { return graph.ErrUnsupported }
func (dry) Compile(g *graph.Graph) (graph.Program, error)           { return dryProgram{g}, nil }
func (dry) Run(context.Context, graph.Program) error                { return graph.ErrUnsupported }
func (dry) RunNodes(context.Context, graph.Program, int, int) error { return graph.ErrUnsupported }
func (dry) Close() error                                            { return nil }

func (dry) Alloc(_ graph.Purpose, _ string, bytes uint64) (graph.Buffer, error) {
	return dryBuffer(bytes), nil
}

func (dry) Fill(graph.Buffer, uint64, uint64, func(uint64, []byte) error) error { return nil }
