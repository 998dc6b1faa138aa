package main

import (
	"strings"
	"testing"
)

// TestTune measures the embedded model, keeps what it finds and forgets it; a forced
// kernel is not measured. What is found in the profile fast is kept apart.
func TestTune(t *testing.T) {
	t.Setenv("TERN_CACHE", t.TempDir())
	shown := func() string {
		c := prepare(t, "", "tune", "--show")
		c.exits(t, 0)
		return c.out.String()
	}
	if got := shown(); got != "not tuned\n" {
		t.Fatalf("before: %q", got)
	}
	c := prepare(t, "", "tune", "--tokens", "2,1", "-r", "1")
	c.exits(t, 0)
	lines := strings.Split(c.out.String(), "\n")
	for _, want := range []string{"  mul_mat_q2_0_i8", "  mul_mat_q2_0_i8__one"} {
		n := 0
		for _, line := range lines {
			if strings.HasSuffix(line, want) {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%q is measured %d times:\n%s", want, n, &c.out)
		}
	}
	if got := shown(); got == "not tuned\n" || !strings.HasSuffix(c.out.String(), got) {
		t.Errorf("kept: %q", got)
	}
	c = prepare(t, "", "tune", "--tokens", "1", "-r", "1", "--kernel", "mul_mat_q2_0_i8=")
	c.exits(t, 0)
	if strings.Contains(c.out.String(), "mul_mat") {
		t.Errorf("a forced kernel is measured: %s", &c.out)
	}
	prepare(t, "", "tune", "--reset").exits(t, 0)
	if got := shown(); got != "not tuned\n" {
		t.Errorf("after: %q", got)
	}
	prepare(t, "", "tune", "--profile", "fast", "--tokens", "17", "-r", "1").exits(t, 0)
	if got := shown(); got != "not tuned\n" {
		t.Errorf("a tuning of the profile fast: %q", got)
	}
	prepare(t, "", "tune", "--tokens", "0").exits(t, exitUsage)
	prepare(t, "", "tune", "--show", "--reset").exits(t, exitUsage)
	prepare(t, "", "tune", "--device", "reference").exits(t, exitFailure)
}
