package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/tools/internal/buildinfo"
	"github.com/ternvk/tern/tools/internal/synth"
)

// benchResult is one line of bench; its JSON and CSV names are those of
// llama-bench where that has them.
type benchResult struct {
	Build       string    `json:"build_commit"`
	File        string    `json:"model_filename"`
	Model       string    `json:"model_type"`
	Size        uint64    `json:"model_size"`
	Params      uint64    `json:"model_n_params"`
	Device      string    `json:"device"`
	Activations string    `json:"activations"`
	Chunk       int       `json:"n_ubatch"`
	Prompt      int       `json:"n_prompt"`
	Gen         int       `json:"n_gen"`
	Depth       int       `json:"n_depth"`
	Streams     int       `json:"n_streams"` // that decode together
	Time        string    `json:"test_time"`
	AvgNS       float64   `json:"avg_ns"`
	DevNS       float64   `json:"stddev_ns"`
	AvgTS       float64   `json:"avg_ts"`
	DevTS       float64   `json:"stddev_ts"`
	GBS         float64   `json:"gb_per_s"`            // of weights and cache, decoding only
	PeakGBS     float64   `json:"peak_gb_s"`           // 0: not known
	Ratio       float64   `json:"ratio"`               // to the speed in the file of --compare, 0: not there
	Allocated   uint64    `json:"device_bytes"`        // after the test
	Kept        uint64    `json:"weights_cache_bytes"` // of it, weights and cache
	SamplesNS   []float64 `json:"samples_ns"`
	SamplesTS   []float64 `json:"samples_ts"`
}

// test names what was measured: pp512, tg128 @ d4096.
func (r *benchResult) test() string {
	name := fmt.Sprintf("pp%d", r.Prompt)
	if r.Gen > 0 {
		name = fmt.Sprintf("tg%d", r.Gen)
	}
	if r.Streams > 1 {
		name += fmt.Sprintf(" x %d", r.Streams)
	}
	if r.Depth > 0 {
		name += fmt.Sprintf(" @ d%d", r.Depth)
	}
	return name
}

// bench holds the flags of the command.
type bench struct {
	*app
	prompt, gen, depth []int
	streams            []int
	repeat, chunk      int
	output, shape      string
	html, svg, before  string
	peak               float64
	ops, products      bool
}

func (a *app) benchCommand() *cobra.Command {
	b := &bench{app: a}
	var shapes []string
	for _, s := range synth.Shapes {
		shapes = append(shapes, s.Name)
	}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure speed",
		Long: "Measure the speed of prompts (pp) and of generation (tg), in tokens per second, with llama-bench's columns, and the\n" +
			"GB/s of weights and cache that generation reads. Peak is what the device reads at best, measured, or given by --peak.\n" +
			"Lists have commas. Before the measured repetitions one more warms up.",
		Example: `  tern bench -m model.gguf
  tern bench -m model.gguf -p 0 -d 128 -b 1,32,64
  tern bench --shape ternary-bonsai-1.7b -p 512 -n 128 -d 0,4096
  tern bench --output csv --peak 4800
  tern bench --ops -n 0                # time by kernel
  tern bench --products --shape ternary-bonsai-8b -p 1,32,512`,
		Args: usage(onlyFlags),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return b.run(ctx) }),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntSliceVarP(&b.prompt, "n-prompt", "p", []int{512}, "`tokens` of a prompt; 0: no such test")
	f.IntSliceVarP(&b.gen, "n-gen", "n", []int{128}, "`tokens` to generate; 0: no such test")
	f.IntSliceVarP(&b.depth, "n-depth", "d", []int{0}, "`tokens` in the context before the test")
	f.IntSliceVarP(&b.streams, "batch", "b", []int{1}, "`streams` that generate together, each after its own context; the speed is of all")
	f.IntVarP(&b.repeat, "repetitions", "r", 5, "measured repetitions")
	f.IntVar(&b.chunk, "chunk", 0, "tokens of a prompt that run at once (default: as tuned, or 1024)")
	f.StringVarP(&b.output, "output", "o", "md", "md, csv or json")
	f.StringVar(&b.shape, "shape", "", "bench noise in this shape, without a file: "+strings.Join(shapes, ", "))
	f.Float64Var(&b.peak, "peak", 0, "peak memory bandwidth of the device, `GB/s` (default: measured)")
	f.StringVar(&b.before, "compare", "", "`file` of an earlier run (-o json): tells the ratio of each test to it")
	f.StringVar(&b.html, "html", "", "with --ops: `file` for a page with each kernel against the memory's bound")
	f.StringVar(&b.svg, "svg", "", "with --ops: `file` for the first of these pictures alone")
	f.BoolVar(&b.ops, "ops", false, "print the time of each kernel instead, where the device has timestamps")
	f.BoolVar(&b.products, "products", false, "check and time each implementation of the matrix products of a layer of --shape instead, for -p tokens")
	return cmd
}

