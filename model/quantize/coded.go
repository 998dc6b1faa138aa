package quantize

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ternvk/tern/model/gguf"
)

// coded is a format whose blocks are a code for each element and one scale, a half:
// the number is (code - 1) * scale.
type coded struct {
	group  int
	scale  int    // where the scale lies in a block
	codes  []byte // that the format has
	unpack func(codes, src []byte)
	pack   func(dst, codes []byte) // dst is zero
	// choose returns the scale, before it is rounded to a half, and fills codes.
	choose func(codes []byte, src []float32) float32
}

func (c *coded) codec() codec {
	return codec{decode: c.decode, encode: c.encode, coded: c}
}

func (c *coded) decode(dst []float32, src []byte) {
	var codes [256]byte
	c.unpack(codes[:c.group], src)
	d := half(src[c.scale:])
	values := [4]float32{-d, d - d, d, 2 * d} // a scale that is not finite shows in zeros as well
	for i := range dst {
		dst[i] = values[codes[i]]
	}
}

func (c *coded) encode(dst []byte, src []float32) error {
	var codes [256]byte
	d := c.choose(codes[:c.group], src)
	clear(dst)
	c.pack(dst, codes[:c.group])
	return putHalf(dst[c.scale:], d)
}

// nearest is the reference rounding to -d, 0 and d.
func nearest(codes []byte, src []float32) float32 {
	d := largest(src)
	inv := inverse(d)
	for i, x := range src {
		codes[i] = 1
		switch v := x * inv; { // |v| is below 1.5, or d is below every half and v of no effect
		case v >= 0.5:
			codes[i] = 2
		case v <= -0.5:
			codes[i] = 0
		}
	}
	return d
}

// signs is the reference rounding to -d and d, with the mean magnitude for d.
func signs(codes []byte, src []float32) float32 {
	var sum float32
	for i, x := range src {
		sum += magnitude(x)
		codes[i] = 0
		if x >= 0 {
			codes[i] = 2
		}
	}
	return sum / float32(len(src))
}

// twoBits is the formats of four elements a byte, in order, behind the scale.
func twoBits(group int) *coded {
	return &coded{
		group: group, codes: []byte{0, 1, 2, 3}, choose: nearest,
		unpack: func(codes, src []byte) {
			for i := range codes {
				codes[i] = src[2+i/4] >> (i % 4 * 2) & 3
			}
		},
		pack: func(dst, codes []byte) {
			for i, c := range codes {
				dst[2+i/4] |= c << (i % 4 * 2)
			}
		},
	}
}

// Element e of TQ2_0 lies in byte e%32 of its half of the block, at bits
// 2*(e%128/32).
var tq2_0 = &coded{
	group: 256, scale: 64, codes: []byte{0, 1, 2, 3}, choose: nearest,
	unpack: func(codes, src []byte) {
		for e := range codes {
			codes[e] = src[e/128*32+e%32] >> (e % 128 / 32 * 2) & 3
		}
	},
	pack: func(dst, codes []byte) {
		for e, c := range codes {
			dst[e/128*32+e%32] |= c << (e % 128 / 32 * 2)
		}
	},
}

// Q1_0 has no zeros: a bit for each element, in order, behind the scale.
var q1_0 = &coded{
	group: 128, codes: []byte{0, 2}, choose: signs,
	unpack: func(codes, src []byte) {
		for i := range codes {
			codes[i] = src[2+i/8] >> (i % 8) & 1 * 2
		}
	},
	pack: func(dst, codes []byte) {
		for i, c := range codes {
			dst[2+i/8] |= c / 2 << (i % 8)
		}
	},
}

// A tritRun is bytes of a base-3 block: digit n of byte m, the most significant
// first, is element first + n*bytes + m.
type tritRun struct{ bytes, digits int }

// trits is the formats of base-3 digits, five or four to a byte, before the scale.
func trits(group int, runs ...tritRun) *coded {
	scale := 0
	for _, r := range runs {
		scale += r.bytes
	}
	return &coded{
		group: group, scale: scale, codes: []byte{0, 1, 2}, choose: nearest,
		unpack: func(codes, src []byte) {
			for _, r := range runs {
				for m, b := range src[:r.bytes] {
					for n := range r.digits {
						codes[n*r.bytes+m] = byte(uint(b) * 3 >> 8)
						b *= 3
					}
				}
				src, codes = src[r.bytes:], codes[r.bytes*r.digits:]
			}
		},
		pack: func(dst, codes []byte) {
			for _, r := range runs {
				for m := range r.bytes {
					v := 0
					for n := range 5 {
						v *= 3
						if n < r.digits {
							v += int(codes[n*r.bytes+m])
						}
					}
					dst[m] = byte((v*256 + 242) / 243) // the fraction v/243 in 256ths, rounded up
				}
				dst, codes = dst[r.bytes:], codes[r.bytes*r.digits:]
			}
		},
	}
}

// recode moves a row of blocks from one coded format to another as it is, codes and
// scales, and reports whether that can be done: groups may be cut, and joined where
// their scales are the same or all their numbers zero.
func recode(toType gguf.Type, dst []byte, fromType gguf.Type, src []byte) bool {
	to, from := codecs[toType].coded, codecs[fromType].coded
	if to == nil || from == nil {
		return false
	}
	size, fromSize := blockBytes(toType), blockBytes(fromType)
	n := len(src) / fromSize * from.group
	codes, scales := make([]byte, n), make([]uint16, n)
	for b := range n / from.group {
		block := src[b*fromSize:][:fromSize]
		group := codes[b*from.group:][:from.group]
		from.unpack(group, block)
		d := binary.LittleEndian.Uint16(block[from.scale:])
		for i, c := range group {
			if scales[b*from.group+i] = d; c == 1 && to.group > from.group {
				scales[b*from.group+i] = anyScale
			}
		}
	}
	clear(dst)
	for b := range n / to.group {
		at, block := b*to.group, dst[b*size:][:size]
		d, ok := common(scales[at:][:to.group])
		if !ok || slices.ContainsFunc(codes[at:][:to.group], func(c byte) bool { return !slices.Contains(to.codes, c) }) {
			return false
		}
		to.pack(block, codes[at:][:to.group])
		binary.LittleEndian.PutUint16(block[to.scale:], d)
	}
	return true
}

// anyScale stands for the scale of a zero: the bits of a NaN, which no file has.
const anyScale = math.MaxUint16

// common is the scale that all elements of a group can have.
func common(scales []uint16) (uint16, bool) {
	d := uint16(anyScale)
	for _, s := range scales {
		if s != anyScale && d != anyScale && s != d {
			return 0, false
		}
		if s != anyScale {
			d = s
		}
	}
	if d == anyScale {
		d = 0
	}
	return d, true
}
