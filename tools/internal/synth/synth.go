// Package synth makes models of a given shape whose weights are noise: for
// speed, for memory, and for tests that cross every border of the arithmetic.
//
// A model is a function of its [Shape], seed included, and of nothing else.
// Random numbers are those of splitmix64: the n-th output of the stream that
// starts at s is
//
//	z = s + (n+1)*0x9e3779b97f4a7c15
//	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
//	z = (z ^ z>>27) * 0x94d049bb133111eb
//	z ^ z>>31
//
// modulo 2^64, so every part of a tensor can be made by itself. Tensor i of the
// file has the stream that starts at output i of the stream of the shape's seed.
//
// Ternary weights: block b of 64 takes outputs 3b, 3b+1 and 3b+2: the 16 bytes of
// the first two, lowest first, are looked up in a table of four codes each, and the
// low byte of the third is the number of its scale (see scales); blocks that share a
// scale take the first one's. So all ternary types hold the same weights, if their
// scales may be the same. Other blocks of a file are random bytes: block b of n bytes
// takes outputs b*(n/8+1) on, but for its scales. Float weight j is uniform, by the
// top 24 bits of output j, as are vectors.
package synth

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	goruntime "runtime"
	"sync"

	"github.com/x448/float16"

	"github.com/ternvk/tern/model/gguf"
)

const gamma = 0x9e3779b97f4a7c15

// output is output n of the splitmix64 stream that starts at s.
func output(s, n uint64) uint64 {
	z := s + (n+1)*gamma
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uniform is output n as a number in [0, 1).
func uniform(s, n uint64) float32 { return float32(output(s, n)>>40) / (1 << 24) }

// codes is the table that turns a random byte i into four codes, the base-3
// digits of a number: i mod 81, or for the last 13 bytes, of which 81 leaves no
// whole round, 4, 10, ..., 76. With code3 these have code 3 first and last.
func codes(code3 bool) (table [256]byte) {
	for i := range table {
		n := i % 81
		if i >= 243 {
			n = 4 + 6*(i-243)
		}
		c := [4]int{n % 3, n / 3 % 3, n / 9 % 3, n / 27}
		if code3 && i >= 243 {
			c[0], c[3] = 3, 3
		}
		table[i] = byte(c[0] | c[1]<<2 | c[2]<<4 | c[3]<<6)
	}
	return table
}

// scales is the table of scales for rows of k weights, which keep the size of
// what goes through: number i is 1.2/sqrt(k) * (0.5 + i/256), in half precision.
func scales(k int) (table [256]uint16) {
	for i := range table {
		table[i] = half(scale(k, i))
	}
	return table
}

func scale(k, i int) float64 { return 1.2 / math.Sqrt(float64(k)) * (0.5 + float64(i)/256) }

func half(x float64) uint16 { return float16.Fromfloat32(float32(x)).Bits() }

// noise makes the weights of one tensor.
type noise struct {
	shape  *Shape
	seed   uint64
	tensor *tensor
	k      int // elements of a row
	codes  [256]byte
	scales [256]uint16
	join   uint64 // blocks of 64 that share a scale
}

const piece = 4 << 20 // bytes, about, that are made at once

// stream writes the data of all tensors.
func (s Shape) stream(ctx context.Context, w io.Writer) error {
	buf := make([]byte, 0, piece)
	for i, t := range s.tensors() {
		n := &noise{shape: &s, seed: output(s.Seed, uint64(i)), tensor: &t, k: int(t.Dims[0])}
		elements, size := t.Type.Block()
		n.codes, n.scales, n.join = codes(s.Code3), scales(n.k), max(1, uint64(s.Join), elements/64)
		// The unit of work is a block of the file, or a row that is rotated.
		count, fill := product(t.Dims)/elements, n.block
		if t.width != 0 || isFloat(t.Type) {
			count, size, fill = product(t.Dims[1:]), size*t.Dims[0], n.row
		}
		for from := uint64(0); from < count; {
			if err := ctx.Err(); err != nil {
				return err
			}
			many := min(count-from, max(1, piece/size))
			buf = append(buf[:0], make([]byte, many*size)...)
			parallel(many, func(i uint64) { fill(buf[i*size:][:size], from+i) })
			if _, err := w.Write(buf); err != nil {
				return err
			}
			from += many
		}
	}
	return nil
}

// parallel calls f(i) for all i < n, in a few pieces.
func parallel(n uint64, f func(i uint64)) {
	workers := min(uint64(goruntime.GOMAXPROCS(0)), 1+n/1024)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				f(i)
			}
		})
	}
	wg.Wait()
}

func isFloat(t gguf.Type) bool { return t == gguf.F32 || t == gguf.F16 || t == gguf.BF16 }

