// Command emulate runs the kernels in CUDA on a processor, in whole workgroups, and holds
// them to the reference as tern conform does those of a device: no driver for processors
// takes PTX. Each kernel's source is compiled by clang as C++, with functions of package
// folder device in place of the instructions, once for all of its cases.
//
// Besides wrong words it notices what a run on a card would show only now and then, or as a
// hang: accesses outside of bindings, races in shared memory, copies and matrix
// instructions that nobody waits for, missing fences, threads that wait for ever. Every case is
// run in several orders of threads and of what happens by itself. It needs Linux with glibc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/ternvk/tern/runtime/conform"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/testdata/kernels"
)

func main() {
	o := conform.Options{Vectors: kernels.Files}
	var c compiler
	flag.StringVar(&c.clang, "clang", "clang", "compiler of the kernels")
	flag.StringVar(&c.cc, "cc", "cc", "compiler and linker of C")
	flag.StringVar(&c.sources, "glsl", "glsl", "`folder` of the kernels' sources")
	filter := flag.String("filter", "*", "`patterns` of contracts or kernels, with commas; * stands for anything")
	flag.IntVar(&o.Cases, "cases", 24, "cases of a kernel, three times as many of one that takes few")
	flag.IntVar(&o.First, "first", 0, "index of the first case")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the cases")
	flag.Uint64Var(&o.Work, "work", 4_000_000, "leave out cases of more `operations`")
	flag.Parse()
	if o.Cases < 1 || o.First < 0 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "emulate: -cases is at least 1, -first at least 0, and there are no arguments")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, &c, *filter, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "emulate:", err)
		os.Exit(1)
	}
}

// run holds the kernels in CUDA that filter names to the reference, several at a time.
func run(ctx context.Context, o conform.Options, c *compiler, filter string, out io.Writer) error {
	named, err := conform.Named(strings.Split(filter, ",")...)
	if err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp("", "emulate"); err != nil {
		return err
	}
	defer os.RemoveAll(c.dir)
	if err := c.prepare(); err != nil {
		return err
	}
	o.Open = func(k *spirv.Kernel) (graph.Executor, error) { return open(c, k) }
	var mu sync.Mutex
	o.Progress = func(r conform.Result) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, r.String())
		for _, f := range r.Failures[min(1, len(r.Failures)):] { // the first stands in the result's line
			fmt.Fprintf(out, "%s: %v\n", r.Kernel(), f)
		}
	}
	var all conform.Report
	var errs []error
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for _, k := range spirv.Kernels {
		if !k.IsPTX() || !named(k) || !slices.Contains(conform.Contracts(), k.Contract) { // the probe has no twin
			continue
		}
		o := o
		o.Select = func(other *spirv.Kernel) bool { return other == k }
		if k.Tile.Get("dim", 0) != 0 {
			o.Cases *= 3 // it takes few of them
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			report, err := conform.Run(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			all.Results = append(all.Results, report.Results...)
			errs = append(errs, err)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(out, "emulation, seed %d: %s\n", o.Seed, all.Summary())
	if all.Failed() {
		return errors.New("kernels differ from the reference")
	}
	return nil
}
