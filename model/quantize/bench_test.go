package quantize

import (
	"testing"

	"github.com/ternvk/tern/model/gguf"
)

func BenchmarkRow(b *testing.B) {
	const k = 4096
	for _, c := range []struct{ from, to gguf.Type }{
		{gguf.F16, gguf.Q2_0}, {gguf.BF16, gguf.PTQ1_0}, {gguf.F16, gguf.Q8_0}, {gguf.Q2_0_G128, gguf.Q2_0}, {gguf.Q2_0, gguf.F16},
	} {
		b.Run(c.from.String()+" to "+c.to.String(), func(b *testing.B) {
			raw := make([]byte, size(c.from, k))
			if err := Encode(c.from, raw, weights(k, 256)); err != nil {
				b.Fatal(err)
			}
			s := Step{Tensor: &Tensor{From: c.from, Raw: raw, Row: func(dst []float32, _ int) error { return Decode(c.from, dst, raw) }}, To: c.to}
			dst, before, after := make([]byte, size(c.to, k)), make([]float32, k), make([]float32, k)
			var stats Stats
			for b.Loop() {
				if err := s.row(dst, 0, before, after); err != nil {
					b.Fatal(err)
				}
				stats.row(before, after)
			}
			b.ReportMetric(float64(b.N)*k/b.Elapsed().Seconds()/1e6, "Mweights/s")
		})
	}
}
