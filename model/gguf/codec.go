package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// kind is the type tag of a metadata value in the file.
type kind uint32

const (
	kindArray kind = 9
	kinds     kind = 13 // number of kinds
)

// codec reads values of one kind and recognises their Go type.
type codec struct {
	size    uint64 // least bytes a value takes in the file
	one     func(r *reader) (any, error)
	many    func(r *reader, n uint64) (any, error) // the slice
	isOne   func(v any) bool
	isSlice func(v any) (n int, ok bool)
}

// codecs is indexed by kind. Arrays of arrays are read by [reader.array].
var codecs = [kinds]codec{
	codecOf[uint8](1), codecOf[int8](1), codecOf[uint16](2), codecOf[int16](2), codecOf[uint32](4), codecOf[int32](4),
	codecOf[float32](4), codecOf[bool](1), codecOf[string](8), codecOf[any](12), codecOf[uint64](8), codecOf[int64](8), codecOf[float64](8),
}

func codecOf[T any](size uint64) codec {
	return codec{
		size: size,
		one: func(r *reader) (any, error) {
			s, err := decode[T](r, size, 1)
			if err != nil {
				return nil, err
			}
			return s[0], nil
		},
		many: func(r *reader, n uint64) (any, error) { return decode[T](r, size, n) },
		isOne: func(v any) bool {
			_, ok := v.(T)
			return ok
		},
		isSlice: func(v any) (int, bool) {
			s, ok := v.([]T)
			return len(s), ok
		},
	}
}

// decode reads n values of size bytes, or n strings. The caller has checked n
// against the file.
func decode[T any](r *reader, size, n uint64) ([]T, error) {
	out := make([]T, n)
	switch out := any(out).(type) {
	case []string:
		for i := range out {
			out[i] = string(r.take(r.u64()))
		}
	case []bool:
		for i, b := range r.take(n) {
			if b > 1 {
				return nil, fmt.Errorf("boolean with value %d", b)
			}
			out[i] = b == 1
		}
	default:
		if b := r.take(n * size); b != nil {
			if _, err := binary.Decode(b, binary.LittleEndian, out); err != nil {
				return nil, err
			}
		}
	}
	return out, r.err
}

// kindOf returns the kind that stores v, and for an array that of its elements
// and their number.
func kindOf(v any) (k, elem kind, n int, ok bool) {
	for i, c := range codecs {
		if n, ok := c.isSlice(v); ok {
			return kindArray, kind(i), n, true
		}
		if kind(i) != kindArray && c.isOne(v) {
			return kind(i), 0, 0, true
		}
	}
	return 0, 0, 0, false
}

// encode appends v as it stands in the file after its kind.
func encode(b *bytes.Buffer, v any) error {
	k, elem, n, ok := kindOf(v)
	if !ok {
		return fmt.Errorf("values of type %T cannot be written", v)
	}
	if k == kindArray {
		put(b, uint32(elem))
		put(b, uint64(n))
	}
	switch v := v.(type) {
	case string:
		put(b, uint64(len(v)))
		b.WriteString(v)
	case []string:
		for _, s := range v {
			put(b, uint64(len(s)))
			b.WriteString(s)
		}
	case []any:
		for _, e := range v {
			if k, _, _, _ := kindOf(e); k != kindArray {
				return fmt.Errorf("%T inside an array of arrays", e)
			}
			if err := encode(b, e); err != nil {
				return err
			}
		}
	default:
		put(b, v)
	}
	return nil
}

// put appends a value of fixed size; writing to a Buffer cannot fail.
func put(b *bytes.Buffer, v any) { _ = binary.Write(b, binary.LittleEndian, v) }
