package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/conform"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/testdata/kernels"
)

// Bounds on the operations of a case, unless --work says otherwise.
const (
	conformWork = 1 << 28
	shapesWork  = 1 << 32
)

// conformFlags are the flags of tern conform.
type conformFlags struct {
	conform.Options
	filter, impl, json, junit, html string
}

func (a *app) conformCommand() *cobra.Command {
	var f conformFlags
	cmd := &cobra.Command{
		Use:   "conform",
		Short: "Hold every kernel of a device to the Go reference, word for word",
		Long: "Run literal vectors and made-up cases of every contract with every implementation that the device can run, and compare\n" +
			"all words with the reference's, and those around the bindings too. A line an implementation; the first wrong word of a\n" +
			"failing case is given with its binding, index and both values. The exit status is 1 when anything differs.\n\n" +
			"An implementation is done after --time, --cases or --products, whichever is first. A case depends only on contract,\n" +
			"seed and index: --first I --cases 1 runs one again. With --kernels, only the kernels that the folder has are run, unless\n" +
			"--filter names others, and their words are held to the lint of exact kernels too.",
		Example: `  tern conform
  tern conform --filter 'mul_mat_q2_0_*,rms_norm_i8' --cases 200 --time 0
  tern conform --filter mul_mat_q2_0_i8 --impl base --products 1000000 --time 10m
  tern conform --filter mul_mat_q2_0_i8__dot --first 17 --cases 1
  tern conform --filter 'attention_*' --impl 'base,sm90*'
  tern conform --kernels build/cmake/spirv --junit conform.xml
  tern conform --mask int8,f16,workgroups=65535,binding=128M,shared=16K,push=128
  tern conform --shapes --filter 'mul_mat_q2_0_i8*'`,
		Args: usage(cobra.NoArgs),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.filter, "filter", "", "`patterns` of contracts or kernels, with commas; * stands for anything")
	flags.StringVar(&f.impl, "impl", "", "`patterns` of implementations, base for the base: of what --filter names, only these (default: all)")
	flags.Uint64Var(&f.Seed, "seed", 1, "seed of the cases")
	flags.IntVar(&f.First, "first", 0, "index of the first case")
	flags.IntVar(&f.Cases, "cases", 0, "end an implementation after so many cases (default: no such end)")
	flags.DurationVar(&f.Time, "time", 10*time.Second, "end an implementation after this time; 0: never")
	flags.Int64Var(&f.Products, "products", 0, "end an implementation of a matrix product after so many words of `products`")
	flags.Int64Var(&f.Total, "total", 0, "like --products, but `words` of a contract, which its implementations share")
	flags.Uint64Var(&f.Work, "work", conformWork, "leave out cases of more `operations`; 0: none")
	flags.Int64Var(&f.Least, "least", 0, "leave out cases of matrix products with fewer `words` of products")
	flags.BoolVar(&f.Shapes, "shapes", false, fmt.Sprintf("the matrices of published models, 1.7B to 27B, instead of made-up ones; --work is then %d", uint64(shapesWork)))
	a.validateFlag(flags)
	flags.StringVar(&f.json, "json", "", "write the report to a `file` as JSON, - for standard output")
	flags.StringVar(&f.junit, "junit", "", "write the report to a `file` as JUnit XML, - for standard output")
	flags.StringVar(&f.html, "html", "", "write a report with plots to this `file`")
	cmd.RunE = interruptible(func(ctx context.Context, _ []string) error {
		if f.Shapes && !flags.Changed("work") {
			f.Work = shapesWork
		}
		return a.conform(ctx, &f)
	})
	return cmd
}

