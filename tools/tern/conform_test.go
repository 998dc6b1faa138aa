package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/conform"
	"github.com/ternvk/tern/spirv"
)

func conformOn(t *testing.T, args ...string) *command {
	t.Helper()
	return prepare(t, "", append([]string{"conform", "--cases", "12", "--time", "0", "--work", "1000000"}, args...)...)
}

// writeKernel puts the words of a kernel, changed by edit, into a folder.
func writeKernel(t *testing.T, name string, edit func(spirv.Instruction, []uint32)) string {
	t.Helper()
	k, ok := spirv.Lookup(name)
	if !ok {
		t.Fatal("no kernel", name)
	}
	words := k.Words()
	m, err := spirv.Parse(words)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range m.Instructions {
		edit(in, words)
	}
	data, err := binary.Append(nil, binary.LittleEndian, words)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name+".spv"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The reports say what the lines say, for a device that is right.
func TestConform(t *testing.T) {
	dir := t.TempDir()
	asJSON, asJUnit := filepath.Join(dir, "report.json"), filepath.Join(dir, "report.xml")
	c := conformOn(t, "--filter", "rms_norm_i8,quantize_i8__gpu,silu_mul_f*", "--json", asJSON, "--junit", asJUnit)
	c.exits(t, 0)
	for _, line := range []string{"pass rms_norm_i8 ", "pass silu_mul_f16 ", "pass silu_mul_f32 ", " 0 fail"} {
		if !strings.Contains(c.out.String(), line) {
			t.Errorf("no %q in\n%s", line, &c.out)
		}
	}
	var report conform.Report
	if data, err := os.ReadFile(asJSON); err != nil || json.Unmarshal(data, &report) != nil {
		t.Fatal("no JSON report: ", err)
	}
	var junit struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name string `xml:"name,attr"`
		} `xml:"testcase"`
	}
	if data, err := os.ReadFile(asJUnit); err != nil || xml.Unmarshal(data, &junit) != nil {
		t.Fatal("no JUnit report: ", err)
	}
	n := 1 + len(spirv.Contract("rms_norm_i8")) + len(spirv.Contract("silu_mul_f16")) + len(spirv.Contract("silu_mul_f32"))
	if len(report.Results) != n || report.Failed() || report.Executor == "" || junit.Tests != n || len(junit.Cases) != n || junit.Failures != 0 {
		t.Errorf("report %+v, JUnit %+v", report, junit)
	}
}

// A kernel of a folder that computes other words, or whose words leave results open,
// is named, with the first word that is wrong.
func TestConformNamesBrokenKernels(t *testing.T) {
	constant := writeKernel(t, "quantize_i8", func(in spirv.Instruction, words []uint32) {
		if in.Op == spirv.OpConstant && in.Operands[2] == 0x3c010204 { // 1/127
			words[in.Offset+3]++
		}
	})
	asJSON := filepath.Join(t.TempDir(), "report.json")
	c := conformOn(t, "--kernels", constant, "--json", asJSON)
	c.exits(t, 1)
	var report conform.Report
	if data, err := os.ReadFile(asJSON); err != nil || json.Unmarshal(data, &report) != nil {
		t.Fatal("no JSON report: ", err)
	}
	if len(report.Results) != 1 || report.Results[0].Kernel() != "quantize_i8" || report.Results[0].Failed == 0 {
		t.Fatalf("report %+v", report)
	}
	if f := report.Results[0].Failures[0]; f.Got == f.Want || f.Word < 0 || !strings.Contains(c.out.String(), f.String()) {
		t.Errorf("failure %v of\n%s", f, &c.out)
	}

	open := writeKernel(t, "rms_norm_f32", func(in spirv.Instruction, words []uint32) {
		if in.Op == spirv.OpDecorate && in.Operands[1] == 42 { // NoContraction becomes RelaxedPrecision
			words[in.Offset+2] = 0
		}
	})
	c = conformOn(t, "--kernels", open, "--junit", "-")
	c.exits(t, 1)
	if out := c.out.String(); !strings.Contains(out, `<failure message="lint: `) || !strings.Contains(out, "without NoContraction") {
		t.Errorf("the lint's complaint is missing:\n%s", out)
	}
}

func TestConformUsage(t *testing.T) {
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "matches no kernel", []string{"--filter", "mul_mat_q3_0"}},
		{2, `"dpt" matches no implementation of what is selected`, []string{"--filter", "rms_norm_f32", "--impl", "base,dpt"}},
		{2, `"" matches no implementation`, []string{"--impl", "base,"}},
		{2, `"[" matches no implementation`, []string{"--impl", "["}},
		{2, "unknown limit", []string{"--mask", "width=3"}},
		{2, "for ever", []string{"--cases", "0"}},
		{2, "at most", []string{"--first", "9223372036854775807", "--cases", "2"}},
		{1, "no case from 99999 on", []string{"--filter", "mul_mat_q2_0_i8", "--impl", "base", "--shapes", "--first", "99999"}},
		{2, "has the name of no kernel", []string{"--kernels", writeStray(t, "rms_norm_f33.spv")}},
		{2, "rms_norm_f32.ptx has the name of no kernel", []string{"--kernels", writeStray(t, "rms_norm_f32.ptx")}},
		{1, "probe_i8__sm90.ptx: no PTX", []string{"--kernels", writeStray(t, "probe_i8__sm90.ptx")}},
		{1, "nothing run, seed 1: 0 implementations equal the reference, 1 fail", []string{"--kernels", writeFused(t), "--mask", "sm90"}},
		{2, "no .spv or .ptx file in", []string{"--kernels", t.TempDir()}},
		{1, "nothing was run", []string{"--filter", "rms_norm_f32", "--mask", "subgroup=1"}},
		{0, "reference", []string{"--filter", "rms_norm_f32", "--device", "reference"}},
	} {
		run := conformOn(t, c.args...)
		run.exits(t, c.code)
		if !strings.Contains(run.out.String()+run.err.String(), c.want) {
			t.Errorf("%q: no %q in\n%s%s", c.args, c.want, &run.out, &run.err)
		}
	}
}

// writeFused writes a kernel in PTX whose products and sums may be fused.
func writeFused(t *testing.T) string {
	k, ok := spirv.Lookup("silu_mul_i8__sm90")
	if !ok {
		t.Fatal("no such kernel")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, k.File()), bytes.ReplaceAll(k.Data(), []byte(".rn.f32 "), []byte(".f32 ")), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeStray(t *testing.T, name string) string {
	dir := writeKernel(t, "rms_norm_f32", func(spirv.Instruction, []uint32) {})
	if err := os.Rename(filepath.Join(dir, "rms_norm_f32.spv"), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	return dir
}
