package conform

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
)

// step is one node with the words of its bindings before it and, by the twin,
// after it.
type step struct {
	node   *graph.Node
	values []*words // by binding; bindings of one value share an entry
}

type words struct {
	access        graph.Access
	kind          graph.Kind
	before, after []uint32 // one slice where the node only reads
}

// written counts the words of the bindings that the node writes.
func (s *step) written() (n int64) {
	seen := map[*words]bool{}
	for _, w := range s.values {
		if !seen[w] && w.access&graph.Write != 0 {
			n += int64(len(w.after))
		}
		seen[w] = true
	}
	return n
}

// Words that stand where nothing has been written: in outputs, and around bindings.
const (
	poison = 0xc0ffee11
	guard  = 0xfeedface
)

// steps records the case and runs it on the reference. It hands over the nodes of
// the case's contract one by one, until check returns false. Nodes of other
// contracts, which make inputs, are run on the reference only.
func (c *Case) steps(ctx context.Context, check func(*step) bool) error {
	x := ref.New()
	defer x.Close()
	m := newMaker(x, c.rng, c.act)
	c.record(m)
	if m.err != nil {
		return m.err
	}
	p, err := x.Compile(m.G)
	if err != nil {
		return err
	}
	defer p.Close()
	found := false
	for i, n := range m.G.Nodes {
		s := &step{node: n}
		if n.Contract == c.Contract {
			if err := s.before(x, p); err != nil {
				return err
			}
		}
		if err := x.RunNodes(ctx, p, i, i+1); err != nil {
			return err
		}
		if n.Contract != c.Contract {
			continue
		}
		found = true
		if err := s.after(x, p); err != nil {
			return err
		}
		if !check(s) {
			break
		}
	}
	if !found {
		return fmt.Errorf("no node of contract %s", c.Contract)
	}
	return nil
}

