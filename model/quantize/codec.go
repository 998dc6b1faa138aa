// Package quantize stores numbers in the formats of package gguf, reads them back,
// and turns whole files from one format into another, telling what that loses.
//
// Rounding is that of ggml's reference quantisers. For Q2_0, PQ2_0, TQ2_0, TQ1_0
// and PTQ1_0 it is, with a group's values x in float32:
//
//	d = max |x|
//	i = 1/d, or 0 if d is 0
//	q = x*i rounded to an integer, halves away from zero: -1, 0 or 1
//
// and q is stored with d rounded to a half. A group whose values are -d, 0 and d
// with a d that a half holds loses nothing; a group of other values becomes nearly
// noise. So these formats are for models that were trained with ternary weights.
package quantize

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/x448/float16"

	"github.com/ternvk/tern/model/gguf"
)

// Errors of values that a format cannot hold.
var (
	ErrNonFinite = errors.New("not finite")
	ErrRange     = errors.New("out of the range of half precision")
)

// codec reads and writes the blocks of a format.
type codec struct {
	decode func(dst []float32, src []byte)
	encode func(dst []byte, src []float32) error // nil: such blocks are only read
	coded  *coded                                // nil: other than codes and one scale
}

var codecs = map[gguf.Type]codec{
	gguf.F32:       {decode: decodeF32, encode: encodeF32},
	gguf.F16:       {decode: decodeF16, encode: encodeF16},
	gguf.BF16:      {decode: decodeBF16, encode: encodeBF16},
	gguf.Q8_0:      {decode: decodeQ8_0, encode: encodeQ8_0},
	gguf.Q4_0:      {decode: decodeQ4_0, encode: encodeQ4_0},
	gguf.Q4_1:      {decode: decodeQ4_1},
	gguf.Q2_K:      {decode: decodeQ2K},
	gguf.Q4_K:      {decode: decodeQ4K},
	gguf.Q6_K:      {decode: decodeQ6K},
	gguf.Q2_0:      twoBits(64).codec(),
	gguf.Q2_0_G128: twoBits(128).codec(),
	gguf.PQ2_0:     twoBits(128).codec(),
	gguf.TQ2_0:     tq2_0.codec(),
	gguf.TQ1_0:     trits(256, tritRun{32, 5}, tritRun{16, 5}, tritRun{4, 4}).codec(),
	gguf.PTQ1_0:    trits(128, tritRun{16, 5}, tritRun{8, 5}, tritRun{2, 4}).codec(),
	gguf.Q1_0:      q1_0.codec(),
}

// Decode writes the numbers that src stands for, whole blocks of a format: exact,
// but for the formats with minima (Q4_1, Q2_K, Q4_K), whose one sum is rounded to
// float32.
func Decode(t gguf.Type, dst []float32, src []byte) error {
	return blocks(t, len(dst), len(src), func(i, e, b int) error {
		codecs[t].decode(dst[i*e:][:e], src[i*b:][:b])
		return nil
	})
}

// Encode stores src as whole blocks of a format, by the reference rounding. A number
// that is not finite is an error that wraps ErrNonFinite, one that is too large for
// the format's halves wraps ErrRange.
func Encode(t gguf.Type, dst []byte, src []float32) error {
	if codecs[t].encode == nil {
		return fmt.Errorf("%s is read, but not written", t)
	}
	if err := finite(src); err != nil {
		return err
	}
	return blocks(t, len(src), len(dst), func(i, e, b int) error {
		if err := codecs[t].encode(dst[i*b:][:b], src[i*e:][:e]); err != nil {
			return fmt.Errorf("weights %d to %d: %w", i*e, (i+1)*e-1, err)
		}
		return nil
	})
}

func finite(src []float32) error {
	for i, x := range src {
		if x-x != 0 {
			return fmt.Errorf("weight %d is %g: %w", i, x, ErrNonFinite)
		}
	}
	return nil
}

// blocks calls f for the i-th block of e elements and b bytes.
func blocks(t gguf.Type, elements, bytes int, f func(i, e, b int) error) error {
	el, by := t.Block()
	e, b := int(el), int(by)
	if _, ok := codecs[t]; !ok || elements%e != 0 || bytes != elements/e*b {
		return fmt.Errorf("%d numbers are not %d bytes of %s", elements, bytes, t)
	}
	if e == 1 { // floats go all at once
		return f(0, elements, bytes)
	}
	for i := range elements / e {
		if err := f(i, e, b); err != nil {
			return err
		}
	}
	return nil
}