var errNothing = usagef("nothing to measure: -p, -n and -r are too small")

func (b *bench) run(ctx context.Context) error {
	table, err := newTable(b.output, b.out)
	if err != nil {
		return err
	}
	if b.shape != "" {
		if b.model != "" {
			return usagef("--shape and -m exclude each other")
		}
		b.model = synthPrefix + b.shape
	}
	for _, n := range slices.Concat(b.prompt, b.gen, b.depth, []int{b.chunk}) {
		if n < 0 {
			return usagef("-p, -n, -d and --chunk must not be negative")
		}
		if n > math.MaxInt32 {
			return usagef("-p, -n, -d and --chunk: %d is too large", n)
		}
	}
	if len(b.streams) == 0 || slices.Min(b.streams) < 1 {
		return usagef("--batch: want at least one stream")
	}
	if b.products {
		b.prompt = slices.DeleteFunc(b.prompt, func(n int) bool { return n == 0 })
		if len(b.prompt) == 0 || b.repeat < 1 {
			return errNothing
		}
		if n := slices.Max(b.prompt); n > 16384 {
			return usagef("--products of %d tokens: want at most 16384", n)
		}
		return b.timeProducts(ctx)
	}
	if !(b.peak >= 0) {
		return usagef("--peak %g: want GB/s", b.peak)
	}
	tests, longest := b.tests()
	if len(tests) == 0 || b.repeat < 1 {
		return errNothing
	}
	for _, path := range []string{b.html, b.svg} {
		if err := b.writable(path, b.before); err != nil {
			return err
		}
	}
	before, err := readBefore(b.before)
	if err != nil {
		return err
	}
	b.context = max(b.context, longest)
	m, err := b.open(ctx, model.Options{Context: b.context, Chunk: b.chunk, Sequences: slices.Max(b.streams)})
	if err != nil {
		return err
	}
	defer m.Close()
	if b.ops {
		return b.timeOps(ctx, m, tests)
	}
	if b.peak == 0 {
		if b.peak, err = measurePeak(ctx, m.x); err != nil {
			fmt.Fprintf(b.err, "peak: %v\n", err)
		}
	}
	for i := range tests {
		r := &tests[i]
		b.describe(r, m)
		if err := b.measure(ctx, m, r); err != nil {
			return fmt.Errorf("%s: %w", r.test(), err)
		}
		r.Allocated, r.Kept = allocated(m.x)
		if ts := before[r.Model+" "+r.test()]; ts > 0 {
			r.Ratio = r.AvgTS / ts
		}
		if err := table.row(r); err != nil {
			return err
		}
	}
	if err := table.end(); err != nil {
		return err
	}
	return b.reportMemory(m)
}

// reportMemory tells what the device holds, and what was estimated from the file.
func (b *bench) reportMemory(m *opened) error {
	d, ok := m.x.(*runtime.Device)
	if !ok {
		return nil
	}
	o, err := b.options(model.Options{Context: m.Context(), Sequences: slices.Max(b.streams), Chunk: m.Chunk()})
	if err != nil {
		return err
	}
	e, err := model.EstimateMemory(m.File(), o)
	if err != nil {
		return err
	}
	var held uint64
	for _, u := range d.Stats().Purposes {
		held += u.Bytes
	}
	all, kept := allocated(d)
	_, err = fmt.Fprintf(b.err, "device memory: %s in buffers, %s estimated (%+.1f %%) for %d positions; %s allocated, %.1f %% more than weights and cache\n",
		sizeText(held), sizeText(e.Total()), 100*(float64(held)/float64(e.Total())-1), m.Context(), sizeText(all), 100*(float64(all)/float64(kept)-1))
	return err
}

// allocated is what a device holds of its memory, and how much of it are weights and cache.
func allocated(x graph.Executor) (all, kept uint64) {
	d, ok := x.(*runtime.Device)
	if !ok {
		return 0, 0
	}
	purposes := d.Stats().Purposes
	for _, u := range purposes {
		all += u.BlockBytes
	}
	return all, purposes[graph.Weights].Bytes + purposes[graph.Cache].Bytes
}

// tests lists what the flags ask for, and the context that it takes.
func (b *bench) tests() (list []benchResult, longest int) {
	add := func(p, n, d, streams int) {
		if p > 0 || n > 0 {
			list = append(list, benchResult{Prompt: p, Gen: n, Depth: d, Streams: streams})
			longest = max(longest, d+p+n+1)
		}
	}
	for _, d := range b.depth {
		for _, p := range b.prompt {
			add(p, 0, d, 1)
		}
		for _, n := range b.gen {
			for _, streams := range b.streams {
				add(0, n, d, streams)
			}
		}
	}
	return list, longest
}

