// Command conform holds every kernel of a Vulkan device to the Go reference,
// word for word.
//
//	conform                                   a few minutes, every implementation
//	conform --products 1000000                at least a million words of each matrix product
//	conform --contract mul_mat_q2_0_i8 --impl dot --first 17 --cases 1
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/conform"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/testdata/kernels"
)

func main() {
	ok, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conform:", err)
		os.Exit(1)
	}
	if !ok {
		os.Exit(1)
	}
}

func run() (bool, error) {
	device := flag.String("device", "auto", "number, name or UUID of the device, or reference")
	contracts := flag.String("contract", "", "contracts, with commas; all when empty")
	impl := flag.String("impl", "", "the implementation to run, base for the base; all when empty")
	dir := flag.String("kernels", "", "folder of .spv files to use instead of the compiled-in ones")
	seed := flag.Uint64("seed", 1, "seed of the cases")
	first := flag.Int("first", 0, "index of the first case")
	cases := flag.Int("cases", 0, "cases of an implementation at most")
	products := flag.Int64("products", 0, "words of matrix products after which an implementation is done")
	limit := flag.Duration("time", 10*time.Second, "time after which an implementation is done; 0: no limit")
	work := flag.Uint64("work", 1<<28, "leave out cases of more operations")
	validate := flag.Bool("validate", false, "run under the Khronos validation layer")
	asJSON := flag.Bool("json", false, "print the report as JSON")
	flag.Parse()
	if flag.NArg() > 0 {
		return false, fmt.Errorf("unknown argument %q", flag.Arg(0))
	}

	opts := conform.Options{
		Vectors: kernels.Files,
		Seed:    *seed, First: *first, Cases: *cases, Products: *products, Time: *limit, Work: *work,
		Open: func(force map[string]string) (graph.Executor, error) {
			if *device == "reference" {
				return ref.New(), nil
			}
			return runtime.Open(runtime.Options{Device: *device, KernelDir: *dir, Kernels: force, Validate: *validate,
				Force: []string{"dot"}}) // slow is no reason not to check
		},
	}
	if *contracts != "" {
		opts.Contracts = strings.Split(*contracts, ",")
	}
	switch *impl {
	case "":
	case "base":
		opts.Impl = new(string)
	default:
		opts.Impl = impl
	}
	if !*asJSON {
		opts.Progress = func(r conform.Result) { fmt.Println(r.String()) }
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := conform.Run(ctx, opts)
	if err != nil {
		return false, err
	}
	if *asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return !report.Failed(), out.Encode(report)
	}
	if report.Failed() {
		for _, r := range report.Results {
			for _, f := range r.Failures {
				fmt.Printf("%s: %v\n", r.Kernel(), f)
			}
		}
	}
	fmt.Printf("%s, seed %d: %s\n", report.Executor, report.Seed, report.Summary())
	return !report.Failed(), nil
}
