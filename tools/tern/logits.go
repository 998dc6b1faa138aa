package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/token"
)

func (a *app) logitsCommand() *cobra.Command {
	var ids, output string
	var special bool
	cmd := &cobra.Command{
		Use:   "logits (--ids LIST | TEXT) --output FILE",
		Short: "Write the logits of every position to a file",
		Long: "Write the logits of every position to a file: float32, little-endian, [positions][vocabulary], no header.\n" +
			"Standard output gets one line of JSON with both sizes and the file's SHA-256. The text is read from standard input\n" +
			"when it is -.",
		Example: `  tern logits --ids 9707,11,1879 --output out.f32
  tern logits "Hello, world" --output out.f32 --activations f32`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: interruptible(func(ctx context.Context, args []string) error {
			if output == "" {
				return usagef("--output is needed")
			}
			if (ids == "") == (len(args) == 0) {
				return usagef("either a text or --ids is needed")
			}
			if err := a.writable(output); err != nil {
				return err
			}
			m, err := a.open(ctx, model.Options{})
			if err != nil {
				return err
			}
			defer m.Close()
			tokens, err := a.tokens(ctx, m.Model, ids, args, special)
			if err != nil {
				return err
			}
			if len(tokens) > m.Context() {
				return fmt.Errorf("%s: %d tokens in a context of %d: %w", m.File().Name, len(tokens), m.Context(), model.ErrContextFull)
			}
			sum, err := writeFile(output, func(w io.Writer) error { return a.writeLogits(ctx, m.Model, tokens, w) })
			if err != nil {
				return err
			}
			return json.NewEncoder(a.out).Encode(struct {
				N      int    `json:"n"`
				Vocab  int    `json:"vocab"`
				SHA256 string `json:"sha256"`
			}{len(tokens), m.Info().Vocab, sum})
		}),
	}
	cmd.Flags().StringVar(&ids, "ids", "", "token ids, with commas")
	cmd.Flags().StringVarP(&output, "output", "o", "", "`file` to write")
	cmd.Flags().BoolVar(&special, "special", false, "find control tokens such as <|im_start|> in the text")
	return cmd
}

// tokens reads ids, or else encodes the text of args; there is at least one.
func (a *app) tokens(ctx context.Context, m *model.Model, ids string, args []string, special bool) ([]int32, error) {
	var tokens []int32
	var err error
	if ids != "" {
		tokens, err = parseIDs(ids, m.Info().Vocab)
	} else {
		if m.Tokenizer() == nil {
			return nil, fmt.Errorf("%s has no vocabulary: give --ids", m.File().Name)
		}
		var text string
		text, err = a.text(ctx, args, longestPrompt)
		tokens = m.Tokenizer().Encode(text, token.Options{ParseSpecial: special, AddSpecial: true})
	}
	if err == nil && len(tokens) == 0 {
		err = errors.New("there are no tokens")
	}
	return tokens, err
}

// logitRows is how many rows of logits are held at once.
const logitRows = 64

// writeLogits evaluates tokens in a new session and writes all their logits.
func (a *app) writeLogits(ctx context.Context, m *model.Model, tokens []int32, w io.Writer) error {
	s, err := m.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	progress := a.progress("evaluating", false)
	row := make([]byte, 4*m.Info().Vocab)
	for from := 0; from < len(tokens); from += logitRows {
		to := min(from+logitRows, len(tokens))
		logits, err := s.Eval(ctx, tokens[from:to], true)
		if err != nil {
			return err
		}
		for _, l := range logits {
			if _, err := binary.Encode(row, binary.LittleEndian, l); err != nil {
				return err
			}
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
		if progress != nil {
			progress(uint64(to), uint64(len(tokens)))
		}
	}
	return nil
}

// writable refuses a file to write that is one to read, or the model, and one that
// cannot be created, before any work is done for it. "" and "-" are no files.
func (a *app) writable(out string, in ...string) error {
	if out == "" || out == "-" {
		return nil
	}
	for _, in := range append(in, a.model) {
		if in != "" && sameFile(in, out) {
			return usagef("%s is both read and written", out)
		}
	}
	f, err := createBeside(out)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// createBeside creates the file that is to get the name path when it is complete.
func createBeside(path string) (*os.File, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path) // a device or a pipe must not be replaced
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written: %w", path, err)
	}
	return f, nil
}

// writeFile writes a file beside path, gives it its name when it is complete,
// and returns its SHA-256 in hex. On an error nothing is left.
func writeFile(path string, write func(io.Writer) error) (sum string, err error) {
	f, err := createBeside(path)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	h, b := sha256.New(), bufio.NewWriterSize(f, 1<<20)
	if err = write(io.MultiWriter(b, h)); err == nil {
		err = b.Flush()
	}
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	return hex.EncodeToString(h.Sum(nil)), err
}
