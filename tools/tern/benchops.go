package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/tools/internal/report"
)

// measurePeak returns the GB/s that the device reads at best, by the kernel
// that does the least with what it reads: the choice of the largest value of
// each row. It is 0 where arithmetic, not memory, limits that kernel: on a CPU.
func measurePeak(ctx context.Context, x graph.Executor) (float64, error) {
	d, ok := x.(*runtime.Device)
	if !ok || d.Plan().Type == plan.CPU {
		return 0, nil
	}
	const rowBytes, repeats = 64 << 10, 8
	bytes := min(1<<30, x.Limits().MaxBinding, x.Limits().MaxBuffer) / rowBytes * rowBytes
	rows, err := x.Alloc(graph.Scratch, "peak", bytes)
	if err != nil {
		return 0, err
	}
	defer x.Free(rows)
	n := int(bytes / rowBytes)
	batch, err := x.Alloc(graph.Batch, "peak", uint64(op.BatchWords(0, n, 0))*4)
	if err != nil {
		return 0, err
	}
	defer x.Free(batch)
	g := graph.New("peak")
	b := &op.Builder{G: g, Batch: &graph.Value{Name: "batch", Kind: graph.U32, Buffer: batch, Bytes: batch.Bytes()}, Layout: op.NewLayout(0, n)}
	for range repeats {
		b.Argmax(op.Rows{Value: &graph.Value{Name: "rows", Buffer: rows, Bytes: bytes}, N: n, K: rowBytes / 4})
	}
	p, err := x.Compile(g)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	var best float64
	for range 4 {
		start := time.Now()
		if err := x.Run(ctx, p); err != nil {
			return 0, err
		}
		best = max(best, float64(bytes)*repeats/float64(time.Since(start)))
	}
	return best, nil
}

// opTime is the time that a kernel takes in a program.
type opTime struct {
	kernel string
	nodes  int
	ns     float64
	bytes  uint64
	work   uint64 // multiply-adds, or operations on elements
}

// timeOps prints for each test the kernels of its graph with their times.
func (b *bench) timeOps(ctx context.Context, m *opened, tests []benchResult) error {
	d, ok := m.x.(*runtime.Device)
	if !ok {
		return fmt.Errorf("--ops: %s has no timestamps: %w", m.x.Name(), graph.ErrUnsupported)
	}
	page := report.New("tern bench", fmt.Sprintf("%s on %s", m.File().Name, d.Name()))
	if b.peak == 0 {
		var err error
		if b.peak, err = measurePeak(ctx, d); err != nil {
			return err
		}
	}
	for i := range tests {
		t := &tests[i]
		list, step, err := b.opTimes(ctx, m, d, t)
		if err != nil {
			return fmt.Errorf("%s: %w", t.test(), err)
		}
		var total float64
		for _, o := range list {
			total += o.ns
		}
		which := ""
		if step.tokens < t.Prompt {
			which = "the first "
		}
		fmt.Fprintf(b.out, "%s: %s%d tokens in one run of %.3f ms; %.3f ms in kernels, timed one after the other\n", t.test(), which, step.tokens, step.ms, total/1e6)
		w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "ms\t%\tGB/s\tnodes\t  kernel")
		for _, o := range list {
			fmt.Fprintf(w, "%.3f\t%.1f\t%.1f\t%d\t  %s\n", o.ns/1e6, 100*o.ns/total, float64(o.bytes)/o.ns, o.nodes, o.kernel)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		roofline(page, t.test(), list, b.peak)
	}
	return errors.Join(b.writeReport(b.html, page.Write), b.writeReport(b.svg, page.Picture))
}

// roofline draws what each kernel achieves against the memory's bound, peak GB/s (0:
// not known).
func roofline(page *report.Page, test string, list []opTime, peak float64) {
	var names []string
	var x, y, ms []float64
	for _, o := range list {
		names, ms = append(names, o.kernel), append(ms, o.ns/1e6)
		x, y = append(x, float64(o.work)/float64(o.bytes)), append(y, float64(o.work)/o.ns)
	}
	page.Heading(test)
	var bounds []report.Line
	if peak > 0 {
		ends := []float64{slices.Min(x), slices.Max(x)}
		bounds = []report.Line{{Name: fmt.Sprintf("memory, %.0f GB/s", peak), X: ends, Y: []float64{peak * ends[0], peak * ends[1]}}}
	}
	page.Points(report.Axes{Title: test + ", each kernel", X: "operations a byte", Y: "10^9 operations a second"}, names, x, y, bounds...)
	page.Bars(report.Axes{Title: "time", Y: "ms"}, names, ms)
}

// profiled is a run that was profiled: its tokens and its time without a profile.
type profiled struct {
	tokens int
	ms     float64
}

// opTimes profiles a run of the test, the first of a chunk of its prompt or a token of
// each stream, by kernel, longest first.
func (b *bench) opTimes(ctx context.Context, m *opened, d *runtime.Device, t *benchResult) ([]opTime, profiled, error) {
	sessions, err := t.sessions(ctx, m)
	if err != nil {
		return nil, profiled{}, err
	}
	defer closeAll(sessions)
	short := *t
	short.Gen = min(t.Gen, 1)
	short.Prompt = min(t.Prompt, m.Chunk())
	step := profiled{tokens: short.Prompt + short.Gen*short.Streams, ms: math.Inf(1)}
	for range b.repeat + 1 {
		took, err := short.once(ctx, m, sessions)
		if err != nil {
			return nil, profiled{}, err
		}
		step.ms = min(step.ms, float64(took)/1e6)
	}
	nodes, err := d.Profile(ctx, m.Last())
	if err != nil {
		return nil, profiled{}, err
	}
	sums := map[string]opTime{}
	for _, t := range nodes {
		o := sums[t.Kernel]
		sums[t.Kernel] = opTime{t.Kernel, o.nodes + 1, o.ns + t.NS, o.bytes + t.Node.Bytes, o.work + t.Node.Work}
	}
	return slices.SortedFunc(maps.Values(sums), func(a, b opTime) int { return cmp.Compare(b.ns, a.ns) }), step, nil
}
