package token

import (
	"unicode"
	"unicode/utf8"
)

// splitter cuts text into the pieces that merges never cross. It is the regular
// expression of Qwen's tokenizers, written by hand since Go's package has no
// look-ahead:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d) | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N} |
//	 ?[^\s\p{L}\p{N}]+[\r\n]* | \s*[\r\n]+ | \s+(?!\S) | \s+
//
// With marks set, \p{L} reads [\p{L}\p{M}] except in the optional first character.
type splitter struct {
	marks bool
}

// class is what the expression distinguishes.
type class uint8

const (
	other class = iota
	letter
	number
	space
	newline // \r or \n; a space too
)

func (s splitter) class(r rune) class {
	switch {
	case r < utf8.RuneSelf:
		return asciiClass[r]
	case unicode.IsLetter(r) || s.marks && unicode.IsMark(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

var asciiClass = func() (t [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		switch {
		case r == '\r' || r == '\n':
			t[r] = newline
		case unicode.IsLetter(r):
			t[r] = letter
		case unicode.IsNumber(r):
			t[r] = number
		case unicode.IsSpace(r):
			t[r] = space
		}
	}
	return t
}()

// at returns the class and width of the character at i; width 0 is the end.
func (s splitter) at(text string, i int) (class, int) {
	if i >= len(text) {
		return other, 0
	}
	r, n := utf8.DecodeRuneInString(text[i:])
	return s.class(r), n
}

// run returns the end of the characters of class c that begin at i.
func (s splitter) run(text string, i int, c class) int {
	for {
		k, n := s.at(text, i)
		if n == 0 || k != c {
			return i
		}
		i += n
	}
}

// next returns the length of the first piece of text, which is not empty.
func (s splitter) next(text string) int {
	if n := contraction(text); n > 0 {
		return n
	}
	c, n := s.at(text, 0)
	after, _ := s.at(text, n)
	isEnd := n == len(text)
	switch {
	case c == letter:
		return s.run(text, 0, letter)
	case c == number:
		return n
	case c != newline && !isEnd && after == letter:
		return s.run(text, n, letter)
	case c == other || text[0] == ' ' && !isEnd && after == other:
		return s.run(text, s.run(text, n, other), newline)
	}
	return s.spaces(text)
}

// spaces applies the last three alternatives to text that begins with a space:
// up to the last line break of the run; else the run without its last character
// if something follows; else the run.
func (s splitter) spaces(text string) int {
	end, last, afterNewline := 0, 0, 0
	for {
		c, n := s.at(text, end)
		if n == 0 || c != space && c != newline {
			break
		}
		last = end
		end += n
		if c == newline {
			afterNewline = end
		}
	}
	switch {
	case afterNewline > 0:
		return afterNewline
	case end < len(text) && last > 0:
		return last
	}
	return end
}

// contraction returns the length of an English contraction's ending at the
// start of text, or 0. The long s is a case of s, as in Unicode's folding.
func contraction(text string) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	switch text[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) < 3 {
		return 0
	}
	switch a, b := text[1]|0x20, text[2]|0x20; {
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	case text[1:3] == "ſ":
		return 3
	}
	return 0
}
