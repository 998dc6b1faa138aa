// Package conform holds every executor, driver and implementation to the
// reference: it makes up cases of each contract, edges first, runs them on the
// executor under test and on the twins of runtime/ref, and compares all words.
package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/spirv"
)

// Options say what is held to the reference, and how long.
type Options struct {
	// Open opens the executor under test with an implementation forced, for domains
	// beyond the bounds of its line too, in the profile fast if it has a bound.
	Open func(k *spirv.Kernel) (graph.Executor, error)
	// Select, when not nil, says which implementations to run; see Named and Implementing.
	Select func(*spirv.Kernel) bool
	// Replaced has the files of kernels, by name, that Open takes in place of the
	// compiled-in ones. Those of class exact are held to the lint first.
	Replaced map[string][]byte
	// Vectors, when not nil, has CONTRACT.txt with the literal vectors of every
	// contract; they are run before the cases.
	Vectors fs.FS
	// Seed, with a contract and an index, is all that a case depends on.
	Seed uint64
	// First is the index of the first case.
	First int
	// Cases bounds the cases of an implementation; 0: no bound.
	Cases int
	// Products ends an implementation of a matrix product when so many output
	// words of rows of at least 64 random weights are compared; 0: no such end.
	Products int64
	// Total, in place of Products, is such words of a contract, which its
	// implementations share; what some cannot run, those behind them take over.
	Total int64
	// Time ends an implementation after the case that exceeds it; 0: no bound.
	Time time.Duration
	// Work leaves out cases of more multiply-adds (or element operations); 0: none.
	Work uint64
	// Least leaves out cases of a matrix product with fewer output words of rows of
	// random weights: in few large cases, words cost less. 0: none.
	Least int64
	// Shapes takes the matrices of published models instead of made-up ones, once
	// each in three batch sizes; contracts without matrices are left out.
	Shapes bool
	// Progress, when not nil, hears of every implementation that is done.
	Progress func(Result)
}

// Report is what a run found, one result an implementation.
type Report struct {
	Executor string   `json:"executor"`
	Seed     uint64   `json:"seed"`
	Results  []Result `json:"results"`
}

// Result is what a run found about one implementation of a contract.
type Result struct {
	Contract string        `json:"contract"`
	Impl     string        `json:"impl"`
	Cases    int           `json:"cases"`
	Words    int64         `json:"words"`    // words compared
	Products int64         `json:"products"` // of these, words of rows of at least 64 random weights
	Failed   int           `json:"failed"`   // cases with a difference, complaints of the lint and of the validation layer
	Failures []Failure     `json:"failures,omitempty"`
	Bound    string        `json:"bound,omitempty"`    // by which the kernel is held to the reference, instead of word by word
	Farthest float64       `json:"farthest,omitempty"` // from the reference, of 1, the bound
	Mean     float64       `json:"mean,omitempty"`     // and the mean of these
	Skipped  string        `json:"skipped,omitempty"`  // why nothing, or less than asked for, was run
	Elapsed  time.Duration `json:"elapsed_ns"`
}

// Kernel is the name of the implementation.
func (r *Result) Kernel() string {
	if r.Impl == "" {
		return r.Contract
	}
	return r.Contract + "__" + r.Impl
}

func (r *Result) String() string {
	switch {
	case r.Failed > 0:
		return fmt.Sprintf("FAIL %-32s %d failures, %d cases: %v", r.Kernel(), r.Failed, r.Cases, r.Failures[0])
	case r.Cases == 0:
		return fmt.Sprintf("skip %-32s %s", r.Kernel(), r.Skipped)
	}
	s := fmt.Sprintf("pass %-32s %d cases, %d words, %.1f s", r.Kernel(), r.Cases, r.Words, r.Elapsed.Seconds())
	if r.Products > 0 {
		s += fmt.Sprintf(", %d products", r.Products)
	}
	if r.Bound != "" {
		s += fmt.Sprintf(", at most %.3f of the bound, %.4f in the mean", r.Farthest, r.Mean)
	}
	if r.Skipped != "" {
		s += " (" + r.Skipped + ")"
	}
	return s
}

// Failure is the first difference of a case.
type Failure struct {
	Case    string `json:"case"` // its name, "vector NAME", "lint" or "validation"
	Binding int    `json:"binding"`
	Word    int    `json:"word"` // of the binding; negative or beyond its end: memory that is not the binding's
	Got     uint32 `json:"got"`
	Want    uint32 `json:"want"`
	Err     string `json:"error,omitempty"` // the executor's error, instead of words
}

