package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/testdata/logits"
	"github.com/ternvk/tern/testdata/sprig"
	"github.com/ternvk/tern/tools/internal/buildinfo"
	"github.com/ternvk/tern/tools/internal/synth"
)

// verifyTokens is the length of the sequence for models without a golden hash.
const verifyTokens = 96

func (a *app) verifyCommand() *cobra.Command {
	var full, everyWay bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that this device computes the right bits",
		Long: "Hash the logits of a model on this device and compare with the golden hash, if the model has one: the embedded model\n" +
			"and synth:wide do. Prints one line to paste; the exit status is 1 when the device is wrong. Logits of other models\n" +
			"can be compared between devices by their lines.",
		Example: `  tern verify
  tern verify --full --every-way
  tern verify -m synth:wide --activations f32
  tern verify -m model.gguf --device 1`,
		Args: usage(onlyFlags),
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			if everyWay && a.profile == "fast" {
				return usagef("--every-way: in the profile fast, words may depend on the way")
			}
			s, err := a.source(ctx)
			if err != nil {
				return err
			}
			golden, err := a.golden(s, full)
			if err != nil {
				return err
			}
			x, err := a.executor(a.device)
			if err != nil {
				return err
			}
			o := model.Options{Context: max(a.context, golden.Tokens)}
			m, err := a.load(ctx, s, x, o)
			if err != nil {
				return err
			}
			defer m.Close()
			sequences, err := verifySequences(golden, m.Info().Vocab)
			if err != nil {
				return err
			}
			hash := sha256.New()
			sums, err := way{together: 1}.hashes(ctx, m.Model, sequences, hash)
			if err != nil {
				return err
			}
			got, verdict := hex.EncodeToString(hash.Sum(nil)), "right"
			switch {
			case golden.Hash == "":
				verdict = "no golden hash"
			case golden.Hash != got && a.profile == "fast":
				verdict, err = "not exact", fmt.Errorf("the logits are not those of the profile exact: their hash is %s", golden.Hash)
			case golden.Hash != got:
				verdict, err = "WRONG", fmt.Errorf("the logits are wrong: their hash must be %s", golden.Hash)
			}
			err = errors.Join(err, complaints(m.x))
			_, printed := fmt.Fprintf(a.out, "tern %s | %s | arithmetic %d, %s | %s, file %.12s | logits %s | %s\n",
				buildinfo.Version(), x.Name(), model.ArithmeticVersion, a.activations, s.name, golden.File, got, verdict)
			if !everyWay || printed != nil || err != nil {
				return errors.Join(printed, err)
			}
			var used []string
			if a.device != referenceDevice {
				if used, err = contracts(m.Model); err != nil {
					return err
				}
			}
			return a.verifyWays(ctx, s, o, used, sequences, sums)
		}),
	}
	cmd.Flags().BoolVar(&everyWay, "every-way", false, "also with prompts cut in pieces, token by token, five sequences in one batch, and each implementation forced")
	a.validateFlag(cmd.Flags())
	cmd.Flags().BoolVar(&full, "full", false, "use the model's longest golden hash, not the shortest")
	return cmd
}

// golden finds a golden hash of a model: the last of its list if full is set, or
// else the first. Without one, Hash is empty.
func (a *app) golden(s source, full bool) (logits.Golden, error) {
	file, err := s.sum()
	if err != nil {
		return logits.Golden{}, err
	}
	list, err := logits.All()
	if err != nil {
		return logits.Golden{}, err
	}
	golden := logits.Golden{File: file, Tokens: verifyTokens}
	for _, g := range list {
		if g.File == file && g.Activations == a.activations && g.Arithmetic == model.ArithmeticVersion && (full || golden.Hash == "") {
			golden = g
		}
	}
	return golden, nil
}

// sum is the SHA-256 of the file, in hex.
func (s source) sum() (string, error) {
	h := sha256.New()
	if s.data != nil {
		h.Write(s.data)
		return hex.EncodeToString(h.Sum(nil)), nil
	}
	f, err := os.Open(s.name)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

// verifySequences returns the token sequences that a golden hash belongs to.
func verifySequences(g logits.Golden, vocab int) ([][]int32, error) {
	if g.Tokens > 0 {
		return [][]int32{synth.Tokens(1, g.Tokens, vocab)}, nil
	}
	var chats struct {
		Cases []struct {
			PromptIDs []int32 `json:"prompt_ids"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(sprig.Golden, &chats); err != nil {
		return nil, fmt.Errorf("golden.json: %w", err)
	}
	var list [][]int32
	for _, c := range chats.Cases {
		list = append(list, c.PromptIDs)
	}
	return list, nil
}
