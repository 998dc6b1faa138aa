package op

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/ternvk/tern/runtime/graph"
)

// Format is a storage format of a file's matrices, and how they are packed for
// the kernels: the same numbers, in an order that suits them.
type Format struct {
	Name            string // as in files: "Q2_0"
	Kernel          string // in names of contracts
	Elements, Bytes int    // of a block in a file
	kind            kind
	regions         []region
}

type kind int

const (
	plain  kind = iota // blocks of 64 weights that bring what belongs to them
	joined             // Q2_0: blocks that share scales, which lie apart
	float              // float weights; rows need not be whole blocks
)

// A region is a part of a packed matrix: rows in groups of 32 (the last padded with
// zero words), a row in units of some elements (the last may be short). Within a
// group and unit lie, `together` words of each row side by side, the words of the
// 32 rows: neighbouring invocations take neighbouring rows.
type region struct {
	elements, words int // of a unit
	together        int
	// pack makes a unit of the blocks of a file's row in src, which end early in a
	// short unit. dst is zero.
	pack func(dst []uint32, src []byte) error
	// packRow takes the place of pack in the formats of large models, where a call a unit
	// would be most of the time. It makes any number of units, the last of which may be short,
	// in out, which begins with the row's first words in its group. With an error it
	// tells in which of them.
	packRow func(out []uint32, src []byte) (unit int, err error)
}

const groupRows = 32

func padded(rows int) int { return (rows + groupRows - 1) / groupRows * groupRows }

func (r *region) units(k int) int { return (k + r.elements - 1) / r.elements }

func (r *region) bytes(rows, k int) uint64 {
	return uint64(padded(rows)) * uint64(r.units(k)) * uint64(r.words) * 4
}

// rowBytes is the size of a row in a file.
func (f *Format) rowBytes(k int) int { return k / f.Elements * f.Bytes }

// Step is the number that a row's elements must be a multiple of.
func (f *Format) Step() int {
	if f.kind == float {
		return 1
	}
	return max(f.Elements, 64)
}

// bytes is the memory that a packed matrix takes.
func (f *Format) packedBytes(rows, k int) (n uint64) {
	for i := range f.regions {
		n = align(n) + f.regions[i].bytes(rows, k)
	}
	return n
}

func align(n uint64) uint64 { return (n + 255) &^ 255 }

