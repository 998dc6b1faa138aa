package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model/token"
)

func (a *app) tokenizeCommand() *cobra.Command {
	var special, onlyIDs, asJSON bool
	cmd := &cobra.Command{
		Use:   "tokenize [TEXT]",
		Short: "Show the tokens of a text",
		Long: "Show the tokens of a text, one a line: id, type where it is not normal, piece.\n" +
			"Without TEXT, or with -, the text is read from standard input.",
		Example: `  tern tokenize "Hello, world"
  tern tokenize --special "<|im_start|>user"
  tern tokenize --ids < page.txt`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: interruptible(func(ctx context.Context, args []string) error {
			if onlyIDs && asJSON {
				return usagef("--ids and --json exclude each other")
			}
			text, err := a.text(ctx, args, longestText)
			if err != nil {
				return err
			}
			s, err := a.source(ctx)
			if err != nil {
				return err
			}
			f, err := s.open()
			if err != nil {
				return err
			}
			defer f.Close()
			t, err := token.FromGGUF(f)
			if err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
			ids := t.Encode(text, token.Options{ParseSpecial: special})
			fmt.Fprintf(a.err, "%d tokens\n", len(ids))
			switch {
			case asJSON:
				return json.NewEncoder(a.out).Encode(pieces(t, ids))
			case onlyIDs:
				_, err = fmt.Fprintln(a.out, joinIDs(ids))
				return err
			}
			for _, p := range pieces(t, ids) {
				kind := ""
				if p.Type != "normal" {
					kind = p.Type + " "
				}
				if _, err := fmt.Fprintf(a.out, "%6d  %s%s\n", p.ID, kind, strconv.Quote(string(t.Piece(p.ID)))); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&special, "special", false, "find control tokens such as <|im_start|> in the text")
	cmd.Flags().BoolVar(&onlyIDs, "ids", false, "print only the ids, as one list with commas")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// piece is a token for people and programs. Bytes is set where the piece is not
// text by itself.
type piece struct {
	ID    int32  `json:"id"`
	Type  string `json:"type"`
	Piece string `json:"piece"`
	Bytes []int  `json:"bytes,omitempty"`
}

func pieces(t *token.Tokenizer, ids []int32) []piece {
	names := map[token.Type]string{
		token.Normal: "normal", token.Unknown: "unknown", token.Control: "control",
		token.UserDefined: "user-defined", token.Unused: "unused", token.Byte: "byte",
	}
	out := make([]piece, len(ids))
	for i, id := range ids {
		out[i] = piece{ID: id, Type: names[t.Type(id)], Piece: t.Decode(ids[i : i+1])}
		if raw := t.Piece(id); string(raw) != out[i].Piece {
			for _, b := range raw {
				out[i].Bytes = append(out[i].Bytes, int(b))
			}
		}
	}
	return out
}

// Bounds on standard input, in bytes: of a prompt, more than any context holds, and of
// what is only tokenized.
const (
	longestPrompt = 16 << 20
	longestText   = 1 << 30
)

// text is the argument, or all of standard input, which may never end.
func (a *app) text(ctx context.Context, args []string, longest int64) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		return args[0], nil
	}
	b, err := readAll("standard input", a.input(ctx), longest)
	return string(b), err
}

func readAll(name string, r io.Reader, longest int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, longest+1))
	if err == nil && int64(len(b)) > longest {
		err = fmt.Errorf("more than %d MiB", longest>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

func joinIDs(ids []int32) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(id)))
	}
	return b.String()
}

// parseIDs reads a list of token ids with commas or spaces between them.
func parseIDs(list string, vocab int) ([]int32, error) {
	var ids []int32
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, usagef("token id %q is not a number", word)
		}
		if n < 0 || n >= vocab {
			return nil, fmt.Errorf("token id %d is outside the vocabulary of %d", n, vocab)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}
