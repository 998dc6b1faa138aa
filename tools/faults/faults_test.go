package main

import (
	"os"
	"testing"

	"github.com/ternvk/tern/spirv"
)

// Every fault can still be planted: its text stands once in its file, and its kernel
// is one of the list.
func TestFaultsApply(t *testing.T) {
	t.Chdir("../..")
	if len(faults) != 12 {
		t.Errorf("%d faults, want twelve", len(faults))
	}
	for _, f := range faults {
		if _, ok := spirv.Lookup(f.kernel); !ok {
			t.Errorf("%s: no kernel %s", f.name, f.kernel)
		}
		if f.strip {
			continue
		}
		text, err := os.ReadFile(f.file)
		if err != nil {
			t.Error(err)
		} else if _, err := f.edit(string(text)); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

// All twelve faults are caught on the driver of the environment.
func TestFaultsAreCaught(t *testing.T) {
	if os.Getenv("TERN_CONFORM") != "all" {
		t.Skip("make faults does this; here with TERN_CONFORM=all")
	}
	t.Chdir("../..")
	if err := run("", ""); err != nil {
		t.Error(err)
	}
}
