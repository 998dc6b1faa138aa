package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/tools/internal/synth"
)

func (a *app) synthCommand() *cobra.Command {
	var shape, typ string
	var rotate bool
	var names []string
	for _, s := range synth.Shapes {
		names = append(names, s.Name)
	}
	cmd := &cobra.Command{
		Use:   "synth --shape SHAPE [--type TYPE] OUT",
		Short: "Write a model of noise",
		Long: "Write a GGUF file in the shape of a model, with random weights and a vocabulary of bytes.\n" +
			"Shapes: " + strings.Join(names, ", ") + " (bonsai-2-2b is inferred).\n" +
			"Types: " + strings.Join(synth.Types(), ", ") + ".",
		Example: `  tern synth --shape tiny --type q4_k tiny.gguf
  tern synth --shape bonsai-2-27b --type ptq1_0 big.gguf`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: interruptible(func(ctx context.Context, args []string) error {
			s, err := synth.Lookup(shape + ":" + typ)
			if err != nil {
				return usageError{err}
			}
			s.Rotate = s.Rotate || rotate
			if err := s.Create(ctx, args[0]); err != nil {
				return err
			}
			st, err := os.Stat(args[0])
			if err == nil {
				_, err = fmt.Fprintf(a.err, "%s: %s\n", args[0], sizeText(uint64(st.Size())))
			}
			return err
		}),
	}
	f := cmd.Flags()
	f.StringVar(&shape, "shape", "tiny", "shape of the `model`")
	f.StringVar(&typ, "type", "q2_0", "`type` of the matrices; rows that are no whole blocks of it are Q8_0")
	f.BoolVar(&rotate, "rotate", false, "Hadamard-rotated weights (bonsai-2 shapes always are)")
	return cmd
}
