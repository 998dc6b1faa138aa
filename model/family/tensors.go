package family

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/rope"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/mapped"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/parallel"
)

// Tensors is the list of what a model takes from its file.
type Tensors struct {
	rotation *Rotation
	matrices []matrix
	vectors  []vector
	tables   []table
	err      error
}

// NewTensors begins the list of a model.
func NewTensors(c *Config) *Tensors { return &Tensors{rotation: c.Rotation} }

// matrix is one upload: parts of tensors with rows of the same length, stacked.
type matrix struct {
	to    **op.Matrix
	name  string
	k     int
	parts []Part
}

// Part is rows of the tensor Name.weight.
type Part struct {
	Name        string
	First, Rows int
	Shape       []int // of all rows of the tensor, outermost last
}

// Rows is a whole matrix of n rows.
func Rows(name string, n int) Part { return Part{name, 0, n, []int{n}} }

type vector struct {
	to   *op.Const
	name string
	dims []int
}

type table struct {
	to   *op.Const
	rope rope.Config
}

// Plain asks for parts, stacked, with rows of k weights, whose input is as it is.
func (t *Tensors) Plain(to **op.Matrix, name string, k int, parts ...Part) {
	t.matrices = append(t.matrices, matrix{to, name, k, parts})
}

// Linear asks for parts, stacked, with rows of k weights, whose input the file may
// want to be rotated.
func (t *Tensors) Linear(to *Linear, name string, k int, parts ...Part) {
	t.Plain(&to.Matrix, name, k, parts...)
	if rotated, err := t.rotation.takes(name, k, parts...); err != nil {
		t.keep(err)
	} else if rotated {
		to.rotation = t.rotation
	}
}

func (t *Tensors) keep(err error) {
	if t.err == nil {
		t.err = err
	}
}

// Vector asks for a float32 tensor of the given dimensions, innermost first.
func (t *Tensors) Vector(to *op.Const, name string, dims ...int) {
	t.vectors = append(t.vectors, vector{to, name, dims})
}

// Rope asks for the table of a rotation.
func (t *Tensors) Rope(to *op.Const, c rope.Config) {
	t.tables = append(t.tables, table{to, c})
}

// Bytes is the memory that the matrices and constants of f take on a device, with
// rope tables for the given number of positions.
func (t *Tensors) Bytes(f *gguf.File, positions int) (weights, constants uint64, err error) {
	if err := t.check(f); err != nil {
		return 0, 0, err
	}
	for _, m := range t.matrices {
		sources, err := m.sources(f)
		if err != nil {
			return 0, 0, err
		}
		weights += op.PackedBytes(sources...)
	}
	floats := 0
	for _, v := range t.vectors {
		floats += product(v.dims)
	}
	for _, v := range t.tables {
		floats += positions * v.rope.Dim
	}
	for _, width := range t.rotation.widths() {
		floats += width
	}
	return weights, uint64(floats) * 4, nil
}

// check returns what is wrong with the list as a whole.
func (t *Tensors) check(f *gguf.File) error {
	t.keep(t.rotation.left())
	if t.err != nil {
		return fmt.Errorf("%s: %w", f.Name, t.err)
	}
	return nil
}

// Weights is the tensors of a file on an executor.
type Weights struct {
	Consts    *graph.Value // all vectors and tables
	matrices  []*op.Matrix
	bytes     []uint64 // of each in the file
	tensors   *Tensors
	file      *gguf.File
	positions int
}

// Place checks every tensor of f, and makes room for all, rope tables for the given
// number of positions among them. What is there once [Weights.Fill] has read them can
// be used in graphs before.
func (t *Tensors) Place(x graph.Executor, f *gguf.File, positions int) (w *Weights, err error) {
	if err := t.check(f); err != nil {
		return nil, err
	}
	w = &Weights{bytes: make([]uint64, len(t.matrices)), tensors: t, file: f, positions: positions}
	sources := make([][]op.Source, len(t.matrices))
	for i, m := range t.matrices {
		if sources[i], err = m.sources(f); err != nil {
			return nil, err
		}
		for _, s := range sources[i] {
			w.bytes[i] += uint64(len(s.Data))
		}
	}
	floats, err := w.placeConsts()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.Free(x)
			w = nil
		}
	}()
	if w.Consts, err = op.PlaceConsts(x, floats); err != nil {
		return w, fmt.Errorf("%s: %w", f.Name, err)
	}
	for i, m := range t.matrices {
		if *m.to, err = op.Place(x, m.name, sources[i]...); err != nil {
			return w, fmt.Errorf("%s: %w", f.Name, err)
		}
		w.matrices = append(w.matrices, *m.to)
	}
	return w, nil
}

