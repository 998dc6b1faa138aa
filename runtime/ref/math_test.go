package ref

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/x448/float16"
)

// Each own function against the standard library in float64, in ulps.
func TestFunctionsNearTruth(t *testing.T) {
	var r *rand.Rand // begins anew for each function
	ulps := func(got float32, want float64) float64 {
		w := float32(want)
		step := float64(math.Nextafter32(float32(math.Abs(float64(w))), math.MaxFloat32)) - math.Abs(float64(w))
		return math.Abs(float64(got)-want) / step
	}
	scale := func() float32 { return float32(math.Ldexp(1+r.Float64(), r.IntN(240)-120)) }
	for _, f := range []struct {
		name  string
		x     func() float32
		f     func(float32) float32
		want  func(float64) float64
		bound float64
	}{
		{"recip", scale, Recip, func(x float64) float64 { return 1 / x }, 2},
		{"rsqrt", scale, Rsqrt, func(x float64) float64 { return 1 / math.Sqrt(x) }, 2},
		{"exp2", func() float32 { return float32(r.Float64()*180 - 63) }, Exp2, math.Exp2, 2},
		{"sigmoid", func() float32 { return float32(r.NormFloat64() * 8) }, Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 64},
		{"exp", func() float32 { return float32(r.Float64()*2 - 1) }, Exp, math.Exp, 4},
		{"log1p", func() float32 { return float32(math.Ldexp(r.Float64(), -r.IntN(40))) }, Log1p, math.Log1p, 4.4},
		{"softplus", func() float32 { return float32(r.Float64()*60 - 30) }, Softplus, func(x float64) float64 {
			return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
		}, 64},
	} {
		r = rand.New(rand.NewPCG(1, 2))
		worst, at := 0.0, float32(0)
		for i := range 200000 {
			x := f.x()
			if i == 0 && f.name == "log1p" {
				x = 0.6468266 // the worst of all from 1/32 to 1
			}
			if u := ulps(f.f(x), f.want(float64(x))); u > worst {
				worst, at = u, x
			}
		}
		t.Logf("%s: at most %.2f ulp (at %g)", f.name, worst, at)
		if worst > f.bound {
			t.Errorf("%s is %.2f ulp off at %g, stated bound %g", f.name, worst, at, f.bound)
		}
	}
}

func TestFunctionsAtTheEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	if Exp2(-64.5) != 0 || Exp2(-64) != 0x1p-64 || Exp2(0) != 1 || Exp2(-inf) != 0 || finite(Exp2(nan)) || finite(Exp2(inf)) {
		t.Error("exp2 at an edge")
	}
	if finite(Rsqrt(inf)) || finite(Rsqrt(nan)) {
		t.Error("rsqrt hides a non-finite value")
	}
	if bits(Tidy(-0x1p-61)) != 0 || bits(Tidy(float32(math.Copysign(0, -1)))) != 0 || Tidy(0x1p-60) != 0x1p-60 || finite(Tidy(nan)) {
		t.Error("tidy at an edge")
	}
	if Log1p(0) != 0 || Softplus(-100) != 0 || Softplus(100) != 100 || Softplus(inf) != inf || finite(Softplus(nan)) || Exp(-100) != 0 {
		t.Error("exp, log1p or softplus at an edge")
	}
	if Pow2(0) != 1 || Pow2(-60) != 0x1p-60 || Pow2(-61) != 0 {
		t.Error("pow2 at an edge")
	}
	if finite(Round13(fromBits(0x7fff_ffff))) || finite(Round13(fromBits(0xffff_ffff))) || Round13(inf) != inf {
		t.Error("round13 hides a non-finite value")
	}
	for x, want := range map[float32]float32{0.5: 0, 1.5: 2, 2.5: 2, -0.5: 0, -1.5: -2, 126.5: 126, 3e9: 3e9} {
		if RoundEven(x) != want {
			t.Errorf("roundEven(%g) = %g, want %g", x, RoundEven(x), want)
		}
	}
	for base := uint32(0); base < 0x7f80_0000; base += 0x3fff { // all magnitudes
		for _, sign := range []uint32{0, 1 << 31} {
			if x := fromBits(base | sign); RoundEven(x) != float32(math.RoundToEven(float64(x))) {
				t.Fatalf("roundEven(%g) = %g", x, RoundEven(x))
			}
		}
	}
	for x := float32(0x1p22); x < 0x1p22+64; x += 0.5 { // halves, where sums with 1.5 * 2^23 have no more ties
		if want := float32(math.RoundToEven(float64(x))); RoundEven(x) != want || RoundEven(-x) != -want {
			t.Fatalf("roundEven(%g) = %g, want %g", x, RoundEven(x), want)
		}
	}
}

// Halves against github.com/x448/float16: all 65,536 widened, and narrowing at
// every value, every tie and their neighbours.
func TestHalves(t *testing.T) {
	for h := range 1 << 16 {
		f := float16.Frombits(uint16(h))
		if !f.IsNaN() && bits(F32(uint16(h))) != bits(f.Float32()) {
			t.Fatalf("f32(%#04x) = %g, want %g", h, F32(uint16(h)), f.Float32())
		}
		if f.IsNaN() || f.IsInf(0) {
			continue
		}
		next := float16.Frombits(uint16(h + 1))
		for _, x := range []float32{f.Float32(), (f.Float32() + next.Float32()) / 2} {
			for _, u := range []uint32{bits(x) - 1, bits(x), bits(x) + 1} {
				x := fromBits(u)
				want := float16.Fromfloat32(x)
				switch {
				case !finite(x):
					want = 0x7e00
				case want.IsInf(0):
					want = want&0x8000 | 0x7bff
				case want == 0x8000:
					want = 0
				}
				if got := F16(x); got != want.Bits() {
					t.Fatalf("f16(%g = %#08x) = %#04x, want %#04x", x, u, got, want.Bits())
				}
			}
		}
	}
}

func finite(x float32) bool { return bits(x)&0x7fff_ffff < infBits }
