package token

import (
	"strings"
	"unicode/utf8"
)

// Decode returns the text of ids. Bytes that are not UTF-8 become U+FFFD.
func (t *Tokenizer) Decode(ids []int32) string {
	var d Decoder
	var s strings.Builder
	for _, id := range ids {
		s.WriteString(d.Write(t.Piece(id)))
	}
	s.WriteString(d.Flush())
	return s.String()
}

// Decoder turns pieces into text as they come. A character whose bytes are
// spread over pieces is kept until it is complete, so the texts returned are
// valid UTF-8 and, joined, what all the bytes at once would have given. The zero
// value is ready to use.
type Decoder struct {
	pending []byte // the start of a character, at most 3 bytes
}

// Write returns the text that piece completes.
func (d *Decoder) Write(piece []byte) string {
	d.pending = append(d.pending, piece...)
	text, n := decode(d.pending, false)
	d.pending = append(d.pending[:0], d.pending[n:]...)
	return text
}

// Flush ends the text: an incomplete character becomes U+FFFD.
func (d *Decoder) Flush() string {
	text, _ := decode(d.pending, true)
	d.pending = d.pending[:0]
	return text
}

// valid returns text with U+FFFD in place of what is not UTF-8.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	text, _ = decode([]byte(text), true)
	return text
}

// decode converts bytes to text and returns how many it used. An incomplete
// character at the end is left, or replaced when final is set. As the Unicode
// standard recommends, the longest start of a character becomes one U+FFFD, and
// so does any other stray byte.
func decode(p []byte, final bool) (text string, used int) {
	var s strings.Builder
	for used < len(p) {
		rest := p[used:]
		if !final && !utf8.FullRune(rest) {
			break
		}
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			for n < len(rest) && !utf8.FullRune(rest[:n+1]) {
				n++
			}
		}
		s.WriteRune(r)
		used += n
	}
	return s.String(), used
}