func (a *app) conform(ctx context.Context, f *conformFlags) error {
	if f.First < 0 || f.Cases < 0 || f.Products < 0 || f.Total < 0 || f.Least < 0 || f.Time < 0 {
		return usagef("--first, --cases, --products, --total, --least and --time must not be negative")
	}
	if max(f.First, f.Cases) > math.MaxInt/2 {
		return usagef("--first and --cases: at most %d", math.MaxInt/2)
	}
	if f.Time == 0 && f.Cases == 0 && !f.Shapes {
		return usagef("--time 0 goes on for ever: give --cases too")
	}
	if f.json == "-" && f.junit == "-" {
		return usagef("--json and --junit: only one of them can go to standard output")
	}
	for i, path := range []string{f.json, f.junit, f.html} {
		if path != "" && path != "-" && slices.Contains([]string{f.json, f.junit, f.html}[:i], path) {
			return usagef("%s cannot hold two reports", path)
		}
		if err := a.writable(path); err != nil {
			return err
		}
	}
	o := f.Options
	o.Vectors = kernels.Files
	var err error
	if o.Replaced, err = readKernels(a.kernelDir); err != nil {
		return err
	}
	if o.Select, err = f.selection(o.Replaced); err != nil {
		return usageError{err}
	}
	o.Open = func(k *spirv.Kernel) (graph.Executor, error) {
		if a.device == referenceDevice {
			return ref.New(), nil
		}
		options, err := a.deviceOptions(a.device)
		if err != nil {
			return nil, err
		}
		options.Force = []string{"dot"} // slow is no reason not to check
		d, err := runtime.Open(options.Forcing(k))
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	lines := a.out
	if f.json == "-" || f.junit == "-" {
		lines = a.err
	}
	o.Progress = func(r conform.Result) { fmt.Fprintln(lines, r.String()) }
	report, err := conform.Run(ctx, o)
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range report.Results {
		if r.Failed == 0 {
			continue
		}
		failed++
		for _, failure := range r.Failures[1:] { // the first stands in the result's line
			fmt.Fprintf(lines, "%s: %v\n", r.Kernel(), failure)
		}
	}
	fmt.Fprintf(lines, "%s, seed %d: %s\n", cmp.Or(report.Executor, "nothing run"), report.Seed, report.Summary())
	err = a.writeReport(f.json, func(w io.Writer) error {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(report)
	})
	if err == nil {
		err = a.writeReport(f.junit, report.WriteJUnit)
	}
	if err == nil {
		err = a.writeReport(f.html, conformPage(report))
	}
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d implementations differ from the reference", failed)
	}
	return err
}

// selection is what --filter and --impl name, of the replaced kernels if there are
// any and no filter.
func (f *conformFlags) selection(replaced map[string][]byte) (named func(*spirv.Kernel) bool, err error) {
	named = func(k *spirv.Kernel) bool { return replaced == nil || replaced[k.Name] != nil }
	if f.filter != "" {
		named, err = conform.Named(strings.Split(f.filter, ",")...)
	}
	if f.impl != "" && err == nil {
		named, err = conform.Implementing(named, strings.Split(f.impl, ",")...)
	}
	return named, err
}

// readKernels reads the kernels of a folder, nil for none. A file that is named like
// no kernel is an error.
func readKernels(dir string) (map[string][]byte, error) {
	if dir == "" {
		return nil, nil
	}
	all := map[string][]byte{}
	for _, pattern := range []string{"*.spv", "*.ptx"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			file := filepath.Base(path)
			k, ok := spirv.Lookup(strings.TrimSuffix(file, filepath.Ext(file)))
			if !ok || k.File() != file {
				return nil, usagef("--kernels: %s has the name of no kernel", path)
			}
			if all[k.Name], err = os.ReadFile(path); err != nil {
				return nil, err
			}
			if _, err := k.Reflect(all[k.Name]); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if len(all) == 0 {
		return nil, usagef("--kernels: no .spv or .ptx file in %s", dir)
	}
	return all, nil
}

// writeReport writes to standard output for "-", or else to a new file, which gets
// its name when it is complete; nothing for "".
func (a *app) writeReport(path string, write func(io.Writer) error) error {
	switch path {
	case "":
		return nil
	case "-":
		return write(a.out)
	}
	_, err := writeFile(path, write)
	return err
}
