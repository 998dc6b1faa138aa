package twinlint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, code string
		want       []string // a substring of each finding, in order
	}{
		{"fused sum", "func f(a, b, c float32) float32 { return a*b + c }", []string{"product without"}},
		{"fused difference", "func f(a, b, c float64) float64 { return c - a*b }", []string{"product without"}},
		{"fused accumulation", "func f(a, b, c float32) float32 { c += a * b; return c }", []string{"product without"}},
		{"across statements", "func f(a, b, c float32) float32 { p := a * b; return p + c }", []string{"product without"}},
		{"across an inlined call", "func f(a, b float32) float32 { return a * b }", []string{"product without"}},
		{"negated", "func f(a, b, c float32) float32 { return -(a * b) + c }", []string{"product without"}},
		{"two products", "func f(a, b, c float32) float32 { return a*b + b*c }", []string{"product without", "product without"}},
		{"rounded", "func f(a, b, c float32) float32 { return float32(a*b) + c }", nil},
		{"rounded to double", "func f(a, b, c float64) float64 { return float64(a*b) - float64(-(b*c)) }", nil},
		{"product of products", "func f(a, b, c float32) float32 { return float32(a * b * (b * c)) }", nil},
		{"a sum inside a conversion", "func f(a, b, c float32) float32 { return float32(a*b + c) }", []string{"product without"}},
		{"a call is no conversion", "func g(x float32) float32 { return x }\nfunc f(a, b, c float32) float32 { return g(a*b) + c }", []string{"product without"}},
		{"named float", "type F float32\nfunc f(a, b, c F) F { return a*b + c }", []string{"product without"}},
		{"generic float", "func f[T float32 | float64](a, b, c T) T { return a*b + c }", []string{"product without"}},
		{"product assigned", "func f(a, b float32) float32 { a *= b; return a }", []string{"product without"}},
		{"integers", "func f(a, b, c int) int { c *= a; return a*b + c/b }", nil},
		{"constants", "const k = 1.5*2.5 + 1/3.0\nfunc f(a float32) float32 { return a + k }", nil},
		{"division", "func f(a, b float32) float32 { return a / b }", []string{"float division"}},
		{"division of doubles", "func f(a, b float64) float64 { a /= b; return a / b }", nil},
		{"division assigned", "func f(a, b float32) float32 { a /= b; return a }", []string{"float division"}},
		{"max", "func f(a, b float32) float32 { return max(a, b) }", []string{"max of floats"}},
		{"max of integers", "func f(a, b int) int { return max(a, b) }", nil},
		{"sqrt", "import \"math\"\nfunc f(a float64) float64 { return math.Sqrt(a) }", []string{"math.Sqrt"}},
		{"renamed math", "import m \"math\"\nfunc f(a float64) float64 { return m.FMA(a, a, a) }", []string{"math.FMA"}},
		{"bits", "import \"math\"\nfunc f(a float32) float32 { return math.Float32frombits(math.Float32bits(a) & math.MaxInt32) }", nil},
		{"big", "import \"math/big\"\nvar _ big.Int", []string{"import of math/big"}},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\n"+c.code+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := Dir(dir)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		ok := len(got) == len(c.want)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.Contains(got[i].Text, c.want[i]) && got[i].Pos.Line > 0
		}
		if !ok {
			t.Errorf("%s: found %v, want %q", c.name, got, c.want)
		}
	}
}

func TestBrokenCodeIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\nvar a int = 1.5\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Dir(dir); err == nil {
		t.Error("code that does not type-check passes")
	}
}

// The twins themselves.
func TestReference(t *testing.T) {
	problems, err := Dir("../../../runtime/ref")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}
