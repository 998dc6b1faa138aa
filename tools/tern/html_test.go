package main

import (
	"bytes"
	"path/filepath"
	"testing"
)

// Reports show what differs: in a comparison the nodes and maps of their words, of
// the suite the bits of failing cases.
func TestReports(t *testing.T) {
	wrong := wrongKernel(t, "silu_mul_i8")
	html := filepath.Join(t.TempDir(), "r.html")
	check := func(plots int, parts ...string) {
		t.Helper()
		page := mustRead(t, html)
		if n := bytes.Count(page, []byte("<svg")); n != plots {
			t.Errorf("%d plots, want %d", n, plots)
		}
		for _, p := range parts {
			if !bytes.Contains(page, []byte(p)) {
				t.Errorf("the report lacks %q", p)
			}
		}
	}
	prepare(t, "", "compare", "--tokens", "2", "--html", html).exits(t, 0)
	check(2, "All words are equal.")
	c := prepare(t, "", "compare", "--tokens", "2", "--kernels", wrong, "--html", html).exits(t, exitFailure)
	if n := bytes.Count(c.out.Bytes(), []byte("silu_mul_i8")); n != 8 {
		t.Errorf("%d nodes differ, want one a layer", n)
	}
	check(2+8, "blk.7.ffn_silu_mul", "8 values differ", "bits that differ")
	conformOn(t, "--kernels", wrong, "--html", html).exits(t, exitFailure)
	check(2, "silu_mul_i8: bits of the first wrong word", "FAIL: ", "words compared")
}
