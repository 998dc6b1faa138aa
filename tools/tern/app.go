package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/testdata/sprig"
	"github.com/ternvk/tern/tools/internal/synth"
)

// app is one run of the program: its streams and the flags of all commands.
type app struct {
	in       io.Reader
	out, err io.Writer

	model       string
	device      string
	profile     string
	activations string
	context     int
	q2Group     int
	cacheKeys   string
	cacheValues string
	kernelDir   string
	kernels     []string
	mask        string
	validate    bool
	force       []string // features to use though the device does not ask for them
	trace       bool
	ends        bool // the process, when the command does
	brief       bool // too little is asked for that kernels in PTX could win back what they cost at the start
}

func (a *app) globalFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVarP(&a.model, "model", "m", "", "GGUF `file` of the model, a name that was pulled, or synth:SHAPE[:TYPE] for noise in that shape (default: the embedded model)")
	f.StringVar(&a.device, "device", autoDevice, "number, name or UUID of a Vulkan device, \"reference\" or \"auto\"")
	f.StringVar(&a.profile, "profile", "exact", "exact, or fast, which also takes kernels that are exact but for a bound, and devices that break a rule")
	f.StringVar(&a.activations, "activations", "int8", "activations of matrix products: int8, f16 or f32")
	f.IntVarP(&a.context, "context", "c", 0, fmt.Sprintf("`positions` of context, -1: the most that fit the device (default: the model's, at most %d)", defaultContext))
	f.StringVar(&a.cacheKeys, "cache-type-k", "f16", "how keys are cached: f16, q8_0 or q4_0")
	f.StringVar(&a.cacheValues, "cache-type-v", "f16", "how values are cached: f16, q8_0 or q4_0")
	f.IntVar(&a.q2Group, "q2-group", 0, "weights in a group of type id 42, 64 or 128, where the file does not tell")
	f.StringVar(&a.kernelDir, "kernels", "", "take NAME.spv and NAME.ptx files in this `folder` instead of the built-in kernels")
	f.StringArrayVar(&a.kernels, "kernel", nil, "force an implementation: `contract=impl`, impl empty for the base (repeatable)")
	f.BoolVar(&a.trace, "trace", false, "tell on standard error when each step of the start was done")
	f.StringVar(&a.mask, "mask", "", "do without `features` of the device, a list with commas of the words of "+runtime.DisableVariable+
		" and of\nLIMIT=NUMBER, LIMIT one of "+strings.Join(plan.MaskLimits(), ", "))
}

// check refuses values of the global flags that no model and no device could
// take.
func (a *app) check() error {
	switch _, err := a.options(model.Options{}); {
	case err != nil:
		return usageError{err}
	case a.context < mostThatFit:
		return usagef("--context %d: want 1 or more, or -1", a.context)
	case a.q2Group != 0 && a.q2Group != 64 && a.q2Group != 128:
		return usagef("--q2-group %d: want 64 or 128", a.q2Group)
	case a.profile != "exact" && a.profile != "fast":
		return usagef("--profile %q: want exact or fast", a.profile)
	}
	return nil
}

// source is where a model comes from: bytes in memory, or a file.
type source struct {
	name    string // of the file, for people
	data    []byte // nil for a file
	options gguf.Options
}

const synthPrefix = "synth:"

func (a *app) source(ctx context.Context) (source, error) {
	o := gguf.Options{Q2Group: a.q2Group}
	switch shape, synthetic := strings.CutPrefix(a.model, synthPrefix); {
	case a.model == "":
		return source{"sprig (embedded)", sprig.Model, o}, nil
	case synthetic:
		s, err := synth.Lookup(shape)
		if err != nil {
			return source{}, usageError{err}
		}
		data, err := s.BytesContext(ctx)
		return source{a.model, data, o}, err
	}
	name := a.model
	_, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		name, err = a.pulled(a.model, err)
	}
	return source{name: name, options: o}, err
}

// open opens the file for reading its description.
func (s source) open() (*gguf.File, error) {
	if s.data != nil {
		return s.options.Parse(s.name, s.data)
	}
	return s.options.Open(s.name)
}

// opened is a model on an executor that it owns.
type opened struct {
	*model.Model
	x graph.Executor
}

// Close closes the model and its executor.
func (o *opened) Close() error { return errors.Join(o.Model.Close(), o.x.Close()) }

// leave is Close at the end of a command. Where the process ends as well, the system
// gives memory back faster.
func (a *app) leave(o *opened) {
	if x, ok := o.x.(interface{ Abandon() }); ok && a.ends && !a.validate {
		x.Abandon()
		return
	}
	o.Close()
}

// tracer prints steps of the start with the time since the program began, nil if nobody
// asked for that.
func (a *app) tracer() func(done string) {
	if !a.trace {
		return nil
	}
	return func(done string) {
		tracing.Lock()
		defer tracing.Unlock()
		fmt.Fprintf(a.err, "%8.1f ms: %s\n", float64(time.Since(began).Microseconds())/1e3, done)
	}
}

