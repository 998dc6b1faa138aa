package rope

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
)

func TestElementaryFunctions(t *testing.T) {
	for i := range 200000 {
		x := float64(i) * 1.307
		s, c := sincos(x)
		if d := math.Abs(s - math.Sin(x)); d > 1e-15 {
			t.Fatalf("sin(%g) is off by %g", x, d)
		}
		if d := math.Abs(c - math.Cos(x)); d > 1e-15 {
			t.Fatalf("cos(%g) is off by %g", x, d)
		}
		y := float64(i)*0.01 + 1e-3
		if d := math.Abs(ln(y) - math.Log(y)); d > 2e-15*max(1, math.Abs(math.Log(y))) {
			t.Fatalf("ln(%g) is off by %g", y, d)
		}
		z := (float64(i) - 1e5) * 1e-4
		if d := math.Abs(exp(z)/math.Exp(z) - 1); d > 4e-15 {
			t.Fatalf("exp(%g) is off by %g", z, d)
		}
	}
}

// YaRN's borders and magnitude in published models, by independent arithmetic.
func TestYaRN(t *testing.T) {
	plain := Config{Dim: 128, Base: 1e6, AttnFactor: 1}
	f0, _ := plain.Frequencies()
	for _, c := range []struct{ original, low, high int }{{8192, 17, 34}, {16384, 20, 37}} {
		yarn := Config{Dim: 128, Base: 1e6, Factor: 4, Original: c.original, ExtFactor: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
		f, m := yarn.Frequencies()
		if math.Abs(m-1.138629436111989) > 1e-14 {
			t.Errorf("magnitude %v", m)
		}
		for i := range f {
			ratio := f[i] / f0[i]
			switch {
			case i <= c.low && math.Abs(ratio-1) > 1e-15,
				i >= c.high && math.Abs(ratio-0.25) > 1e-15,
				i > c.low && i < c.high && (ratio <= 0.25 || ratio >= 1):
				t.Errorf("original %d pair %d: ratio %v", c.original, i, ratio)
			}
		}
	}
}

// BL-42: the magnitude 1 + 0.1 ln(factor) is applied once, whatever the position; an
// explicit factor multiplies it. cos and sin against the standard library.
func TestMagnitude(t *testing.T) {
	yarn := Config{Dim: 128, Base: 1e6, Factor: 4, Original: 32768, ExtFactor: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	freq, _ := yarn.Frequencies()
	for _, attn := range []float64{1, 0.5, 1 / (1 + 0.1*math.Log(4))} {
		yarn.AttnFactor = attn
		table := yarn.Table(40001)
		for _, pos := range []int{0, 1, 32767, 40000} {
			for i, f := range freq {
				m := attn * (1 + 0.1*math.Log(4))
				c, s := m*math.Cos(float64(pos)*f), m*math.Sin(float64(pos)*f)
				got := table[pos*128+2*i:][:2]
				if math.Abs(float64(got[0])-c) > 1e-7 || math.Abs(float64(got[1])-s) > 1e-7 {
					t.Fatalf("attn_factor %g, position %d, pair %d: %v, want %g and %g", attn, pos, i, got, c, s)
				}
			}
		}
	}
}

// The tables of three models, word for word. Arithmetic version 1.
func TestTablesAreGolden(t *testing.T) {
	yarn := func(original int) Config {
		return Config{Dim: 128, Base: 1e6, Factor: 4, Original: original, ExtFactor: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	}
	for name, c := range map[string]struct {
		Config
		n    int
		want string
	}{
		"base 1e4":       {Config{Dim: 128, Base: 1e4, AttnFactor: 1}, 2048, "2cf49ad0a7baaf439c0d8ce81e2a04fac33848074fd0bff40ae795e0487c928a"},
		"yarn 4 of 8192": {yarn(8192), 40001, "eca6d6ed6586f7c5d2b6a2aeeea345e3e8c3da08ef05d67ad6613b73b2c0181b"},
		"64 of base 1e7": {Config{Dim: 64, Base: 1e7, AttnFactor: 1}, 262144, "31e30ce8a94c872e1fcc4dd8c9651a2d842dfac674ff41dbde1e5f15a3a51f05"},
	} {
		h := sha256.New()
		binary.Write(h, binary.LittleEndian, c.Table(c.n))
		if got := hex.EncodeToString(h.Sum(nil)); got != c.want {
			t.Errorf("%s: table hash %s, want %s", name, got, c.want)
		}
	}
}
