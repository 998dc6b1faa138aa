package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/tools/internal/synth"
)

// tune holds the flags of the command.
type tune struct {
	*app
	tokens      []int
	repeat      int
	show, reset bool
}

// Below worthwhile of the time of what is used anyway, another choice is worth it;
// beyond hopeless times the best, an implementation is not tried with more tokens.
const (
	worthwhile = 0.97
	hopeless   = 8
)

// leastChunk is the shortest piece of a prompt that is tried.
const leastChunk = 128

func (a *app) tuneCommand() *cobra.Command {
	t := &tune{app: a}
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Measure which kernels are fastest on this device, and keep the answer",
		Long: "Measure, in runs of the model, every implementation of its matrix products that the device can run, for several\n" +
			"numbers of tokens, and prompts in pieces of several lengths. Where another choice than the built-in one is faster\n" +
			"by 3 %, it is kept beside the pipeline cache, for this device, driver and set of kernels, and used from then on.\n" +
			"Each implementation's logits are compared, word by word: no choice changes an answer, but in the profile fast, which\n" +
			"is tuned by itself and has kernels with other words. --kernel goes before it,\n" +
			runtime.DisableVariable + "=tuning does without.",
		Example: `  tern tune -m model.gguf
  tern tune --tokens 1,32,512
  tern tune --show
  tern tune --reset`,
		Args: usage(onlyFlags),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return t.run(ctx) }),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntSliceVar(&t.tokens, "tokens", []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048}, "`numbers` of tokens to measure; those from 128 on also as pieces of prompts")
	f.IntVarP(&t.repeat, "repetitions", "r", 3, "measurements of each, of which the shortest counts")
	f.BoolVar(&t.show, "show", false, "print what is kept")
	f.BoolVar(&t.reset, "reset", false, "forget what is kept")
	return cmd
}

func (t *tune) run(ctx context.Context) error {
	slices.Sort(t.tokens)
	t.tokens = slices.Compact(t.tokens)
	switch {
	case t.show && t.reset:
		return usagef("--show and --reset exclude each other")
	case len(t.tokens) == 0 || t.tokens[0] < 1 || t.tokens[len(t.tokens)-1] > 16384:
		return usagef("--tokens: want numbers from 1 to 16384")
	case t.repeat < 1:
		return usagef("-r %d: want 1 or more", t.repeat)
	}
	if t.show || t.reset {
		d, err := t.vulkan(t.device)
		if err != nil {
			return err
		}
		defer d.Close()
		if t.reset {
			return d.Tune(nil)
		}
		return t.print(d.Plan().Tuning())
	}
	longest := t.tokens[len(t.tokens)-1]
	m, err := t.open(ctx, model.Options{Chunk: longest, Context: max(t.context, longest)})
	if err != nil {
		return err
	}
	defer m.Close()
	d, ok := m.x.(*runtime.Device)
	if !ok {
		return fmt.Errorf("tune: %s has one implementation of everything: %w", m.x.Name(), graph.ErrUnsupported)
	}
	// The built-in choice is what others are measured against.
	before := d.Plan().Tuning()
	d.Plan().SetTuning(nil)
	found, err := t.measure(ctx, m, d)
	if err != nil {
		d.Plan().SetTuning(before)
		return err
	}
	if err := d.Tune(found); err != nil {
		return err
	}
	return t.print(found)
}

// print tells what a tuning changes.
func (t *tune) print(found *plan.Tuning) (err error) {
	if found == nil {
		_, err = fmt.Fprintln(t.out, "not tuned")
		return err
	}
	for _, contract := range slices.Sorted(maps.Keys(found.Kernels)) {
		for _, r := range found.Kernels[contract] {
			if _, err := fmt.Fprintf(t.out, "%s of %d to %d tokens: %s\n", contract, r.From, r.To, kernelName(contract, r.Impl)); err != nil {
				return err
			}
		}
	}
	switch {
	case found.Chunk > 0:
		_, err = fmt.Fprintf(t.out, "prompts in pieces of %d tokens\n", found.Chunk)
	case len(found.Kernels) == 0:
		_, err = fmt.Fprintln(t.out, "the built-in choices are the fastest")
	}
	return err
}

func kernelName(contract, impl string) string {
	if impl == "" {
		return contract
	}
	return contract + "__" + impl
}

