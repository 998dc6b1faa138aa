package vk

import (
	"bytes"
	"unsafe"
)

// CString copies s to a C string, for a struct's field. Text after a zero byte
// is not seen by C.
func CString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// CStrings copies list to an array of C strings, nil for an empty list.
func CStrings(list []string) **byte {
	if len(list) == 0 {
		return nil
	}
	p := make([]*byte, len(list))
	for i, s := range list {
		p[i] = CString(s)
	}
	return &p[0]
}

// String is the text of a fixed array such as DeviceName[:], up to its first
// zero byte.
func String(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// GoString copies a C string; "" for nil.
func GoString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// Bytes is the memory of *p: push constants, specialisation data.
func Bytes[T any](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

// SliceBytes is the memory of a slice's elements.
func SliceBytes[T any](s []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t)))
}

func optionalString(s string) *byte {
	if s == "" {
		return nil
	}
	return CString(s)
}
