// Package token turns text into token ids and back: byte-level BPE with the
// splitters of the Qwen family, set up from GGUF metadata.
//
// # Added tokens
//
// A vocabulary holds normal tokens, which come out of the merges, and added
// ones, whose text stands for one id as a whole. As in Hugging Face's tokenizers
// there are two kinds of these: user-defined tokens (such as <think>) are found
// in any text, control tokens (such as <|im_end|>) only when
// Options.ParseSpecial is set, which is what Hugging Face's default does.
//
// Text of strangers must not be able to write either kind. EncodeSegments takes
// text in parts, trusted and not, and finds added tokens only where every byte
// of them is trusted; the rest of the tokenization is that of the joined text.
package token

import (
	"fmt"
	"unicode/utf8"
)

// Type says what a token is; the numbers are those of tokenizer.ggml.token_type.
type Type int32

const (
	Normal      Type = 1
	Unknown     Type = 2
	Control     Type = 3
	UserDefined Type = 4
	Unused      Type = 5
	Byte        Type = 6
)

// Vocab is a tokenizer's definition.
type Vocab struct {
	Pre    string   // the splitter: "qwen2" or "qwen35"
	Tokens []string // by id; normal tokens in the byte-level alphabet
	Types  []Type   // by id, or nil: all Normal
	Merges []string // "left right", best first

	BOS, EOS, EOT, Pad int32 // ids, or -1
	AddBOS             bool  // AddSpecial puts BOS in front
	AddEOS             bool  // AddSpecial puts EOS behind
}

// Tokenizer encodes and decodes. It is safe for concurrent use.
type Tokenizer struct {
	vocab  Vocab
	marks  bool     // the splitter counts combining marks as letters
	pieces [][]byte // by id: the bytes a token stands for
	merges map[[2]int32]merge
	bytes  [256]int32 // the ids of single bytes, or -1

	added     map[byte][]int32 // ids of added tokens by first byte, longest first
	endOfTurn map[int32]bool
}

// merge is what becomes of a pair of tokens, and how early.
type merge struct {
	rank int32
	id   int32
}

