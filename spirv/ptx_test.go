package spirv

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func ptxOf(params, body string) []byte {
	return fmt.Appendf(nil, ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry kernel(%s)\n.maxntid 96, 1, 1\n{\n%s\nret;\n}\n", params, body)
}

func TestReflectPTX(t *testing.T) {
	params := "\n\t.param .u64 kernel_param_0,\n\t.param .u64 .ptr .align 1 kernel_param_1, // a comment, with a comma\n" +
		"\t.param .align 4 .b8 kernel_param_2[12],\n\t.param .align 4 .b8 kernel_param_3[8]\n"
	info, err := ReflectPTX(ptxOf(params, ""))
	if err != nil {
		t.Fatal(err)
	}
	if info.Bindings != 2 || info.PushBytes != 12 || !slices.Equal(info.Specs, []Spec{{ID: 1}, {ID: 2}}) || info.LocalSize != [3]uint32{96, 1, 1} || info.EntryPoint != "kernel" {
		t.Errorf("%+v", *info)
	}
	good := string(ptxOf(".param .u64 p", ""))
	if info, err := ReflectPTX([]byte(good)); err != nil || info.Bindings != 1 || info.PushBytes != 0 || info.Specs != nil {
		t.Errorf("without structures: %+v, %v", info, err)
	}
	for _, c := range []struct{ text, want string }{
		{"", "no .target"},
		{"// .target sm_90a\n", "no .target"},
		{strings.ReplaceAll(good, "kernel(", "other("), "want one, of the name kernel"},
		{good + good, "2 entries"},
		{strings.ReplaceAll(good, "96, 1, 1", "8, 8, 1"), "launch bound"},
		{strings.ReplaceAll(good, ".maxntid 96, 1, 1", ""), "launch bound"},
		{strings.ReplaceAll(good, "96, 1, 1", "0, 1, 1"), "launch bound"},
		{string(ptxOf(".param .u32 n", "")), `parameter ".param .u32 n"`},
		{string(ptxOf(".param .align 4 .b8 s[4], .param .u64 p", "")), "then one or two structures"},
		{string(ptxOf(".param .align 4 .b8 a[4], .param .align 4 .b8 b[4], .param .align 4 .b8 c[4]", "")), "one or two structures"},
		{string(ptxOf(".param .align 1 .b8 s[3]", "")), "whole words"},
		{string(ptxOf(".param .align 4 .b8 p[4], .param .align 4 .b8 s[4000000000]", "")), "at most 4096 bytes"},
	} {
		if _, err := ReflectPTX([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

// Every rule of the lint fires on the instruction it is about, wherever it stands, and
// each permitted neighbour passes.
func TestLintExactPTXRules(t *testing.T) {
	fma, half := Allow{Fma: true}, Allow{F16Convert: true}
	for _, c := range []struct {
		body  string
		allow Allow
		want  string // "" passes
	}{
		{body: "add.rn.f32 %f1, %f2, %f3;"},
		{body: "add.f32 %f1, %f2, %f3;", want: "add.f32 without .rn"},
		{body: "@%p1 sub.f32 %f1, %f2, %f3;", want: "sub.f32 without .rn"},
		{body: "@!%p1 sub.f32 %f1, %f2, %f3;", want: "sub.f32 without .rn"},
		{body: "@! %p1 sub.f32 %f1, %f2, %f3;", want: "sub.f32 without .rn"},
		{body: ".loc 1 2 3\nsub.f32 %f1, %f2, %f3;", want: "sub.f32 without .rn"},
		{body: "again:sub.f32 %f1, %f2, %f3;", want: "sub.f32 without .rn"},
		{body: "$L__BB0_1: mul.f64 %d1, %d2, %d3;", want: "mul.f64 without .rn"},
		{body: "{ .reg .f16 h; mul.f16x2 h, h, h; }", want: "mul.f16x2 without .rn"},
		{body: "add.rz.f32 %f1, %f2, %f3;", want: "add.rz.f32 without .rn"},
		{body: "add.s32 %r1, %r2, %r3; mul.wide.u32 %rd1, %r2, 4; mad.lo.s32 %r4, %r2, %r1, %r3;"},
		{body: "add.rn.ftz.f32 %f1, %f2, %f3;", want: "flushes denormals"},
		{body: "cvt.rn.ftz.f32.s32 %f1, %r1;", want: "flushes denormals"},
		{body: "// add.f32 %f1, %f2, %f3;"},
		{body: "/* add.f32\n%f1, %f2, %f3; */"},
		{body: "fma.rn.f32 %f1, %f2, %f3, %f4;", want: "without @fma"},
		{body: "fma.rn.f32 %f1, %f2, %f3, %f4;", allow: fma},
		{body: "fma.rz.f32 %f1, %f2, %f3, %f4;", allow: fma, want: "does not round to nearest even"},
		{body: "mad.rn.f32 %f1, %f2, %f3, %f4;", want: "without @fma"},
		{body: "div.rn.f32 %f1, %f2, %f3;", want: "not a function of the rules"},
		{body: "div.full.f32 %f1, %f2, %f3;", want: "approximates"},
		{body: "div.u32 %r1, %r2, %r3;"},
		{body: "sqrt.rn.f32 %f1, %f2;", want: "not a function of the rules"},
		{body: "rcp.rn.f32 %f1, %f2;", want: "not a function of the rules"},
		{body: "rsqrt.approx.f32 %f1, %f2;", want: "approximates"},
		{body: "ex2.approx.ftz.f32 %f1, %f2;", want: "ex2.approx.ftz.f32"},
		{body: "lg2.approx.f32 %f1, %f2;", want: "approximates"},
		{body: "sin.approx.f32 %f1, %f2;", want: "approximates"},
		{body: "cvt.rn.f32.s32 %f1, %r1; cvt.rni.f32.f32 %f2, %f1; cvt.f32.f16 %f3, %h1; cvt.rzi.s32.f32 %r1, %f1;"},
		{body: "cvt.rn.f16.f32 %h1, %f1;", want: "cvt.rn.f16.f32 without @f16cvt"},
		{body: "cvt.rn.f16.f32 %h1, %f1;", allow: half},
		{body: "cvt.rn.bf16x2.f32 %r1, %f1, %f2;", want: "without @f16cvt"},
		{body: "atom.global.add.f32 %f1, [%rd1], %f2;", want: "open order"},
		{body: "red.shared::cta.add.f32 [%rd1], %f2;", want: "open order"},
		{body: "atom.global.add.u32 %r1, [%rd1], 1;"},
		{body: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};", want: "of floats sums"},
		{body: "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1}, %rd1, %rd2, 1, 1, 1;", want: "of floats sums"},
		{body: "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%r1, %r2, %r3, %r4}, %rd1, %rd2, p;"},
		{body: "setp.lt.f32 %p1, %f1, %f2; selp.f32 %f3, %f1, %f2, %p1; neg.f32 %f1, %f2; ld.global.f32 %f1, [%rd1]; mov.f32 %f1, 0f3F800000;"},
	} {
		err := LintExactPTX(ptxOf(".param .u64 p", c.body), c.allow)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %+v: %v", c.body, c.allow, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s %+v: error %v, want one with %q", c.body, c.allow, err, c.want)
		}
	}
	if err := LintExactPTX(ptxOf("", "add.f32 a, b, c; mul.f32 a, b, c; add.f32 d, e, f;"), Allow{}); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two kinds of wrong instructions: %v", err)
	}
}
