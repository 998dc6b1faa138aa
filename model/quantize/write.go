package quantize

import (
	"context"
	"fmt"
	"math"
	goruntime "runtime"
	"slices"
	"sync"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/mapped"
)

// Result is what became of a tensor.
type Result struct {
	Step
	Before, After uint64 // bytes
	Stats
}

// Verdict says in a few words what became of the numbers.
func (r *Result) Verdict() string {
	switch {
	case r.Lossless():
		return "lossless"
	case !Ternary(r.To) || !r.WasTernary():
		return "lossy"
	case r.Beyond == 0:
		return "lossy: scales were rounded to halves"
	case slices.Contains(codecs[r.To].coded.codes, 1):
		return "lossy: ternary, but scales within a group differ"
	}
	return "lossy: ternary, but there is no code for zero"
}

// Stats compare the stored numbers with those before.
type Stats struct {
	Count   uint64  // of numbers
	Changed uint64  // numbers that are other ones now
	MaxErr  float64 // largest difference
	SumErr2 float64 // of squared differences
	Sum2    float64 // of squared numbers before
	// Groups of 64 numbers within a row, and how many of them were -d, 0 and d with
	// some d of their own.
	Groups, Ternary uint64
	// Beyond counts changed numbers that are off by more than a scale's rounding to
	// a half.
	Beyond uint64
}

// Lossless reports whether no number changed.
func (s *Stats) Lossless() bool { return s.Changed == 0 }

// WasTernary reports whether all groups of 64 numbers were ternary.
func (s *Stats) WasTernary() bool { return s.Groups > 0 && s.Ternary == s.Groups }

// RelativeError is the root of the mean squared difference, relative to the numbers.
func (s *Stats) RelativeError() float64 {
	if s.Sum2 == 0 {
		return 0
	}
	return math.Sqrt(s.SumErr2 / s.Sum2)
}

func (s *Stats) add(t Stats) {
	s.Count += t.Count
	s.Changed += t.Changed
	s.MaxErr = max(s.MaxErr, t.MaxErr)
	s.SumErr2 += t.SumErr2
	s.Sum2 += t.Sum2
	s.Groups += t.Groups
	s.Ternary += t.Ternary
	s.Beyond += t.Beyond
}

// row compares a row.
func (s *Stats) row(before, after []float32) {
	var r Stats
	for i, x := range before {
		r.Sum2 += float64(x) * float64(x)
		if after[i] == x {
			continue
		}
		d := math.Abs(float64(after[i]) - float64(x))
		if r.Changed++; d > math.Abs(float64(x))*0x1p-11 {
			r.Beyond++
		}
		r.MaxErr = max(r.MaxErr, d)
		r.SumErr2 += d * d
	}
	r.Count = uint64(len(before))
	for from := 0; from < len(before); from += 64 {
		if r.Groups++; ternary(before[from:min(from+64, len(before))]) {
			r.Ternary++
		}
	}
	s.add(r)
}

func ternary(group []float32) bool {
	var d float32
	for _, x := range group {
		switch m := magnitude(x); {
		case m == 0 || m == d:
		case d == 0:
			d = m
		default:
			return false
		}
	}
	return true
}

// piece is how many numbers are stored at once.
const piece = 1 << 20

// Write stores the tensors as a GGUF file, which appears at path when it is complete;
// with an empty path nothing is written, but all is done otherwise. progress, if not
// nil, is told how many numbers are done. An error names the tensor.
func Write(ctx context.Context, path string, meta []gguf.KV, steps []Step, progress func(done, total uint64)) ([]Result, error) {
	specs := make([]gguf.Spec, len(steps))
	var total, done uint64
	for i, s := range steps {
		specs[i] = gguf.Spec{Name: s.Name, Dims: s.Dims, Type: s.To}
		total += s.Dims[0] * uint64(s.rows())
	}
	var w *gguf.Writer
	if path != "" {
		var err error
		if w, err = gguf.Create(path, meta, specs); err != nil {
			return nil, err
		}
		defer w.Abort()
	}
	results := make([]Result, len(steps))
	buf := []byte(nil)
	for i, s := range steps {
		r := &results[i]
		r.Step = s
		k, rows := int(s.Dims[0]), s.rows()
		r.Before, r.After = size(s.From, k*rows), size(s.To, k*rows)
		for first := 0; first < rows; {
			n := min(rows-first, max(1, piece/k))
			buf = append(buf[:0], make([]byte, size(s.To, k*n))...)
			stats, err := s.store(buf, first, n)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, fmt.Errorf("tensor %s: %w", s.Name, err)
			}
			r.Stats.add(stats)
			if w != nil {
				if _, err := w.Write(buf); err != nil {
					return nil, err
				}
			}
			first += n
			if done += uint64(k * n); progress != nil {
				progress(done, total)
			}
		}
	}
	if w == nil {
		return results, nil
	}
	return results, w.Close()
}

func blockBytes(t gguf.Type) int {
	_, b := t.Block()
	return int(b)
}

func size(t gguf.Type, elements int) uint64 {
	e, b := t.Block()
	return uint64(elements) / e * b
}

// store fills dst with rows of the tensor.
func (s *Step) store(dst []byte, first, rows int) (Stats, error) {
	workers := min(goruntime.GOMAXPROCS(0), rows)
	stats, errs := make([]Stats, workers), make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			k := int(s.Dims[0])
			before, after := make([]float32, k), make([]float32, k)
			errs[w] = mapped.Read(func() error {
				for i := rows * w / workers; i < rows*(w+1)/workers; i++ {
					n := len(dst) / rows
					if err := s.row(dst[i*n:][:n], first+i, before, after); err != nil {
						return err
					}
					stats[w].row(before, after)
				}
				return nil
			})
		})
	}
	wg.Wait()
	for w := range workers {
		if errs[w] != nil {
			return Stats{}, errs[w]
		}
		if w > 0 {
			stats[0].add(stats[w])
		}
	}
	return stats[0], nil
}

// row stores one row; before and after are filled with what it was and is.
func (s *Step) row(dst []byte, row int, before, after []float32) error {
	err := s.Row(before, row)
	if err == nil {
		err = s.move(dst, row, before)
	}
	if err == nil {
		err = Decode(s.To, after, dst)
	}
	if err != nil {
		return fmt.Errorf("row %d: %w", row, err)
	}
	return nil
}

// move takes blocks over as they are, where that can be done, or rounds.
func (s *Step) move(dst []byte, row int, numbers []float32) error {
	if err := finite(numbers); err != nil {
		return err
	}
	if s.Raw != nil {
		n := int(size(s.From, len(numbers)))
		src := s.Raw[row*n:][:n]
		if s.To == s.From {
			copy(dst, src)
			return nil
		}
		if recode(s.To, dst, s.From, src) {
			return nil
		}
	}
	return Encode(s.To, dst, numbers)
}
