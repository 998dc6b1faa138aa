package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/conform"
	"github.com/ternvk/tern/testdata/kernels"
)

// compilers returns the release compiler of kernels, if it is unpacked: on Debian and its
// kin, whose C library has what the emulation is made of, too.
func compilers(t *testing.T) *compiler {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler on this machine")
	}
	if _, err := os.Stat("../../.root/clang"); err != nil {
		t.Skip("the release compiler is not unpacked: make emulate does that")
	}
	return &compiler{clang: "../scripts/clang", cc: "cc", sources: "../../glsl"}
}

// Faults planted in the sources are noticed, with their cause.
func TestFaults(t *testing.T) {
	c := compilers(t)
	for _, f := range []struct {
		name, file, kernel string
		old, new           string
		want               string
	}{
		{"wrong parity", "mul_mat_q2_0.cu", "mul_mat_q2_0_i8__sm90", "wait(base + AT_FULL, 0)", "wait(base + AT_FULL, 1)", "without a barrier in between"},
		{"no barrier before an arrival", "mul_mat_q2_0.cu", "mul_mat_q2_0_i8__sm90_small", "        warp_barrier();\n", "", "without a barrier in between"},
		{"no barrier", "rms_norm.cu", "rms_norm_i8__sm90", "        __syncthreads();\n", "", "without a barrier in between"},
		{"a fence missing", "mul_mat_q2_0.cu", "mul_mat_q2_0_i8__sm90_fast_small", "                for_matrices();\n", "", "without a fence"},
		{"a group of copies not waited for", "mul_mat_few_q2_0.cu", "mul_mat_q2_0_i8__sm90_few64", "copies_wait<RING - 2>", "copies_wait<RING - 1>", "while a copy to it is under way"},
		{"sums not waited for", "mul_mat_q2_0.cu", "mul_mat_q2_0_i8__sm90_small", "        wgmma_wait();\n        MULTIPLY", "        MULTIPLY", "a sum is looked at"},
		{"an arrival missing", "mul_mat_few_q2_0.cu", "mul_mat_q2_0_i8__sm90_few", "            pass_on(PARTS + (part + 1) % PARTS, 256);\n", "", "nothing goes on, 128 threads wait at bar.sync"},
		{"lanes apart", "silu_mul.cu", "silu_mul_i8__sm90", "    store_blocks(", "    if (b < nb) store_blocks(", "nothing goes on, 16 threads wait at shfl"},
		{"past the end", "quantize.cu", "quantize_i8__sm90", "(t + i < p.n ? i : 0)", "i", "of binding"},
		{"a wrong word", "qkv_rope_cache_f16.cu", "qkv_rope_cache_f16__sm90", "lane % 2 * 2)", "lane / 2 % 2 * 2)", "binding 1 word"},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			c := *c
			c.sources = t.TempDir()
			if err := os.CopyFS(c.sources, os.DirFS("../../glsl")); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(c.sources, f.file)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), f.old); n != 1 {
				t.Fatalf("%s has %q %d times, want once: the source has changed, choose another text", f.file, f.old, n)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(text), f.old, f.new, 1)), 0o666); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = run(t.Context(), conform.Options{Seed: 1, Cases: 5, Work: 1_000_000, Vectors: kernels.Files}, &c, f.kernel, &out)
			if err == nil || !strings.HasPrefix(out.String(), "FAIL "+f.kernel) || !strings.Contains(out.String(), f.want) {
				t.Errorf("error %v, want one and %q in\n%s", err, f.want, &out)
			}
		})
	}
}

// Products of scales of weights and of huge activations overflow where the reference's do:
// this case has such.
func TestOverflow(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), conform.Options{Seed: 7, First: 57, Cases: 1}, compilers(t), "mul_mat_q2_0_i8__sm90,mul_mat_q2_0_i8__sm90_small,mul_mat_q2_0_i8__sm90_few*", &out)
	if err != nil || !strings.Contains(out.String(), "4 implementations equal the reference, 0 fail") {
		t.Errorf("error %v in\n%s", err, &out)
	}
}

// A program that dies is a failed case.
func TestBroken(t *testing.T) {
	c := compilers(t)
	c.sources = t.TempDir()
	if err := os.CopyFS(c.sources, os.DirFS("../../glsl")); err != nil {
		t.Fatal(err)
	}
	source := "#include \"act.cuh\"\nstruct Push { u32 n, k; };\nKERNEL(128) kernel(const f32x4 *x, u32 *act, Push p) { __builtin_trap(); }\n"
	if err := os.WriteFile(filepath.Join(c.sources, "quantize.cu"), []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := run(t.Context(), conform.Options{Seed: 1, Cases: 1}, c, "quantize_i8__sm90", &out)
	if err == nil || !strings.Contains(out.String(), "the kernel's program: signal: ") {
		t.Errorf("error %v in\n%s", err, &out)
	}
}
