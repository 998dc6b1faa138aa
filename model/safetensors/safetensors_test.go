package safetensors

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, path, header string, body ...byte) {
	t.Helper()
	data := slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), []byte(header), body)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestShards(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.safetensors"), `{"__metadata__":{"format":"pt"},"x":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}}`, 1, 2, 3, 4)
	write(t, filepath.Join(dir, "b.safetensors"), `{"y":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"z":{"dtype":"F16","shape":[0],"data_offsets":[4,4]}}`, 5, 6, 7, 8)
	if err := os.WriteFile(filepath.Join(dir, index), []byte(`{"weight_map":{"x":"a.safetensors","y":"b.safetensors"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if x := f.Tensors["x"]; x == nil || x.Type != "BF16" || !slices.Equal(x.Shape, []uint64{2, 1}) || !slices.Equal(x.Data, []byte{1, 2, 3, 4}) {
		t.Errorf("x is %+v", x)
	}
	if len(f.Tensors) != 3 || len(f.Tensors["y"].Data) != 4 {
		t.Errorf("tensors %v", f.Tensors)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		`{"weight_map":{"w":"a.safetensors"}}`:                     "tensor w is in none",
		`{"weight_map":{"x":"../a.safetensors"}}`:                  "not the name of a file",
		`{"weight_map":{"x":"c.safetensors"}}`:                     "c.safetensors",
		`{"weight_map":`:                                           "index.json",
		`{"weight_map":{"x":"a.safetensors","y":"d.safetensors"}}`: "stands in two files",
	} {
		write(t, filepath.Join(dir, "d.safetensors"), `{"x":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"y":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, 0)
		if err := os.WriteFile(filepath.Join(dir, index), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, single)
	for header, want := range map[string]string{
		`{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`:                     "do not lie",
		`{"x":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`:                    "do not lie",
		`{"x":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}}`:                     "do not lie",
		`{"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}`: "too large",
		`{"x":{"dtype":"F4","shape":[1],"data_offsets":[0,4]}}`:                      `type "F4"`,
		`{"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`:                    "tensor x",
		`{"x":[]}`: "tensor x",
		`[]`:       "not a safetensors file",
	} {
		write(t, path, header, 0, 0, 0, 0, 0, 0, 0, 0)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", header, err, want)
		}
	}
	for _, data := range []string{"", "short", "\xff\xff\xff\xff\xff\xff\xff\xff{}", "\x00\x00\x00\x10\x00\x00\x00\x00{}"} {
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "not a safetensors file") {
			t.Errorf("%q: %v", data, err)
		}
	}
}
