package main

import (
	"slices"
	"testing"
)

// A short prompt goes without kernels in PTX, unless kernels are asked for by name.
func TestBrief(t *testing.T) {
	for _, c := range []struct {
		app  app
		want bool
	}{
		{app{}, false},
		{app{brief: true}, true},
		{app{brief: true, kernels: []string{"silu_mul_i8=sm90"}}, false},
		{app{brief: true, kernelDir: t.TempDir()}, false},
	} {
		c.app.profile = "exact"
		o, err := c.app.deviceOptions(autoDevice)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(o.Disable, "sm90"); got != c.want {
			t.Errorf("brief %v, kernels %q in %q: without sm90 %v, want %v", c.app.brief, c.app.kernels, c.app.kernelDir, got, c.want)
		}
	}
}
