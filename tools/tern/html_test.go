package main

import (
	"bytes"
	"encoding/xml"
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

// TestRoofline: --ops of a step of streams says how many tokens it has, and draws its
// kernels, on a page and as a picture of its own.
func TestRoofline(t *testing.T) {
	html, svg := filepath.Join(t.TempDir(), "r.html"), filepath.Join(t.TempDir(), "r.svg")
	c := prepare(t, "", "bench", "--ops", "-p", "0", "-n", "4", "-b", "3", "-d", "5", "-r", "1", "--peak", "20", "--html", html, "--svg", svg)
	c.exits(t, 0)
	if !bytes.Contains(c.out.Bytes(), []byte("tg4 x 3 @ d5: 3 tokens in one run")) || !bytes.Contains(c.out.Bytes(), []byte("argmax_f32")) {
		t.Errorf("not a step of three streams:\n%s", &c.out)
	}
	if n := bytes.Count(mustRead(t, html), []byte("<svg")); n != 2 {
		t.Errorf("%d plots", n)
	}
	picture := mustRead(t, svg)
	if !bytes.HasPrefix(picture, []byte("<svg")) || !bytes.Contains(picture, []byte("memory, 20 GB/s")) || !bytes.Contains(picture, []byte("rms_norm_i8")) {
		t.Errorf("the picture: %.200s", picture)
	}
	if err := xml.Unmarshal(picture, &struct{}{}); err != nil {
		t.Error(err)
	}
	c = prepare(t, "", "bench", "--ops", "-p", "9", "--chunk", "8", "-n", "0", "-r", "1", "--peak", "20").exits(t, 0)
	if !bytes.Contains(c.out.Bytes(), []byte("pp9: the first 8 tokens in one run")) {
		t.Errorf("of a prompt in two pieces it says %s", c.out.Bytes())
	}
}
