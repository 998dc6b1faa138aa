package gguf

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
)

// raw puts together a file by hand: numbers little-endian in their Go width,
// strings with their length, []byte as they are.
func raw(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			b = binary.LittleEndian.AppendUint64(b, uint64(len(p)))
			b = append(b, p...)
		case []byte:
			b = append(b, p...)
		default:
			b, _ = binary.Append(b, binary.LittleEndian, p)
		}
	}
	return b
}

const (
	v3   = uint32(3)
	tU32 = uint32(4)
	tStr = uint32(8)
	tArr = uint32(9)
	big  = uint64(1 << 62)
)

var (
	mag   = []byte("GGUF")
	zeros = make([]byte, 4096)
)

// n makes the counts of tensors and metadata entries.
func n(tensors, kv uint64) []byte { return raw(tensors, kv) }

// tensor makes a tensor's header.
func tensor(name string, typ uint32, offset uint64, dims ...uint64) []byte {
	return raw(name, uint32(len(dims)), dims, typ, offset)
}

// nest makes the start of an array of depth arrays.
func nest(depth int) []byte {
	var b []byte
	for range depth {
		b = append(b, raw(tArr, uint64(1))...)
	}
	return b
}

var badFiles = []struct {
	name string
	data []byte
	want string // part of the error
}{
	{"empty", nil, "truncated"},
	{"other magic", raw([]byte("GGML"), v3, n(0, 0)), "not a GGUF file"},
	{"text", []byte("<!DOCTYPE html><html></html>"), "not a GGUF file"},
	{"reversed magic", raw([]byte("FUGG"), v3, n(0, 0)), "reversed"},
	{"version 0", raw(mag, uint32(0), n(0, 0)), "version 0"},
	{"version 1", raw(mag, uint32(1), n(0, 0)), "version 1"},
	{"version 4", raw(mag, uint32(4), n(0, 0)), "version 4"},
	{"big endian", raw(mag, uint32(3<<24), n(0, 0)), "big-endian"},
	{"no counts", raw(mag, v3), "truncated"},
	{"many entries", raw(mag, v3, n(0, big)), "metadata entries cannot fit"},
	{"many tensors", raw(mag, v3, n(big, 0)), "tensors cannot fit"},
	{"negative count", raw(mag, v3, n(^uint64(0), ^uint64(0))), "cannot fit"},

	{"empty key", raw(mag, v3, n(0, 1), "", tU32, uint32(1)), "entry 1 of 1: the key is empty"},
	{"long key", raw(mag, v3, n(0, 1), strings.Repeat("k", 70000), tU32, uint32(1)), "70000 bytes, the limit is 65535"},
	{"endless key", raw(mag, v3, n(0, 1), big, zeros), "the limit is 65535"},
	{"key past the end", raw(mag, v3, n(0, 1), uint64(5000), zeros), "truncated"},
	{"duplicate key", raw(mag, v3, n(0, 2), "same.key", tU32, uint32(1), "same.key", tU32, uint32(1)), `"same.key" appears twice`},
	{"value type", raw(mag, v3, n(0, 1), "k", uint32(13), zeros), `"k": unknown value type 13`},
	{"boolean", raw(mag, v3, n(0, 1), "k", uint32(7), uint8(2)), "boolean with value 2"},
	{"string past the end", raw(mag, v3, n(0, 1), "k", tStr, big), "truncated"},
	{"string length overflow", raw(mag, v3, n(0, 1), "k", tStr, ^uint64(0)), "truncated"},
	{"array type", raw(mag, v3, n(0, 1), "k", tArr, uint32(99), uint64(1)), "array of unknown value type 99"},
	{"array count", raw(mag, v3, n(0, 1), "k", tArr, tU32, big), "array of 4611686018427387904 elements cannot fit"},
	{"array count overflow", raw(mag, v3, n(0, 1), "k", tArr, uint32(10), uint64(1<<61+1), zeros), "cannot fit"},
	{"array of strings", raw(mag, v3, n(0, 1), "k", tArr, tStr, uint64(2), "a", big), "truncated"},
	{"deep arrays", raw(mag, v3, n(0, 1), "k", tArr, nest(10000)), "nested deeper"},
	{"alignment 0", raw(mag, v3, n(0, 1), "general.alignment", tU32, uint32(0)), "general.alignment is 0"},
	{"alignment 48", raw(mag, v3, n(0, 1), "general.alignment", tU32, uint32(48)), "general.alignment is 48"},
	{"alignment type", raw(mag, v3, n(0, 1), "general.alignment", tStr, "32"), "general.alignment"},
	{"alignment past the end", raw(mag, v3, n(1, 1), "general.alignment", tU32, uint32(1<<31), tensor("w", 0, 0, 1), zeros), "tensor data should begin at offset 2147483648"},

	{"empty tensor name", raw(mag, v3, n(1, 0), tensor("", 0, 0, 1), zeros), "tensor 1 of 1: the name is empty"},
	{"long tensor name", raw(mag, v3, n(1, 0), tensor(strings.Repeat("w", 65), 0, 0, 1), zeros), "65 bytes, the limit is 64"},
	{"duplicate tensor", raw(mag, v3, n(2, 0), tensor("w", 0, 0, 1), tensor("w", 0, 32, 1), zeros), `tensor "w" appears twice`},
	{"no dimensions", raw(mag, v3, n(1, 0), tensor("w", 0, 0), zeros), "has 0 dimensions"},
	{"five dimensions", raw(mag, v3, n(1, 0), tensor("w", 0, 0, 1, 1, 1, 1, 1), zeros), "has 5 dimensions"},
	{"endless dimensions", raw(mag, v3, n(1, 0), "w", uint32(1<<31), zeros), "dimensions"},
	{"dimension 0", raw(mag, v3, n(1, 0), tensor("w", 0, 0, 1, 0)), `tensor "w": dimension 1 of [1 0] is 0`},
	{"product overflow", raw(mag, v3, n(1, 0), tensor("w", 0, 0, 1<<32, 1<<32), zeros), "too many elements"},
	{"product wraps to 1", raw(mag, v3, n(1, 0), tensor("w", 0, 0, 3, 0xaaaaaaaaaaaaaaab), zeros), "too many elements"},
	{"bytes overflow", raw(mag, v3, n(1, 0), tensor("w", 0, 0, 1<<62), zeros), "too many bytes"},
	{"row", raw(mag, v3, n(1, 0), tensor("w", 142, 0, 192), zeros), "rows of 192 elements are not a multiple of PQ2_0's block of 128"},
	{"type 999", raw(mag, v3, n(1, 0), tensor("blk.0.w", 999, 0, 32), zeros), `tensor "blk.0.w": has type id 999`},
	{"type 13", raw(mag, v3, n(1, 0), tensor("w", 13, 0, 256), zeros), "Q5_K"},
	{"our own id", raw(mag, v3, n(1, 0), tensor("w", 1<<16|42, 0, 256), zeros), "type id 65578"},
	{"offset past the end", raw(mag, v3, n(1, 0), tensor("w", 0, 8192, 8), zeros), "offset 8192, expected 0"},
	{"offset overflow", raw(mag, v3, n(1, 0), tensor("w", 0, ^uint64(0)&^31, 8), zeros), "expected 0"},
	{"offset unaligned", raw(mag, v3, n(1, 0), tensor("w", 0, 4, 8), zeros), "not a multiple of the alignment 32"},
	{"overlap", raw(mag, v3, n(2, 0), tensor("a", 0, 0, 16), tensor("b", 0, 32, 8), zeros), `tensor "b" has offset 32, expected 64`},
	{"short data", raw(mag, v3, n(1, 0), tensor("w", 0, 0, 5000), zeros), `truncated: tensor "w" needs 20000 bytes`},
	{"huge data", raw(mag, v3, n(1, 0), tensor("w", 0, 0, 1<<40), zeros), "truncated"},
	{"no data", raw(mag, v3, n(1, 0), tensor("w", 0, 0, 8)), "truncated"},
}

// Among them are BL-03 (unknown types), BL-08 (a dimension of 0) and BL-10 (keys).
func TestBadFiles(t *testing.T) {
	for _, c := range badFiles {
		_, err := Parse("bad.gguf", c.data)
		if err == nil || !strings.HasPrefix(err.Error(), "bad.gguf: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%s: the message has %d bytes", c.name, len(err.Error()))
		}
	}
}

// TestBadFilesAllocateLittle holds a hostile header to the memory that its own
// size justifies.
func TestBadFilesAllocateLittle(t *testing.T) {
	for _, c := range badFiles {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Parse("bad.gguf", c.data)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(16*len(c.data)+64<<10) {
			t.Errorf("%s: %d bytes allocated for a file of %d", c.name, got, len(c.data))
		}
	}
}
