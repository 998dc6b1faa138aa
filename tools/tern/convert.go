package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model/convert"
	"github.com/ternvk/tern/model/quantize"
)

func (a *app) convertCommand() *cobra.Command {
	q := &storing{app: a}
	cmd := &cobra.Command{
		Use:   "convert FOLDER OUT",
		Short: "Turn a Hugging Face folder into a GGUF file",
		Long: "Turn a Hugging Face folder (config.json, safetensors, tokenizer.json) into a GGUF file: Qwen3 and Qwen3.5, dense or\n" +
			"mixtures of experts. Matrices keep their format, or get that of --type; see quantize. What sees, and what predicts\n" +
			"further tokens, is left out. OUT appears when it is complete.",
		Example: `  tern convert Qwen3-0.6B qwen3-0.6b.gguf
  tern convert Ternary-Bonsai-1.7B-unpacked bonsai-1.7b-q2_0.gguf --type q2_0 --check`,
		Args: usage(cobra.ExactArgs(2)),
		RunE: interruptible(func(ctx context.Context, args []string) error { return q.convert(ctx, args[0], args[1]) }),
	}
	q.flags(cmd)
	return cmd
}

func (q *storing) convert(ctx context.Context, folder, out string) error {
	t, overrides, err := q.types()
	if err != nil {
		return err
	}
	m, err := convert.Open(folder)
	if err != nil {
		return err
	}
	defer m.Close()
	if q.typ == "" {
		t = m.Type
	}
	steps, err := quantize.Plan(m.Tensors, t, overrides, false)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	if m.Skipped > 0 {
		fmt.Fprintf(q.err, "%d tensors are left out: vision, and the prediction of further tokens\n", m.Skipped)
	}
	if m.NoTokenizer {
		fmt.Fprintln(q.err, "no tokenizer.json: the file will have no vocabulary")
	}
	if err := q.store(ctx, out, quantize.Metadata(m.Meta, t), steps); err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	return nil
}
