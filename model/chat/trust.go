package chat

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// shadow is where the shadow alphabet begins: character c of the basic plane is
// spelled shadow + c, a private-use character of plane 15. White space stays as
// it is, so that trimming works alike in both.
const (
	shadow    = 0xf0000
	shadowEnd = 0xfffff
)

// mark spells text in the shadow alphabet.
func mark(text string) string {
	return strings.Map(markRune, text)
}

func markRune(r rune) rune {
	if unicode.IsSpace(r) || r >= 0x10000 {
		return r
	}
	return shadow + r
}

func hasShadow(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return shadow <= r && r <= shadowEnd })
}

// unmark spells text in ordinary characters and returns what was marked as
// trusted. White space goes with the text before it.
func unmark(text string) []Segment {
	var segments []Segment
	var run strings.Builder
	trusted := false
	flush := func() {
		if run.Len() > 0 {
			segments = append(segments, Segment{run.String(), trusted})
			run.Reset()
		}
	}
	for _, r := range text {
		isMarked := shadow <= r && r <= shadowEnd
		if isMarked != trusted && (isMarked || !unicode.IsSpace(r)) {
			flush()
			trusted = isMarked
		}
		if isMarked {
			r -= shadow
		}
		run.WriteRune(r)
	}
	flush()
	return segments
}

func join(segments []Segment) string {
	var s strings.Builder
	for _, g := range segments {
		s.WriteString(g.Text)
	}
	return s.String()
}

// markers match what could be the text of an added token.
var markers = []*regexp.Regexp{regexp.MustCompile(`<[^<>\s]{1,64}>`), regexp.MustCompile(`\[[^\[\]\s]{1,64}\]`)}

// distrust trusts the text except for the markers that occur in the variables.
func distrust(text string, vars map[string]any) []Segment {
	suspect := map[string]bool{}
	for name, v := range vars {
		if name == "bos_token" || name == "eos_token" {
			continue
		}
		walk(v, func(s string) {
			for _, re := range markers {
				for _, m := range re.FindAllString(s, -1) {
					suspect[m] = true
				}
			}
		})
	}
	foreign := make([]bool, len(text))
	for _, re := range markers {
		for _, m := range re.FindAllStringIndex(text, -1) {
			for i := m[0]; i < m[1] && suspect[text[m[0]:m[1]]]; i++ {
				foreign[i] = true
			}
		}
	}
	var segments []Segment
	for from := 0; from < len(text); {
		to := from + 1
		for to < len(text) && foreign[to] == foreign[from] {
			to++
		}
		segments = append(segments, Segment{text[from:to], !foreign[from]})
		from = to
	}
	return segments
}

// walk visits the strings of a decoded value.
func walk(v any, visit func(string)) {
	switch v := v.(type) {
	case string:
		visit(v)
	case list:
		for _, x := range v {
			walk(x, visit)
		}
	case *exec.Dict:
		for _, p := range v.Pairs {
			walk(p.Key.Interface(), visit)
			walk(p.Value.Interface(), visit)
		}
	}
}

// unmarkText spells text in ordinary characters.
func unmarkText(text string) string { return join(unmark(text)) }
