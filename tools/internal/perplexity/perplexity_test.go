package perplexity

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// logits of n tokens, some of them far below the others.
func logits(n, seed int) []float32 {
	l := make([]float32, n)
	for i := range l {
		l[i] = float32(math.Sin(float64((i+1)*(seed+3)))) * 9
		if i%7 == seed%7 {
			l[i] -= 12
		}
	}
	return l
}

func near(a, b, by float64) bool { return math.Abs(a-b) <= by }

// A row keeps log-probabilities to half a level, and raises what lies more than 16
// below the largest.
func TestRow(t *testing.T) {
	for _, n := range []int{2, 3, 50, 501} {
		l := logits(n, n)
		row, norm, top := NewRow(l), LogSumExp(l), float64(slices.Max(l))
		for i, x := range l {
			want := max(float64(x), top-16) - norm
			if got := row.LogProb(i); !near(got, want, float64(row.Scale)/2+2e-6) {
				t.Errorf("%d tokens: log-probability %d is %g, want %g", n, i, got, want)
			}
		}
		if slices.Max(row.Levels) != 65535 || slices.Min(row.Levels) != 0 {
			t.Errorf("%d tokens: levels %d to %d", n, slices.Min(row.Levels), slices.Max(row.Levels))
		}
	}
	same := NewRow([]float32{5, 5, 5, 5})
	if same.Scale != 0 || !near(same.LogProb(2), -math.Log(4), 1e-6) {
		t.Errorf("equal logits: %+v", same)
	}
}

func TestScore(t *testing.T) {
	l := []float32{0, float32(math.Log(3)), float32(math.Log(4))} // 1/8, 3/8, 4/8
	if s := Of(l, 1); !near(s.NLL, math.Log(8./3), 1e-6) {
		t.Errorf("%+v", s)
	}
	base := NewRow([]float32{0, float32(math.Log(2)), 0}) // 1/4, 1/2, 1/4
	s := Against(l, 1, base)
	kl := .25*math.Log(2) + .5*math.Log(4./3) + .25*math.Log(.5)
	if !near(s.KL, kl, 1e-5) || !near(s.BaseNLL, math.Log(2), 1e-5) || s.SameTop || !near(s.DeltaP(), 3./8-.5, 1e-5) {
		t.Errorf("%+v, want a divergence of %g", s, kl)
	}
	if s := Against(l, 0, NewRow(l)); !s.SameTop || !near(s.KL, 0, 1e-5) {
		t.Errorf("against itself: %+v", s)
	}
}

// Figures of a few scores, worked out by hand.
func TestFigures(t *testing.T) {
	p := func(q, b, kl float64, same bool) Score { return Score{-math.Log(q), -math.Log(b), kl, same} }
	f := Summarise([]Score{p(.5, .25, .1, true), p(.25, .25, .3, true), p(.125, .5, .2, false), p(.5, .25, 0, true)}, true)
	l := math.Ln2
	// ln: Q -1, -2, -3, -1 times ln 2; base -2, -2, -1, -2 times ln 2
	varQ, varB, cov := (15./4-49./16)/3*l*l, (13./4-49./16)/3*l*l, (11./4-49./16)/3*l*l
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"PPL", f.PPL.Value, math.Exp2(7. / 4)}, {"PPL's error", f.PPL.Error, math.Exp2(7./4) * math.Sqrt(varQ)},
		{"base PPL", f.BasePPL.Value, math.Exp2(7. / 4)}, {"ratio", f.Ratio.Value, 1}, {"ln ratio", f.LnRatio.Value, 0},
		{"error of the ratio", f.Ratio.Error, math.Sqrt(varQ + varB - 2*cov)}, {"correlation", f.Correlation, cov / math.Sqrt(varQ*varB)},
		{"difference", f.Difference.Value, 0}, {"error of the difference", f.Difference.Error, math.Exp2(7./4) * math.Sqrt(varQ+varB-2*cov)},
		{"KL", f.KL.Value, .15}, {"error of the KL", f.KL.Error, math.Sqrt((.14/4 - .0225) / 3)},
		{"largest KL", f.KLQuantiles[0].Value, .3}, {"median KL", f.KLQuantiles[5].Value, .15}, {"90 % KL", f.KLQuantiles[4].Value, .3*.7 + .2*.3}, {"least KL", f.KLQuantiles[10].Value, 0},
		{"Δp", f.DeltaP.Value, (.25 + 0 - .375 + .25) / 4}, {"RMS", f.RMS.Value, math.Sqrt((.0625*2 + .140625) / 4)}, {"same top", f.SameTop.Value, .75},
		{"error of same top", f.SameTop.Error, math.Sqrt(.75 * .25 / 3)},
	} {
		if !near(c.got, c.want, 1e-12) {
			t.Errorf("%s: %g, want %g", c.name, c.got, c.want)
		}
	}
	if f := Summarise([]Score{{NLL: 1}}, false); f.Comparison != nil || f.PPL.Error != 0 || !near(f.PPL.Value, math.E, 1e-12) {
		t.Errorf("one score: %+v", f)
	}
}

