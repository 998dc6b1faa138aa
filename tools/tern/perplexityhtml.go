package main

import (
	"fmt"

	"github.com/ternvk/tern/tools/internal/perplexity"
	"github.com/ternvk/tern/tools/internal/report"
)

// report writes the figures with plots.
func (q *quality) report(r *perplexity.Run, scores []perplexity.Score, f perplexity.Figures) error {
	p := report.New("tern perplexity", fmt.Sprintf("%s: %d chunks of %d tokens, %d scored, %s activations", r.Model.Info().Name, r.Chunks, r.Context, f.Tokens, q.activations))
	var table [][]string
	flush := func() {
		if table != nil {
			p.Table([]string{"figure", "value"}, table)
		}
		table = nil
	}
	for _, row := range figureRows(f) {
		if row[1] == "" {
			flush()
			p.Heading(row[0])
			continue
		}
		table = append(table, row[:])
	}
	flush()
	n := perplexity.Scored(r.Context)
	ppl := func(withBase bool) (list []float64) {
		for c := range r.Chunks {
			f := perplexity.Summarise(scores[c*n:][:n], r.Base != nil)
			if withBase {
				list = append(list, f.BasePPL.Value)
			} else {
				list = append(list, f.PPL.Value)
			}
		}
		return list
	}
	p.Heading("Plots")
	lines := []report.Line{{Name: "model", Y: ppl(false)}}
	if r.Base != nil {
		lines = append(lines, report.Line{Name: "base", Y: ppl(true)})
	}
	p.Lines(report.Axes{Title: "perplexity of each chunk", X: "chunk", Y: "PPL"}, lines...)
	var nll, kl, dp []float64
	for _, s := range scores {
		nll, kl, dp = append(nll, s.NLL), append(kl, s.KL), append(dp, 100*s.DeltaP())
	}
	p.Histogram(report.Axes{Title: "negative log-likelihood of tokens", X: "nats"}, nll)
	if r.Base != nil {
		p.Histogram(report.Axes{Title: "divergence from the base", X: "KL, nats", LogX: true}, kl)
		p.Histogram(report.Axes{Title: "probability of the token, less the base's", X: "Δp, %"}, dp)
		byPosition := report.Line{}
		for i := range n {
			sum := 0.0
			for c := range r.Chunks {
				sum += kl[c*n+i]
			}
			byPosition.X, byPosition.Y = append(byPosition.X, float64(perplexity.First(r.Context)+i)), append(byPosition.Y, sum/float64(r.Chunks))
		}
		p.Lines(report.Axes{Title: "mean divergence by position", X: "position in the chunk", Y: "KL, nats"}, byPosition)
	}
	return q.writeReport(q.html, p.Write)
}
