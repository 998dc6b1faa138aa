package token

import (
	"slices"
	"strings"
)

// Options of encoding.
type Options struct {
	ParseSpecial bool // find control tokens in the text
	AddSpecial   bool // add BOS and EOS, if the file asks for them
}

// Segment is a part of a text. Added tokens are found in trusted text only.
type Segment struct {
	Text    string
	Trusted bool
}

// Encode returns the ids of text. Text that is not UTF-8 is read with U+FFFD in
// place of what is damaged.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	return t.encode(text, []span{{0, len(text)}}, o)
}

// EncodeSegments returns the ids of the joined segments. Added tokens of both
// kinds are found where they lie in trusted text with every byte, and nowhere
// else; o.ParseSpecial is taken as set.
func (t *Tokenizer) EncodeSegments(segments []Segment, o Options) []int32 {
	var text strings.Builder
	var trusted []span
	for _, s := range segments {
		from := text.Len()
		text.WriteString(s.Text)
		switch last := len(trusted) - 1; {
		case !s.Trusted || s.Text == "":
		case last >= 0 && trusted[last].to == from:
			trusted[last].to = text.Len()
		default:
			trusted = append(trusted, span{from, text.Len()})
		}
	}
	o.ParseSpecial = true
	return t.encode(text.String(), trusted, o)
}

// span is a range of bytes.
type span struct{ from, to int }

// encode looks for added tokens inside the trusted spans, the longest at the
// leftmost place first, and splits and merges what lies between them.
func (t *Tokenizer) encode(text string, trusted []span, o Options) []int32 {
	var ids []int32
	if o.AddSpecial && t.vocab.AddBOS && t.vocab.BOS >= 0 {
		ids = append(ids, t.vocab.BOS)
	}
	b := bpe{t: t}
	done := 0
	for _, s := range trusted {
		for i := s.from; i < s.to; {
			id, n := t.addedAt(text[i:s.to], o.ParseSpecial)
			if n == 0 {
				i++
				continue
			}
			ids = b.encodeText(ids, text[done:i])
			ids = append(ids, id)
			i += n
			done = i
		}
	}
	ids = b.encodeText(ids, text[done:])
	if o.AddSpecial && t.vocab.AddEOS && t.vocab.EOS >= 0 {
		ids = append(ids, t.vocab.EOS)
	}
	return ids
}

// addedAt returns the longest added token that text begins with, and its length.
func (t *Tokenizer) addedAt(text string, control bool) (id int32, n int) {
	for _, id := range t.added[text[0]] {
		if name := t.vocab.Tokens[id]; strings.HasPrefix(text, name) && (control || t.Type(id) != Control) {
			return id, len(name)
		}
	}
	return 0, 0
}

func sortLongest(ids []int32, tokens []string) {
	slices.SortStableFunc(ids, func(a, b int32) int { return len(tokens[b]) - len(tokens[a]) })
}

// encodeText appends the ids of text without added tokens: normalised to NFC,
// split, merged.
func (b *bpe) encodeText(ids []int32, text string) []int32 {
	text = compose(valid(text))
	s := splitter{marks: b.t.marks}
	for len(text) > 0 {
		n := s.next(text)
		ids = b.encode(ids, text[:n])
		text = text[n:]
	}
	return ids
}
