package gguf

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Spec declares a tensor that a Writer is going to receive.
type Spec struct {
	Name string
	Dims []uint64 // in ggml's order
	Type Type
}

// Writer streams a GGUF file. The header is written at once; then Write takes
// the tensors' bytes, in the order of their specs and without padding, cut
// anywhere.
type Writer struct {
	out   *bufio.Writer
	align uint64
	specs []Spec
	sizes []uint64
	left  uint64 // bytes missing of the tensor at hand, specs[0]

	file *os.File // of Create, until it is renamed or removed
	path string
}

// NewWriter begins a file on w.
func NewWriter(w io.Writer, meta []KV, specs []Spec) (*Writer, error) {
	gw := &Writer{out: bufio.NewWriterSize(w, 1<<20), align: defaultAlignment, specs: specs}
	head, err := gw.header(meta)
	if err != nil {
		return nil, err
	}
	if _, err := gw.out.Write(head); err != nil {
		return nil, err
	}
	if len(specs) > 0 {
		gw.left = gw.sizes[0]
	}
	return gw, nil
}

// Create begins a file that appears at path when Close succeeds; until then it
// lies beside it under another name. Close or Abort must be called.
func Create(path string, meta []KV, specs []Spec) (*Writer, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path) // a device or a pipe must not be replaced
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return nil, err
	}
	// A temporary file is private to the user; the finished one should not be.
	err = file.Chmod(0o644)
	var w *Writer
	if err == nil {
		w, err = NewWriter(file, meta, specs)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	w.file, w.path = file, path
	return w, nil
}

// header returns everything before the tensor data and sets w.sizes.
func (w *Writer) header(meta []KV) ([]byte, error) {
	var b bytes.Buffer
	put(&b, uint32(magic))
	put(&b, uint32(3))
	put(&b, uint64(len(w.specs)))
	put(&b, uint64(len(meta)))
	for _, kv := range meta {
		if n := len(kv.Key); n == 0 || n > maxKey {
			return nil, fmt.Errorf("metadata key %s: 1 to %d bytes are allowed, it has %d", short(kv.Key), maxKey, n)
		}
		if kv.Key == "general.alignment" {
			a, ok := kv.Value.(uint32)
			if !ok || a == 0 || a&(a-1) != 0 {
				return nil, fmt.Errorf("general.alignment must be a uint32 power of two, not %v", kv.Value)
			}
			w.align = uint64(a)
		}
		k, _, _, _ := kindOf(kv.Value) // encode reports what has no kind
		_ = encode(&b, kv.Key)
		put(&b, uint32(k))
		if err := encode(&b, kv.Value); err != nil {
			return nil, fmt.Errorf("metadata key %s: %w", short(kv.Key), err)
		}
	}
	var offset uint64
	for _, s := range w.specs {
		if len(s.Name) == 0 || len(s.Name) > maxName || len(s.Dims) == 0 || len(s.Dims) > maxDims {
			return nil, fmt.Errorf("tensor %q: 1 to %d bytes of name and 1 to %d dimensions are allowed", s.Name, maxName, maxDims)
		}
		if _, ok := types[s.Type]; !ok {
			return nil, fmt.Errorf("tensor %q: %w", s.Name, unsupported(s.Type))
		}
		size, err := byteSize(s.Type, s.Dims)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", s.Name, err)
		}
		_ = encode(&b, s.Name)
		put(&b, uint32(len(s.Dims)))
		for _, d := range s.Dims {
			put(&b, d)
		}
		put(&b, s.Type.id())
		put(&b, offset)
		w.sizes = append(w.sizes, size)
		offset = pad(offset+size, w.align)
	}
	b.Write(make([]byte, pad(uint64(b.Len()), w.align)-uint64(b.Len())))
	return b.Bytes(), nil
}

// Write takes the next bytes of tensor data.
func (w *Writer) Write(p []byte) (int, error) {
	done := 0
	for len(p) > 0 {
		if len(w.specs) == 0 {
			return done, fmt.Errorf("%d bytes more than the declared tensors hold", len(p))
		}
		n, err := w.out.Write(p[:min(uint64(len(p)), w.left)])
		done += n
		if err != nil {
			return done, err
		}
		p = p[n:]
		w.left -= uint64(n)
		if w.left > 0 {
			continue
		}
		if _, err := w.out.Write(make([]byte, pad(w.sizes[0], w.align)-w.sizes[0])); err != nil {
			return done, err
		}
		w.specs, w.sizes = w.specs[1:], w.sizes[1:]
		if len(w.specs) > 0 {
			w.left = w.sizes[0]
		}
	}
	return done, nil
}

// Close ends the file, and gives a created one its name. When it fails, the
// file is removed.
func (w *Writer) Close() error {
	err := w.out.Flush()
	if err == nil && len(w.specs) > 0 {
		err = fmt.Errorf("tensor %q: %d of %d bytes are missing", w.specs[0].Name, w.left, w.sizes[0])
	}
	if w.file == nil {
		return err
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	file := w.file
	w.file = nil
	if err := file.Close(); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	if err := os.Rename(file.Name(), w.path); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// Abort removes an unfinished created file; after Close it does nothing.
func (w *Writer) Abort() error {
	if w.file == nil {
		return nil
	}
	file := w.file
	w.file = nil
	return errors.Join(file.Close(), os.Remove(file.Name()))
}
