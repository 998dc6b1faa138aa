package conform

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// The speed of the products' twins: what bounds the size of a comparison.
func BenchmarkTwinProduct(b *testing.B) {
	for _, act := range []op.Act{op.I8, op.F16, op.F32} {
		b.Run(act.String(), func(b *testing.B) {
			const rows, k, n = 1024, 2048, 8
			x := ref.New()
			m := newMaker(x, rand.New(rand.NewPCG(1, 1)), act)
			m.MulMat("product", m.matrix(weights{format: op.Formats()[0], codes: "any", scales: "plain"}, rows, k), m.Quantize("act", m.rows("x", n, k, normal)))
			p, err := x.Compile(m.G)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := x.Run(context.Background(), p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*rows*k*n/b.Elapsed().Seconds()/1e9, "GMAC/s")
		})
	}
}