func (f Failure) String() string {
	if f.Err != "" {
		return fmt.Sprintf("%s: %s", f.Case, f.Err)
	}
	return fmt.Sprintf("%s: binding %d word %d is %#08x, want %#08x", f.Case, f.Binding, f.Word, f.Got, f.Want)
}

// Failed reports whether any case failed.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Results, func(r Result) bool { return r.Failed > 0 })
}

// Summary counts, for people.
func (r *Report) Summary() string {
	var passed, bounded, failed, skipped int
	var words, products int64
	for _, k := range r.Results {
		switch {
		case k.Failed > 0:
			failed++
		case k.Cases == 0:
			skipped++
		case k.Bound != "":
			bounded++
		default:
			passed++
		}
		words, products = words+k.Words, products+k.Products
	}
	s := fmt.Sprintf("%d implementations equal the reference, %d fail, %d skipped; %d words, %d products", passed, failed, skipped, words, products)
	if bounded > 0 {
		s += fmt.Sprintf("; %d implementations within their bounds", bounded)
	}
	return s
}

// keptFailures is the number of failures that a result spells out.
const keptFailures = 8

// Contracts lists the contracts, sorted.
func Contracts() []string {
	names := ref.Contracts()
	slices.Sort(names)
	return names
}

// Named selects the implementations whose name or contract matches one of the
// patterns, which are those of path.Match. A pattern that matches nothing is an error.
func Named(patterns ...string) (func(*spirv.Kernel) bool, error) {
	return matching(func(*spirv.Kernel) bool { return true }, "kernel", patterns, func(k *spirv.Kernel) []string {
		return []string{k.Name, k.Contract}
	})
}

// Implementing selects, of those that of selects, the implementations whose own name,
// which is base for the base, matches one of the patterns, as Named does.
func Implementing(of func(*spirv.Kernel) bool, patterns ...string) (func(*spirv.Kernel) bool, error) {
	return matching(of, "implementation of what is selected", patterns, func(k *spirv.Kernel) []string {
		return []string{cmp.Or(k.Impl, "base")}
	})
}

func matching(of func(*spirv.Kernel) bool, what string, patterns []string, names func(*spirv.Kernel) []string) (func(*spirv.Kernel) bool, error) {
	matches := func(pattern string, k *spirv.Kernel) bool {
		return of(k) && slices.ContainsFunc(names(k), func(name string) bool {
			ok, err := path.Match(pattern, name)
			return ok && err == nil
		})
	}
	for _, p := range patterns {
		if !slices.ContainsFunc(spirv.Kernels, func(k *spirv.Kernel) bool { return matches(p, k) }) {
			return nil, fmt.Errorf("conform: %q matches no %s", p, what)
		}
	}
	return func(k *spirv.Kernel) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, k) })
	}, nil
}

// Run holds the implementations that opts selects to the reference. Differences
// are in the report; an error means that the suite itself could not run.
func Run(ctx context.Context, opts Options) (*Report, error) {
	report := &Report{Seed: opts.Seed}
	contracts := Contracts()
	for _, k := range spirv.Kernels { // kernels without a twin are told as skipped
		contracts = append(contracts, k.Contract)
	}
	slices.Sort(contracts)
	for _, contract := range slices.Compact(contracts) {
		left, kernels := opts.Total, slices.DeleteFunc(spirv.Contract(contract), func(k *spirv.Kernel) bool {
			return opts.Select != nil && !opts.Select(k) || opts.Shapes && !hasShapes(contract)
		})
		for i, k := range kernels {
			if opts.Total > 0 {
				opts.Products = max(1, left/int64(len(kernels)-i))
			}
			result, name, err := runKernel(ctx, opts, k)
			if err != nil {
				return report, fmt.Errorf("conform: %s: %w", k.Name, err)
			}
			left -= result.Products
			if name != "" {
				report.Executor = name
			}
			report.Results = append(report.Results, result)
			if opts.Progress != nil {
				opts.Progress(result)
			}
		}
	}
	switch ran := func(r Result) bool { return r.Cases > 0 || r.Failed > 0 }; {
	case len(report.Results) == 0:
		return report, errors.New("conform: no kernel is selected that the suite has cases for")
	case !slices.ContainsFunc(report.Results, ran):
		return report, fmt.Errorf("conform: nothing was run; %s: %s", report.Results[0].Kernel(), report.Results[0].Skipped)
	}
	return report, nil
}

