package ref

import (
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
)

// The block formats other than Q2_0. A block is 64 weights in four quarters of
// 16; weight i of quarter j is
//
//	d * (s_j * q_i) + m * n_j
//
// with integers q, s, n and floats d, m, which belong to the block (one term) or
// to each half of it (two terms). Formats without scales of groups have s = 1,
// those without minima no second summand.
//
// Packed (written by runtime/op): units of one, two or four blocks; rows in groups
// of 32, the last group padded: [group][unit][word of the unit][row in group]. A
// code word is four bytes in the order of int8 activations: byte m of code word k
// of a block is element 16(k/4) + k%4 + 4m. Codes of fewer bits lie in the bytes of
// fewer words: with codes of 4, 2 or 1 bits, word w holds 2, 4 or 8 code words, the
// first in the lowest bits of each byte. In base 3, word w holds code words 5w to
// 5w+4, digit by digit, and a tail byte the four codes of code word 15; digit n of
// byte B is (B * 3^n mod 256) * 3 / 256.
type blockFormat struct {
	blocks, words int // of a unit
	terms         int // of a block: 1 or 2
	minima        bool
	read          func(u unit, b int, w *block) // block b of unit u
}

type block struct {
	q    [64]int8
	s, n [4]int32
	d, m [2]float32 // of the halves; equal with one term
}

// unit is the packed words of one unit of one row.
type unit struct {
	words []uint32
	at    int
}

func (u unit) word(i int) uint32 { return u.words[u.at+32*i] }

// bytes of word i.
func (u unit) byte(i, m int) uint32 { return u.word(i) >> (8 * m) & 0xff }

// halves are the two halves in word i.
func (u unit) halves(i int) [2]float32 {
	return [2]float32{F32(uint16(u.word(i))), F32(uint16(u.word(i) >> 16))}
}

// codes of the given bits from word first on, less zero.
func (u unit) codes(w *block, first, bits int, zero int32) {
	per := 8 / bits
	for k := range 16 {
		word := u.word(first+k/per) >> (bits * (k % per))
		for m := range 4 {
			w.q[element(k, m)] = int8(int32(word>>(8*m)&(1<<bits-1)) - zero)
		}
	}
}

// trits are base-3 codes less 1: three words from first on and a tail byte.
func (u unit) trits(w *block, first int, tail uint32) {
	powers := [5]uint32{1, 3, 9, 27, 81}
	for k := range 16 {
		word := u.word(first + k/5%3)
		for m := range 4 {
			b, digit := word>>(8*m)&0xff, k%5
			if k == 15 {
				b, digit = tail, m
			}
			w.q[element(k, m)] = int8((b*powers[digit]&0xff)*3>>8) - 1
		}
	}
}

// codeWord is the code word of element i of a block, and the byte in it.
func codeWord(i int) (k, m int) { return i/16*4 + i%4, i % 16 / 4 }

// element is the element in byte m of code word k.
func element(k, m int) int { return k/4*16 + k%4 + 4*m }

