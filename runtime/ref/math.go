package ref

import "math"

// The functions of this file are Tern's own arithmetic: the same words on
// every device. glsl/lib/math.glsl spells each of them again, line for line.
// Products are rounded before they are added: float32(a*b) + c, always.

const (
	tiny    = 0x1p-60     // tidy and quantisation: below this a value counts as zero
	infBits = 0x7f80_0000 // bits of +Inf; a larger magnitude is NaN
	log2e   = 1.442695    // float32(log2(e)) = 0x3fb8aa3b
	maxF16  = 0x477f_e000 // bits of 65504, the largest finite half
	inv127  = float32(1) / 127
)

func bits(x float32) uint32     { return math.Float32bits(x) }
func fromBits(u uint32) float32 { return math.Float32frombits(u) }

// Tidy returns +0 for |x| < 2^-60 and x otherwise, NaN included. Every float
// stored for a later kernel passes it, because drivers differ on denormals.
func Tidy(x float32) float32 {
	if bits(x)&0x7fff_ffff < bits(tiny) {
		return 0
	}
	return x
}

// Recip returns 1/x for 2^-120 <= x <= 2^120 within 2 ulp: a bit-trick start
// and four Newton steps y = y * (2 - x*y).
func Recip(x float32) float32 {
	y := fromBits(0x7ef3_11c7 - bits(x))
	for range 4 {
		e := 2 - float32(x*y)
		y = float32(y * e)
	}
	return y
}

// Rsqrt returns 1/sqrt(x) for 2^-120 <= x <= 2^120 within 2 ulp: a bit-trick
// start and four Newton steps y = y * (1.5 - (0.5*x*y)*y). For +Inf and NaN
// the result is not finite.
func Rsqrt(x float32) float32 {
	y := fromBits(0x5f37_59df - bits(x)>>1)
	h := float32(0.5 * x)
	for range 4 {
		hy := float32(h * y)
		e := 1.5 - float32(hy*y)
		y = float32(y * e)
	}
	return y
}

// Exp2 returns 2^x within 2 ulp for -64 <= x <= 120, 0 below -64, and x itself
// above 120 and for NaN. 2^x = 2^n * 2^f with n = roundEven(x); 2^f is a
// polynomial of degree 6 (interpolated at Chebyshev nodes), by Horner's rule.
func Exp2(x float32) float32 {
	if x < -64 {
		return 0
	}
	if !(x <= 120) {
		return x
	}
	n := RoundEven(x)
	f := x - n
	p := fromBits(0x3922_2000)
	p = float32(p*f) + fromBits(0x3aaf_a460)
	p = float32(p*f) + fromBits(0x3c1d_950e)
	p = float32(p*f) + fromBits(0x3d63_5766)
	p = float32(p*f) + fromBits(0x3e75_fdf0)
	p = float32(p*f) + fromBits(0x3f31_7218)
	p = float32(p*f) + 1
	return fromBits(bits(p) + uint32(int32(n))<<23)
}

// Sigmoid returns 1/(1+e^-x): e = 2^(-|x| log2 e), r = recip(1+e), and r or e*r
// by the sign of x.
func Sigmoid(x float32) float32 {
	e := Exp2(float32(-abs(x) * log2e))
	r := Recip(1 + e)
	if x >= 0 {
		return r
	}
	return float32(e * r)
}

// Silu returns x * sigmoid(x).
func Silu(x float32) float32 { return float32(x * Sigmoid(x)) }

// Exp returns e^x = 2^(x log2 e), with Exp2's bounds; the relative error is at
// most 2^-22 for |x| <= 1 and grows with |x|.
func Exp(x float32) float32 { return Exp2(float32(x * log2e)) }

// Log1p returns ln(1+x) within 4.4 ulp for 0 <= x <= 1: with s = x/(2+x) it is
// 2 atanh(s) = 2s * P(s*s), P of degree 4 (interpolated at Chebyshev nodes).
func Log1p(x float32) float32 {
	s := float32(x * Recip(2+x))
	z := float32(s * s)
	p := fromBits(0x3e10_2af7)
	p = float32(p*z) + fromBits(0x3e0f_2e7e)
	p = float32(p*z) + fromBits(0x3e4c_ed0a)
	p = float32(p*z) + fromBits(0x3eaa_aa71)
	p = float32(p*z) + 1
	return float32(float32(2*s) * p)
}

// Softplus returns ln(1+e^x) = max(x, 0) + log1p(e^-|x|).
func Softplus(x float32) float32 {
	top := float32(0)
	if x > 0 {
		top = x
	}
	return top + Log1p(Exp(-abs(x)))
}

// Pow2 returns 2^d for an integer -60 <= d <= 0, and 0 below. Multiplying by it
// is exact.
func Pow2(d float32) float32 {
	if d < -60 {
		return 0
	}
	return fromBits(uint32(int32(d)+127) << 23)
}

// Round13 rounds x to 13 significant bits, halves away from zero. A product
// with a half (11 bits) is then exact in float32. Infinities and NaN come back
// unchanged: the bits of some NaN would carry over into a zero.
func Round13(x float32) float32 {
	if bits(x)&0x7fff_ffff >= infBits {
		return x
	}
	return fromBits((bits(x) + 0x400) &^ 0x7ff)
}

// RoundEven rounds to the nearest integer, ties to even. Infinities and NaN come
// back unchanged.
func RoundEven(x float32) float32 {
	magic := float32(0x1.8p23)
	switch {
	case !(abs(x) < 0x1p23): // no fraction
		return x
	case x >= 0x1p22: // the sum must stay below 2^24
		magic = 0x1p23
	case x <= -0x1p22:
		magic = -0x1p23
	}
	y := x + magic
	return y - magic
}

func abs(x float32) float32 { return fromBits(bits(x) & 0x7fff_ffff) }

// F16 rounds x to the nearest half, ties to even, subnormals kept. What rounds
// to zero is +0, so that no driver's way with denormals shows in a sign. Finite
// values beyond 65504 saturate; infinities and NaN become NaN 0x7e00, so that
// they are seen.
func F16(x float32) uint16 {
	u := bits(x)
	sign, a := uint16(u>>16)&0x8000, u&0x7fff_ffff
	switch {
	case a >= infBits:
		return 0x7e00
	case a >= maxF16:
		return sign | 0x7bff
	case a >= 0x3880_0000: // normal half
		a += 0xfff + a>>13&1
		return sign | uint16((a-0x3800_0000)>>13)
	case a <= 0x3300_0000: // half of the smallest subnormal (a tie goes to even, zero)
		return 0
	}
	shift := 126 - a>>23 // 14..24
	m := a&0x7f_ffff | 0x80_0000
	m += 1<<(shift-1) - 1 + m>>shift&1
	return sign | uint16(m>>shift)
}

// F32 widens a half; exact.
func F32(h uint16) float32 {
	s, e, m := uint32(h&0x8000)<<16, uint32(h)>>10&31, uint32(h)&0x3ff
	switch e {
	case 0:
		return fromBits(s | bits(float32(float32(m)*0x1p-24)))
	case 31:
		return fromBits(s | infBits | m<<13)
	}
	return fromBits(s | (e+112)<<23 | m<<13)
}
