package ref

// Activations of a matrix product. A row of k elements is stored as words:
//
//	f32  k words: the elements, tidied
//	f16  k/2 words: two halves each, the lower element in the low bits
//	i8   k/4 words of signed bytes: byte m of word w is element
//	     16(w/4) + w%4 + 4m. Block b of 64 elements of row t of n is at
//	     actBlock; after the words of all blocks follow, for each, the
//	     scale d (float32 bits) and the sum of the block's integers.
type act int

const (
	actF32 act = iota
	actF16
	actI8
)

// words returns the number of words of a row of k elements.
func (a act) words(k int) int { return k / [...]int{1, 2, 4}[a] }

// actBlock is where block b of row t of n rows of i8 activations lies, counted in
// blocks: those of all rows that a product's tile reads at a time lie together.
func actBlock(n, t, b int) int { return b*n + t }

// store writes v, row t of n, as activations:
//
//	i8: amax = the largest magnitude of the block; d = amax * (1/127);
//	    x = clamp(roundEven(v * recip(d)), -127, 127).
//	    amax < 2^-60: d = 0 and all x = 0. amax not finite: d = +Inf and all
//	    x = 0, so that every product with the row is NaN.
func (a act) store(dst []uint32, n, t int, v []float32) {
	k := len(v)
	words := a.words(k)
	out := dst[t*words:][:words]
	switch a {
	case actF32:
		for i, x := range v {
			out[i] = bits(Tidy(x))
		}
	case actF16:
		for i := range out {
			out[i] = uint32(F16(v[2*i])) | uint32(F16(v[2*i+1]))<<16
		}
	case actI8:
		pairs := dst[n*words:]
		for b := range k / 64 {
			at := actBlock(n, t, b)
			d, q, sum := quantizeBlock((*[64]float32)(v[64*b:]))
			copy(dst[at*16:], q[:])
			pair := pairs[at*2:]
			pair[0], pair[1] = bits(d), uint32(sum)
		}
	}
}

func quantizeBlock(v *[64]float32) (d float32, words [16]uint32, sum int32) {
	var top uint32
	for _, x := range v {
		top = max(top, bits(x)&0x7fff_ffff)
	}
	switch {
	case top >= infBits:
		return fromBits(infBits), words, 0
	case top < bits(tiny):
		return 0, words, 0
	}
	d = float32(fromBits(top) * inv127)
	inv := Recip(d)
	for w := range words {
		for m := range 4 {
			x := int32(RoundEven(float32(v[w&^3*4+w%4+4*m] * inv)))
			x = min(max(x, -127), 127)
			sum += x
			words[w] |= uint32(uint8(x)) << (8 * m)
		}
	}
	return d, words, sum
}
