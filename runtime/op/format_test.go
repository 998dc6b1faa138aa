package op_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// dequantized are the weights of one row, packed and unpacked again.
func dequantized(t *testing.T, format string, data []byte) []float32 {
	t.Helper()
	f, err := op.FormatOf(format)
	if err != nil {
		t.Fatal(err)
	}
	x := ref.New()
	defer x.Close()
	k := len(data) / f.Bytes * f.Elements
	w, err := op.Upload(x, "w", op.Source{Name: "w", Format: f, Rows: 1, K: k, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	b := op.Builder{G: graph.New("dequant")}
	rows := b.Dequant(w)
	p, err := x.Compile(b.G)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Run(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 4*k)
	buf, at := p.Place(rows[0].Value)
	if err := x.Read(buf, at, out); err != nil {
		t.Fatal(err)
	}
	return floats(out)
}

func floats(data []byte) []float32 {
	v := make([]float32, len(data)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return v
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Random blocks mean what ggml says.
func TestGGML(t *testing.T) {
	text, err := os.ReadFile("../../testdata/formats/ggml.txt")
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		tested++
		got, want := dequantized(t, fields[0], unhex(t, fields[1])), floats(unhex(t, fields[2]))
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: weight %d is %g, ggml has %g", fields[0], i, got[i], want[i])
				break
			}
		}
	}
	if tested != 10 {
		t.Errorf("%d formats", tested)
	}
}

// The codes (j*j + j/3) % 3 with a scale of 0.5, packed by other means.
func TestTernary(t *testing.T) {
	for format, data := range map[string]string{
		"Q2_0":             "0038542a50a940a502950a542a50a940a502",
		"PQ2_0":            "0038542a50a940a502950a542a50a940a502950a542a50a940a502950a542a50a940",
		"Q2_0 (group 128)": "0038542a50a940a502950a542a50a940a502950a542a50a940a502950a542a50a940",
		"PTQ1_0":           "18705d7bcad3ee465018705d7bcad3ee1c0958727cd4f2fb8fe70038",
		"TQ2_0":            "981911216266468488981911216266468488981911216266468488981911216211216266468488981911216266468488981911216266468488981911216266460038",
	} {
		for j, v := range dequantized(t, format, unhex(t, data)) {
			if want := float32((j*j+j/3)%3-1) / 2; v != want {
				t.Errorf("%s: weight %d is %g, want %g", format, j, v, want)
				break
			}
		}
	}
	for j, v := range dequantized(t, "Q2_0", unhex(t, "003c"+strings.Repeat("e4", 16))) {
		if want := float32(j%4 - 1); v != want {
			t.Fatalf("code 3: weight %d is %g, want %g", j, v, want)
		}
	}
}

func TestFloats(t *testing.T) {
	v := []float32{1, -2.5, 0x1p-14, 0, 3, 0x1p-61, -0x1p-130}
	var f16, bf16, f32 []byte
	for _, x := range v {
		f16 = binary.LittleEndian.AppendUint16(f16, ref.F16(x))
		bf16 = binary.LittleEndian.AppendUint16(bf16, uint16(math.Float32bits(x)>>16))
		f32 = binary.LittleEndian.AppendUint32(f32, math.Float32bits(x))
	}
	for format, data := range map[string][]byte{"F16": f16, "BF16": bf16, "F32": f32} {
		for i, x := range dequantized(t, format, data) {
			if x != ref.Tidy(v[i]) {
				t.Errorf("%s: weight %d is %g, want %g", format, i, x, v[i])
			}
		}
	}
}

// The packed bytes are a function of the file's, however they are asked for, and
// never much more of them.
func TestPacked(t *testing.T) {
	for _, f := range op.Formats() {
		for _, size := range [][2]int{{64, 1024}, {45, 5 * f.Step()}} { // whole groups and units, and not
			src := source(f, size[0], size[1])
			if n := op.PackedBytes(src); size[0] == 64 && float64(n) > 1.05*float64(len(src.Data)) {
				t.Errorf("%s: %d bytes for %d of the file", f.Name, n, len(src.Data))
			}
			var whole []byte
			for _, piece := range []uint64{1 << 30, 4096, 1000} {
				x := &pieces{Executor: ref.New(), size: piece}
				w, err := op.Upload(x, "w", src)
				if err != nil {
					t.Fatal(err)
				}
				if n := op.PackedBytes(src); size[0] == 64 && n != w.Bytes() {
					t.Errorf("%s: %d bytes were estimated, %d taken", f.Name, n, w.Bytes())
				}
				if whole == nil {
					whole = x.seen
				}
				if !bytes.Equal(x.seen, whole) {
					t.Errorf("%s: pieces of %d bytes differ from the whole", f.Name, piece)
				}
			}
		}
	}
}

func source(f *op.Format, rows, k int) op.Source {
	data := make([]byte, rows*(k/f.Elements)*f.Bytes)
	for i := range data {
		data[i] = byte(i*7+i>>8) & 0x3b // halves stay finite
	}
	return op.Source{Name: "w", Format: f, Rows: rows, K: k, Data: data}
}

func BenchmarkUpload(b *testing.B) {
	for _, f := range op.Formats() {
		b.Run(f.Name, func(b *testing.B) {
			x, src := ref.New(), source(f, 1024, 4096)
			m, err := op.Place(x, "w", src)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(src.Data)))
			for b.Loop() {
				if err := m.Fill(x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// pieces fills in small pieces, which begin with what was there before, and keeps what
// was written.
type pieces struct {
	*ref.Executor
	size uint64
	seen []byte
}

func (x *pieces) Fill(_ graph.Buffer, _, n uint64, fill func(uint64, []byte) error) error {
	for off := uint64(0); off < n; off += x.size {
		p := bytes.Repeat([]byte{0xa5}, int(min(x.size, n-off)))
		if err := fill(off, p); err != nil {
			return err
		}
		x.seen = append(x.seen, p...)
	}
	return nil
}

func TestBadWeights(t *testing.T) {
	x := ref.New()
	for name, c := range map[string]struct {
		format string
		k      int
		at     int // of a half that is infinite
		want   error
		says   string
	}{
		"scale":    {"Q4_K", 512, 144 + 2, graph.ErrNonFinite, "tensor blk.0.w, weights 256 to 511"},
		"last":     {"PTQ1_0", 256, 54, graph.ErrNonFinite, "tensor blk.0.w, weights 128 to 255"},
		"weight":   {"F16", 64, 10, graph.ErrNonFinite, "tensor blk.0.w"},
		"half row": {"Q8_0", 96, -1, graph.ErrUnsupported, "multiple of 64"},
	} {
		f, err := op.FormatOf(c.format)
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, c.k/f.Elements*f.Bytes)
		if c.at >= 0 {
			binary.LittleEndian.PutUint16(data[c.at:], 0x7c00)
		}
		_, err = op.Upload(x, "w", op.Source{Name: "blk.0.w", Format: f, Rows: 1, K: c.k, Data: data})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := op.FormatOf("Q5_K"); !errors.Is(err, graph.ErrUnsupported) {
		t.Error(err)
	}
}