func header() Header {
	return Header{Context: 7, Vocab: 5, Chunks: 2, Tokens: []int32{0, 1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3, 4, 0}}
}

func TestFile(t *testing.T) {
	h := header()
	path := filepath.Join(t.TempDir(), "base")
	w, err := Create(path, h)
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	for i := range h.Chunks * Scored(h.Context) {
		rows = append(rows, NewRow(logits(h.Vocab, i)))
		if _, err := os.Stat(path); err == nil {
			t.Fatal("the file has its name too early")
		}
		if err := w.Write(rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Context != 7 || r.Vocab != 5 || r.Chunks != 2 || !slices.Equal(r.Tokens, h.Tokens) {
		t.Errorf("header %+v", r.Header)
	}
	for i, want := range rows {
		got, err := r.Next()
		if err != nil || got.Scale != want.Scale || got.Min != want.Min || !slices.Equal(got.Levels, want.Levels) {
			t.Errorf("row %d: %+v, %v; want %+v", i, got, err, want)
		}
	}
	if _, err := r.Next(); err == nil {
		t.Error("a row behind the last")
	}
}

func TestUnfinished(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "base"), header())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "6 rows are missing") {
		t.Errorf("no rows: %v", err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("%d files are left", len(list))
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "good")
	w, err := Create(path, header())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if err := w.Write(NewRow(logits(5, i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		want   string
	}{
		{"empty", func([]byte) []byte { return nil }, "not a file of base logits"},
		{"magic", func(b []byte) []byte { b[0] = 'x'; return b }, "not a file of base logits"},
		{"short", func(b []byte) []byte { return b[:len(b)-1] }, "take 196 bytes, the file has 195"},
		{"long", func(b []byte) []byte { return append(b, 0) }, "the file has 197"},
		{"context", func(b []byte) []byte { binary.LittleEndian.PutUint32(b[8:], 1<<31-1); return b }, "damaged"},
		{"vocabulary", func(b []byte) []byte { binary.LittleEndian.PutUint32(b[12:], 1<<30); return b }, "damaged"},
		{"chunks", func(b []byte) []byte { binary.LittleEndian.PutUint32(b[16:], 1<<32-1); return b }, "damaged"},
		{"token", func(b []byte) []byte { b[20] = 5; return b }, "token 0 is 5, of a vocabulary of 5"},
		{"scale", func(b []byte) []byte { binary.LittleEndian.PutUint32(b[76:], 0x7fc00000); return b }, "no such number"},
		{"sign", func(b []byte) []byte { b[79] |= 0x80; return b }, "no such number"},
		{"minimum", func(b []byte) []byte { binary.LittleEndian.PutUint32(b[80:], 0xff800000); return b }, "no such number"},
		{"probability above 1", func(b []byte) []byte { b[83] &= 0x7f; return b }, "no such number"},
	} {
		bad := filepath.Join(dir, "bad")
		if err := os.WriteFile(bad, c.change(slices.Clone(good)), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Open(bad)
		if err == nil {
			_, err = r.Next()
			err = errors.Join(err, r.Close())
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