// measure tries kernels, then pieces with the fastest of them.
func (t *tune) measure(ctx context.Context, m *opened, d *runtime.Device) (*plan.Tuning, error) {
	found := &plan.Tuning{Kernels: map[string][]plan.TunedRange{}}
	given, err := t.deviceOptions(t.device)
	if err != nil {
		return nil, err
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "tokens\tus\tof built-in\t  kernel")
	slow := map[string]bool{} // kernels that are not tried any more
	from := 1
	for _, n := range t.tokens {
		trial, err := newTrial(ctx, m, d, n, t.repeat)
		if err != nil {
			return nil, err
		}
		for _, contract := range slices.Sorted(maps.Keys(trial.products)) {
			builtin := trial.products[contract]
			if _, forced := given.Kernels[contract]; forced {
				continue
			}
			best, impl, names := builtin, "", map[string]float64{}
			for _, k := range d.Plan().Runnable(contract) {
				if slow[k.Name] {
					continue
				}
				ns, err := trial.time(ctx, contract, k.Impl)
				if err != nil {
					return nil, fmt.Errorf("%s, %d tokens: %w", k.Name, n, err)
				}
				names[k.Name] = ns
				if ns < best {
					best, impl = ns, k.Impl
				}
				fmt.Fprintf(w, "%d\t%.1f\t%.2f\t  %s\n", n, ns/1e3, ns/builtin, k.Name)
			}
			for name, ns := range names {
				slow[name] = ns > hopeless*best
			}
			if best < worthwhile*builtin {
				found.Prefer(contract, uint32(from), uint32(n), impl)
			}
		}
		if err := w.Flush(); err != nil {
			return nil, err
		}
		from = n + 1
	}
	d.Plan().SetTuning(found)
	found.Chunk, err = t.chunk(ctx, m)
	return found, err
}

// trial is a run of n tokens, whose matrix products are made by other kernels.
type trial struct {
	*runtime.Device
	graph    *graph.Graph
	tokens   int
	repeat   int
	products map[string]float64 // by contract, as built in
	logits   []byte             // what all implementations must give, nil: anything
}

func newTrial(ctx context.Context, m *opened, d *runtime.Device, n, repeat int) (*trial, error) {
	s, err := m.NewSession()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if _, err := s.Eval(ctx, synth.Tokens(1, n, m.Info().Vocab), false); err != nil {
		return nil, err
	}
	t := &trial{Device: d, graph: m.Last().Graph(), tokens: n, repeat: repeat}
	if t.products, t.logits, err = t.run(ctx, nil); !d.Exact() {
		t.logits = nil
	}
	return t, err
}

// time measures the products of a contract by one implementation, whose words must be
// those of the built-in one, but in the profile fast.
func (t *trial) time(ctx context.Context, contract, impl string) (float64, error) {
	products, logits, err := t.run(ctx, map[string]string{contract: impl})
	if err != nil {
		return 0, err
	}
	if t.logits != nil && string(logits) != string(t.logits) {
		return 0, fmt.Errorf("the logits are others than the built-in kernel's; `tern conform --filter %s` tells more", contract)
	}
	return products[contract], nil
}

// run runs the graph and returns the times of its products of all tokens, by contract,
// and the logits.
func (t *trial) run(ctx context.Context, kernels map[string]string) (map[string]float64, []byte, error) {
	p, err := t.CompileWith(t.graph, kernels)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	best := map[string]float64{}
	for range t.repeat {
		nodes, err := t.Profile(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		sums := map[string]float64{}
		for _, n := range nodes {
			if c := n.Node.Contract; strings.HasPrefix(c, "mul_mat_") && !strings.HasPrefix(c, "mul_mat_id_") && n.Node.Domain[1] == uint32(t.tokens) {
				sums[c] = sums[c] + n.NS
			}
		}
		for c, sum := range sums {
			if b, ok := best[c]; !ok || sum < b {
				best[c] = sum
			}
		}
	}
	last := t.graph.Nodes[len(t.graph.Nodes)-1]
	var logits []byte
	for _, a := range last.Args {
		if a.Access&graph.Write != 0 {
			buffer, at := p.Place(a.Value)
			words := make([]byte, a.Bytes)
			if err := t.Read(buffer, at, words); err != nil {
				return nil, nil, err
			}
			logits = append(logits, words...)
		}
	}
	return best, logits, nil
}

// chunk finds the length of the pieces in which the longest prompt is evaluated fastest, 0 if
// that is the usual one.
func (t *tune) chunk(ctx context.Context, m *opened) (int, error) {
	longest := t.tokens[len(t.tokens)-1]
	prompt := synth.Tokens(2, longest, m.Info().Vocab)
	times := map[int]time.Duration{}
	best := min(model.DefaultChunk, longest)
	for _, n := range append([]int{best}, t.tokens...) {
		if _, done := times[n]; done || n < leastChunk {
			continue
		}
		times[n] = math.MaxInt64
		for range t.repeat + 1 { // the first compiles
			took, err := inPieces(ctx, m, prompt, n)
			if err != nil {
				return 0, err
			}
			times[n] = min(times[n], took)
		}
		if _, err := fmt.Fprintf(t.out, "%d tokens in pieces of %d: %.1f t/s\n", longest, n, perSecond(longest, times[n])); err != nil {
			return 0, err
		}
		if float64(times[n]) < worthwhile*float64(times[best]) {
			best = n
		}
	}
	if best == min(model.DefaultChunk, longest) {
		best = 0
	}
	return best, nil
}

func inPieces(ctx context.Context, m *opened, prompt []int32, n int) (time.Duration, error) {
	s, err := m.NewSession()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	start := time.Now()
	for piece := range slices.Chunk(prompt, n) {
		if _, err := s.Eval(ctx, piece, false); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}
