package perplexity

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"

	"github.com/ternvk/tern/model"
)

// Run is the evaluation of a text.
type Run struct {
	Model *model.Model // with a context of Context positions, and Batch sequences
	Header
	Batch int     // chunks that are evaluated together
	BOS   int32   // replaces the first token of a chunk; negative for none
	Base  *Reader // to compare with, or nil
	Out   *Writer // of base logits, or nil
	// Done is told the scores of all chunks so far after each of them.
	Done func(chunks int, scores []Score) error
}

// BatchOf is the number of chunks of n tokens that are evaluated together, so that
// their halves, which run one after the other, fill a run of the model.
func BatchOf(n int) int { return max(1, 1024/n) }

// logitBytes bounds the logits that are held at once.
const logitBytes = 256 << 20

// Evaluate scores all chunks.
func (r *Run) Evaluate(ctx context.Context) ([]Score, error) {
	var scores []Score
	for first := 0; first < r.Chunks; first += r.Batch {
		n := min(r.Batch, r.Chunks-first)
		group, err := r.group(ctx, first, n)
		if err != nil {
			return nil, err
		}
		for i := range n {
			scores = append(scores, group[i*Scored(r.Context):][:Scored(r.Context)]...)
			if err := r.Done(first+i+1, scores); err != nil {
				return nil, err
			}
		}
	}
	return scores, nil
}

// group evaluates n chunks together.
func (r *Run) group(ctx context.Context, first, n int) ([]Score, error) {
	requests := make([]model.Request, n)
	for i := range requests {
		s, err := r.Model.NewSession()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		requests[i].Session = s
	}
	rows := make([]Row, n*Scored(r.Context))
	if r.Base != nil {
		for i := range rows {
			var err error
			if rows[i], err = r.Base.Next(); err != nil {
				return nil, err
			}
		}
	}
	scores := make([]Score, len(rows))
	half, last := First(r.Context), r.Context-1 // what follows the last token is not known
	step := max(1, logitBytes/(4*r.Vocab*n))
	for at := 0; at < last; {
		end := half
		if at >= half {
			end = min(at+step, last)
		}
		for i := range requests {
			requests[i].Tokens = r.tokens(first + i)[at:end]
			requests[i].None, requests[i].Every = at < half, at >= half
		}
		logits, err := r.Model.Eval(ctx, requests...)
		if err != nil {
			return nil, fmt.Errorf("chunk %d: %w", first+1, err)
		}
		if at >= half {
			parallel(n*(end-at), func(i int) {
				chunk, pos := i/(end-at), at+i%(end-at)
				row := chunk*Scored(r.Context) + pos - half
				scores[row] = r.score(logits[chunk][pos-at], r.Tokens[(first+chunk)*r.Context+pos+1], &rows[row])
			})
		}
		at = end
	}
	if r.Out != nil {
		for _, row := range rows {
			if err := r.Out.Write(row); err != nil {
				return nil, err
			}
		}
	}
	return scores, nil
}

// score fills row, or compares with it.
func (r *Run) score(logits []float32, token int32, row *Row) Score {
	if r.Base != nil {
		return Against(logits, token, *row)
	}
	if r.Out != nil {
		*row = NewRow(logits)
	}
	return Of(logits, token)
}

// tokens are those of a chunk as the model sees them.
func (r *Run) tokens(chunk int) []int32 {
	t := r.Tokens[chunk*r.Context:][:r.Context]
	if r.BOS >= 0 {
		t = append([]int32{r.BOS}, t[1:]...)
	}
	return t
}

func parallel(n int, f func(i int)) {
	workers := min(goruntime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				f(i)
			}
		})
	}
	wg.Wait()
}
