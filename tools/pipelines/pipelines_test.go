package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/ternvk/tern/spirv"
)

// Mesa's compiler for AMD cards, without a card, takes every kernel that the card has
// the features for.
func TestKernelsCompileForAMD(t *testing.T) {
	for _, card := range []string{"gfx900", "gfx1030", "gfx1100"} {
		t.Run(card, func(t *testing.T) {
			t.Parallel()
			const driver = "../scripts/with-driver"
			if out, err := exec.Command(driver, "radv-"+card, "go", "run", ".").CombinedOutput(); err != nil {
				if exec.Command(driver, "radv-"+card, "true").Run() != nil || strings.Contains(string(out), "no usable device") {
					t.Skipf("no RADV without a card here: %s", out)
				}
				t.Fatalf("%v\n%s", err, out)
			} else {
				compiled := 0
				for line := range strings.Lines(string(out)) {
					fields := strings.Fields(line)
					if _, ok := spirv.Lookup(fields[0]); ok && len(fields) == 2+len(columns) {
						compiled++
					}
				}
				if lines := strings.Count(string(out), "\n"); lines != 2+len(spirv.Kernels) || compiled < len(spirv.Kernels)*9/10 {
					t.Errorf("%d of %d kernels compiled, %d lines:\n%s", compiled, len(spirv.Kernels), lines, out)
				}
			}
		})
	}
}
