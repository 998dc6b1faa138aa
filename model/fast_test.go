package model

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/spirv"
)

// Kernels with an error bound keep the distributions of a long prompt close to the
// exact ones, and what they make does not get into exact sessions.
func TestFast(t *testing.T) {
	sequential(t)
	data, err := os.ReadFile("../testdata/perplexity/sprig.txt")
	if err != nil {
		t.Fatal(err)
	}
	const n = 320
	fast := device(t, runtime.Options{Profile: "fast"})
	if fast.Exact() {
		t.Error("the profile fast is exact")
	}
	exact := map[op.CacheType][][]float32{}
	for _, k := range spirv.Kernels {
		if k.Bound() == "" || !slices.Contains(fast.Plan().Runnable(k.Contract), k) {
			continue
		}
		cache := op.CacheF16
		if strings.HasSuffix(k.Contract, "_q") {
			cache = op.CacheQ8_0
		}
		eval := func(o runtime.Options) [][]float32 {
			m := openSprig(t, Options{Executor: device(t, o), Context: 512, CacheKeys: cache, CacheValues: cache})
			return evalPieces(t, m, m.Tokenizer().Encode(string(data), token.Options{})[:n], n)
		}
		if exact[cache] == nil {
			exact[cache] = eval(runtime.Options{})
		}
		divergence, equal := 0.0, 0
		for i, row := range eval(runtime.Options{}.Forcing(k)) {
			divergence += kl(exact[cache][i], row)
			if slices.Equal(exact[cache][i], row) {
				equal++
			}
		}
		t.Logf("%s: mean KL divergence %.2g, logits of %d of %d positions are equal", k.Name, divergence/n, equal, n)
		if !(divergence/n < 1e-4) {
			t.Errorf("%s: mean KL divergence %g, want less than 1e-4", k.Name, divergence/n)
		}
		if equal > n/2 {
			t.Errorf("%s: logits of %d of %d positions are equal: was it run?", k.Name, equal, n)
		}
	}
	if len(exact) == 0 {
		t.Skip("the device runs no kernel with a bound")
	}
}

// A session that was saved in one profile is refused in the other.
func TestSaveOfProfiles(t *testing.T) {
	models := map[string]*Model{"exact": openSprig(t, Options{Executor: ref.New(), Context: 64, Sequences: 2})}
	models["fast"] = openSprig(t, Options{Executor: device(t, runtime.Options{Profile: "fast"}), Context: 64, Sequences: 2})
	for from, m := range models {
		s := newSession(t, m)
		evalAll(t, s, noise(5))
		var saved bytes.Buffer
		if err := s.Save(&saved); err != nil {
			t.Fatal(err)
		}
		for to, m := range models {
			r, err := m.Restore(bytes.NewReader(saved.Bytes()))
			if from == to && err != nil || from != to && !errors.Is(err, ErrMismatch) {
				t.Errorf("from %s to %s: %v", from, to, err)
			}
			if err == nil {
				r.Close()
			}
		}
	}
}
