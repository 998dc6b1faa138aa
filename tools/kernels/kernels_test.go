package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ternvk/tern/spirv"
)

func TestReadList(t *testing.T) {
	kernels, err := readList(strings.NewReader(`
# comment
mul_mat_q2_0_i8__coop mul_mat T=int8,@env=vulkan1.3,@fma,FAST x=32,minn=0x10 int8,coop exact
mul_mat_q2_0_i8 mul_mat - - - bound:attention # trailing
`), "kernels.txt")
	if err != nil {
		t.Fatal(err)
	}
	if len(kernels) != 2 {
		t.Fatalf("%d kernels, want 2", len(kernels))
	}
	a, b := kernels[0], kernels[1]
	if a.Contract != "mul_mat_q2_0_i8" || a.Impl != "coop" || a.Env != "vulkan1.3" || a.Allow != (spirv.Allow{Fma: true}) {
		t.Errorf("first kernel: %+v", *a)
	}
	if !slices.Equal(a.Defines, []string{"T=int8", "FAST"}) || !slices.Equal(a.Needs, []string{"int8", "coop"}) {
		t.Errorf("defines %q, needs %q", a.Defines, a.Needs)
	}
	if cuda, err := readList(strings.NewReader("a__sm90 a.cu N=1,@fma shared=64 sm90 exact"), "kernels.txt"); err != nil || !cuda[0].IsPTX() || cuda[0].File() != "a__sm90.ptx" || cuda[0].Env != "" || a.IsPTX() || a.File() != "mul_mat_q2_0_i8__coop.spv" {
		t.Errorf("a CUDA source: %v, %v", cuda, err)
	}
	if a.Tile.Get("x", 0) != 32 || a.Tile.Get("minn", 0) != 16 || a.Tile.Get("absent", 7) != 7 {
		t.Errorf("tile %v", a.Tile)
	}
	if b.Impl != "" || b.Env != defaultEnv || b.Class != "bound:attention" || b.Defines != nil || b.Tile != nil || b.Needs != nil {
		t.Errorf("second kernel: %+v", *b)
	}
}

func TestReadListRefuses(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"a b - - -", "5 columns"},
		{"A b - - - exact", "kernel name"},
		{"a___b b - - - exact", "kernel name"},
		{"a b.comp - - - exact", "without .comp"},
		{"a b - - - fast", "class"},
		{"a b - - - bound:none", "class"},
		{"a b @x - - exact", "unknown setting @x"},
		{"a b - x=y - exact", "KEY=NUMBER"},
		{"a b.cu @unroll - - exact", "setting @unroll is for shaders"},
		{"a b.cu - - - exact", "needs sm90"},
		{"a b.cu - shared=49153 sm90 exact", "at most 49152 bytes"},
		{"a b - - - exact\na b - - - exact", ":2: kernel a is listed twice"},
	} {
		if _, err := readList(strings.NewReader(c.line), "kernels.txt"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.line, err, c.want)
		}
	}
}

const shaderText = `#version 450
#include "lib.glsl"
layout(local_size_x = 8) in;
layout(set = 0, binding = 0) buffer X { float x[]; };
void main() { x[gl_GlobalInvocationID.x] = twice(x[gl_GlobalInvocationID.x]); }
`

// The whole tool with a real compiler: generate, find nothing to do, notice a
// changed include, notice a changed output, refuse an inexact kernel.
func TestGenerate(t *testing.T) {
	glslc, err := exec.LookPath("glslc")
	if err != nil {
		t.Skip("no glslc on this machine: the committed words are used")
	}
	dir := t.TempDir()
	glsl, out := filepath.Join(dir, "glsl"), filepath.Join(dir, "out")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tool := func(extra ...string) error {
		return run(append([]string{"-glsl", glsl, "-out", out, "-glslc", glslc, "-stamps", filepath.Join(dir, "stamps")}, extra...))
	}
	write("glsl/lib/lib.glsl", "float twice(float a) { precise float r = a + a; return r; }\n")
	write("glsl/x.comp", shaderText)
	write("glsl/kernels.txt", "x_f32 x - - - exact\n")
	if err := tool(); err != nil {
		t.Fatal(err)
	}
	spv := filepath.Join(out, "x_f32.spv")
	first, err := os.Stat(spv)
	if err != nil {
		t.Fatal(err)
	}
	if source := read(filepath.Join(out, tableFile)); !strings.Contains(source, `Name:     "x_f32"`) || !strings.Contains(source, "Bindings:     1") {
		t.Errorf("the table:\n%s", source)
	}
	if err := tool("-check"); err != nil {
		t.Errorf("check of fresh output: %v", err)
	}
	if err := tool(); err != nil {
		t.Fatal(err)
	}
	if again, err := os.Stat(spv); err != nil || again.ModTime() != first.ModTime() {
		t.Errorf("words were written again without a change (%v)", err)
	}

	write("glsl/lib/lib.glsl", "float twice(float a) { precise float r = a * 2.5; return r; }\n")
	if err := tool("-check"); err == nil || !strings.Contains(err.Error(), "x_f32.spv is not what the sources give") {
		t.Errorf("check after a changed include: %v", err)
	}
	old := read(spv)
	if err := tool(); err != nil {
		t.Fatal(err)
	}
	if read(spv) == old {
		t.Error("a changed include was not noticed")
	}

	write("out/gone.spv", "x")
	if err := tool("-check"); err == nil || !strings.Contains(err.Error(), "gone.spv is of no listed kernel") {
		t.Errorf("check with a stray file: %v", err)
	}
	if err := tool(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(out, "gone.spv")); err == nil {
		t.Error("a stray .spv file stays")
	}

	write("glsl/lib/lib.glsl", "float twice(float a) { return a / 3.1; }\n")
	if err := tool(); err == nil || !strings.Contains(err.Error(), "kernel x_f32: instruction ") {
		t.Errorf("an inexact kernel: %v", err)
	}
	write("glsl/lib/lib.glsl", "syntax error\n")
	if err := tool(); err == nil || !strings.Contains(err.Error(), "lib.glsl") {
		t.Errorf("a shader that does not compile: %v", err)
	}
	if err := tool("-words", "-fallback", out); err != nil {
		t.Errorf("a committed file was not taken: %v", err)
	}
}

