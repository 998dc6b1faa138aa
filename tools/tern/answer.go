package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/ternvk/tern/model/token"
)

// answer streams generated tokens as text: what stands between <think> and
// </think> to thoughts, the rest to out. A character whose bytes are spread over
// tokens is written when it is complete.
type answer struct {
	out, thoughts io.Writer
	tokens        *token.Tokenizer
	opens, closes int32 // ids of the marks, -1 where the vocabulary has none
	thinking      bool
	decoder       token.Decoder

	text, thought strings.Builder // what was written
}

// newAnswer writes what follows prompt; the prompt may have opened a thought.
func newAnswer(out, thoughts io.Writer, t *token.Tokenizer, prompt []int32) *answer {
	w := &answer{out: out, thoughts: thoughts, tokens: t, opens: mark(t, "<think>"), closes: mark(t, "</think>")}
	for _, id := range prompt {
		if id == w.opens || id == w.closes {
			w.thinking = id == w.opens
		}
	}
	return w
}

// newPlainAnswer writes everything to out.
func newPlainAnswer(out io.Writer, t *token.Tokenizer) *answer {
	return &answer{out: out, tokens: t, opens: -1, closes: -1}
}

// mark finds a mark that is a token of its own.
func mark(t *token.Tokenizer, text string) int32 {
	if id, ok := t.Find(text); ok && t.Type(id) != token.Normal {
		return id
	}
	return -1
}

func (w *answer) write(id int32) error {
	if id < 0 || id != w.opens && id != w.closes {
		return w.put(w.decoder.Write(w.tokens.Piece(id)))
	}
	err := w.put(w.decoder.Flush())
	if w.thinking = id == w.opens; !w.thinking && w.thought.Len() > 0 {
		fmt.Fprintln(w.thoughts)
	}
	return err
}

func (w *answer) put(text string) error {
	to, kept := w.out, &w.text
	if w.thinking {
		to, kept = w.thoughts, &w.thought
	}
	if kept.Len() == 0 && w.opens >= 0 { // blank lines around the marks
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	kept.WriteString(text)
	_, err := io.WriteString(to, text)
	return err
}

// end ends the text with a line break.
func (w *answer) end() error {
	if err := w.put(w.decoder.Flush()); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w.out)
	return err
}
