package runtime

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/vk"
)

func TestProbe(t *testing.T) {
	d := open(t, Options{Force: []string{"dot"}})
	if !d.Probe().Exact() {
		t.Error("not exact")
	}
	for _, r := range d.Probe().Rules {
		t.Log(r.String())
		if r.broken() {
			t.Error("broken: ", r.String())
		}
		if r.Cases == 0 {
			t.Errorf("%s: no cases", r.Name)
		}
	}
	t.Log(d.Plan().Features(), d.Plan().Notes)
}

// broken writes a kernel with one opcode replaced by another.
func broken(t *testing.T, dir, kernel string, from, to spirv.Op) {
	t.Helper()
	k, ok := spirv.Lookup(kernel)
	if !ok {
		t.Fatal(kernel)
	}
	words := k.Words()
	m, err := spirv.Parse(words)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, in := range m.Instructions {
		if in.Op == from {
			words[in.Offset] = words[in.Offset]&0xffff0000 | uint32(to)
			n++
		}
	}
	if n == 0 {
		t.Fatalf("%s has no %v", kernel, from)
	}
	if err := os.WriteFile(filepath.Join(dir, kernel+".spv"), vk.SliceBytes(words), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A device that computes other words is refused by the rule's name, and
// --profile fast takes it.
func TestProbeRefuses(t *testing.T) {
	dir := t.TempDir()
	broken(t, dir, "probe_f32", spirv.OpFAdd, spirv.OpFSub)
	_, err := Open(Options{KernelDir: dir, CacheDir: "off"})
	if !errors.Is(err, graph.ErrUnsupported) || !strings.Contains(err.Error(), "rule rounding") || !strings.Contains(err.Error(), "--profile fast") {
		t.Errorf("error %v", err)
	}
	d := open(t, Options{KernelDir: dir, Profile: "fast"})
	if d.Probe().Exact() {
		t.Error("the probe calls it exact")
	}
	d = open(t, Options{KernelDir: dir, Disable: []string{"probe"}})
	if d.Probe() != nil {
		t.Error("the probe is switched off and ran")
	}
}

// A feature that computes wrong words is switched off, with a note.
// BL-24, BL-26.
func TestProbeSwitchesOff(t *testing.T) {
	dir := t.TempDir()
	broken(t, dir, "probe_i8__dot", spirv.OpFMul, spirv.OpFAdd)
	d := open(t, Options{KernelDir: dir, Force: []string{"dot"}})
	if d.Plan().Has("dot") {
		t.Error("dot is on")
	}
	if !d.Probe().Exact() || len(d.Plan().Notes) == 0 || !strings.Contains(d.Plan().Notes[len(d.Plan().Notes)-1], "dot is off: the start-up probe found") {
		t.Errorf("exact %v, notes %q", d.Probe().Exact(), d.Plan().Notes)
	}
}

// A kernel that does not run at all is told as such.
func TestRuleText(t *testing.T) {
	for want, r := range map[string]Rule{
		"dot: 7 words, all right":                   {Name: "dot", Cases: 7},
		"dot: 2 of 7 words wrong, case 3 is odd":    {Name: "dot", Cases: 7, Wrong: 2, First: "case 3 is odd"},
		"sm90: does not run: it is no card for PTX": {Name: "sm90", Cases: 1, First: "it is no card for PTX"},
	} {
		if got := r.String(); got != want || r.broken() != (r.First != "") {
			t.Errorf("%q, broken %v; want %q", got, r.broken(), want)
		}
	}
}
