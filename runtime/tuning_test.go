package runtime

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
)

// TestTuning follows a tuning through its life: it is gone by, kept for the next
// process, passed over where it names what there is not, and taken back.
func TestTuning(t *testing.T) {
	const contract = "mul_mat_q2_0_i8"
	o := Options{CacheDir: t.TempDir()}
	chosen := func(o Options) string {
		t.Helper()
		k, err := open(t, o).Plan().Choose(contract, [2]uint32{64, 1})
		if err != nil {
			t.Fatal(err)
		}
		return k.Impl
	}
	usual := chosen(o)
	if usual == "" {
		t.Skip("this device has the base implementation only")
	}
	d := open(t, o)
	beyond, err := d.Plan().Choose(contract, [2]uint32{64, 5})
	if err != nil {
		t.Fatal(err)
	}
	tuning := func(impl string) *plan.Tuning {
		return &plan.Tuning{Kernels: map[string][]plan.TunedRange{contract: {{From: 1, To: 4, Impl: impl}}}, Chunk: 256}
	}
	if err := d.Tune(tuning("")); err != nil {
		t.Fatal(err)
	}
	if k, err := d.Plan().Choose(contract, [2]uint32{64, 4}); err != nil || k.Impl != "" || d.Limits().Chunk != 256 {
		t.Errorf("tuned: %v, %v, chunk %d", k, err, d.Limits().Chunk)
	}
	if k, err := d.Plan().Choose(contract, [2]uint32{64, 5}); err != nil || k != beyond {
		t.Errorf("beyond the range: %v instead of %v, %v", k, beyond, err)
	}
	if got := chosen(o); got != "" {
		t.Errorf("the next process uses %q", got)
	}
	forced, off, replaced, fast := o, o, o, o
	forced.Kernels = map[string]string{contract: usual}
	off.Disable = []string{"tuning"}
	replaced.KernelDir = t.TempDir()
	fast.Profile = "fast"
	for _, o := range []Options{forced, off, replaced, fast} {
		if got := chosen(o); got != usual {
			t.Errorf("%+v: %q instead of %q", o, got, usual)
		}
	}
	if err := open(t, off).Tune(tuning("")); !errors.Is(err, graph.ErrUnsupported) {
		t.Errorf("kept where nothing is kept: %v", err)
	}
	if err := d.Tune(tuning("of the future")); err != nil {
		t.Fatal(err)
	}
	if got := chosen(o); got != usual {
		t.Errorf("an unknown implementation gives %q", got)
	}
	files, err := filepath.Glob(filepath.Join(o.CacheDir, "tuning-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, bad := range []string{"{", `{"chunk": -1}`, `{"chunk": 1000000}`} {
		if err := os.WriteFile(files[0], []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := open(t, o).Plan().Tuning(); got != nil {
			t.Errorf("%s is taken for %+v", bad, got)
		}
	}
	for range 2 {
		if err := d.Tune(nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := chosen(o); got != usual || d.Plan().Tuning() != nil {
		t.Errorf("taken back: %q", got)
	}
}

func TestCompileWith(t *testing.T) {
	d := open(t, Options{})
	g := graph.New("none")
	g.Add(&graph.Node{Label: "x", Contract: "mul_mat_q2_0_i8", Domain: [2]uint32{64, 1}})
	if _, err := d.CompileWith(g, map[string]string{"mul_mat_q2_0_i8": "of the future"}); !errors.Is(err, graph.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
