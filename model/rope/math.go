package rope

import "math"

// Elementary functions in float64 that give the same bits on every machine: no
// product is left for a compiler to fuse with a sum. They are within 1e-15
// of the true values, relative to the larger of the result and 1.

const (
	ln2   = 0.69314718055994530941723212145818
	piHi  = 1.5707963267341256    // pi/2 in three parts: products with integers
	piMid = 6.077100506303966e-11 // below 2^20 are exact for the first two
	piLo  = 2.0222662487959506e-21
)

// ln is the natural logarithm of x > 0: with x = m * 2^e and m in
// [sqrt(1/2), sqrt(2)), e*ln2 + 2*atanh((m-1)/(m+1)) by its series.
func ln(x float64) float64 {
	m, e := math.Frexp(x) // exact
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	t := (m - 1) / (m + 1)
	tt := float64(t * t)
	var s float64
	for i := 25; i >= 1; i -= 2 {
		s = float64(s*tt) + 1/float64(i)
	}
	return float64(float64(e)*ln2) + float64(2*float64(t*s))
}

// exp is e^x for |x| < 700: 2^n * e^r by the series of e^r, |r| <= ln2/2.
func exp(x float64) float64 {
	n := math.RoundToEven(x / ln2)
	r := x - float64(n*ln2)
	s := 1.0
	for i := 18; i >= 1; i-- {
		s = float64(float64(s*r)/float64(i)) + 1
	}
	return math.Ldexp(s, int(n)) // exact
}

// sincos of 0 <= x < 2^20: Cody and Waite's reduction to |r| <= pi/4, then the
// series.
func sincos(x float64) (sin, cos float64) {
	n := math.RoundToEven(x / (math.Pi / 2))
	r := x - float64(n*piHi)
	r = r - float64(n*piMid)
	r = r - float64(n*piLo)
	rr := float64(r * r)
	s, c := 1.0, 1.0
	for i := 18; i >= 2; i -= 2 {
		s = 1 - float64(float64(s*rr)/float64(i*(i+1)))
		c = 1 - float64(float64(c*rr)/float64(i*(i-1)))
	}
	s = float64(s * r)
	switch int64(n) & 3 {
	case 0:
		return s, c
	case 1:
		return c, -s
	case 2:
		return -s, -c
	}
	return -c, s
}
