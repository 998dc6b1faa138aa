package main

import (
	"os/exec"
	"strings"
	"testing"
)

// Mesa's compiler for AMD cards, without a card, takes every kernel that the card has
// the features for.
func TestKernelsCompileForAMD(t *testing.T) {
	for _, card := range []string{"gfx900", "gfx1030", "gfx1100"} {
		t.Run(card, func(t *testing.T) {
			t.Parallel()
			const driver = "../scripts/with-driver"
			out, err := exec.Command(driver, "radv-"+card, "go", "run", ".").CombinedOutput()
			if err != nil {
				if exec.Command(driver, "radv-"+card, "true").Run() != nil || strings.Contains(string(out), "no usable device") {
					t.Skipf("no RADV without a card here: %s", out)
				}
				t.Fatalf("%v\n%s", err, out)
			}
			compiled := map[string]bool{}
			for line := range strings.Lines(string(out)) {
				if fields := strings.Fields(line); len(fields) == 2+len(columns) {
					compiled[fields[0]] = true
				}
			}
			for _, k := range shaders() {
				if len(k.Needs) == 0 && !compiled[k.Name] {
					t.Errorf("%s needs nothing and was not compiled", k.Name)
				}
			}
			if lines := strings.Count(string(out), "\n"); lines != 2+len(shaders()) {
				t.Errorf("%d lines for %d kernels:\n%s", lines, len(shaders()), out)
			}
		})
	}
}
