package constrain

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ParseGBNF compiles rules in the notation of llama.cpp's grammars: name ::= what it
// stands for, of literals in quotes, sets in brackets, the dot, names, groups in
// parentheses, | between alternatives, and *, +, ?, {n}, {n,} and {n,m} behind what
// is repeated. The rule root is the answer.
func ParseGBNF(text string) (*Grammar, error) {
	if len(text) > maxSchema {
		return nil, fmt.Errorf("a grammar of %d bytes, at most %d", len(text), maxSchema)
	}
	p := &gbnf{builder: newBuilder(), src: text, names: map[string]symbol{}, defined: map[string]bool{}}
	p.blank(true)
	for p.at < len(p.src) && p.err == nil {
		p.definition()
	}
	for name := range p.names {
		if !p.defined[name] && p.err == nil {
			p.err = fmt.Errorf("rule %q is used, but not defined", name)
		}
	}
	if p.err == nil && !p.defined["root"] {
		p.err = fmt.Errorf("there is no rule root")
	}
	if p.err != nil {
		return nil, fmt.Errorf("grammar: %w", p.err)
	}
	g, err := p.grammar(expr{p.names["root"]})
	if err != nil {
		return nil, fmt.Errorf("grammar: %w", err)
	}
	return g, nil
}

// gbnf is a recursive descent through the text.
type gbnf struct {
	*builder
	src     string
	at      int
	depth   int
	names   map[string]symbol
	defined map[string]bool
}

// wrong notes an error with its line.
func (p *gbnf) wrong(format string, args ...any) {
	p.fail("line %d: %s", 1+strings.Count(p.src[:min(p.at, len(p.src))], "\n"), fmt.Sprintf(format, args...))
}

func (p *gbnf) peek() byte {
	if p.at < len(p.src) && p.err == nil {
		return p.src[p.at]
	}
	return 0
}

// blank skips space and comments, beyond the end of the line only if lines is set.
func (p *gbnf) blank(lines bool) {
	for {
		switch c := p.peek(); {
		case c == '#':
			for p.peek() != 0 && p.peek() != '\n' {
				p.at++
			}
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			p.at++
		default:
			return
		}
	}
}

func (p *gbnf) name() string {
	from := p.at
	for c := p.peek(); c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'; c = p.peek() {
		p.at++
	}
	return p.src[from:p.at]
}

func (p *gbnf) named(name string) symbol {
	s, ok := p.names[name]
	if !ok {
		s = p.rule()
		p.names[name] = s
	}
	return s
}

func (p *gbnf) definition() {
	name := p.name()
	p.blank(false)
	switch {
	case name == "":
		p.wrong("expected the name of a rule")
	case !strings.HasPrefix(p.src[p.at:], "::="):
		p.wrong("expected ::= after %q", name)
	case p.defined[name]:
		p.wrong("a second rule %q", name)
	}
	if p.err != nil {
		return
	}
	p.defined[name] = true
	p.at += len("::=")
	p.blank(true)
	p.define(p.named(name), p.alternatives(false)...)
	if c := p.peek(); c != 0 && c != '\n' && c != '\r' {
		p.wrong("unexpected %q", string(c))
	}
	p.blank(true)
}

// alternatives are sequences with | between them. Within a group they may span lines.
func (p *gbnf) alternatives(group bool) []expr {
	if p.depth++; p.depth > 200 {
		p.wrong("nested deeper than 200")
	}
	defer func() { p.depth-- }()
	list := []expr{p.sequence(group)}
	for p.peek() == '|' {
		p.at++
		p.blank(true)
		list = append(list, p.sequence(group))
	}
	return list
}

func (p *gbnf) sequence(group bool) (e expr) {
	for p.err == nil {
		var item expr
		switch c := p.peek(); {
		case c == '"':
			item = p.literal()
		case c == '[':
			item = p.set()
		case c == '.':
			p.at++
			item = p.runes([]rune{0, unicode.MaxRune})
		case c == '(':
			p.at++
			p.blank(true)
			item = p.either(p.alternatives(true)...)
			if p.peek() != ')' {
				p.wrong("a group that is not closed")
				return nil
			}
			p.at++
		default:
			name := p.name()
			if name == "" {
				return e
			}
			item = expr{p.named(name)}
		}
		e = append(e, p.repeated(item)...)
		p.blank(group)
	}
	return nil
}

// repeated reads what may stand behind an item.
func (p *gbnf) repeated(item expr) expr {
	switch p.peek() {
	case '*':
		p.at++
		return p.repeat(item, 0, -1)
	case '+':
		p.at++
		return p.repeat(item, 1, -1)
	case '?':
		p.at++
		return p.optional(item)
	case '{':
		text, _, ok := strings.Cut(p.src[p.at+1:], "}")
		low, high, comma := strings.Cut(text, ",")
		from, err := strconv.Atoi(strings.TrimSpace(low))
		to := from
		if high = strings.TrimSpace(high); comma && high == "" {
			to = -1
		} else if comma && err == nil {
			to, err = strconv.Atoi(high)
		}
		if !ok || err != nil || from < 0 || to >= 0 && to < from {
			p.wrong("a repetition that is none of {n}, {n,} and {n,m}")
			return nil
		}
		p.at += len(text) + 2
		return p.repeat(item, from, to)
	}
	return item
}

func (p *gbnf) literal() (e expr) {
	for p.at++; p.peek() != '"'; {
		r := p.char()
		if p.err != nil {
			return nil
		}
		e = append(e, p.text(string(r))...)
	}
	p.at++
	return e
}

func (p *gbnf) set() expr {
	p.at++
	not := p.peek() == '^'
	if not {
		p.at++
	}
	var ranges []rune
	for p.peek() != ']' {
		from := p.char()
		to := from
		if p.peek() == '-' && p.at+1 < len(p.src) && p.src[p.at+1] != ']' {
			p.at++
			to = p.char()
		}
		if p.err != nil {
			return nil
		}
		if to < from {
			p.wrong("a set from %q to %q", from, to)
		}
		ranges = append(ranges, from, to)
	}
	p.at++
	if not {
		rest := []rune{0, unicode.MaxRune}
		for i := 0; i < len(ranges); i += 2 {
			rest = without(rest, ranges[i], ranges[i+1])
		}
		ranges = rest
	}
	return p.runes(ranges)
}

// char reads a character of a literal or a set.
func (p *gbnf) char() rune {
	r, n := utf8.DecodeRuneInString(p.src[p.at:])
	if n == 0 || r == '\n' || r == utf8.RuneError {
		p.wrong("a literal or a set that is not closed, or text that is not UTF-8")
		return 0
	}
	if p.at += n; r != '\\' {
		return r
	}
	c := p.peek()
	p.at++
	if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]; digits > 0 && p.at+digits <= len(p.src) {
		v, err := strconv.ParseUint(p.src[p.at:p.at+digits], 16, 32)
		if err == nil && utf8.ValidRune(rune(v)) {
			p.at += digits
			return rune(v)
		}
	}
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case '\\', '"', '[', ']', '-', '^':
		return rune(c)
	}
	p.wrong("an escape that is not known")
	return 0
}
