package quantize

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ternvk/tern/model/gguf"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Random blocks mean what ggml says.
func TestDecodeGGML(t *testing.T) {
	text, err := os.ReadFile("../../testdata/formats/ggml.txt")
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		for typ := range codecs {
			if f[0] != typ.String() {
				continue
			}
			tested++
			data := unhex(t, f[1])
			e, b := typ.Block()
			got := make([]float32, len(data)/int(b)*int(e))
			if err := Decode(typ, got, data); err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				if want := math.Float32frombits(binary.LittleEndian.Uint32(unhex(t, f[2][8*i:8*i+8]))); v != want {
					t.Errorf("%s: weight %d is %g, ggml has %g", f[0], i, v, want)
					break
				}
			}
		}
	}
	if tested != 10 {
		t.Errorf("%d formats", tested)
	}
}

// The codes (j*j + j/3) % 3 with a scale of 0.5, packed by other means.
func TestEncodeVectors(t *testing.T) {
	for typ, want := range map[gguf.Type]string{
		gguf.Q2_0:      "0038542a50a940a502950a542a50a940a502",
		gguf.Q2_0_G128: "0038542a50a940a502950a542a50a940a502950a542a50a940a502950a542a50a940",
		gguf.PQ2_0:     "0038542a50a940a502950a542a50a940a502950a542a50a940a502950a542a50a940",
		gguf.PTQ1_0:    "18705d7bcad3ee465018705d7bcad3ee1c0958727cd4f2fb8fe70038",
		gguf.TQ2_0:     "981911216266468488981911216266468488981911216266468488981911216211216266468488981911216266468488981911216266468488981911216266460038",
	} {
		e, b := typ.Block()
		x, got := make([]float32, e), make([]byte, b)
		for j := range x {
			x[j] = float32((j*j+j/3)%3-1) / 2
		}
		if err := Encode(typ, got, x); err != nil {
			t.Fatal(err)
		}
		if hex.EncodeToString(got) != want {
			t.Errorf("%s: %x, want %s", typ, got, want)
		}
	}
}

// splitmix is output n of the splitmix64 stream of seed 0.
func splitmix(n uint64) uint64 {
	z := (n + 1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// block makes block b of the numbers that tools/goldens/quantize.py describes.
func block(dst []float32, b uint64) {
	whole := splitmix(65 * b)
	power := math.Exp2(float64(whole%25) - 20)
	for i := range dst {
		r := splitmix(65*b + 1 + uint64(i))
		x := (float64(r>>40)/(1<<23) - 1) * power
		switch b % 8 {
		case 3:
			if i == 0 {
				x = float64(2049+2*(whole>>32&511)) / 2048 * power
			}
		case 4:
			x = (float64(r%17) - 8) / 8 * power
		case 5:
			x = (float64(r%3) - 1) * power * (1 + float64(whole>>32&1023)/1024)
		case 6:
			x = 0
			if b/8%2 == 1 && uint64(i) == whole%64 {
				x = power
			} else if r%2 == 1 {
				x = math.Copysign(0, -1)
			}
		case 7:
			dst[i] = math.Float32frombits(uint32(r&0x807f_ffff) | uint32(r>>32%75+67)<<23)
			continue
		}
		dst[i] = float32(x)
	}
}

// hashes of what tools/goldens/quantize.py 1048576 LIBGGML_BASE makes: Q2_0 by itself
// and, the same, by ggml; the others by ggml.
var hashes = map[gguf.Type]string{
	gguf.Q2_0:  "9f5a45c509b536ed8a9a9a182113e13170c93ab98d62870a5d40ef3a8e45d24f",
	gguf.TQ1_0: "7f3339b2036d05591f08abc1e14565cc8ad9da6515c520d9bbba73bea4fd478a",
	gguf.TQ2_0: "20c025df9f7d64b68693420d2423b3e37a90843a5a1dcd0036202f8904551437",
	gguf.Q1_0:  "2d9c7a69b40f6f33ef492706c415d190b71476da9ae6244a054bc6e50cf00b13",
	gguf.Q8_0:  "05fff9e8e07ab212ae01eb9c697868ee5dd997718e6ca76be4cb4c9203c5d5ff",
	gguf.Q4_0:  "86e2424f56d7a32030f6dca901fdcff283563ab4c773d8c600b12120466ae90d",
}

const smallHash = "ffb63cb75b16040bb63f5c7279e70f76b90dedb50453c2f39559a19c512d0469" // of 65,536 blocks in Q2_0

// A million blocks, with ties of weights and of scales, zeros, tiny and large
// numbers, by ggml's rules.
func TestReferenceRounding(t *testing.T) {
	sums := map[gguf.Type]func([]byte){}
	done := map[gguf.Type]func() string{}
	for typ := range hashes {
		h := sha256.New()
		sums[typ] = func(b []byte) { h.Write(b) }
		done[typ] = func() string { return hex.EncodeToString(h.Sum(nil)) }
	}
	const blocks, step = 1 << 20, 1 << 12
	x, out := make([]float32, 64*step), make([]byte, 64*step*2) // room for any
	for first := 0; first < blocks; first += step {
		for i := range step {
			block(x[64*i:][:64], uint64(first+i))
		}
		for typ, sum := range sums {
			b := out[:size(typ, len(x))]
			if err := Encode(typ, b, x); err != nil {
				t.Fatal(err)
			}
			sum(b)
		}
		if first+step == 65536 {
			if got := done[gguf.Q2_0](); got != smallHash {
				t.Errorf("Q2_0 of 65,536 blocks: %s, want %s", got, smallHash)
			}
		}
	}
	for typ, want := range hashes {
		if got := done[typ](); got != want {
			t.Errorf("%s: %s, want %s", typ, got, want)
		}
	}
}

// The same by the Python program itself, where it can run.
func TestPython(t *testing.T) {
	n, want := 65536, smallHash
	if os.Getenv("TERN_CONFORM") == "all" {
		n, want = 1<<20, hashes[gguf.Q2_0]
	}
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import numpy").Run() != nil {
			continue
		}
		out, err := exec.Command(python, "../../tools/goldens/quantize.py", strconv.Itoa(n)).Output()
		if got := strings.TrimSuffix(string(out), " Q2_0\n"); err != nil || got != want {
			t.Errorf("%s: %v, %q; want %s", python, err, got, want)
		}
		return
	}
	t.Skip("no Python with numpy")
}

