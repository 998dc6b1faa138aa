package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/quantize"
)

// storing holds the flags of the commands that write models.
type storing struct {
	*app
	typ       string
	overrides []string
	check     bool
}

func (a *app) quantizeCommand() *cobra.Command {
	q := &storing{app: a}
	cmd := &cobra.Command{
		Use:   "quantize IN OUT --type TYPE",
		Short: "Store a model's weights in another format",
		Long: "Store the matrices of a GGUF file in another format: " + strings.Join(quantize.TypeNames(), ", ") + ".\n" +
			"Rounding is that of ggml's reference quantisers. Formats of two bits or less are for models that were trained with\n" +
			"ternary weights: these lose nothing, ordinary ones nearly everything. Files that hold ternary weights can be moved\n" +
			"between such formats: codes and scales stay, where the groups' scales allow it, or else the tensor is named as lossy.\n" +
			"Vectors, convolutions and routers keep their numbers. A matrix whose rows are not whole blocks falls back to Q2_0 or\n" +
			"F16, which is said; with --tensor it is refused. OUT appears when it is complete. Without OUT, --check writes nothing.",
		Example: `  tern quantize model-f16.gguf model-q2_0.gguf --type q2_0
  tern quantize Bonsai-old-Q2_0.gguf Bonsai-Q2_0_g64.gguf --type q2_0     # groups of 128 to groups of 64
  tern quantize Bonsai-old-Q2_0.gguf Bonsai-PQ2_0.gguf --type pq2_0       # the same bytes under their own type id
  tern quantize in.gguf out.gguf --type ptq1_0 --tensor token_embd=q8_0
  tern quantize bonsai-1.7b bonsai-ptq1_0.gguf --type ptq1_0              # IN may be whatever -m may be
  tern quantize in.gguf --type q2_0 --check`,
		Args: usage(cobra.RangeArgs(1, 2)),
		RunE: interruptible(func(ctx context.Context, args []string) error { return q.quantize(ctx, args) }),
	}
	q.flags(cmd)
	return cmd
}

func (q *storing) flags(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVarP(&q.typ, "type", "t", "", "format of matrices")
	cmd.Flags().StringArrayVar(&q.overrides, "tensor", nil, "`PATTERN=TYPE`: format of the matrices whose names match a regular expression (repeatable)")
	cmd.Flags().BoolVar(&q.check, "check", false, "print each tensor's error, and whether its weights were ternary")
}

// types reads the flags; --type may be empty.
func (q *storing) types() (t gguf.Type, overrides []quantize.Override, err error) {
	if q.typ != "" {
		if t, err = quantize.ParseType(q.typ); err != nil {
			return 0, nil, usageError{err}
		}
	}
	for _, text := range q.overrides {
		i := strings.LastIndexByte(text, '=')
		if i < 0 {
			return 0, nil, usagef("--tensor %q: want PATTERN=TYPE", text)
		}
		o := quantize.Override{}
		if o.Pattern, err = regexp.Compile(text[:i]); err == nil {
			o.Type, err = quantize.ParseType(text[i+1:])
		}
		if err != nil {
			return 0, nil, usagef("--tensor %q: %w", text, err)
		}
		overrides = append(overrides, o)
	}
	return t, overrides, nil
}

func (q *storing) quantize(ctx context.Context, args []string) error {
	t, overrides, err := q.types()
	if err != nil {
		return err
	}
	out := ""
	if len(args) == 2 {
		out = args[1]
	}
	switch {
	case q.typ == "":
		return usagef("--type is needed: %s", strings.Join(quantize.TypeNames(), ", "))
	case out == "" && !q.check:
		return usagef("OUT is needed, or --check")
	case q.model != "":
		return usagef("-m %s beside %s: want one model", q.model, args[0])
	}
	q.model = args[0]
	in, err := q.source(ctx)
	if err != nil {
		return err
	}
	f, err := in.open()
	if err != nil {
		return err
	}
	defer f.Close()
	if sameFile(in.name, out) {
		return usagef("%s is both IN and OUT", out)
	}
	_, rotated := f.Get("prism.hadamard.version")
	steps, err := quantize.Plan(quantize.FromFile(f), t, overrides, rotated)
	if err != nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	if err := q.store(ctx, out, quantize.Metadata(f.Meta, t), steps); err != nil {
		return fmt.Errorf("%s: %w", in.name, err)
	}
	return nil
}

func sameFile(a, b string) bool {
	sa, err := os.Stat(a)
	sb, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(sa, sb)
}

// store writes the file and tells of it.
func (q *storing) store(ctx context.Context, path string, meta []gguf.KV, steps []quantize.Step) error {
	for _, s := range steps {
		if s.Note != "" {
			fmt.Fprintf(q.err, "%s: %s\n", s.Name, s.Note)
		}
	}
	begin := time.Now()
	results, err := quantize.Write(ctx, path, meta, steps, q.progress("storing", false))
	if err != nil {
		return err
	}
	if q.check {
		w := tabwriter.NewWriter(q.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "tensor\tshape\tfrom\tto\tternary groups\tlargest error\trelative error\tresult")
		for _, r := range results {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1f %%\t%.3g\t%.3g\t%s\n", r.Name, shapeText(r.Dims), r.From, r.To,
				100*float64(r.Ternary)/float64(r.Groups), r.MaxErr, r.RelativeError(), r.Verdict())
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	q.summary(path, results, time.Since(begin))
	return nil
}

// summary goes to standard error.
func (q *storing) summary(path string, results []quantize.Result, took time.Duration) {
	var before, after uint64
	var changed, lossy, ordinary int
	var spoilt []string // ternary before, and other than by a scale's rounding changed
	for _, r := range results {
		before, after = before+r.Before, after+r.After
		if r.To != r.From {
			changed++
		}
		if !r.Lossless() {
			lossy++
		}
		if r.WasTernary() && r.Beyond > 0 {
			spoilt = append(spoilt, r.Name)
		}
		if quantize.Ternary(r.To) && !r.WasTernary() {
			ordinary++
		}
	}
	fmt.Fprintf(q.err, "%d tensors, %d stored anew, %d of them with loss: %s -> %s in %.1f s\n",
		len(results), changed, lossy, sizeText(before), sizeText(after), took.Seconds())
	if len(spoilt) > 0 {
		const shown = 3
		more := ""
		if len(spoilt) > shown {
			more = " ..."
		}
		fmt.Fprintf(q.err, "%d ternary tensors are not kept as they were, --check tells why: %s%s\n", len(spoilt), strings.Join(spoilt[:min(shown, len(spoilt))], ", "), more)
	}
	if ordinary > 0 {
		fmt.Fprintf(q.err, "warning: %d tensors were not ternary. Rounded to -1, 0 and 1, an ordinary model says nothing sensible any more;\n"+
			"these formats are for models that were trained with ternary weights\n", ordinary)
	}
	if path != "" {
		fmt.Fprintf(q.err, "wrote %s\n", path)
	}
}