func runKernel(ctx context.Context, opts Options, k *spirv.Kernel) (r Result, executor string, err error) {
	r = Result{Contract: k.Contract, Impl: k.Impl, Bound: k.Bound()}
	switch {
	case spaces[k.Contract] == nil:
		r.Skipped = "the suite has no cases for the contract"
		return r, "", nil
	}
	start := time.Now()
	defer func() { r.Elapsed = time.Since(start) }()
	if data, replaced := opts.Replaced[k.Name]; replaced {
		if err := k.Lint(data); err != nil {
			r.fail(Failure{Case: "lint", Err: err.Error()})
		}
	}
	x, err := opts.Open(k)
	if errors.Is(err, graph.ErrUnsupported) {
		r.Skipped = err.Error()
		return r, "", nil
	}
	if err != nil {
		return r, "", err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	if v, ok := x.(interface{ Messages() []string }); ok {
		defer func() {
			for _, m := range v.Messages() {
				r.fail(Failure{Case: "validation", Err: m})
			}
		}()
	}
	bench := &bench{x: x, bound: ref.BoundOf(k.Bound())}
	defer bench.close()
	if opts.Vectors != nil && !opts.Shapes {
		list, err := vectors(opts.Vectors, k.Contract)
		if err != nil {
			return r, x.Name(), err
		}
		for _, s := range list {
			if !k.Takes(s.node.Spec) {
				continue
			}
			r.Cases++
			r.check(ctx, bench, "vector "+s.node.Label, s)
		}
	}
	large, small, others := 0, 0, 0
	for i := opts.First; ; i++ {
		if opts.Cases > 0 && i >= opts.First+opts.Cases || opts.Products > 0 && r.Products >= opts.Products ||
			opts.Time > 0 && time.Since(start) > opts.Time || opts.Shapes && i >= len(modelShapes)*len(shapeTokens) {
			break
		}
		c := newCase(k.Contract, opts.Seed, i, opts.Shapes)
		if opts.Work > 0 && c.Work > opts.Work {
			large++
			continue
		}
		if c.Products < opts.Least && isProduct(k.Contract) {
			small++
			continue
		}
		if err := ctx.Err(); err != nil {
			return r, x.Name(), err
		}
		taken, err := r.run(ctx, bench, c, k)
		if err != nil {
			return r, x.Name(), err
		}
		if !taken {
			others++
		}
	}
	r.Farthest, r.Mean = bench.off.top, bench.off.mean()
	var left []string
	if r.Cases+large+small+others == 0 {
		left = append(left, fmt.Sprintf("no case from %d on is within the bounds", opts.First))
	}
	if large > 0 {
		left = append(left, fmt.Sprintf("%d cases above %d operations left out", large, opts.Work))
	}
	if small > 0 {
		left = append(left, fmt.Sprintf("%d of fewer than %d products", small, opts.Least))
	}
	if others > 0 {
		left = append(left, fmt.Sprintf("%d cases that other implementations take", others))
	}
	r.Skipped = strings.Join(left, ", ")
	return r, x.Name(), nil
}

// run adds one case to the result, unless the kernel takes none of its nodes. Its error
// is the reference's.
func (r *Result) run(ctx context.Context, b *bench, c *Case, k *spirv.Kernel) (taken bool, err error) {
	err = c.steps(ctx, func(s *step) bool {
		if !k.Takes(s.node.Spec) {
			return true
		}
		taken = true
		return r.check(ctx, b, c.Name, s)
	})
	if err != nil {
		return taken, fmt.Errorf("case %s on the reference: %w", c.Name, err)
	}
	if taken {
		r.Cases++
		r.Products += c.Products
	}
	return taken, nil
}

// check compares a step and reports whether it passes.
func (r *Result) check(ctx context.Context, b *bench, name string, s *step) bool {
	r.Words += s.written()
	f, err := b.check(ctx, s)
	if err != nil {
		f = &Failure{Err: err.Error()}
	}
	if f == nil {
		return true
	}
	f.Case = name
	r.fail(*f)
	return false
}

func (r *Result) fail(f Failure) {
	if r.Failed++; len(r.Failures) < keptFailures {
		r.Failures = append(r.Failures, f)
	}
}
