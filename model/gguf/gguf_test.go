package gguf

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// build encodes a file whose tensor data counts upwards.
func build(t testing.TB, meta []KV, specs []Spec) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, meta, specs)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, w, specs)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func fill(t testing.TB, w *Writer, specs []Spec) {
	t.Helper()
	for _, s := range specs {
		size, err := byteSize(s.Type, s.Dims)
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, size)
		for i := range p {
			p[i] = byte(i + len(s.Name))
		}
		for len(p) > 0 { // in odd pieces
			n := min(7, len(p))
			if _, err := w.Write(p[:n]); err != nil {
				t.Fatal(err)
			}
			p = p[n:]
		}
	}
}

var everyKind = []KV{
	{"u8", uint8(200)}, {"i8", int8(-100)}, {"u16", uint16(60000)}, {"i16", int16(-30000)},
	{"u32", uint32(4e9)}, {"i32", int32(-2e9)}, {"u64", uint64(1 << 63)}, {"i64", int64(-1 << 62)},
	{"f32", float32(1e-6)}, {"f64", 0.1}, {"bool", true}, {"string", "Grüße ☃"}, {"empty", ""},
	{"strings", []string{"a", "", "ccc"}}, {"i32s", []int32{-1, 0, 7}}, {"u8s", []uint8{1, 2, 255}},
	{"f32s", []float32{0.5, -0.25}}, {"f64s", []float64{0.1}}, {"bools", []bool{true, false}}, {"none", []int32{}},
	{"nested", []any{[]int32{1, 2}, []string{"x"}, []any{[]bool{true}}}},
}

var smallSpecs = []Spec{
	{"a.weight", []uint64{64, 3}, Q2_0},
	{"b.norm", []uint64{5}, F32},
	{"c", []uint64{2, 3, 2, 2}, F16},
}

func TestRoundTrip(t *testing.T) {
	f, err := Parse("mem", build(t, everyKind, smallSpecs))
	if err != nil {
		t.Fatal(err)
	}
	if f.Version != 3 || f.Alignment != 32 {
		t.Errorf("version %d alignment %d", f.Version, f.Alignment)
	}
	if !reflect.DeepEqual(f.Meta, everyKind) {
		t.Errorf("metadata\n got %v\nwant %v", f.Meta, everyKind)
	}
	sizes := []uint64{54, 20, 48}
	for i, s := range smallSpecs {
		g := f.Tensor(s.Name)
		if g == nil || g != &f.Tensors[i] {
			t.Fatalf("tensor %q: not found at its place", s.Name)
		}
		if !reflect.DeepEqual(g.Dims, s.Dims) || g.Type != s.Type || g.Size != sizes[i] || uint64(len(g.Data())) != sizes[i] || g.Offset%32 != 0 {
			t.Errorf("tensor %+v", g)
		}
		for j, b := range g.Data() {
			if b != byte(j+len(s.Name)) {
				t.Fatalf("tensor %q: byte %d is %d", s.Name, j, b)
			}
		}
	}
	if f.Tensor("nope") != nil {
		t.Error("found a tensor that is not there")
	}
	if n := f.Tensors[2].Elements(); n != 24 {
		t.Errorf("%d elements, want 24", n)
	}
}

func TestAlignment(t *testing.T) {
	for _, align := range []uint32{1, 8, 64, 4096} {
		f, err := Parse("mem", build(t, []KV{{"general.alignment", align}}, smallSpecs))
		if err != nil {
			t.Fatalf("alignment %d: %v", align, err)
		}
		for _, g := range f.Tensors {
			if g.Offset%uint64(align) != 0 || g.Data()[0] != byte(len(g.Name)) {
				t.Errorf("alignment %d: tensor %q at %d", align, g.Name, g.Offset)
			}
		}
	}
}

func TestVersion2(t *testing.T) {
	data := build(t, everyKind, smallSpecs)
	data[4] = 2
	if f, err := Parse("mem", data); err != nil || f.Version != 2 {
		t.Errorf("version 2: %v", err)
	}
}