func (b *bench) describe(r *benchResult, m *opened) {
	i := m.Info()
	r.Build, r.File, r.Device, r.Activations, r.PeakGBS = buildinfo.Version(), m.File().Name, m.x.Name(), b.activations, b.peak
	r.Model = fmt.Sprintf("%s %s %s", i.Architecture, strings.ReplaceAll(countText(i.Parameters), " ", ""), i.Quantisation)
	r.Size, r.Params, r.Chunk = i.FileBytes, i.Parameters, m.Chunk()
	r.Time = time.Now().UTC().Format(time.RFC3339)
}

// measure runs a test: once to warm up, and then as often as is asked.
func (b *bench) measure(ctx context.Context, m *opened, r *benchResult) error {
	sessions, err := r.sessions(ctx, m)
	if err != nil {
		return err
	}
	defer closeAll(sessions)
	for i := range b.repeat + 1 {
		took, err := r.once(ctx, m, sessions)
		if err != nil {
			return err
		}
		if ns := float64(took); i > 0 {
			r.SamplesNS = append(r.SamplesNS, ns)
			r.SamplesTS = append(r.SamplesTS, float64(r.Prompt+r.Gen*r.Streams)*1e9/ns)
		}
	}
	r.AvgNS, r.DevNS = meanDeviation(r.SamplesNS)
	r.AvgTS, r.DevTS = meanDeviation(r.SamplesTS)
	if r.Gen > 0 {
		o, err := b.options(model.Options{})
		if err != nil {
			return err
		}
		e, err := model.EstimateMemory(m.File(), o)
		if err != nil {
			return err
		}
		bytes := float64(m.Info().MatrixBytesPerToken)/float64(r.Streams) + float64(e.CachePerToken)*(float64(r.Depth)+float64(r.Gen)/2)
		r.GBS = bytes * r.AvgTS / 1e9
	}
	return nil
}

// sessions opens the test's streams, each at its depth. The caller closes them.
func (r *benchResult) sessions(ctx context.Context, m *opened) ([]*model.Session, error) {
	var list []*model.Session
	for i := range r.Streams {
		s, err := m.NewSession()
		if err == nil {
			list = append(list, s)
			if r.Depth > 0 {
				_, err = s.Eval(ctx, synth.Tokens(uint64(1+i), r.Depth, m.Info().Vocab), false)
			}
		}
		if err != nil {
			closeAll(list)
			return nil, err
		}
	}
	return list, nil
}

func closeAll(sessions []*model.Session) {
	for _, s := range sessions {
		s.Close()
	}
}

// once runs the test from its depth.
func (r *benchResult) once(ctx context.Context, m *opened, sessions []*model.Session) (took time.Duration, err error) {
	for _, s := range sessions {
		s.Truncate(r.Depth)
	}
	vocab := m.Info().Vocab
	start := time.Now()
	switch {
	case r.Streams > 1:
		err = generateTogether(ctx, m.Model, sessions, r.Gen, vocab)
	case r.Gen > 0:
		err = generate(ctx, sessions[0], r.Gen, vocab)
	default:
		_, err = sessions[0].Eval(ctx, synth.Tokens(2, r.Prompt, vocab), false)
	}
	return time.Since(start), err
}

// readBefore reads the speeds of an earlier run by model and test.
func readBefore(path string) (map[string]float64, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []benchResult
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: want what bench -o json wrote: %w", path, err)
	}
	speeds := map[string]float64{}
	for _, r := range list {
		speeds[r.Model+" "+r.test()] = r.AvgTS
	}
	return speeds, nil
}

// generate decodes n tokens greedily, whether or not the model ends its turn.
func generate(ctx context.Context, s *model.Session, n, vocab int) error {
	next := synth.Tokens(3, 1, vocab)[0]
	sequence := append([]int32{}, s.Tokens()...)
	for n > 0 {
		sequence = append(sequence, next)
		for token, err := range s.Generate(ctx, sequence, model.Sampling{}, n) {
			if err != nil {
				return err
			}
			sequence, next = append(sequence, token.ID), token.ID
			n--
		}
		if s.Finish() == model.Stop {
			n-- // the end of the turn, which is not yielded
		}
	}
	return nil
}

// generateTogether decodes n tokens of each session greedily, a token of all a run.
func generateTogether(ctx context.Context, m *model.Model, sessions []*model.Session, n, vocab int) error {
	turns := make([]model.Turn, len(sessions))
	for i, s := range sessions {
		turns[i] = model.Turn{Session: s, Tokens: synth.Tokens(uint64(3+i), 1, vocab), Sampling: &model.Sampling{}}
	}
	for range n {
		next, err := m.Step(ctx, turns)
		if err != nil {
			return err
		}
		for i := range turns {
			turns[i].Tokens = []int32{next[i].Token}
		}
	}
	return nil
}

func meanDeviation(samples []float64) (mean, deviation float64) {
	for _, x := range samples {
		mean += x / float64(len(samples))
	}
	if len(samples) < 2 {
		return mean, 0
	}
	for _, x := range samples {
		deviation += (x - mean) * (x - mean) / float64(len(samples)-1)
	}
	return mean, math.Sqrt(deviation)
}
