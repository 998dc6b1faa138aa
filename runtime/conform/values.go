package conform

import (
	"math"
	"math/rand/v2"

	"github.com/ternvk/tern/runtime/ref"
)

// values is a kind of random floats.
type values struct {
	name string
	next func(r *rand.Rand) float32
}

// scaled returns ±2^e with a random fraction, e uniform in [lo, hi).
func scaled(r *rand.Rand, lo, hi int) float32 {
	x := math.Ldexp(1+r.Float64(), lo+r.IntN(hi-lo))
	if r.IntN(2) == 0 {
		x = -x
	}
	return float32(x)
}

// one of the words given.
func oneOf(r *rand.Rand, words ...uint32) float32 {
	return math.Float32frombits(words[r.IntN(len(words))])
}

var (
	normal = values{"normal", func(r *rand.Rand) float32 { return float32(r.NormFloat64()) }}
	// outliers: what real activations look like.
	outliers = values{"outliers", func(r *rand.Rand) float32 {
		x := float32(r.NormFloat64())
		if r.IntN(100) == 0 {
			x *= 1000
		}
		return x
	}}
	wide = values{"wide", func(r *rand.Rand) float32 { return scaled(r, -30, 30) }}
	// tiny: about the border of tidy, 2^-60, and on it.
	tiny = values{"tiny", func(r *rand.Rand) float32 {
		if r.IntN(4) == 0 {
			return oneOf(r, 0x2180_0000, 0xa180_0000, 0x2180_0001, 0)
		}
		return scaled(r, -62, -57)
	}}
	huge  = values{"huge", func(r *rand.Rand) float32 { return scaled(r, 50, 127) }}
	zeros = values{"zeros", func(r *rand.Rand) float32 {
		if r.IntN(4) == 0 {
			return scaled(r, -3, 3)
		}
		return oneOf(r, 0, 0x8000_0000)
	}}
	// ties: small multiples of 1/2, for rounding.
	ties = values{"ties", func(r *rand.Rand) float32 { return float32(r.IntN(511)-255) / 2 }}
	// halves: borders of binary16: 65504 and its rounding border, ties of
	// neighbours, subnormals, the smallest and half of it.
	halves = values{"halves", func(r *rand.Rand) float32 {
		switch r.IntN(3) {
		case 0:
			return oneOf(r, 0x477f_e000, 0xc77f_e000, 0x477f_efff, 0x477f_f000, 0x477f_f001, 0xc77f_f000, 0x4780_0000, 0x4900_0000,
				0x3880_0000, 0x387f_ffff, 0x387f_c000, 0x387f_e000, 0x3380_0000, 0x3300_0000, 0x3300_0001, 0x32ff_ffff, 0xb300_0001, 0xb300_0000)
		case 1: // a tie, or next to it
			h := ref.F32(uint16(r.IntN(0x7bff)))
			u := (math.Float32bits(h) &^ 0x1fff) + 0x1000 + uint32(r.IntN(3)) - 1
			return math.Float32frombits(u)
		}
		return scaled(r, -27, -12)
	}}
	// special: infinities and NaN among ordinary values.
	special = values{"special", func(r *rand.Rand) float32 {
		if r.IntN(40) > 0 {
			return float32(r.NormFloat64())
		}
		return oneOf(r, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x7fff_ffff, 0xffff_ffff, 0x7f7f_ffff, 0xff7f_ffff)
	}}
	// equal: few different values, for ties of comparisons.
	equal = values{"equal", func(r *rand.Rand) float32 { return oneOf(r, 0, 0x8000_0000, 0x3f80_0000, 0x4000_0000, 0xbf80_0000) }}
	// hopeless: rows without a number.
	hopeless = values{"hopeless", func(r *rand.Rand) float32 { return oneOf(r, 0x7fc0_0000, 0xff80_0000, 0x7fff_ffff) }}
)

// pick takes the first kind every other time, as it is what models do, else any.
func pick(r *rand.Rand, first values, more ...values) values {
	if r.IntN(2) == 0 || len(more) == 0 {
		return first
	}
	return more[r.IntN(len(more))]
}

// floats returns n tidied values, as every float that a kernel reads is.
func (v values) floats(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = ref.Tidy(v.next(r))
	}
	return x
}

// half returns random finite bits of a half of the kind named: "plain" near
// size, "any" finite half, "edge" zero, subnormal or largest.
func half(r *rand.Rand, kind string, size float64) uint16 {
	switch kind {
	case "any":
		for {
			if h := uint16(r.Uint32()); h&0x7c00 != 0x7c00 {
				return h
			}
		}
	case "edge":
		return [...]uint16{0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff, 0x3c00}[r.IntN(9)]
	}
	return ref.F16(float32(size * r.NormFloat64()))
}
