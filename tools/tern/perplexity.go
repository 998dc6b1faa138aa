package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/tools/internal/perplexity"
)

// quality holds the flags of the command.
type quality struct {
	*app
	text, base, html string
	chunks           int
	compare, json    bool
}

func (a *app) perplexityCommand() *cobra.Command {
	q := &quality{app: a}
	cmd := &cobra.Command{
		Use:   "perplexity -f TEXT",
		Short: "How well a model foresees a text, and how far it is from another",
		Long: "Measure how well a model foresees a text, by llama.cpp's rules: the text is cut into chunks of -c tokens (512), and the\n" +
			"second half of each is scored. --kl-divergence-base writes the logits to a file; with --kl-divergence they are read\n" +
			"instead, with the text, and the model is compared with the one that wrote them. The file is llama.cpp's, which rounds\n" +
			"log-probabilities to 16 bits, so even a model against itself shows some divergence.",
		Example: `  tern perplexity -m model.gguf -f wiki.test.raw
  tern perplexity -m model-f16.gguf -f wiki.test.raw --activations f32 --kl-divergence-base base.kld
  tern perplexity -m model-q2_0.gguf --kl-divergence-base base.kld --kl-divergence --html report.html`,
		Args: usage(onlyFlags),
		RunE: interruptible(func(ctx context.Context, _ []string) error { return q.run(ctx) }),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&q.text, "file", "f", "", "`text` to foresee; - is standard input")
	f.IntVar(&q.chunks, "chunks", 0, "at most so many chunks")
	f.StringVar(&q.base, "kl-divergence-base", "", "`file` of base logits, written, or with --kl-divergence read")
	f.BoolVar(&q.compare, "kl-divergence", false, "compare with the base logits")
	f.StringVar(&q.html, "html", "", "write a report with plots to this `file`")
	f.BoolVar(&q.json, "json", false, "print the figures as JSON")
	return cmd
}

const qualityContext = 512

// run measures and prints.
func (q *quality) run(ctx context.Context) error {
	switch {
	case q.compare && q.base == "":
		return usagef("--kl-divergence needs --kl-divergence-base")
	case !q.compare && q.text == "":
		return usagef("-f is needed: a text")
	case q.compare && q.text != "":
		return usagef("-f and --kl-divergence exclude each other: the base has the text")
	case q.chunks < 0:
		return usagef("--chunks %d: want 1 or more", q.chunks)
	case q.context != 0 && q.context < 4:
		return usagef("--context %d: want 4 or more", q.context)
	}
	if err := q.writable(q.html, q.text, q.base); err != nil {
		return err
	}
	if !q.compare {
		if err := q.writable(q.base, q.text); err != nil {
			return err
		}
	}
	r := &perplexity.Run{Header: perplexity.Header{Context: q.context}}
	text := []byte(nil)
	var err error
	if q.compare {
		if r.Base, err = perplexity.Open(q.base); err != nil {
			return err
		}
		defer r.Base.Close()
		if q.context != 0 && q.context != r.Base.Context {
			return usagef("--context %d: the base was made with %d", q.context, r.Base.Context)
		}
		r.Header = r.Base.Header
	} else {
		if text, err = q.read(ctx); err != nil {
			return err
		}
		if r.Context == 0 {
			r.Context = qualityContext
		}
	}
	r.Batch = perplexity.BatchOf(r.Context)
	m, err := q.open(ctx, model.Options{Context: r.Context, Sequences: r.Batch})
	if err != nil {
		return err
	}
	defer m.Close()
	r.Model = m.Model
	if err := q.prepare(r, text); err != nil {
		return err
	}
	if r.Out != nil {
		defer r.Out.Abort()
	}
	r.Done = q.progressOf(r)
	scores, err := r.Evaluate(ctx)
	if err != nil {
		return err
	}
	if r.Out != nil {
		if err := r.Out.Close(); err != nil {
			return err
		}
		fmt.Fprintf(q.err, "wrote %s\n", q.base)
	}
	return q.finish(r, scores)
}

func (q *quality) read(ctx context.Context) ([]byte, error) {
	if q.text == "-" {
		return readAll("standard input", q.input(ctx), longestText)
	}
	f, err := os.Open(q.text)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(q.text, f, longestText)
}

// prepare fills in tokens and begins the file of logits.
func (q *quality) prepare(r *perplexity.Run, text []byte) (err error) {
	vocab, tok := r.Model.Info().Vocab, r.Model.Tokenizer()
	if tok == nil {
		return fmt.Errorf("%s has no vocabulary", r.Model.File().Name)
	}
	if r.BOS = -1; tok.Vocab().AddBOS {
		r.BOS = tok.Vocab().BOS
	}
	if q.compare {
		if vocab != r.Vocab {
			return fmt.Errorf("%s is of a vocabulary of %d, the model has %d", q.base, r.Vocab, vocab)
		}
	} else {
		tokens := tok.Encode(string(text), token.Options{AddSpecial: true})
		if len(tokens) < 2*r.Context {
			return fmt.Errorf("the text has %d tokens, %d are needed for a context of %d (-c)", len(tokens), 2*r.Context, r.Context)
		}
		r.Vocab, r.Chunks, r.Tokens = vocab, len(tokens)/r.Context, tokens
	}
	if q.chunks > 0 {
		r.Chunks = min(r.Chunks, q.chunks)
	}
	r.Tokens = r.Tokens[:r.Chunks*r.Context]
	if q.base != "" && !q.compare {
		r.Out, err = perplexity.Create(q.base, r.Header)
	}
	return err
}