// FormatOf returns the format of a name, as package gguf prints it, or an error
// with the formats that there are.
func FormatOf(name string) (*Format, error) {
	var names []string
	for _, f := range formats {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return nil, fmt.Errorf("%s matrices: there are %q: %w", name, names, graph.ErrUnsupported)
}

// Formats lists all formats.
func Formats() []*Format { return append([]*Format(nil), formats...) }

// sharing is the number of blocks of 64 that share a scale, as a power of two: the
// specialisation constant of kernels for joined blocks.
func (f *Format) sharing() int { return bits.TrailingZeros(uint(f.Elements / 64)) }

// formats have a line each; what the packed words mean is said by the twins
// (runtime/ref: q2_0.go, block.go, float_weights.go).
var formats = []*Format{
	{"Q2_0", "q2_0", 64, 18, joined, []region{{64, 4, 4, nil, packCodes(18)}, {256, 2, 2, nil, packScales(18, 0)}}},
	{"Q2_0 (group 128)", "q2_0", 128, 34, joined, []region{{128, 8, 4, nil, packCodes(34)}, {512, 2, 2, nil, packScales(34, 0)}}},
	{"PQ2_0", "q2_0", 128, 34, joined, []region{{128, 8, 4, nil, packCodes(34)}, {512, 2, 2, nil, packScales(34, 0)}}},
	{"TQ2_0", "q2_0", 256, 66, joined, []region{{256, 16, 4, packTQ2_0, nil}, {1024, 2, 2, nil, packScales(66, 64)}}},
	{"PTQ1_0", "ptq1_0", 128, 28, plain, []region{{128, 7, 1, packPTQ1_0, nil}}},
	{"TQ1_0", "tq1_0", 256, 54, plain, []region{{256, 14, 1, packTQ1_0, nil}}},
	{"Q1_0", "q1_0", 128, 18, plain, []region{{256, 9, 1, packQ1_0, nil}}},
	{"Q8_0", "q8_0", 32, 34, plain, []region{{64, 17, 1, packQ8_0, nil}}},
	{"Q4_0", "q4_0", 32, 18, plain, []region{{64, 9, 1, packQ4_0, nil}}},
	{"Q4_1", "q4_1", 32, 20, plain, []region{{64, 10, 1, packQ4_1, nil}}},
	{"Q2_K", "q2_k", 256, 84, plain, []region{{256, 21, 1, packQ2K, nil}}},
	{"Q4_K", "q4_k", 256, 144, plain, []region{{256, 36, 1, packQ4K, nil}}},
	{"Q6_K", "q6_k", 256, 210, plain, []region{{256, 53, 1, packQ6K, nil}}},
	{"F16", "f16", 1, 2, float, []region{{64, 32, 1, packF16, nil}}},
	{"BF16", "bf16", 1, 2, float, []region{{64, 32, 1, packBF16, nil}}},
	{"F32", "f32", 1, 4, float, []region{{64, 64, 1, packF32, nil}}},
}

var errScale = fmt.Errorf("a scale is not finite: %w", graph.ErrNonFinite)

// halfAt reads the finite half at the start of b.
func halfAt(b []byte) (uint32, error) {
	h := binary.LittleEndian.Uint16(b)
	if h&0x7c00 == 0x7c00 {
		return 0, errScale
	}
	return uint32(h), nil
}

// codeWords are the codes of a block as bytes, in the order of int8 activations: code i
// of 16 is byte i/4 of word i%4. Four words of a block are the transpose of other four.
func codeWords(codes []byte) (words [16]uint32) {
	const even, odd, low, high = 0x00ff00ff, 0xff00ff00, 0x0000ffff, 0xffff0000
	for i := 0; i < len(words); i += 4 {
		four := codes[4*i:][:16]
		a, b := binary.LittleEndian.Uint32(four), binary.LittleEndian.Uint32(four[4:])
		c, d := binary.LittleEndian.Uint32(four[8:]), binary.LittleEndian.Uint32(four[12:])
		ab, cd := a&even|b&even<<8, c&even|d&even<<8 // bytes 0 and 2 of both
		words[i], words[i+2] = ab&low|cd<<16, ab>>16|cd&high
		ab, cd = a&odd>>8|b&odd, c&odd>>8|d&odd // 1 and 3
		words[i+1], words[i+3] = ab&low|cd<<16, ab>>16|cd&high
	}
	return words
}

// put stores the codes of a block, each of width bits, from word 0 of dst on.
func put(dst []uint32, width int, codes []byte) {
	words := codeWords(codes)
	for k := range words {
		at := k * width // in bits of a byte
		dst[at/8] |= words[k] << (at % 8)
	}
}

// packCodes copies the codes of blocks of so many bytes, which lie behind their scale,
// four words at a time.
func packCodes(block int) func(out []uint32, src []byte) (int, error) {
	return func(out []uint32, src []byte) (int, error) {
		const quad, stride = 4 * 4, 4 * 4 * groupRows // bytes
		dst := bytesOf(out)
		for first := 2; first < block; first += quad {
			to := (first - 2) / quad * stride
			for at := first; at <= len(src)-quad; at += block {
				*(*[quad]byte)(dst[to:]) = [quad]byte(src[at:])
				to += (block - 2) / quad * stride
			}
		}
		return 0, nil
	}
}

func packTQ2_0(dst []uint32, src []byte) error {
	for w := range 16 { // of 16 codes, the same two bits of as many bytes
		bytes, shift := src[w/8*32+w%2*16:], w%8/2*2
		low, high := binary.LittleEndian.Uint64(bytes)>>shift, binary.LittleEndian.Uint64(bytes[8:])>>shift
		dst[w] = joinPairs(low) | joinPairs(high)<<16
	}
	return nil
}

// joinPairs puts the two low bits of eight bytes side by side.
func joinPairs(v uint64) uint32 {
	v &= 0x0303030303030303
	v = (v | v>>6) & 0x000f000f000f000f
	v = (v | v>>12) & 0x000000ff000000ff
	return uint32(v|v>>24) & 0xffff
}

// packScales collects four scales a unit, each at the offset of its block of a file.
func packScales(block, offset int) func(out []uint32, src []byte) (int, error) {
	return func(out []uint32, src []byte) (int, error) {
		var four uint64
		n := 0
		for at := offset; at+2 <= len(src); at += block {
			h := uint64(src[at]) | uint64(src[at+1])<<8
			if h&0x7c00 == 0x7c00 {
				return n / 4, errScale
			}
			four |= h << (n % 4 * 16)
			if n++; n%4 == 0 || at+block >= len(src) {
				unit := out[(n-1)/4*2*groupRows:][:2]
				unit[0], unit[1] = uint32(four), uint32(four>>32)
				four = 0
			}
		}
		return 0, nil
	}
}

// trit is the table of base-3 digits of a byte, the most significant first.
var trit = func() (table [256][5]byte) {
	for b := range table {
		p := byte(b)
		for n := range 5 {
			table[b][n] = byte(uint(p) * 3 >> 8)
			p *= 3
		}
	}
	return table
}()

// tritByte is the byte of a number of five base-3 digits.
var tritByte = func() (table [243]byte) {
	for v := range table {
		table[v] = byte((v*256 + 242) / 243)
	}
	return table
}()

// putTrits stores a block of trits in three words and returns its tail byte.
func putTrits(dst []uint32, t []byte) (tail uint32) {
	words := codeWords(t)
	for w := range 3 {
		v := uint32(0) // four numbers, none above 242
		for _, digits := range words[5*w : 5*w+5] {
			v = v*3 + digits
		}
		dst[w] = uint32(tritByte[byte(v)]) | uint32(tritByte[byte(v>>8)])<<8 | uint32(tritByte[byte(v>>16)])<<16 | uint32(tritByte[v>>24])<<24
	}
	last := words[15]
	return uint32(tritByte[((last&3*3+last>>8&3)*3+last>>16&3)*9+last>>24*3])
}

// A run of bytes in a file's base-3 block: byte m holds the elements
// first + n*bytes + m.
type tritRun struct{ bytes, digits int }

func trits(dst []byte, src []byte, runs ...tritRun) {
	const even = 0x00ff00ff00ff00ff
	for _, r := range runs {
		m := 0
		for ; m+8 <= r.bytes; m += 8 { // as trit has it, for eight bytes at once
			v := binary.LittleEndian.Uint64(src[m:])
			a, b := v&even, v>>8&even
			for n := range r.digits {
				a, b = 3*a, 3*b
				binary.LittleEndian.PutUint64(dst[n*r.bytes+m:], a>>8&even|b&^even)
				a, b = a&even, b&even
			}
		}
		for ; m < r.bytes; m++ {
			for n := range r.digits {
				dst[n*r.bytes+m] = trit[src[m]][n]
			}
		}
		src, dst = src[r.bytes:], dst[r.bytes*r.digits:]
	}
}

func packPTQ1_0(dst []uint32, src []byte) error {
	var t [128]byte
	trits(t[:], src, tritRun{16, 5}, tritRun{8, 5}, tritRun{2, 4})
	d, err := halfAt(src[26:])
	dst[6] = d << 16
	for b := range 2 {
		dst[6] |= putTrits(dst[3*b:], t[64*b:][:64]) << (8 * b)
	}
	return err
}

func packTQ1_0(dst []uint32, src []byte) (err error) {
	var t [256]byte
	trits(t[:], src, tritRun{32, 5}, tritRun{16, 5}, tritRun{4, 4})
	for b := range 4 {
		dst[12] |= putTrits(dst[3*b:], t[64*b:][:64]) << (8 * b)
	}
	dst[13], err = halfAt(src[52:])
	return err
}

func packQ1_0(dst []uint32, src []byte) error {
	for i := 0; len(src) > 0; i, src = i+1, src[18:] {
		d, err := halfAt(src)
		if err != nil {
			return err
		}
		dst[8] |= d << (16 * i)
		var q [128]byte
		for j, b := range src[2:18] { // eight bits as eight bytes
			bits := uint64(b) * 0x0101010101010101 & 0x8040201008040201
			binary.LittleEndian.PutUint64(q[8*j:], (bits+0x7f7f7f7f7f7f7f7f)>>7&0x0101010101010101)
		}
		put(dst[4*i:], 1, q[:64])
		put(dst[4*i+2:], 1, q[64:])
	}
	return nil
}

func packQ8_0(dst []uint32, src []byte) error {
	var q [64]byte
	for h := range 2 {
		d, err := halfAt(src[34*h:])
		if err != nil {
			return err
		}
		dst[16] |= d << (16 * h)
		copy(q[32*h:], src[34*h+2:][:32])
	}
	put(dst, 8, q[:])
	return nil
}

// nibbles are the codes of 32 elements: the low halves of 16 bytes, then the high.
func nibbles(dst, src []byte) {
	n := len(dst) / 2
	for j := range n {
		dst[j], dst[n+j] = src[j]&15, src[j]>>4
	}
}

func packQ4_0(dst []uint32, src []byte) error {
	var q [64]byte
	for h := range 2 {
		d, err := halfAt(src[18*h:])
		if err != nil {
			return err
		}
		dst[8] |= d << (16 * h)
		nibbles(q[32*h:][:32], src[18*h+2:])
	}
	put(dst, 4, q[:])
	return nil
}

func packQ4_1(dst []uint32, src []byte) error {
	var q [64]byte
	for h := range 2 {
		for i := range 2 {
			v, err := halfAt(src[20*h+2*i:])
			if err != nil {
				return err
			}
			dst[8+i] |= v << (16 * h)
		}
		nibbles(q[32*h:][:32], src[20*h+4:])
	}
	put(dst, 4, q[:])
	return nil
}

// scaleAndMin are d and m = -dmin, which lie in that order in a file.
func scaleAndMin(src []byte) (uint32, error) {
	d, err := halfAt(src)
	if err != nil {
		return 0, err
	}
	dmin, err := halfAt(src[2:])
	return d | (dmin^0x8000)<<16, err
}

func packQ2K(dst []uint32, src []byte) (err error) {
	packTQ2_0(dst, src[16:]) // the codes lie alike
	for b := range 4 {
		dst[16+b] = binary.LittleEndian.Uint32(src[4*b:])
	}
	dst[20], err = scaleAndMin(src[80:])
	return err
}

func packQ4K(dst []uint32, src []byte) (err error) {
	var q [64]byte
	for b := range 4 {
		nibbles(q[:], src[16+32*b:])
		put(dst[8*b:], 4, q[:])
	}
	for g := range 8 {
		s, n := src[4+g%4]&63, src[8+g%4]&63
		if g >= 4 {
			s, n = src[8+g]&15|src[g]>>6<<4, src[8+g]>>4|src[4+g]>>6<<4
		}
		dst[32] |= uint32(s&15) << (4 * g)
		dst[33] |= uint32(n&15) << (4 * g)
		dst[34] |= uint32(s>>4)<<(2*g) | uint32(n>>4)<<(16+2*g)
	}
	dst[35], err = scaleAndMin(src)
	return err
}

func packQ6K(dst []uint32, src []byte) (err error) {
	var low, high [64]byte
	for b := range 4 {
		for i := range low {
			e := 64*b + i
			half, quarter, l := e/128, e%128/32, e%32
			low[i] = src[64*half+quarter%2*32+l] >> (quarter / 2 * 4) & 15
			high[i] = src[128+32*half+l] >> (2 * quarter) & 3
		}
		put(dst[8*b:], 4, low[:])
		put(dst[32+4*b:], 2, high[:])
		dst[48+b] = binary.LittleEndian.Uint32(src[192+4*b:])
	}
	dst[52], err = halfAt(src[208:])
	return err
}

var errWeight = fmt.Errorf("a weight is not finite: %w", graph.ErrNonFinite)

func packF16(dst []uint32, src []byte) error {
	for i := range len(src) / 2 {
		h := uint32(binary.LittleEndian.Uint16(src[2*i:]))
		if h&0x7c00 == 0x7c00 {
			return errWeight
		}
		dst[i/2] |= h << (i % 2 * 16)
	}
	return nil
}

func packBF16(dst []uint32, src []byte) error {
	for i := range len(src) / 2 {
		u, err := tidied(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		if err != nil {
			return err
		}
		dst[i/2] |= u >> 16 << (i % 2 * 16)
	}
	return nil
}

func packF32(dst []uint32, src []byte) (err error) {
	for i := range len(src) / 4 {
		if dst[i], err = tidied(binary.LittleEndian.Uint32(src[4*i:])); err != nil {
			return err
		}
	}
	return nil
}

// tidied is a float32 without what devices may flush to zero: below 2^-60.
func tidied(u uint32) (uint32, error) {
	switch v := math.Float32frombits(u &^ (1 << 31)); {
	case v-v != 0:
		return 0, errWeight
	case v < 0x1p-60:
		return 0, nil
	}
	return u, nil
}