// row makes row r of a tensor of floats.
func (n *noise) row(dst []byte, r uint64) {
	v := make([]float32, n.k)
	mid, width := n.tensor.mid, n.tensor.width
	if width == 0 {
		width = float32(3.4 / math.Sqrt(float64(n.k)))
	}
	for j := range v {
		v[j] = mid + (uniform(n.seed, r*uint64(n.k)+uint64(j))-0.5)*width
	}
	if n.shape.Rotate {
		n.shape.rotate(v, n.tensor.turn)
	}
	for j, x := range v {
		switch n.tensor.Type {
		case gguf.F32:
			binary.LittleEndian.PutUint32(dst[4*j:], math.Float32bits(x))
		case gguf.F16:
			binary.LittleEndian.PutUint16(dst[2*j:], half(float64(x)))
		default:
			binary.LittleEndian.PutUint16(dst[2*j:], uint16((math.Float32bits(x)+0x8000)>>16))
		}
	}
}

// block makes block b of a file.
func (n *noise) block(dst []byte, b uint64) {
	switch n.tensor.Type {
	case gguf.Q2_0:
		n.twoBits(dst[2:], b)
		n.scale(dst, b)
	case gguf.Q2_0_G128, gguf.PQ2_0:
		n.twoBits(dst[2:], 2*b)
		n.twoBits(dst[18:], 2*b+1)
		n.scale(dst, 2*b)
	case gguf.TQ2_0:
		t := n.trits(4*b, 4)
		for e, c := range t {
			dst[e/128*32+e%32] |= c << (e % 128 / 32 * 2)
		}
		n.scale(dst[64:], 4*b)
	case gguf.PTQ1_0:
		putTrits(dst, n.trits(2*b, 2), tritRun{16, 5}, tritRun{8, 5}, tritRun{2, 4})
		n.scale(dst[26:], 2*b)
	case gguf.TQ1_0:
		putTrits(dst, n.trits(4*b, 4), tritRun{32, 5}, tritRun{16, 5}, tritRun{4, 4})
		n.scale(dst[52:], 4*b)
	default:
		n.random(dst, b)
	}
}

// twoBits makes the codes of block b of 64 as bytes of Q2_0.
func (n *noise) twoBits(dst []byte, b uint64) {
	lo, hi := output(n.seed, 3*b), output(n.seed, 3*b+1)
	for j := range 8 {
		dst[j] = n.codes[byte(lo>>(8*j))]
		dst[8+j] = n.codes[byte(hi>>(8*j))]
	}
}

func (n *noise) scale(dst []byte, b uint64) {
	binary.LittleEndian.PutUint16(dst, n.scales[byte(output(n.seed, 3*(b/n.join*n.join)+2))])
}

// trits are the codes of some blocks of 64 from b on, each in a byte; a 3 becomes 2.
func (n *noise) trits(b uint64, blocks int) []byte {
	t := make([]byte, 64*blocks)
	var q [16]byte
	for i := range blocks {
		n.twoBits(q[:], b+uint64(i))
		for e := range 64 {
			t[64*i+e] = min(q[e/4]>>(e%4*2)&3, 2)
		}
	}
	return t
}

// A tritRun is bytes of a base-3 block: digit d of byte m is element
// first + d*bytes + m.
type tritRun struct{ bytes, digits int }

func putTrits(dst, t []byte, runs ...tritRun) {
	for _, r := range runs {
		for m := range r.bytes {
			v := 0
			for d := range 5 {
				v *= 3
				if d < r.digits {
					v += int(t[d*r.bytes+m])
				}
			}
			dst[m] = byte((v*256 + 242) / 243)
		}
		dst, t = dst[r.bytes:], t[r.bytes*r.digits:]
	}
}

// scalesOf are the places of halves in blocks of random bytes: a scale, relative to
// that of ternary weights, and a minimum, relative to the scale, that makes the mean
// weight zero.
var scalesOf = map[gguf.Type]struct {
	scale, min  int // offsets; no minimum at -1
	size, least float64
}{
	gguf.Q1_0: {0, -1, 1, 0}, gguf.Q8_0: {0, -1, 1. / 90, 0}, gguf.Q4_0: {0, -1, 1. / 5.6, 0}, gguf.Q4_1: {0, 2, 1. / 5.6, -7.5},
	gguf.Q2_K: {80, 82, 1. / 16, 1.5}, gguf.Q4_K: {0, 2, 1. / 230, 7.5}, gguf.Q6_K: {208, -1, 1. / 1700, 0},
}

func (n *noise) random(dst []byte, b uint64) {
	first := b * uint64(len(dst)/8+1)
	var word [8]byte
	for i := 0; i < len(dst); i += 8 {
		binary.LittleEndian.PutUint64(word[:], output(n.seed, first+uint64(i/8)))
		copy(dst[i:], word[:])
	}
	h := scalesOf[n.tensor.Type]
	d := scale(n.k, int(dst[h.scale])) * h.size
	binary.LittleEndian.PutUint16(dst[h.scale:], half(d))
	if h.min >= 0 {
		binary.LittleEndian.PutUint16(dst[h.min:], half(d*h.least))
	}
}

// Tokens returns n token ids below vocab: the outputs of the stream of seed,
// modulo vocab.
func Tokens(seed uint64, n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(output(seed, uint64(i)) % uint64(vocab))
	}
	return ids
}
