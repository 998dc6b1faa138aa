package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/ternvk/tern/runtime/conform"
	"github.com/ternvk/tern/tools/internal/report"
)

// conformPage writes what was run, and of what failed the bits of the first wrong
// word of each case: a wrong sign, a lost exponent and a rounding look different.
func conformPage(r *conform.Report) func(io.Writer) error {
	return func(w io.Writer) error {
		p := report.New("tern conform", fmt.Sprintf("%s, seed %d: %s", r.Executor, r.Seed, r.Summary()))
		var rows [][]string
		var names []string
		var words []float64
		for _, result := range r.Results {
			outcome := "pass"
			switch {
			case result.Failed > 0:
				outcome = fmt.Sprintf("FAIL: %v", result.Failures[0])
			case result.Cases == 0:
				outcome = "skipped: " + result.Skipped
			}
			rows = append(rows, []string{result.Kernel(), fmt.Sprint(result.Cases), fmt.Sprint(result.Words), fmt.Sprintf("%.1f s", result.Elapsed.Seconds()), outcome})
			if i := slices.Index(names, result.Contract); i >= 0 {
				words[i] += float64(result.Words)
			} else {
				names, words = append(names, result.Contract), append(words, float64(result.Words))
			}
		}
		for _, result := range r.Results {
			differing := slices.DeleteFunc(slices.Clone(result.Failures), func(f conform.Failure) bool { return f.Err != "" })
			if len(differing) == 0 {
				continue
			}
			p.Map(report.Axes{Title: result.Kernel() + ": bits of the first wrong word of each case", X: "bit, the sign first", Y: "failing case"},
				len(differing), 32, func(row, column int) float64 {
					return float64((differing[row].Got ^ differing[row].Want) >> (31 - column) & 1)
				})
		}
		p.Bars(report.Axes{Title: "words compared, by contract", Y: "words"}, names, words)
		p.Table([]string{"kernel", "cases", "words", "time", "outcome"}, rows)
		return p.Write(w)
	}
}
