package conform

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/testdata/kernels"
)

func TestMain(m *testing.M) {
	// Without worker threads lavapipe runs tiny dispatches 20 times faster.
	if os.Getenv("LP_NUM_THREADS") == "" {
		os.Setenv("LP_NUM_THREADS", "0")
	}
	os.Exit(m.Run())
}

// open opens the machine's device under the validation layer, where that is
// installed, and fails the test on any message. Features that the device has but
// does not speed up are used.
func open(t *testing.T, opts runtime.Options) (*runtime.Device, error) {
	opts.Validate, opts.Force = true, []string{"dot"}
	d, err := runtime.Open(opts)
	if errors.Is(err, graph.ErrUnsupported) {
		opts.Validate = false
		d, err = runtime.Open(opts)
	}
	if err == nil {
		t.Cleanup(func() {
			for _, m := range d.Messages() {
				t.Error("validation:", m)
			}
		})
	}
	return d, err
}

// run holds every implementation on the machine's device to the reference.
func run(t *testing.T, opts Options, device runtime.Options) {
	t.Helper()
	opts.Vectors = kernels.Files
	opts.Open = func(k *spirv.Kernel) (graph.Executor, error) {
		d, err := open(t, device.Forcing(k))
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	report, err := Run(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", report.Executor, report.Summary())
	for _, r := range report.Results {
		t.Log(r.String())
		if r.Failed > 0 {
			t.Error(r.String())
		}
	}
}

// A quick selection by default, at most some seconds an implementation: processors
// take long to compile what is made for GPUs; all of it, with at least a million words of each
// matrix product, when TERN_CONFORM is "all".
func TestDevice(t *testing.T) {
	if os.Getenv("TERN_CONFORM") == "all" {
		opts := Options{Seed: uint64(time.Now().UnixNano()), Products: 1_000_000, Cases: 2000, Work: 1 << 27, Time: 10 * time.Minute}
		t.Logf("seed %d", opts.Seed)
		run(t, opts, runtime.Options{})
		return
	}
	run(t, Options{Select: mainContracts, Seed: 1, Cases: 30, Work: 1 << 21, Time: 2 * time.Second}, runtime.Options{})
	run(t, Options{Select: otherFormats, Seed: 1, Cases: 6, Work: 1 << 19, Time: time.Second}, runtime.Options{})
}

// otherFormats are the contracts of formats other than Q2_0: many, and made of few
// sources, so that a few cases of each do for a quick test.
func otherFormats(k *spirv.Kernel) bool {
	weights := strings.HasPrefix(k.Name, "mul_mat_") || strings.HasPrefix(k.Name, "get_rows_") || strings.HasPrefix(k.Name, "dequant_")
	return weights && !strings.Contains(k.Name, "_q2_0")
}

func mainContracts(k *spirv.Kernel) bool { return !otherFormats(k) }

// Kernels find their rows when the grid is folded, as it is beyond 65,535
// workgroups.
// BL-13.
func TestFoldedGrid(t *testing.T) {
	device := runtime.Options{}
	device.Test.Caps.GroupsX = 300
	some, err := Named("mul_mat_q2_0_i8", "dequant_q2_0", "add_check_f32", "argmax_f32")
	if err != nil {
		t.Fatal(err)
	}
	run(t, Options{Seed: 2, Cases: 17, Work: 1 << 23, Time: 2 * time.Second, Select: some}, device)
}

// Matrices of published models: here the two smallest, of 2048 weights a row.
func TestMatricesOfModels(t *testing.T) {
	some, err := Named("mul_mat_q2_0_i8", "get_rows_q2_0")
	if err != nil {
		t.Fatal(err)
	}
	run(t, Options{Seed: 3, Cases: 2, Shapes: true, Work: 1 << 24, Select: some}, runtime.Options{})
}

// A value that is not a number reaches the rows that see it and no others, which the
// case of this index has in a tile: eight tokens, a cache with NaN, three sequences.
func TestNaNOfOneRow(t *testing.T) {
	run(t, Options{Select: func(k *spirv.Kernel) bool { return k.Contract == "attention_f16" }, Seed: 1, First: 82, Cases: 1}, runtime.Options{})
}
