package model

import (
	"context"
	"github.com/ternvk/tern/runtime/op"
	"math"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/graph"
)

// dry is an executor of graphs that are never run: it holds nothing.
type dry struct{ limits graph.Limits }

type dryBuffer uint64

func (b dryBuffer) Bytes() uint64 { return uint64(b) }

type dryProgram struct{ g *graph.Graph }

func (p dryProgram) Graph() *graph.Graph                         { return p.g }
func (p dryProgram) Place(v *graph.Value) (graph.Buffer, uint64) { return v.Buffer, v.Offset }
func (p dryProgram) Close()                                      {}

func (dry) Name() string                                            { return "nothing" }
func (x dry) Limits() graph.Limits                                  { return x.limits }
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

// limitsOf are those of the options' executor, or none.
func limitsOf(o Options) graph.Limits {
	if o.Executor == nil {
		return graph.Limits{MaxBinding: math.MaxInt64, MaxBuffer: math.MaxInt64}
	}
	return o.Executor.Limits()
}

// recorder opens f without an executor or a tokenizer, to record graphs. They do not depend on
// the context that it is opened with, so a small one will do.
func recorder(f *gguf.File, o Options) (*Model, error) {
	o.Context, o.Progress, o.Executor = min(o.Context, o.Chunk), nil, dry{limitsOf(o)}
	net, err := readFamily(f)
	if err != nil {
		return nil, err
	}
	m, err := newModel(f, net, o)
	if err != nil {
		return nil, err
	}
	return m, m.place(until{m.options.Executor, context.Background()})
}

// Record returns the graph of a run of n tokens of one session, with the logits
// of the last, at positions below o.Context: for inspection, without an executor.
func Record(f *gguf.File, o Options, n int) (*graph.Graph, error) {
	net, err := readFamily(f)
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(net.Base()); err != nil {
		return nil, err
	}
	m, err := recorder(f, o)
	if err != nil {
		return nil, err
	}
	g, _ := m.record(m.shapeOf(n, 1, 1, o.Context))
	return g, nil
}

// scratch tells how many bytes of temporaries runs take.
type scratch struct {
	m     *Model
	known map[shape]uint64
}

func newScratch(f *gguf.File, o Options) (*scratch, error) {
	m, err := recorder(f, o)
	return &scratch{m, map[shape]uint64{}}, err
}

// bytes is the most that a piece of a prompt, and a step of all sessions, take.
func (s *scratch) bytes(o Options) (most uint64) {
	n, all := min(o.Chunk, o.Context), min(o.Chunk, o.Sequences)
	spread := min(o.Context, max(1, maxParts/all/2)*op.PageTokens) // the longest context of split attention, at least
	for _, run := range []shape{s.m.shapeOf(n, 1, 1, o.Context), s.m.shapeOf(all, all, all, o.Context), s.m.shapeOf(all, all, all, spread)} {
		if _, ok := s.known[run]; !ok {
			g, _ := s.m.record(run)
			s.known[run] = g.Plan(placeAlignment).Bytes
		}
		most = max(most, s.known[run])
	}
	return most
}

// placeAlignment is that of temporaries on every executor, in bytes.
const placeAlignment = 256