// CUDA sources are compiled, noticed when they change, and held to the rules.
func TestGenerateCUDA(t *testing.T) {
	glslc, err := exec.LookPath("glslc")
	if err != nil {
		t.Skip("no glslc on this machine")
	}
	clang, err := filepath.Abs("../scripts/clang")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("../../.root/clang"); err != nil {
		if clang, err = exec.LookPath("clang"); err != nil {
			t.Skip("no clang on this machine: the committed text is used")
		}
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tool := func(extra ...string) error {
		return run(append([]string{"-glsl", dir, "-out", out, "-glslc", glslc, "-clang", clang, "-stamps", filepath.Join(dir, "stamps")}, extra...))
	}
	const source = "struct Push { unsigned n; };\n" +
		"extern \"C\" __attribute__((global)) __attribute__((launch_bounds(LOCAL))) void kernel(float *x, Push p) { x[p.n] = x[0] OP x[1]; }\n"
	write("kernels.txt", "x_f32__sm90 x.cu LOCAL=96,OP=* shared=64 sm90 exact\n")
	write("x.cu", source)
	if err := tool(); err != nil {
		t.Fatal(err)
	}
	ptx := filepath.Join(out, "x_f32__sm90.ptx")
	if text := read(ptx); !strings.Contains(text, "mul.rn.f32") {
		t.Errorf("the product in\n%s", text)
	}
	if text := read(filepath.Join(out, tableFile)); !strings.Contains(text, "//go:embed *.ptx") || !strings.Contains(text, "LocalSize:    [3]uint32{96, 1, 1}") || !strings.Contains(text, "PushBytes:    4") {
		t.Errorf("the table:\n%s", text)
	}
	if text := read(filepath.Join(out, compilerFile)); !strings.Contains(text, "clang version") {
		t.Errorf("the compilers: %s", text)
	}
	if err := tool("-check"); err != nil {
		t.Errorf("check of fresh output: %v", err)
	}
	write("x.cu", strings.ReplaceAll(source, "x[1]", "x[2]"))
	if err := tool("-check"); err == nil || !strings.Contains(err.Error(), "x_f32__sm90.ptx is not what the sources give") {
		t.Errorf("check after a changed source: %v", err)
	}
	write("x.cu", strings.ReplaceAll(source, "OP", "/"))
	if err := tool(); err == nil || !strings.Contains(err.Error(), "kernel x_f32__sm90: div.rn.f32 is not a function of the rules") {
		t.Errorf("an inexact kernel: %v", err)
	}
	write("x.cu", "syntax error\n")
	if err := tool(); err == nil || !strings.Contains(err.Error(), "x.cu") {
		t.Errorf("a source that does not compile: %v", err)
	}
	if err := tool("-words", "-fallback", out); err != nil {
		t.Errorf("a committed file was not taken: %v", err)
	}
}

// The words that the runtime makes of the committed kernels are valid too.
func TestFloatControlsAreValid(t *testing.T) {
	val, err := exec.LookPath("spirv-val")
	if err != nil {
		t.Skip("no spirv-val on this machine")
	}
	valid := func(k *spirv.Kernel, words []uint32) error {
		file := filepath.Join(t.TempDir(), k.Name+".spv")
		if err := os.WriteFile(file, bytesOf(words), 0o666); err != nil {
			t.Fatal(err)
		}
		return command(val, "--target-env", k.Env, file)
	}
	checked := 0
	for _, k := range spirv.Kernels {
		if k.IsPTX() {
			continue
		}
		words := k.Words()
		if err := valid(k, words); err != nil {
			t.Logf("%s is beyond this spirv-val: %v", k.Name, err)
			continue
		}
		controlled, err := spirv.WithFloatControls(words, spirv.FloatControls{RTE32: true, PreserveSpecial32: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(k, controlled); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
		checked++
	}
	if len(spirv.Kernels) > 0 && checked == 0 {
		t.Error("spirv-val accepts none of the kernels")
	}
}