var (
	began   = time.Now()
	tracing sync.Mutex
)

// options adds what the flags say.
func (a *app) options(o model.Options) (_ model.Options, err error) {
	if o.Activations, err = op.ParseAct(a.activations); err != nil {
		return o, err
	}
	if o.CacheKeys, err = op.ParseCacheType(a.cacheKeys); err != nil {
		return o, err
	}
	if o.CacheValues, err = op.ParseCacheType(a.cacheValues); err != nil {
		return o, err
	}
	if o.Context == 0 {
		o.Context = a.context
	}
	o.Q2Group = a.q2Group
	return o, nil
}

// open opens the model and, while its file is read, the device that the flags name.
func (a *app) open(ctx context.Context, o model.Options) (*opened, error) {
	s, err := a.source(ctx)
	if err != nil {
		return nil, err
	}
	m := &opened{}
	o.Connect = func() (_ graph.Executor, err error) {
		m.x, err = a.executor(a.device)
		return m.x, err
	}
	return a.fill(ctx, s, m, o)
}

// load opens the model on an executor. It takes over the executor, which it
// closes when it fails.
func (a *app) load(ctx context.Context, s source, x graph.Executor, o model.Options) (*opened, error) {
	o.Executor = x
	return a.fill(ctx, s, &opened{x: x}, o)
}

// fill opens the model of m. If that fails, its executor is closed.
func (a *app) fill(ctx context.Context, s source, m *opened, o model.Options) (*opened, error) {
	o, err := a.options(o)
	if err == nil && o.Context == mostThatFit {
		o, err = a.fitted(s, o)
	}
	if err == nil {
		o.Progress, o.Trace = a.progress("loading", true), a.tracer()
		if s.data != nil {
			m.Model, err = model.OpenBytes(ctx, s.name, s.data, o)
		} else {
			m.Model, err = model.Open(ctx, s.name, o)
		}
	}
	if err != nil {
		if m.x != nil {
			err = errors.Join(err, m.x.Close())
		}
		return nil, err
	}
	o.Executor = m.x
	a.sayCache(m.Model, o)
	return m, nil
}

// fitted are the options with the largest context that fits the executor.
func (a *app) fitted(s source, o model.Options) (_ model.Options, err error) {
	if o.Executor == nil {
		if o.Executor, err = o.Connect(); err != nil {
			return o, err
		}
	}
	f, err := s.open()
	if err != nil {
		return o, err
	}
	o.Context, err = a.fit(f, o)
	return o, errors.Join(err, f.Close())
}

// mostThatFit is the context that asks for as many positions as fit.
const mostThatFit = -1

// fit finds that context, and tells it.
func (a *app) fit(f *gguf.File, o model.Options) (int, error) {
	o, err := a.options(o)
	if err != nil {
		return 0, err
	}
	o.Context = 0
	n, e, err := model.Fit(f, o)
	if err == nil {
		fmt.Fprintf(a.err, "context: %d positions, %s of device memory\n", n, sizeText(e.Total()))
	}
	return n, err
}

// sayCache tells how a cache is stored that is not in halves, and what that saves.
func (a *app) sayCache(m *model.Model, o model.Options) {
	if o.CacheKeys == op.CacheF16 && o.CacheValues == op.CacheF16 {
		return
	}
	small, err := model.EstimateMemory(m.File(), o)
	o.CacheKeys, o.CacheValues = op.CacheF16, op.CacheF16
	halves, err2 := model.EstimateMemory(m.File(), o)
	if err == nil && err2 == nil {
		fmt.Fprintf(a.err, "cache: keys in %s, values in %s: %s instead of %s\n", a.cacheKeys, a.cacheValues, sizeText(small.Cache), sizeText(halves.Cache))
	}
}

// terminal reports whether a stream is one.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress shows a bar on standard error, if that is a terminal, until done
// reaches total. The result is nil otherwise.
func (a *app) progress(label string, bytes bool) func(done, total uint64) {
	if !terminal(a.err) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total uint64) {
		if bar == nil {
			bar = progressbar.NewOptions64(int64(total),
				progressbar.OptionSetWriter(a.err), progressbar.OptionSetDescription(label), progressbar.OptionShowBytes(bytes),
				progressbar.OptionUseIECUnits(true), progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish(),
				progressbar.OptionThrottle(100*time.Millisecond))
		}
		_ = bar.Set64(int64(done)) // a bar that cannot be drawn is not an error
	}
}

// sizeText is a number of bytes as people read it.
func sizeText(bytes uint64) string {
	switch b := float64(bytes); {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.2f GiB", b/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.2f MiB", b/(1<<20))
	case bytes >= 1<<10:
		return fmt.Sprintf("%.2f KiB", b/(1<<10))
	}
	return fmt.Sprintf("%d B", bytes)
}

// countText is a number of weights as people read it.
func countText(n uint64) string {
	switch f := float64(n); {
	case n >= 1e9:
		return fmt.Sprintf("%.2f B", f/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f M", f/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.2f K", f/1e3)
	}
	return fmt.Sprint(n)
}
