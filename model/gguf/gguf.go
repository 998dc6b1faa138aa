// Package gguf reads and writes GGUF model files: little-endian versions 2 and
// 3, as ggml defines them. A file is mapped, not copied, and every size in it is
// checked against the file before anything is allocated for it.
package gguf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"

	"github.com/edsrzf/mmap-go"

	"github.com/ternvk/tern/runtime/mapped"
)

// File is an open GGUF file. It is safe for concurrent reading until Close.
type File struct {
	Name      string // the path, or the name given to Parse
	Version   uint32
	Alignment uint64 // of tensor data, bytes
	Meta      []KV   // in file order
	Tensors   []Tensor

	keys    map[string]int
	tensors map[string]int
	mapped  mmap.MMap
}

// KV is one metadata entry. Value holds uint8, int8, uint16, int16, uint32,
// int32, uint64, int64, float32, float64, bool, string, a slice of one of
// these, or []any for an array of arrays.
type KV struct {
	Key   string
	Value any
}

// Tensor is a tensor of the file.
type Tensor struct {
	Name   string
	Dims   []uint64 // in ggml's order: Dims[0] is the length of a contiguous row
	Type   Type
	Offset uint64 // of the data, from the start of the file, bytes
	Size   uint64 // bytes

	data []byte
}

// Data returns the tensor's bytes: a view of the file that must not be written
// to nor used after Close.
func (t *Tensor) Data() []byte { return t.data }

// Elements returns the number of elements.
func (t *Tensor) Elements() uint64 {
	n := uint64(1)
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// Options settle what a file leaves open.
type Options struct {
	// Q2Group is the number of weights, 64 or 128, in a group of type id 42. With
	// 0 the offsets tell, and a file that fits both is refused.
	Q2Group int
}

// Open maps the file at path and reads its header. The caller closes it.
func Open(path string) (*File, error) { return Options{}.Open(path) }

// Open is like the function of that name.
func (o Options) Open(path string) (*File, error) {
	st, err := os.Stat(path) // opening a pipe would wait for its writer
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	case st.Size() == 0:
		return nil, fmt.Errorf("%s: the file is empty", path)
	case st.Size() > math.MaxInt:
		return nil, fmt.Errorf("%s: %d bytes are more than this platform can map", path, st.Size())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its descriptor
	m, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: map: %w", path, err)
	}
	file, err := o.Parse(path, m)
	if err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	file.mapped = m
	return file, nil
}

// Parse reads a file that lies in memory, such as an embedded one. Tensors are
// views of data; name is used in errors.
func Parse(name string, data []byte) (*File, error) { return Options{}.Parse(name, data) }

// Parse is like the function of that name.
func (o Options) Parse(name string, data []byte) (*File, error) {
	f := &File{Name: name}
	if err := mapped.Read(func() error { return f.parse(data, o) }); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// Warm has the file's pages brought into memory, from its beginning on and as far as it
// gets until ctx ends, so that readers need not wait for each of them.
func (f *File) Warm(ctx context.Context) {
	const page, stretch = 4 << 10, 1 << 20
	var sum byte
	_ = mapped.Read(func() error { // else who needs the bytes tells
		for rest := []byte(f.mapped); len(rest) > 0 && ctx.Err() == nil; {
			n := min(stretch, len(rest))
			for at := 0; at < n; at += page {
				sum += rest[at]
			}
			rest = rest[n:]
		}
		return nil
	})
	warmed.Store(uint32(sum)) // so that the reads are not left out
}

var warmed atomic.Uint32

// Close unmaps the file. Tensor data must not be used afterwards.
func (f *File) Close() error {
	if f.mapped == nil {
		return nil
	}
	for i := range f.Tensors {
		f.Tensors[i].data = nil
	}
	m := f.mapped
	f.mapped = nil
	return m.Unmap()
}

// Tensor returns the tensor of that name, or nil.
func (f *File) Tensor(name string) *Tensor {
	i, ok := f.tensors[name]
	if !ok {
		return nil
	}
	return &f.Tensors[i]
}
