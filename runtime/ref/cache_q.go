package ref

import (
	"slices"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// cacheQ is a paged cache whose keys and values have elements of 16, 8 or 4 bits:
// pages of keys, then pages of values from word vBase on. A page is, for each kv
// head, its elements and then its scales:
//
//	keys    [dim/8][position][8 elements]   [dim/64][position] words of two halves
//	values  [position][dim elements]        [position][dim/64] words of two halves
//
// Elements lie in words lowest first: halves without scales, or signed integers q
// whose value is d * q with the scale d of 32 elements. Scales have so few bits that
// every value is a half (or, where a row was not finite, NaN).
type cacheQ struct {
	words        []uint32
	vBase        int
	dim, kvHeads int
	bits         [2]int // of keys and values
}

const (
	keys = iota
	values
)

// sideWords is the size of the keys, or values, of one head in a page.
func sideWords(dim, bits int) int {
	if bits == 16 {
		return 32 * dim
	}
	return 2*dim*bits + dim
}

// place of element d: its word, the bit in it, and the word of its scale.
func (c *cacheQ) place(side, pg, head, pos, d int) (word, bit, scale int) {
	b := c.bits[side]
	base := (pg*c.kvHeads + head) * sideWords(c.dim, b)
	scale = base + 2*c.dim*b
	if side == keys {
		word = base + (d/8*page+pos)*b/4 + d%8*b/32
		scale += d/64*page + pos
	} else {
		base, scale = base+c.vBase, scale+c.vBase
		word = base + pos*(c.dim*b/32) + d*b/32
		scale += pos*(c.dim/64) + d/64
	}
	return word, d * b % 32, scale
}

// value of an element; exact.
func (c *cacheQ) value(side, pg, head, pos, d int) float32 {
	word, bit, scale := c.place(side, pg, head, pos, d)
	b := c.bits[side]
	u := c.words[word] >> bit
	if b == 16 {
		return F32(uint16(u))
	}
	q := int32(u<<(32-b)) >> (32 - b)
	return float32(float32(q) * F32(uint16(c.words[scale]>>(d/32%2*16))))
}

// expand is the same cache in halves, and its vBase.
func (c *cacheQ) expand() ([]uint32, int) {
	pages := c.vBase / (c.kvHeads * sideWords(c.dim, c.bits[keys]))
	half := pages * c.kvHeads * sideWords(c.dim, 16)
	to := cacheF16{make([]uint32, 2*half), half, c.dim, c.kvHeads}
	parallel.For(pages*c.kvHeads, func(i int) {
		pg, head := i/c.kvHeads, i%c.kvHeads
		for pos := range page {
			for d := range c.dim {
				to.words[to.key(pg, head, pos%page, d)] |= uint32(F16(c.value(keys, pg, head, pos, d))) << (d % 2 * 16)
				to.words[to.value(pg, head, pos%page, d)] |= uint32(F16(c.value(values, pg, head, pos, d))) << (d % 2 * 16)
			}
		}
	})
	return to.words, half
}

// store writes a row: halves as in qkvRopeCacheF16, or for every 32 elements, with
// top the largest magnitude:
//
//	8 bits: d = top * (1/127), rounded up to 4 significant bits, at most 512;
//	        q = clamp(roundEven(x * recip(d)), -127, 127)
//	4 bits: d = top * (1/8), rounded up to 8 significant bits, at most 8160;
//	        negative if +top is among the elements, so that an extreme takes -8;
//	        q = clamp(roundEven(x * recip(|d|)), -8, 7), of -x if d is negative
//
// top < 2^-14: d and all q are 0. top not finite: d is NaN 0x7e00, all q are 0.
func (c *cacheQ) store(side, pg, head, pos int, row []float32, batch []uint32) {
	b := c.bits[side]
	for d := 0; d < len(row); d += 32 {
		group := row[d : d+32]
		scale, q := quantizeGroup(b, group)
		for i, x := range group {
			word, bit, at := c.place(side, pg, head, pos, d+i)
			u := uint32(F16(x))
			if b < 16 {
				u = uint32(q[i]) & (1<<b - 1)
				shift := d / 32 % 2 * 16
				c.words[at] = c.words[at]&^(0xffff<<shift) | uint32(scale)<<shift
			}
			c.words[word] = c.words[word]&^((1<<b-1)<<bit) | u<<bit
			if m := bits(x) & 0x7fff_ffff; m >= 0x477f_f000 && m < infBits {
				batch[1]++
			}
		}
	}
}

func quantizeGroup(b int, x []float32) (scale uint16, q [32]int32) {
	var top uint32
	for _, v := range x {
		top = max(top, bits(v)&0x7fff_ffff)
	}
	switch {
	case b == 16 || top < bits(0x1p-14):
		return 0, q
	case top >= infBits:
		return 0x7e00, q
	}
	var d, sign, most, low, high float32
	if b == 8 {
		d = fromBits((bits(float32(fromBits(top)*inv127)) + 0xf_ffff) &^ 0xf_ffff)
		sign, most, low, high = 1, 512, -127, 127
	} else {
		d = fromBits((bits(float32(fromBits(top)*0.125)) + 0xffff) &^ 0xffff)
		sign, most, low, high = 1, 8160, -8, 7
		if slices.Contains(x, fromBits(top)) {
			sign = -1
		}
	}
	if d > most {
		d = most
	}
	inv := float32(Recip(d) * sign)
	for i, v := range x {
		r := RoundEven(float32(v * inv))
		if r < low {
			r = low
		}
		if r > high {
			r = high
		}
		q[i] = int32(r)
	}
	return F16(float32(d * sign)), q
}

// qkvRopeCacheQ: as qkvRopeCacheF16, but for how keys and values are stored.
//
//	spec  dim (a multiple of 64), kv heads, rotated, bits of keys, bits of values
func qkvRopeCacheQ(node *graph.Node, args [][]uint32) {
	c := newCacheQ(node, args[1], int(node.Push[4]))
	qkvRopeCache(node, args, func(side, pg, head, pos int, row []float32) { c.store(side, pg, head, pos, row, args[2]) })
}

func newCacheQ(node *graph.Node, words []uint32, vBase int) *cacheQ {
	s := node.Spec
	return &cacheQ{words, vBase, int(s[0]), int(s[1]), [2]int{int(s[3]), int(s[4])}}
}

// attentionQ: attentionF16, or attentionPartF16, of the same cache in halves.
//
//	spec  dim (a multiple of 64), kv heads, share, bits of keys, bits of values
func attentionQ(f16 Twin) Twin {
	return func(node *graph.Node, args [][]uint32) {
		f16(inHalves(node, args))
	}
}

// inHalves is an attention of the same cache in halves.
func inHalves(node *graph.Node, args [][]uint32) (*graph.Node, [][]uint32) {
	halves := *node
	halves.Push, args = slices.Clone(node.Push), slices.Clone(args)
	cache, vBase := newCacheQ(node, args[1], int(node.Push[4])).expand()
	args[1], halves.Push[4] = cache, uint32(vBase)
	return &halves, args
}