var blockFormats = map[string]*blockFormat{
	// 0..3 codes of 16 words, one for each quarter of a block; 16 two halves: d of
	// each half of the block
	"q8_0": {blocks: 1, words: 17, terms: 2, read: func(u unit, _ int, w *block) {
		u.codes(w, 0, 8, 0)
		w.d = u.halves(16)
	}},
	// 0..7 codes; 8 two halves d
	"q4_0": {blocks: 1, words: 9, terms: 2, read: func(u unit, _ int, w *block) {
		u.codes(w, 0, 4, 8)
		w.d = u.halves(8)
	}},
	// 0..7 codes; 8 two halves d; 9 two halves m
	"q4_1": {blocks: 1, words: 10, terms: 2, minima: true, read: func(u unit, _ int, w *block) {
		u.codes(w, 0, 4, 0)
		w.d, w.m = u.halves(8), u.halves(9)
		w.n = [4]int32{1, 1, 1, 1}
	}},
	// 2b, 2b+1 codes of block b, 0 for -1; 8 two halves: d of blocks 0, 1 and of 2, 3
	"q1_0": {blocks: 4, words: 9, terms: 1, read: func(u unit, b int, w *block) {
		u.codes(w, 2*b, 1, 0)
		for i := range w.q {
			w.q[i] = 2*w.q[i] - 1
		}
		d := u.halves(8)[b/2]
		w.d = [2]float32{d, d}
	}},
	// 3b.. trits of block b; 6 bytes: tails of the blocks, then the half d
	"ptq1_0": {blocks: 2, words: 7, terms: 1, read: func(u unit, b int, w *block) {
		u.trits(w, 3*b, u.byte(6, b))
		d := u.halves(6)[1]
		w.d = [2]float32{d, d}
	}},
	// 3b.. trits of block b; 12 tails of the blocks; 13 the half d
	"tq1_0": {blocks: 4, words: 14, terms: 1, read: func(u unit, b int, w *block) {
		u.trits(w, 3*b, u.byte(12, b))
		d := u.halves(13)[0]
		w.d = [2]float32{d, d}
	}},
	// 4b.. codes of block b; 16+b for each quarter a byte: s in its low, n in its
	// high four bits; 20 halves d, m
	"q2_k": {blocks: 4, words: 21, terms: 1, minima: true, read: func(u unit, b int, w *block) {
		u.codes(w, 4*b, 2, 0)
		for j := range 4 {
			w.s[j], w.n[j] = int32(u.byte(16+b, j)&15), int32(u.byte(16+b, j)>>4)
		}
		w.shared(u.halves(20))
	}},
	// 8b.. codes of block b; for group g of 32 of the unit: 32 low four bits of s
	// (bits 4g), 33 of n; 34 high two bits of s (bits 2g) and of n (bits 16+2g);
	// 35 halves d, m
	"q4_k": {blocks: 4, words: 36, terms: 1, minima: true, read: func(u unit, b int, w *block) {
		u.codes(w, 8*b, 4, 0)
		for j := range 4 {
			g := 2*b + j/2
			w.s[j] = int32(u.word(32)>>(4*g)&15 | u.word(34)>>(2*g)&3<<4)
			w.n[j] = int32(u.word(33)>>(4*g)&15 | u.word(34)>>(16+2*g)&3<<4)
		}
		w.shared(u.halves(35))
	}},
	// 8b.. low four bits of the codes of block b; 32+4b.. high two bits; 48+b signed
	// bytes s of the quarters; 52 the half d
	"q6_k": {blocks: 4, words: 53, terms: 2, read: func(u unit, b int, w *block) {
		var high block
		u.codes(w, 8*b, 4, 0)
		u.codes(&high, 32+4*b, 2, 2)
		for i := range w.q {
			w.q[i] += 16 * high.q[i]
		}
		for j := range 4 {
			w.s[j] = int32(int8(u.byte(48+b, j)))
		}
		d := u.halves(52)[0]
		w.d = [2]float32{d, d}
	}},
}

// shared sets a d and an m for the whole block.
func (w *block) shared(dm [2]float32) {
	w.d, w.m = [2]float32{dm[0], dm[0]}, [2]float32{dm[1], dm[1]}
}

func (f *blockFormat) block(words []uint32, nb, row, b int) (w block) {
	units := (nb + f.blocks - 1) / f.blocks
	w.s = [4]int32{1, 1, 1, 1}
	f.read(unit{words, (row/32*units+b/f.blocks)*f.words*32 + row%32}, b%f.blocks, &w)
	return w
}

// values writes the weights of a block, tidied; both products are exact.
func (w *block) values(dst []float32) {
	for i := range 64 {
		j, h := i/16, i/32
		v := float32(float32(w.s[j]*int32(w.q[i])) * w.d[h])
		dst[i] = Tidy(v + float32(float32(w.n[j])*w.m[h]))
	}
}

// dequant: y = the weights of a whole packed tensor.
//
//	push  rows, blocks a row
//	0 in  weights   1 out y[rows][64*blocks]
//	domain: blocks, rows rounded up to 32
func (f *blockFormat) dequant(node *graph.Node, args [][]uint32) {
	rows, nb := int(node.Push[0]), int(node.Push[1])
	y := Floats(args[1])
	parallel.For(rows, func(row int) {
		for b := range nb {
			w := f.block(args[0], nb, row, b)
			w.values(y[(row*nb+b)*64:])
		}
	})
}

// getRows: y[t] = the weights of row batch[tokens + t] - row0; tokens whose
// row lies outside [row0, row0 + rows) are left to another segment.
//
//	push  rows, blocks a row, row0, tokens (offset in batch)
//	0 in  weights   1 in batch   2 out y[n][64*blocks]
//	domain: blocks a row x n
func (f *blockFormat) getRows(node *graph.Node, args [][]uint32) {
	p := node.Push
	nb, y := int(p[1]), Floats(args[2])
	for t := range int(node.Domain[1]) {
		row := args[1][int(p[3])+t] - p[2]
		if row >= p[0] {
			continue
		}
		for b := range nb {
			w := f.block(args[0], nb, int(row), b)
			w.values(y[(t*nb+b)*64:])
		}
	}
}