// New sets up a tokenizer. It keeps v's slices.
func New(v Vocab) (*Tokenizer, error) {
	t := &Tokenizer{vocab: v, added: map[byte][]int32{}, endOfTurn: map[int32]bool{}}
	switch v.Pre {
	case "qwen2":
	case "qwen35":
		t.marks = true
	default:
		return nil, fmt.Errorf("tokenizer.ggml.pre is %q; \"qwen2\" and \"qwen35\" are supported", v.Pre)
	}
	switch {
	case len(v.Tokens) == 0:
		return nil, fmt.Errorf("the vocabulary is empty")
	case v.Types != nil && len(v.Types) != len(v.Tokens):
		return nil, fmt.Errorf("tokenizer.ggml.token_type has %d entries for %d tokens", len(v.Types), len(v.Tokens))
	}
	for _, s := range []struct {
		name string
		id   int32
	}{{"bos", v.BOS}, {"eos", v.EOS}, {"eot", v.EOT}, {"padding", v.Pad}} {
		if s.id < -1 || int(s.id) >= len(v.Tokens) {
			return nil, fmt.Errorf("%s%s_token_id is %d, the vocabulary has %d tokens", prefix, s.name, s.id, len(v.Tokens))
		}
	}
	if err := t.addTokens(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tokenizer) addTokens() error {
	normal := make(map[string]int32, len(t.vocab.Tokens)) // by the text in the vocabulary
	t.pieces = make([][]byte, len(t.vocab.Tokens))
	for i, text := range t.vocab.Tokens {
		id := int32(i)
		switch t.Type(id) {
		case Normal:
			t.pieces[i] = fromAlphabet(text)
			if _, dup := normal[text]; !dup {
				normal[text] = id
			}
		case Control, UserDefined:
			t.pieces[i] = []byte(text)
			if text == "" {
				return fmt.Errorf("added token %d has no text", id)
			}
			t.added[text[0]] = append(t.added[text[0]], id)
		case Byte:
			var b byte
			if _, err := fmt.Sscanf(text, "<0x%02X>", &b); err != nil || len(text) != 6 {
				return fmt.Errorf("byte token %d is %q, not of the form <0xNN>", id, text)
			}
			t.pieces[i] = []byte{b}
		default:
			t.pieces[i] = []byte(text)
		}
		if t.Type(id) == Control && (text == "<|im_end|>" || text == "<|endoftext|>") {
			t.endOfTurn[id] = true
		}
	}
	for _, ids := range t.added {
		sortLongest(ids, t.vocab.Tokens)
	}
	for _, id := range []int32{t.vocab.EOS, t.vocab.EOT} {
		if id >= 0 {
			t.endOfTurn[id] = true
		}
	}
	for b := range t.bytes {
		id, ok := normal[string(alphabet[b])]
		if !ok {
			id = -1
			if utf8Byte(byte(b)) {
				return fmt.Errorf("the vocabulary has no token for the byte 0x%02x", b)
			}
		}
		t.bytes[b] = id
	}
	return t.addMerges(normal)
}

// utf8Byte reports whether b occurs in UTF-8 at all.
func utf8Byte(b byte) bool { return b < 0xc0 || 0xc2 <= b && b <= 0xf4 }

func (t *Tokenizer) addMerges(normal map[string]int32) error {
	t.merges = make(map[[2]int32]merge, len(t.vocab.Merges))
	for i, text := range t.vocab.Merges {
		left, right, ok := cutMerge(text)
		if !ok {
			return fmt.Errorf("merge %d is %q, not two tokens", i, text)
		}
		a, okA := normal[left]
		b, okB := normal[right]
		id, okC := normal[left+right]
		if !okA || !okB || !okC {
			return fmt.Errorf("merge %d (%q): a token of it is not in the vocabulary", i, text)
		}
		pair := [2]int32{a, b}
		if _, dup := t.merges[pair]; !dup {
			t.merges[pair] = merge{rank: int32(i), id: id}
		}
	}
	return nil
}

// Len returns the number of tokens.
func (t *Tokenizer) Len() int { return len(t.vocab.Tokens) }

// Vocab returns the definition; it must not be changed.
func (t *Tokenizer) Vocab() Vocab { return t.vocab }

// Text returns the token as the vocabulary spells it, or "" for an id out of range.
func (t *Tokenizer) Text(id int32) string {
	if id < 0 || int(id) >= len(t.vocab.Tokens) {
		return ""
	}
	return t.vocab.Tokens[id]
}

// Type returns what the token is; ids out of range are Unknown.
func (t *Tokenizer) Type(id int32) Type {
	switch {
	case id < 0 || int(id) >= len(t.vocab.Tokens):
		return Unknown
	case t.vocab.Types == nil || t.vocab.Types[id] == 0:
		return Normal
	}
	return t.vocab.Types[id]
}

// Find returns the id of an added token, or of a normal one in its spelling in
// the vocabulary.
func (t *Tokenizer) Find(text string) (int32, bool) {
	for i, s := range t.vocab.Tokens {
		if s == text {
			return int32(i), true
		}
	}
	return 0, false
}

// EndsTurn reports whether generation stops at the token: the end-of-sequence
// and end-of-turn ids of the file, <|im_end|> and <|endoftext|>.
func (t *Tokenizer) EndsTurn(id int32) bool { return t.endOfTurn[id] }

// Piece returns the bytes the token stands for, not necessarily whole
// characters; they must not be changed. Ids out of range give nil.
func (t *Tokenizer) Piece(id int32) []byte {
	if id < 0 || int(id) >= len(t.pieces) {
		return nil
	}
	return t.pieces[id]
}

// cutMerge splits "left right". The alphabet has no space, so the first one
// after the first character is the border.
func cutMerge(text string) (left, right string, ok bool) {
	_, n := utf8.DecodeRuneInString(text)
	for i := n; i < len(text); i++ {
		if text[i] == ' ' {
			return text[:i], text[i+1:], i+1 < len(text)
		}
	}
	return "", "", false
}
