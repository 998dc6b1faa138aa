package conform

import (
	"context"
	"slices"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/testdata/kernels"
)

// The suite against the reference itself: every contract has cases, and they
// are well made.
func TestReference(t *testing.T) {
	for _, opts := range []Options{{Select: mainContracts, Cases: 40, Work: 1 << 22}, {Select: otherFormats, Cases: 6, Work: 1 << 19}} {
		opts.Open = func(map[string]string) (graph.Executor, error) { return ref.New(), nil }
		opts.Vectors, opts.Seed = kernels.Files, 1
		report, err := Run(context.Background(), opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report.Results {
			t.Log(r.String())
			if r.Failed > 0 || r.Cases == 0 && slices.Contains(Contracts(), r.Contract) {
				t.Error(r.String())
			}
		}
	}
}