func TestRefusals(t *testing.T) {
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	for typ, c := range codecs {
		e, b := typ.Block()
		n := 256 / int(e) * int(e)
		x, out := make([]float32, n), make([]byte, n/int(e)*int(b))
		if c.encode == nil {
			if err := Encode(typ, out, x); err == nil || !strings.Contains(err.Error(), "not written") {
				t.Errorf("%s: %v", typ, err)
			}
			continue
		}
		for _, bad := range []float32{inf, nan} {
			x[77] = bad
			if err := Encode(typ, out, x); !errors.Is(err, ErrNonFinite) || !strings.Contains(err.Error(), "weight 77") {
				t.Errorf("%s of %g: %v", typ, bad, err)
			}
		}
		for i := range x {
			x[i] = 3e38
		}
		x[0] = math.MaxFloat32
		if err := Encode(typ, out, x); typ != gguf.F32 && !errors.Is(err, ErrRange) {
			t.Errorf("%s of huge numbers: %v", typ, err)
		}
		if err := Encode(typ, out[1:], x); err == nil {
			t.Errorf("%s: a short destination", typ)
		}
	}
}

func TestTypeNames(t *testing.T) {
	for _, n := range TypeNames() {
		typ, err := ParseType(strings.ToUpper(n))
		if _, ok := fileTypes[typ]; err != nil || !ok || codecs[typ].encode == nil {
			t.Errorf("%s: %v, file type %v", n, err, ok)
		}
	}
	if _, err := ParseType("q5_k"); err == nil || !strings.Contains(err.Error(), "ptq1_0") {
		t.Errorf("q5_k: %v", err)
	}
}

// Every coded format holds all its codes, and moves to every other as it is, where
// that has the codes and the groups' scales allow it.
func TestRecode(t *testing.T) {
	const n = 512
	for from, f := range codecs {
		if f.coded == nil {
			continue
		}
		for to, g := range codecs {
			if g.coded == nil {
				continue
			}
			for _, join := range []int{f.coded.group, 512} { // weights that share a scale
				src, dst := make([]byte, size(from, n)), make([]byte, size(to, n))
				before, after := make([]float32, n), make([]float32, n)
				codes := make([]byte, n)
				for i := range codes {
					codes[i] = f.coded.codes[splitmix(uint64(i))%uint64(len(f.coded.codes))]
				}
				for b := range n / f.coded.group {
					block := src[b*blockBytes(from):][:blockBytes(from)]
					f.coded.pack(block, codes[b*f.coded.group:][:f.coded.group])
					_ = putHalf(block[f.coded.scale:], 1+float32(b*f.coded.group/join)/4)
				}
				ok := recode(to, dst, from, src)
				has := !slices.ContainsFunc(codes, func(c byte) bool { return !slices.Contains(g.coded.codes, c) })
				if want := has && g.coded.group <= join; ok != want {
					t.Errorf("%s to %s, scales of %d: %v, want %v", from, to, join, ok, want)
				}
				if !ok {
					continue
				}
				if err := errors.Join(Decode(from, before, src), Decode(to, after, dst)); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(before, after) {
					t.Errorf("%s to %s, scales of %d: other numbers", from, to, join)
				}
				if back := make([]byte, len(src)); f.coded.group <= join && recode(from, back, to, dst) && !bytes.Equal(back, src) {
					t.Errorf("%s to %s and back, scales of %d: other bytes", from, to, join)
				}
			}
		}
	}
}