// before takes the words that the node finds, having put poison into what it
// only writes.
func (s *step) before(x graph.Executor, p graph.Program) error {
	byValue := map[*graph.Value]*words{}
	for _, a := range s.node.Args {
		if byValue[a.Value] == nil {
			byValue[a.Value] = &words{kind: a.Kind, before: make([]uint32, a.Bytes/4)}
		}
		byValue[a.Value].access |= a.Access
		s.values = append(s.values, byValue[a.Value])
	}
	for v, w := range byValue {
		if w.after = w.before; w.access != graph.Read {
			w.after = make([]uint32, len(w.before))
		}
		buf, at := p.Place(v)
		if w.access == graph.Write {
			for i := range w.before {
				w.before[i] = poison
			}
			if err := x.Write(buf, at, asBytes(w.before)); err != nil {
				return err
			}
			continue
		}
		if err := x.Read(buf, at, asBytes(w.before)); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) after(x graph.Executor, p graph.Program) error {
	for i, a := range s.node.Args {
		if s.values[i].access == graph.Read {
			continue
		}
		buf, at := p.Place(a.Value)
		if err := x.Read(buf, at, asBytes(s.values[i].after)); err != nil {
			return err
		}
	}
	return nil
}

// bench runs steps on the executor under test, in one buffer that grows.
type bench struct {
	x    graph.Executor
	buf  graph.Buffer
	runs int

	bound *ref.Bound // of the words of floats that a step writes, nil: they equal the twin's
	off   distances
}

// distances are those of words from the twin's, as shares of the bound.
type distances struct {
	words    int64
	sum, top float64
}

func (d *distances) mean() float64 { return d.sum / max(1, float64(d.words)) }

func (d *distances) add(o distances) {
	d.words, d.sum, d.top = d.words+o.words, d.sum+o.sum, max(d.top, o.top)
}

func (b *bench) close() {
	if b.buf != nil {
		b.x.Free(b.buf)
	}
}

// alignWords is the alignment of bindings, and the least distance between two.
const alignWords = 64

// check runs a step and returns the first word that differs, or lies beyond the bound:
// of any binding, read-only ones included, or of the guard words around them.
func (b *bench) check(ctx context.Context, s *step) (*Failure, error) {
	b.runs++
	at := make([]int, len(s.values)) // first word of each binding
	place := map[*words]int{}
	end := alignWords * (1 + b.runs%3)
	for i, w := range s.values {
		if _, ok := place[w]; !ok {
			if uint64(len(w.before))*4 > b.x.Limits().MaxBinding {
				return nil, fmt.Errorf("a binding of %d bytes, at most %d", len(w.before)*4, b.x.Limits().MaxBinding)
			}
			place[w] = end
			end += (len(w.before)/alignWords + 2) * alignWords
		}
		at[i] = place[w]
	}
	if b.buf == nil || b.buf.Bytes() < uint64(end)*4 {
		b.close()
		b.buf = nil
		buf, err := b.x.Alloc(graph.Cache, "conform", uint64(end)*4)
		if err != nil {
			return nil, err
		}
		b.buf = buf
	}
	before, want := make([]uint32, end), make([]uint32, end)
	for i := range before {
		before[i], want[i] = guard, guard
	}
	g := graph.New("conform")
	n := *s.node
	n.Args = make([]graph.Arg, len(s.node.Args))
	values := map[*words]*graph.Value{}
	for i, a := range s.node.Args {
		w := s.values[i]
		copy(before[at[i]:], w.before)
		copy(want[at[i]:], w.after)
		if values[w] == nil {
			values[w] = &graph.Value{Name: a.Name, Kind: a.Kind, Shape: a.Shape, Bytes: a.Bytes, Buffer: b.buf, Offset: uint64(at[i]) * 4}
		}
		n.Args[i] = graph.Arg{Value: values[w], Access: a.Access}
	}
	g.Add(&n)
	got, err := b.run(ctx, g, before)
	if err != nil {
		return nil, err
	}
	var bound []float32
	if b.bound != nil {
		args := make([][]uint32, len(s.values))
		for i, w := range s.values {
			args[i] = w.before
		}
		bound = b.bound.Of(s.node, args)
	}
	var off distances
	f := s.compare(at, got, want, bound, &off)
	b.off.add(off)
	if f == nil && b.bound != nil && off.mean() > b.bound.Mean {
		f = &Failure{Err: fmt.Sprintf("words lie %.3f of the bound from the reference in the mean, at most %.3f is right", off.mean(), b.bound.Mean)}
	}
	return f, nil
}

func (b *bench) run(ctx context.Context, g *graph.Graph, image []uint32) ([]uint32, error) {
	if err := b.x.Write(b.buf, 0, asBytes(image)); err != nil {
		return nil, err
	}
	p, err := b.x.Compile(g)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := b.x.Run(ctx, p); err != nil {
		return nil, err
	}
	got := make([]uint32, len(image))
	return got, b.x.Read(b.buf, 0, asBytes(got))
}

// compare finds the first wrong word and names the binding that it lies in, or
// lies closest behind. Words of floats that the step writes may lie within bound, if
// there is one, from what they should be.
func (s *step) compare(at []int, got, want []uint32, bound []float32, off *distances) *Failure {
	for i := range want {
		if got[i] == want[i] && bound == nil {
			continue
		}
		binding := 0
		for j, first := range at {
			if first <= i && first >= at[binding] {
				binding = j
			}
		}
		w := s.values[binding]
		k := i - at[binding]
		if inside := k >= 0 && k < len(w.after); inside && w.kind == graph.F32 {
			if isNaN(got[i]) && isNaN(want[i]) {
				continue // NaN bits are nobody's promise
			}
			if bound != nil && w.access&graph.Write != 0 && off.within(got[i], want[i], bound[k]) {
				continue
			}
		}
		if got[i] == want[i] {
			continue
		}
		return &Failure{Binding: binding, Word: i - at[binding], Got: got[i], Want: want[i]}
	}
	return nil
}

// within reports whether a float lies as close to what it should be as the bound says.
func (d *distances) within(got, want uint32, bound float32) bool {
	if math.IsInf(float64(bound), 1) {
		return true
	}
	g, w := float64(math.Float32frombits(got)), float64(math.Float32frombits(want))
	if share := math.Abs(g-w) / float64(bound); share <= 1 {
		d.add(distances{1, share, share})
		return true
	}
	return !finite(w) && !finite(g)
}

func finite(x float64) bool { return x-x == 0 }

func isNaN(w uint32) bool { return w&0x7fff_ffff > 0x7f80_0000 }

func asBytes(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*4)
}
