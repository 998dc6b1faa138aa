package token

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// manyMarks is the length of a run of combining marks from which on x/text's
// normaliser might insert a joiner (it keeps to the stream-safe format, at most
// 30 non-starters; a mark decomposes into at most 3).
const manyMarks = 9

// compose returns text in normalisation form C, without the stream-safe format's
// joiners, as Hugging Face's tokenizers do before they split.
func compose(text string) string {
	run := 0
	for _, r := range text {
		if !unicode.IsMark(r) {
			run = 0
		} else if run++; run == manyMarks {
			return composeLong(text)
		}
	}
	return norm.NFC.String(text)
}

// composeLong is compose by the book: decompose, order by combining class,
// join each character with the last starter unless something between them
// blocks it.
func composeLong(text string) string {
	var runes []rune
	for _, r := range text {
		runes = append(runes, []rune(norm.NFD.String(string(r)))...)
	}
	for from := 0; from < len(runes); {
		to := from + 1
		if combining(runes[from]) != 0 {
			for to < len(runes) && combining(runes[to]) != 0 {
				to++
			}
			slices.SortStableFunc(runes[from:to], func(a, b rune) int { return int(combining(a)) - int(combining(b)) })
		}
		from = to
	}
	out := runes[:0]
	starter := -1
	var last uint8 // combining class of the character before, since the starter
	for _, r := range runes {
		class := combining(r)
		if starter >= 0 && (starter == len(out)-1 || last != 0 && last < class) {
			if joined := []rune(norm.NFC.String(string([]rune{out[starter], r}))); len(joined) == 1 {
				out[starter] = joined[0]
				continue
			}
		}
		if class == 0 {
			starter = len(out)
		}
		last = class
		out = append(out, r)
	}
	return string(out)
}

// combining returns the canonical combining class.
func combining(r rune) uint8 {
	if r < utf8.RuneSelf {
		return 0
	}
	return norm.NFD.PropertiesString(string(r)).CCC()
}