// placeConsts says where each constant lies, and how many floats they are.
func (w *Weights) placeConsts() (floats int, err error) {
	place := func(to *op.Const, n int) {
		*to = op.Const{Offset: floats, Len: n}
		floats += n
	}
	t := w.tensors
	for _, v := range t.vectors {
		if _, err := v.tensor(w.file); err != nil {
			return 0, err
		}
		place(v.to, product(v.dims))
	}
	for _, width := range t.rotation.widths() {
		place(&t.rotation.signs[width].at, width)
	}
	for _, v := range t.tables {
		place(v.to, w.positions*v.rope.Dim)
	}
	return floats, nil
}

// fillConsts computes and uploads the constants, in the order of placeConsts.
func (w *Weights) fillConsts(x graph.Executor) (err error) {
	t, values := w.tensors, make([]float32, 0, w.Consts.Bytes/4)
	for _, v := range t.vectors {
		if values, err = v.appendTo(values, w.file); err != nil {
			return err
		}
	}
	for _, width := range t.rotation.widths() {
		values = append(values, t.rotation.signs[width].values...)
	}
	for _, v := range t.tables {
		values = append(values, v.rope.Table(w.positions)...)
	}
	return op.WriteConsts(x, w.Consts, values)
}

// Fill uploads what the file holds, many tensors at a time. progress is told the bytes
// of the file done so far.
func (w *Weights) Fill(x graph.Executor, progress func(done, total uint64)) error {
	var total, done uint64
	for _, n := range w.bytes {
		total += n
	}
	var mu sync.Mutex
	return parallel.Try(1+len(w.matrices), func(i int) error {
		if i == 0 {
			return w.fillConsts(x)
		}
		if err := w.matrices[i-1].Fill(x); err != nil {
			return fmt.Errorf("%s: %w", w.file.Name, err)
		}
		mu.Lock()
		defer mu.Unlock()
		done += w.bytes[i-1]
		progress(done, total)
		return nil
	})
}

// Free returns all memory of the weights.
func (w *Weights) Free(x graph.Executor) {
	for _, m := range w.matrices {
		m.Free(x)
	}
	w.matrices = nil
	if w.Consts != nil {
		x.Free(w.Consts.Buffer)
		w.Consts = nil
	}
}

// sources checks the parts' tensors.
func (m *matrix) sources(f *gguf.File) ([]op.Source, error) {
	list := make([]op.Source, len(m.parts))
	for i, p := range m.parts {
		t, err := tensor(f, p.Name+".weight", append([]int{m.k}, p.Shape...)...)
		if err != nil {
			return nil, err
		}
		format, err := op.FormatOf(t.Type.String())
		if err != nil {
			return nil, fmt.Errorf("%s: tensor %s: %w", f.Name, t.Name, err)
		}
		row := len(t.Data()) / product(p.Shape)
		list[i] = op.Source{Name: t.Name, Format: format, Rows: p.Rows, K: m.k, Data: t.Data()[p.First*row:][:p.Rows*row]}
	}
	return list, nil
}

func (v *vector) tensor(f *gguf.File) (*gguf.Tensor, error) {
	t, err := tensor(f, v.name, v.dims...)
	if err == nil && t.Type != gguf.F32 {
		err = fmt.Errorf("%s: tensor %s is %s, want F32: %w", f.Name, v.name, t.Type, graph.ErrUnsupported)
	}
	return t, err
}

func (v *vector) appendTo(values []float32, f *gguf.File) ([]float32, error) {
	t, err := v.tensor(f)
	if err != nil {
		return nil, err
	}
	err = mapped.Read(func() error {
		for data := t.Data(); len(data) > 0; data = data[4:] {
			x := math.Float32frombits(binary.LittleEndian.Uint32(data))
			if x-x != 0 {
				return graph.ErrNonFinite
			}
			values = append(values, x)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: tensor %s: %w", f.Name, v.name, err)
	}
	return values, nil
}

func tensor(f *gguf.File, name string, dims ...int) (*gguf.Tensor, error) {
	t := f.Tensor(name)
	if t == nil {
		return nil, fmt.Errorf("%s: no tensor %s", f.Name, name)
	}
	same := len(t.Dims) == len(dims)
	for i := 0; same && i < len(dims); i++ {
		same = t.Dims[i] == uint64(dims[i])
	}
	if !same {
		return nil, fmt.Errorf("%s: tensor %s has shape %v, want %v", f.Name, name, t.Dims, dims)
	}
	return t, nil
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}
