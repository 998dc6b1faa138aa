package constrain

import (
	"fmt"
	"regexp/syntax"
	"unicode"
)

// pattern is a JSON string in which the regular expression is found, as JSON Schema
// has it: anywhere, unless it is anchored.
func (j *jsonRules) pattern(text string) expr {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		j.fail("pattern %q: %v", text, err)
		return nil
	}
	p := patterns{j, text}
	return concat(j.text(`"`), p.found(re.Simplify()), j.text(`"`))
}

type patterns struct {
	*jsonRules
	text string
}

// found is text that holds a match of one of the alternatives.
func (p *patterns) found(re *syntax.Regexp) expr {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if re.Op == syntax.OpAlternate {
		var list []expr
		for _, s := range re.Sub {
			list = append(list, p.found(s))
		}
		return p.either(list...)
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	before, after := p.repeat(p.char, 0, -1), p.repeat(p.char, 0, -1)
	if len(parts) > 0 && parts[0].Op == syntax.OpBeginText {
		parts, before = parts[1:], nil
	}
	if n := len(parts); n > 0 && parts[n-1].Op == syntax.OpEndText {
		parts, after = parts[:n-1], nil
	}
	e := before
	for _, part := range parts {
		e = concat(e, p.match(part))
	}
	return concat(e, after)
}

// match is text that an expression matches.
func (p *patterns) match(re *syntax.Regexp) expr {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return nil
	case syntax.OpLiteral:
		var e expr
		for _, r := range re.Rune {
			ranges := []rune{r, r}
			if re.Flags&syntax.FoldCase != 0 {
				for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
					ranges = append(ranges, f, f)
				}
			}
			e = concat(e, p.chars(ranges))
		}
		return e
	case syntax.OpCharClass:
		return p.chars(re.Rune)
	case syntax.OpAnyChar:
		return p.chars([]rune{0, unicode.MaxRune})
	case syntax.OpAnyCharNotNL:
		return p.chars([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune})
	case syntax.OpCapture:
		return p.match(re.Sub[0])
	case syntax.OpStar:
		return p.repeat(p.match(re.Sub[0]), 0, -1)
	case syntax.OpPlus:
		return p.repeat(p.match(re.Sub[0]), 1, -1)
	case syntax.OpQuest:
		return p.optional(p.match(re.Sub[0]))
	case syntax.OpConcat:
		var e expr
		for _, s := range re.Sub {
			e = concat(e, p.match(s))
		}
		return e
	case syntax.OpAlternate:
		var list []expr
		for _, s := range re.Sub {
			list = append(list, p.match(s))
		}
		return p.either(list...)
	}
	p.fail("pattern %q: %s is not supported there", p.text, re)
	return nil
}

// chars is a character of the ranges as it stands in a string.
func (j *jsonRules) chars(ranges []rune) expr {
	var list []expr
	if plain := without(without(without(ranges, 0, 0x1f), '"', '"'), '\\', '\\'); len(plain) > 0 {
		list = append(list, j.runes(plain))
	}
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := max(ranges[i], 0); r <= min(ranges[i+1], '\\'); r++ {
			if r < 0x20 || r == '"' || r == '\\' {
				list = append(list, j.text(escaped(r)))
			}
		}
	}
	if len(list) == 0 {
		j.fail("an empty set of characters")
		return nil
	}
	return j.either(list...)
}

// escaped is a character that a string must escape.
func escaped(r rune) string {
	switch r {
	case '"', '\\':
		return `\` + string(r)
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return fmt.Sprintf(`\u%04x`, r)
}