func TestGetters(t *testing.T) {
	f, err := Parse("mem", build(t, everyKind, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"u8", "u16", "u32"} {
		if v, ok, err := f.U32(key); err != nil || !ok || v == 0 {
			t.Errorf("U32(%s) = %d, %v, %v", key, v, ok, err)
		}
	}
	if v, ok, err := f.I32("i8"); v != -100 || !ok || err != nil {
		t.Errorf("I32(i8) = %d, %v, %v", v, ok, err)
	}
	if v, ok, err := f.F32("f64"); v != 0.1 || !ok || err != nil {
		t.Errorf("F32(f64) = %v, %v, %v", v, ok, err)
	}
	if v, ok, err := f.I32s("u8s"); !reflect.DeepEqual(v, []int32{1, 2, 255}) || !ok || err != nil {
		t.Errorf("I32s(u8s) = %v, %v, %v", v, ok, err)
	}
	if v, ok, err := f.F32s("f64s"); !reflect.DeepEqual(v, []float32{0.1}) || !ok || err != nil {
		t.Errorf("F32s(f64s) = %v, %v, %v", v, ok, err)
	}
	if v, ok, err := f.Strings("strings"); len(v) != 3 || !ok || err != nil {
		t.Errorf("Strings = %q, %v, %v", v, ok, err)
	}
	if v, ok, err := f.Bool("bool"); !v || !ok || err != nil {
		t.Errorf("Bool = %v, %v, %v", v, ok, err)
	}
	if _, ok, err := f.U32("absent"); ok || err != nil {
		t.Errorf("an absent key: %v, %v", ok, err)
	}
	for name, err := range map[string]error{
		"i8":      third(f.U32("i8")),
		"u64":     third(f.U32("u64")),
		"f32":     third(f.U32("f32")),
		"u32":     third(f.I32("u32")),
		"u16":     third(f.F32("u16")),
		"i32":     third(f.String("i32")),
		"string":  third(f.Bool("string")),
		"f32s":    third(f.I32s("f32s")),
		"i32s":    third(f.Strings("i32s")),
		"strings": third(f.F32s("strings")),
		"i16":     third(f.I32s("i16")),
	} {
		if err == nil || !strings.Contains(err.Error(), "mem: metadata key \""+name+"\"") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func third[A, B any](_ A, _ B, err error) error { return err }

func TestOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "模型 модель ☃", strings.Repeat("long directory name ", 10))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "Größe.gguf")
	w, err := Create(path, everyKind, smallSpecs)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, w, smallSpecs)
	if _, err := os.Stat(path); err == nil {
		t.Error("the file has its name before it is complete")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Tensor("b.norm").Data(); got[0] != 6 {
		t.Errorf("data %v", got)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	names, _ := os.ReadDir(dir)
	if len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}

	empty := filepath.Join(dir, "empty.gguf")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{empty, dir, filepath.Join(dir, "absent")} {
		if f, err := Open(p); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("Open(%s) = %v, %v", p, f, err)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.gguf")
	one := []Spec{{"w", []uint64{4}, F32}}
	for name, try := range map[string]func() error{
		"bad value":     func() error { _, err := Create(path, []KV{{"k", struct{}{}}}, nil); return err },
		"mixed nesting": func() error { _, err := Create(path, []KV{{"k", []any{1}}}, nil); return err },
		"empty key":     func() error { _, err := Create(path, []KV{{"", true}}, nil); return err },
		"alignment":     func() error { _, err := Create(path, []KV{{"general.alignment", uint32(3)}}, nil); return err },
		"a folder":      func() error { _, err := Create(dir, nil, one); return err },
		"row":           func() error { _, err := Create(path, nil, []Spec{{"w", []uint64{96}, Q2_0}}); return err },
		"type":          func() error { _, err := Create(path, nil, []Spec{{"w", []uint64{96}, 999}}); return err },
		"rank":          func() error { _, err := Create(path, nil, []Spec{{"w", nil, F32}}); return err },
		"short data": func() error {
			w, err := Create(path, nil, one)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(make([]byte, 15)); err != nil {
				t.Fatal(err)
			}
			return w.Close()
		},
		"long data": func() error {
			w, err := Create(path, nil, one)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Write(make([]byte, 17))
			if e := w.Abort(); e != nil {
				t.Error(e)
			}
			return err
		},
	} {
		if err := try(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if names, _ := os.ReadDir(dir); len(names) != 0 {
			t.Errorf("%s: left behind %v", name, names)
		}
	}
}

func TestTruncated(t *testing.T) {
	data := build(t, everyKind, smallSpecs)
	whole := len(data) - 16 // the last tensor's padding may be missing
	for n := range whole {
		if _, err := Parse("mem", data[:n:n]); err == nil {
			t.Errorf("%d of %d bytes: no error", n, len(data))
		}
	}
	if _, err := Parse("mem", data[:whole]); err != nil {
		t.Errorf("without the last padding: %v", err)
	}
}

// TestFlipped reads files with one damaged byte: no panic, whatever the result.
func TestFlipped(t *testing.T) {
	data := build(t, everyKind, smallSpecs)
	for i := range data {
		for _, v := range []byte{0, 1, 0x7f, 0x80, 0xff, data[i] ^ 1} {
			bad := bytes.Clone(data)
			bad[i] = v
			if f, err := Parse("mem", bad); err == nil {
				for _, g := range f.Tensors {
					_ = g.Data()[g.Size-1]
				}
			}
		}
	}
}

// TestLegacyQ2 writes the same tensors as id 42 in both geometries.
// BL-01.
func TestLegacyQ2(t *testing.T) {
	for _, typ := range []Type{Q2_0, Q2_0_G128} {
		specs := []Spec{
			{"token_embd.weight", []uint64{256, 33}, typ},
			{"blk.0.attn_q.weight", []uint64{128, 70}, typ},
			{"output_norm.weight", []uint64{256}, F32},
			{"blk.0.ffn_up.weight", []uint64{256, 65}, typ},
		}
		data := build(t, nil, specs)
		f, err := Parse("mem", data)
		if err != nil {
			t.Fatalf("%v: %v", typ, err)
		}
		for i, g := range f.Tensors {
			if g.Type != specs[i].Type || g.Data()[0] != byte(len(g.Name)) {
				t.Errorf("%v: tensor %q has type %v and first byte %d", typ, g.Name, g.Type, g.Data()[0])
			}
		}

		// A single tensor has no successor; the end of the file decides.
		f, err = Parse("mem", build(t, nil, specs[:1]))
		if err != nil || f.Tensors[0].Type != typ {
			t.Errorf("single %v tensor: %v", typ, err)
		}

		// Offsets of neither layout.
		at := bytes.Index(data, []byte("output_norm.weight")) + len("output_norm.weight") + 4 + 8 + 4
		binary.LittleEndian.PutUint64(data[at:], binary.LittleEndian.Uint64(data[at:])+32)
		_, err = Parse("mem", data)
		if err == nil || !strings.Contains(err.Error(), "groups of 64") || !strings.Contains(err.Error(), "groups of 128") || !strings.Contains(err.Error(), "Q2_0_g64") {
			t.Errorf("neither layout: %v", err)
		}
	}
	// Rows that only groups of 64 divide.
	for _, row := range []uint64{64, 192} {
		f, err := Parse("mem", build(t, nil, []Spec{{"w", []uint64{row}, Q2_0}}))
		if err != nil || f.Tensors[0].Type != Q2_0 {
			t.Errorf("row of %d: %v", row, err)
		}
	}
	// A tensor so small that padding hides the difference.
	small := build(t, nil, []Spec{{"w", []uint64{128}, Q2_0}})
	if _, err := Parse("mem", small); err == nil || !strings.Contains(err.Error(), "--q2-group") {
		t.Errorf("ambiguous: %v", err)
	}
	for group, want := range map[int]Type{64: Q2_0, 128: Q2_0_G128} {
		f, err := Options{Q2Group: group}.Parse("mem", small)
		if err != nil || f.Tensors[0].Type != want {
			t.Errorf("groups of %d: %v", group, err)
		}
	}
	if _, err := (Options{Q2Group: 32}).Parse("mem", small); err == nil {
		t.Error("groups of 32 are taken")
	}
	_, err := Parse("mem", build(t, []KV{{"general.quantization_version", "TQ2_0_G128"}}, []Spec{{"w", []uint64{128, 64}, Q2_0}}))
	if err == nil || !strings.Contains(err.Error(), "TQ2_0_G128") {
		t.Errorf("the other converter's format: %v", err)
	}
}

// BL-03: ids 41, 142 and 143 are Q1_0, PQ2_0 and PTQ1_0.
func TestTypes(t *testing.T) {
	for typ, want := range map[Type]uint64{
		F32: 1024, F16: 512, BF16: 512, Q4_0: 144, Q4_1: 160, Q8_0: 272, Q2_K: 84, Q4_K: 144, Q6_K: 210,
		TQ1_0: 54, TQ2_0: 66, Q1_0: 36, Q2_0: 72, PQ2_0: 68, PTQ1_0: 56,
	} {
		f, err := Options{Q2Group: 64}.Parse("mem", build(t, nil, []Spec{{"w", []uint64{256}, typ}}))
		if err != nil || f.Tensors[0].Size != want || f.Tensors[0].Type != typ {
			t.Errorf("%v: %v, want %d bytes", typ, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(build(f, everyKind, smallSpecs))
	f.Add(build(f, []KV{{"general.alignment", uint32(1)}}, []Spec{{"w", []uint64{128, 9}, Q2_0_G128}}))
	for _, c := range badFiles {
		f.Add(c.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := Parse("fuzz", data)
		if err != nil {
			return
		}
		for i := range g.Tensors {
			w := &g.Tensors[i]
			if w.Offset+w.Size > uint64(len(data)) || uint64(len(w.Data())) != w.Size {
				t.Errorf("tensor %q outside the file", w.Name)
			}
		}
		for _, kv := range g.Meta {
			_, _, _ = g.U32(kv.Key)
			_, _, _ = g.F32s(kv.Key)
		}
	})
}
