package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Limits of the format. Names are limited by the GGUF specification, dimensions
// by ggml, nesting by us: published files do not nest arrays at all.
const (
	maxKey   = 1<<16 - 1 // bytes
	maxName  = 64        // bytes
	maxDims  = 4
	maxDepth = 4

	defaultAlignment = 32 // bytes

	minKV     = 8 + 1 + 4 + 1         // key length, key, kind, value
	minTensor = 8 + 1 + 4 + 8 + 4 + 8 // name length, name, rank, one dimension, type, offset
)

const magic = 0x46554747 // "GGUF"

// reader walks the header. The first short read sets err; later ones return
// zeros, so callers check err once per entry.
type reader struct {
	data []byte
	pos  uint64
	err  error
}

func (r *reader) left() uint64 { return uint64(len(r.data)) - r.pos }

func (r *reader) take(n uint64) []byte {
	if r.err == nil && n > r.left() {
		r.err = fmt.Errorf("truncated: %d bytes needed at offset %d, the file ends at %d", n, r.pos, len(r.data))
	}
	if r.err != nil {
		return nil
	}
	b := r.data[r.pos : r.pos+n : r.pos+n]
	r.pos += n
	return b
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// name reads a string of 1 to limit bytes.
func (r *reader) name(what string, limit uint64) (string, error) {
	n := r.u64()
	switch {
	case r.err != nil:
		return "", r.err
	case n == 0:
		return "", fmt.Errorf("%s is empty", what)
	case n > limit:
		return "", fmt.Errorf("%s has %d bytes, the limit is %d", what, n, limit)
	}
	s := string(r.take(n))
	return s, r.err
}

func (f *File) parse(data []byte, o Options) error {
	r := &reader{data: data}
	nTensors, nKV, err := f.parseHead(r)
	if err != nil {
		return err
	}
	if err := f.parseMeta(r, nKV); err != nil {
		return err
	}
	f.Alignment = defaultAlignment
	align, ok, err := f.U32("general.alignment")
	if err != nil {
		return err
	}
	if ok {
		if bits.OnesCount32(align) != 1 {
			return fmt.Errorf("general.alignment is %d, not a power of two", align)
		}
		f.Alignment = uint64(align)
	}
	if err := f.parseTensors(r, nTensors); err != nil {
		return err
	}
	return f.place(data, r.pos, o.Q2Group)
}

func (f *File) parseHead(r *reader) (nTensors, nKV uint64, err error) {
	m := r.u32()
	f.Version = r.u32()
	switch {
	case r.err != nil:
		return 0, 0, r.err
	case m == bits.ReverseBytes32(magic):
		return 0, 0, errors.New("not a GGUF file: the magic is \"FUGG\", bytes reversed")
	case m != magic:
		return 0, 0, fmt.Errorf("not a GGUF file: the first bytes are %q", r.data[:4])
	case f.Version == 1:
		return 0, 0, errors.New("GGUF version 1 is not supported; convert the model again, or use a newer file of it")
	case f.Version == 0:
		return 0, 0, errors.New("GGUF version 0 does not exist; the file is damaged")
	case f.Version&0xffff == 0:
		return 0, 0, errors.New("the file is big-endian GGUF; only little-endian files are supported")
	case f.Version > 3:
		return 0, 0, fmt.Errorf("GGUF version %d is newer than 3, the newest that this version of tern reads", f.Version)
	}
	nTensors, nKV = r.u64(), r.u64()
	switch {
	case r.err != nil:
		return 0, 0, r.err
	case nKV > r.left()/minKV:
		return 0, 0, fmt.Errorf("%d metadata entries cannot fit into the %d bytes left in the file", nKV, r.left())
	case nTensors > r.left()/minTensor:
		return 0, 0, fmt.Errorf("%d tensors cannot fit into the %d bytes left in the file", nTensors, r.left())
	}
	return nTensors, nKV, nil
}

func (f *File) parseMeta(r *reader, n uint64) error {
	f.Meta = make([]KV, 0, n)
	f.keys = make(map[string]int, n)
	for i := range n {
		key, err := r.name("the key", maxKey)
		if err != nil {
			return fmt.Errorf("metadata entry %d of %d: %w", i+1, n, err)
		}
		v, err := r.value(kind(r.u32()), 0)
		if err != nil {
			return fmt.Errorf("metadata key %s: %w", short(key), err)
		}
		if _, dup := f.keys[key]; dup {
			return fmt.Errorf("metadata key %s appears twice", short(key))
		}
		f.keys[key] = len(f.Meta)
		f.Meta = append(f.Meta, KV{key, v})
	}
	return nil
}

// short quotes a name of the file for a message.
func short(s string) string {
	if len(s) > maxName {
		return fmt.Sprintf("%q...", s[:maxName])
	}
	return fmt.Sprintf("%q", s)
}

func (r *reader) value(k kind, depth int) (any, error) {
	switch {
	case r.err != nil:
		return nil, r.err
	case k == kindArray:
		return r.array(depth + 1)
	case k >= kinds:
		return nil, fmt.Errorf("unknown value type %d", k)
	}
	return codecs[k].one(r)
}

func (r *reader) array(depth int) (any, error) {
	k, n := kind(r.u32()), r.u64()
	switch {
	case r.err != nil:
		return nil, r.err
	case k >= kinds:
		return nil, fmt.Errorf("array of unknown value type %d", k)
	case depth > maxDepth:
		return nil, fmt.Errorf("arrays are nested deeper than %d", maxDepth)
	case n > r.left()/codecs[k].size:
		return nil, fmt.Errorf("array of %d elements cannot fit into the %d bytes left in the file", n, r.left())
	case k != kindArray:
		return codecs[k].many(r, n)
	}
	out := make([]any, n)
	for i := range out {
		v, err := r.array(depth + 1)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (f *File) parseTensors(r *reader, n uint64) error {
	f.Tensors = make([]Tensor, 0, n)
	f.tensors = make(map[string]int, n)
	for i := range n {
		name, err := r.name("the name", maxName)
		if err != nil {
			return fmt.Errorf("tensor %d of %d: %w", i+1, n, err)
		}
		t := Tensor{Name: name}
		if err := t.parse(r); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if _, dup := f.tensors[name]; dup {
			return fmt.Errorf("tensor %q appears twice", name)
		}
		f.tensors[name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}

func (t *Tensor) parse(r *reader) error {
	rank := r.u32()
	if r.err == nil && (rank == 0 || rank > maxDims) {
		return fmt.Errorf("has %d dimensions, between 1 and %d are allowed", rank, maxDims)
	}
	for range rank {
		t.Dims = append(t.Dims, r.u64())
	}
	t.Type = Type(r.u32())
	t.Offset = r.u64()
	if r.err != nil {
		return r.err
	}
	if _, ok := types[t.Type]; !ok || t.Type == Q2_0_G128 {
		return unsupported(t.Type)
	}
	_, err := byteSize(t.Type, t.Dims)
	return err
}

// byteSize returns the bytes a tensor takes, or an error when its dimensions
// are impossible.
func byteSize(t Type, dims []uint64) (uint64, error) {
	block, bytes := t.Block()
	n := uint64(1)
	for i, d := range dims {
		if d == 0 {
			return 0, fmt.Errorf("dimension %d of %v is 0", i, dims)
		}
		hi, lo := bits.Mul64(n, d)
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("dimensions %v: too many elements", dims)
		}
		n = lo
	}
	if dims[0]%block != 0 {
		return 0, fmt.Errorf("rows of %d elements are not a multiple of %v's block of %d", dims[0], t, block)
	}
	hi, size := bits.Mul64(n/block, bytes)
	if hi != 0 || size > math.MaxInt64 {
		return 0, fmt.Errorf("dimensions %v: too many bytes", dims)
	}
	return size, nil
}
