package ref

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// Executor runs graphs with the twins, in memory.
type Executor struct {
	mu     sync.Mutex
	closed bool
}

// maxBytes is far above what a machine can compute with, and below what would
// end the process when it is asked for.
const maxBytes = 1 << 36

// New returns an executor. It implements [graph.Executor] and [graph.Checker].
func New() *Executor { return &Executor{} }

type buffer struct{ words []uint32 }

func (b *buffer) Bytes() uint64 { return uint64(len(b.words)) * 4 }

func (b *buffer) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b.words))), len(b.words)*4)
}

type program struct {
	g       *graph.Graph
	layout  *graph.Layout
	scratch *buffer
	twins   []Twin
}

func (p *program) Graph() *graph.Graph { return p.g }
func (p *program) Close()              {}
func (p *program) Place(v *graph.Value) (graph.Buffer, uint64) {
	if v.IsTemp() {
		return p.scratch, p.layout.Offset(v)
	}
	return v.Buffer, v.Offset
}

func (x *Executor) Name() string { return "reference" }

func (x *Executor) Limits() graph.Limits {
	return graph.Limits{MaxBinding: maxBytes, MaxBuffer: maxBytes}
}

func (x *Executor) Check(need [graph.NumPurposes]uint64) error {
	var sum uint64
	for _, n := range need {
		sum += min(n, maxBytes+1)
	}
	if sum > maxBytes {
		return fmt.Errorf("reference: %w: %d MiB are needed, at most %d MiB are used", graph.ErrOutOfMemory, sum>>20, maxBytes>>20)
	}
	return nil
}

// Reserve does nothing: Go's allocator finds room for each buffer.
func (x *Executor) Reserve([graph.NumPurposes]uint64) {}

func (x *Executor) Alloc(p graph.Purpose, name string, bytes uint64) (graph.Buffer, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, fmt.Errorf("reference: alloc %s: %w", name, graph.ErrClosed)
	}
	if bytes > maxBytes {
		return nil, fmt.Errorf("reference: %s buffer %q of %d bytes, at most %d: %w", p, name, bytes, uint64(maxBytes), graph.ErrOutOfMemory)
	}
	return &buffer{make([]uint32, (bytes+3)/4)}, nil
}

func (x *Executor) Free(graph.Buffer) {}

func window(b graph.Buffer, offset, bytes uint64) ([]byte, error) {
	all := b.(*buffer).bytes()
	if offset > uint64(len(all)) || bytes > uint64(len(all))-offset {
		return nil, fmt.Errorf("reference: bytes %d..%d of a buffer of %d", offset, offset+bytes, len(all))
	}
	return all[offset:][:bytes], nil
}

func (x *Executor) Write(b graph.Buffer, offset uint64, data []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	w, err := window(b, offset, uint64(len(data)))
	copy(w, data)
	return err
}

func (x *Executor) Read(b graph.Buffer, offset uint64, data []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	w, err := window(b, offset, uint64(len(data)))
	copy(data, w)
	return err
}

func (x *Executor) Fill(b graph.Buffer, offset, bytes uint64, fill func(off uint64, p []byte) error) error {
	w, err := window(b, offset, bytes)
	if err != nil {
		return err
	}
	const piece = 1 << 20
	return parallel.Try((len(w)+piece-1)/piece, func(i int) error {
		p := w[i*piece:]
		return fill(uint64(i*piece), p[:min(piece, len(p))])
	})
}

func (x *Executor) Compile(g *graph.Graph) (graph.Program, error) {
	p := &program{g: g, layout: g.Plan(256)}
	for _, n := range g.Nodes {
		t, err := Lookup(n.Contract)
		if err != nil {
			return nil, err
		}
		p.twins = append(p.twins, t)
	}
	p.scratch = &buffer{make([]uint32, p.layout.Bytes/4)}
	return p, nil
}

func (x *Executor) Run(ctx context.Context, p graph.Program) error {
	return x.RunNodes(ctx, p, 0, len(p.Graph().Nodes))
}

func (x *Executor) RunNodes(ctx context.Context, gp graph.Program, from, to int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return fmt.Errorf("reference: run %s: %w", gp.Graph().Name, graph.ErrClosed)
	}
	p := gp.(*program)
	for i, n := range p.g.Nodes[from:to] {
		if err := ctx.Err(); err != nil {
			return err
		}
		args := make([][]uint32, len(n.Args))
		for j, a := range n.Args {
			b, at := p.Place(a.Value)
			args[j] = b.(*buffer).words[at/4:][:a.Bytes/4]
		}
		p.twins[from+i](n, args)
	}
	return nil
}

func (x *Executor) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	return nil
}
