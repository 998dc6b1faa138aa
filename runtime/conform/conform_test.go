package conform

import (
	"context"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/testdata/kernels"
)

// The suite against the reference itself: every contract has cases, and they
// are well made.
func TestReference(t *testing.T) {
	report, err := Run(context.Background(), Options{
		Open:    func(map[string]string) (graph.Executor, error) { return ref.New(), nil },
		Vectors: kernels.Files,
		Cases:   40, Work: 1 << 22, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		t.Log(r.String())
		if r.Failed > 0 || r.Cases == 0 {
			t.Error(r.String())
		}
	}
}