// progressOf prints what is known after each chunk, and shows a bar.
func (q *quality) progressOf(r *perplexity.Run) func(int, []perplexity.Score) error {
	bar, begin := q.progress("perplexity", false), time.Now()
	if r.Base != nil && !q.json {
		fmt.Fprintf(q.out, "%5s %19s %22s %22s %16s %16s\n", "chunk", "PPL", "ln(PPL(Q)/PPL(base))", "KL Divergence", "Δp RMS", "Same top p")
	}
	return func(chunks int, scores []perplexity.Score) error {
		switch {
		case bar != nil:
			bar(uint64(chunks), uint64(r.Chunks))
		case chunks == r.Batch && chunks < r.Chunks:
			fmt.Fprintf(q.err, "%d chunks, about %s left\n", r.Chunks, (time.Since(begin) * time.Duration(r.Chunks-chunks) / time.Duration(chunks)).Round(time.Second))
		}
		if q.json {
			return nil
		}
		f := perplexity.Summarise(scores, r.Base != nil)
		if r.Base == nil {
			end := ","
			if chunks == r.Chunks {
				end = "\n"
			}
			_, err := fmt.Fprintf(q.out, "[%d]%.4f%s", chunks, f.PPL.Value, end)
			return err
		}
		_, err := fmt.Fprintf(q.out, "%5d %9.4f ± %7.4f %11.5f ± %8.5f %11.5f ± %8.5f %6.3f ± %5.3f %% %6.3f ± %5.3f %%\n", chunks, f.PPL.Value, f.PPL.Error,
			f.LnRatio.Value, f.LnRatio.Error, f.KL.Value, f.KL.Error, 100*f.RMS.Value, 100*f.RMS.Error, 100*f.SameTop.Value, 100*f.SameTop.Error)
		return err
	}
}

// finish prints the figures and writes the report.
func (q *quality) finish(r *perplexity.Run, scores []perplexity.Score) error {
	f := perplexity.Summarise(scores, r.Base != nil)
	var err error
	switch {
	case q.json:
		e := json.NewEncoder(q.out)
		e.SetIndent("", " ")
		err = e.Encode(struct {
			Model   string `json:"model"`
			Context int    `json:"n_ctx"`
			Chunks  int    `json:"n_chunk"`
			perplexity.Figures
		}{r.Model.Info().Name, r.Context, r.Chunks, f})
	case r.Base == nil:
		_, err = fmt.Fprintf(q.out, "Final estimate: PPL = %.4f +/- %.5f\n", f.PPL.Value, f.PPL.Error)
	default:
		err = q.print(f)
	}
	if err == nil && q.html != "" {
		err = q.report(r, scores, f)
	}
	return err
}

// figureRows are the figures with their usual names; a line without a value is a heading.
func figureRows(f perplexity.Figures) (rows [][2]string) {
	add := func(name, format string, values ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, values...)})
	}
	measure := func(name, format string, m perplexity.Measure, by float64) { add(name, format, by*m.Value, by*m.Error) }
	head := func(name string) { rows = append(rows, [2]string{name, ""}) }
	if f.Comparison == nil {
		measure("PPL", "%.6f ± %.6f", f.PPL, 1)
		return rows
	}
	head("Perplexity statistics")
	measure("Mean PPL(Q)", "%.6f ± %.6f", f.PPL, 1)
	measure("Mean PPL(base)", "%.6f ± %.6f", f.BasePPL, 1)
	add("Cor(ln(PPL(Q)), ln(PPL(base)))", "%.2f %%", 100*f.Correlation)
	measure("Mean ln(PPL(Q)/PPL(base))", "%.6f ± %.6f", f.LnRatio, 1)
	measure("Mean PPL(Q)/PPL(base)", "%.6f ± %.6f", f.Ratio, 1)
	measure("Mean PPL(Q)-PPL(base)", "%.6f ± %.6f", f.Difference, 1)
	head("KL divergence statistics")
	measure("Mean KLD", "%.6f ± %.6f", f.KL, 1)
	for _, p := range f.KLQuantiles {
		add(shareName(p.Share)+" KLD", "%.6f", p.Value)
	}
	head("Token probability statistics")
	measure("Mean Δp", "%.3f ± %.3f %%", f.DeltaP, 100)
	for _, p := range f.DeltaPs {
		add(shareName(p.Share)+" Δp", "%.3f %%", 100*p.Value)
	}
	measure("RMS Δp", "%.3f ± %.3f %%", f.RMS, 100)
	measure("Same top p", "%.3f ± %.3f %%", f.SameTop, 100)
	return rows
}

func shareName(share float64) string {
	switch share {
	case 1:
		return "Maximum"
	case .5:
		return "Median"
	case 0:
		return "Minimum"
	}
	return fmt.Sprintf("%.1f%%", 100*share)
}

func (q *quality) print(f perplexity.Figures) error {
	w := tabwriter.NewWriter(q.out, 0, 0, 1, ' ', 0)
	for _, row := range figureRows(f) {
		if row[1] == "" {
			w.Flush()
			fmt.Fprintf(w, "\n====== %s ======\n", row[0])
			continue
		}
		fmt.Fprintf(w, "%s\t: %s\n", row[0], row[1])
	}
	return errors.Join(w.Flush())
}
