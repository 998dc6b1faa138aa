package token

// alphabet spells each byte as one printable character, as GPT-2's vocabulary
// does: printable Latin-1 stands for itself, the rest follows from U+0100 on.
var alphabet = func() (a [256]rune) {
	next := rune(256)
	for b := range a {
		if r := rune(b); '!' <= r && r <= '~' || 0xa1 <= r && r <= 0xac || 0xae <= r {
			a[b] = r
		} else {
			a[b] = next
			next++
		}
	}
	return a
}()

var fromRune = func() map[rune]byte {
	m := make(map[rune]byte, len(alphabet))
	for b, r := range alphabet {
		m[r] = byte(b)
	}
	return m
}()

// fromAlphabet returns the bytes a token spells. A token with other characters
// stands for its own text.
func fromAlphabet(text string) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		b, ok := fromRune[r]
		if !ok {
			return []byte(text)
		}
		out = append(out, b)
	}
	return out
}