func half(src []byte) float32 { return float16.Frombits(binary.LittleEndian.Uint16(src)).Float32() }

func putHalf(dst []byte, x float32) error {
	h := float16.Fromfloat32(x)
	if !h.IsFinite() {
		return fmt.Errorf("%g is %w", x, ErrRange)
	}
	binary.LittleEndian.PutUint16(dst, h.Bits())
	return nil
}

func magnitude(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

func largest(src []float32) (m float32) {
	for _, x := range src {
		m = max(m, magnitude(x))
	}
	return m
}

// inverse of a scale; 0 for 0.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func encodeF32(dst []byte, src []float32) error {
	for i, x := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
	}
	return nil
}

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func encodeF16(dst []byte, src []float32) error {
	for i, x := range src {
		if err := putHalf(dst[2*i:], x); err != nil {
			return err
		}
	}
	return nil
}

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// encodeBF16 rounds to nearest, ties to even.
func encodeBF16(dst []byte, src []float32) error {
	for i, x := range src {
		u := math.Float32bits(x)
		u += 0x7fff + u>>16&1
		if u&0x7f80_0000 == 0x7f80_0000 {
			return fmt.Errorf("%g is out of the range of bfloat16: %w", x, ErrRange)
		}
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(u>>16))
	}
	return nil
}

func decodeQ8_0(dst []float32, src []byte) {
	d := half(src)
	for i := range dst {
		dst[i] = float32(int8(src[2+i])) * d
	}
}

func encodeQ8_0(dst []byte, src []float32) error {
	d := largest(src) / 127
	inv := inverse(d)
	for i, x := range src {
		dst[2+i] = byte(int8(math.Round(float64(x * inv))))
	}
	return putHalf(dst, d)
}

func decodeQ4_0(dst []float32, src []byte) {
	d := half(src)
	for i := range 16 {
		dst[i] = float32(int(src[2+i]&15)-8) * d
		dst[16+i] = float32(int(src[2+i]>>4)-8) * d
	}
}

// encodeQ4_0 gives the value of largest magnitude, the first of several, code 0.
func encodeQ4_0(dst []byte, src []float32) error {
	var top float32
	for _, x := range src {
		if magnitude(x) > magnitude(top) {
			top = x
		}
	}
	d := top / -8
	inv := inverse(d)
	code := func(x float32) byte { return byte(min(15, int(float32(x*inv)+8.5))) }
	for i := range 16 {
		dst[2+i] = code(src[i]) | code(src[16+i])<<4
	}
	return putHalf(dst, d)
}

func decodeQ4_1(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	for i := range 16 {
		dst[i] = float32(float32(src[4+i]&15)*d) + m
		dst[16+i] = float32(float32(src[4+i]>>4)*d) + m
	}
}

// decodeQ2K: 16 groups of 16, each with four bits of scale and four of minimum.
func decodeQ2K(dst []float32, src []byte) {
	d, m := half(src[80:]), half(src[82:])
	for e := range dst {
		q := src[16+e/128*32+e%32] >> (e % 128 / 32 * 2) & 3
		s := src[e/16]
		dst[e] = float32(float32(int(q)*int(s&15))*d) - float32(float32(s>>4)*m)
	}
}

// decodeQ4K: 8 groups of 32, each with six bits of scale and six of minimum.
func decodeQ4K(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	for g := range 8 {
		s, n := src[4+g%4]&63, src[8+g%4]&63
		if g >= 4 {
			s, n = src[8+g]&15|src[g]>>6<<4, src[8+g]>>4|src[4+g]>>6<<4
		}
		for i := range 32 {
			q := src[16+g/2*32+i] >> (g % 2 * 4) & 15
			dst[32*g+i] = float32(float32(int(q)*int(s))*d) - float32(float32(n)*m)
		}
	}
}

// decodeQ6K: 16 groups of 16, each with a signed byte of scale.
func decodeQ6K(dst []float32, src []byte) {
	d := half(src[208:])
	for e := range dst {
		part, quarter, l := e/128, e%128/32, e%32
		low := src[64*part+quarter%2*32+l] >> (quarter / 2 * 4) & 15
		high := src[128+32*part+l] >> (2 * quarter) & 3
		q := int(low|high<<4) - 32
		dst[e] = float32(q*int(int8(src[192+e/16]))) * d
	}
}
