package chat

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// rewrite prepares a template for gonja. Inline conditions inside an expression,
// which gonja's grammar lacks, become calls of choose. If marked is set, the
// text that the template writes is spelled in the shadow alphabet: what lies
// outside tags, and string literals that flow into the output. Literals that are
// compared, searched for or passed to a method stay, and so do mere words, which
// are no markers but often values of variables.
func rewrite(template string, marked bool) (string, error) {
	if len(template) > maxTemplate {
		return "", fmt.Errorf("chat template: %d bytes, the limit is %d", len(template), maxTemplate)
	}
	w := rewriter{marked: marked}
	whole, blocks := template, 0
	for len(template) > 0 {
		i := strings.IndexByte(template, '{')
		for i >= 0 && !isTag(template[i:]) {
			next := strings.IndexByte(template[i+1:], '{')
			if next < 0 {
				i = -1
				break
			}
			i += 1 + next
		}
		if i < 0 {
			w.data(template)
			break
		}
		w.data(template[:i])
		n := tagLen(template[i:])
		tokens := tokenize(template[i : i+n])
		blocks += opens(tokens)
		if blocks > maxBlocks || tooDeep(tokens) {
			at := len(whole) - len(template) + i
			return "", fmt.Errorf("chat template: line %d: nested deeper than %d blocks or %d brackets", 1+strings.Count(whole[:at], "\n"), maxBlocks, maxBrackets)
		}
		w.tag(template[i : i+n])
		raw := rawTag.MatchString(template[i : i+n])
		template = template[i+n:]
		if raw {
			end := len(template)
			if m := endRaw.FindStringIndex(template); m != nil {
				end = m[0]
			}
			w.data(template[:end])
			template = template[end:]
		}
	}
	return w.String(), nil
}

// Bounds of a template's source. Published ones have at most some ten thousand
// bytes.
const (
	maxTemplate = 256 << 10
	maxBrackets = 100
	maxBlocks   = 50
)

var (
	rawTag = regexp.MustCompile(`^\{%[-+]?\s*raw\s*[-+]?%\}$`)
	endRaw = regexp.MustCompile(`\{%[-+]?\s*endraw\b`)
)

func isTag(s string) bool {
	return len(s) > 1 && (s[1] == '{' || s[1] == '%' || s[1] == '#')
}

// tagLen returns the length of the tag that s begins with; an unclosed one takes
// all, for gonja to complain about.
func tagLen(s string) int {
	end := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[s[1]]
	if s[1] == '#' {
		if i := strings.Index(s[2:], end); i >= 0 {
			return 2 + i + 2
		}
		return len(s)
	}
	depth := 0 // of braces, since a dictionary may end in }}
	for i := 2; i < len(s); {
		t := nextToken(s[i:])
		switch {
		case depth == 0 && strings.HasPrefix(s[i:], end):
			return i + 2
		case t == "{":
			depth++
		case t == "}" && depth > 0:
			depth--
		}
		i += len(t)
	}
	return len(s)
}

func tokenize(s string) (tokens []string) {
	for s != "" {
		t := nextToken(s)
		tokens = append(tokens, t)
		s = s[len(t):]
	}
	return tokens
}

// opens returns how many blocks a tag opens: 1, 0 or, if it closes one, -1.
func opens(tokens []string) int {
	switch name := word(tokens); {
	case len(tokens) < 2 || tokens[1] != "%":
		return 0
	case strings.HasPrefix(name, "end"):
		return -1
	case slices.Contains([]string{"call", "filter", "for", "generation", "if", "macro", "with"}, name), name == "set" && !slices.Contains(tokens, "="):
		return 1
	}
	return 0
}

// tooDeep reports whether brackets are nested deeper than a parser that calls
// itself for each should be given.
func tooDeep(tokens []string) bool {
	depth := 0
	for _, t := range tokens {
		switch t {
		case "(", "[", "{":
			if depth++; depth > maxBrackets {
				return true
			}
		case ")", "]", "}":
			depth--
		}
	}
	return false
}

// nextToken returns the token that s begins with: a string literal, a word or
// number, white space, an operator.
func nextToken(s string) string {
	switch c := s[0]; {
	case c == '\'' || c == '"':
		for i := 1; i < len(s); i++ {
			if s[i] == '\\' {
				i++
			} else if s[i] == c {
				return s[:i+1]
			}
		}
		return s
	case isWord(c):
		return s[:prefix(s, isWord)]
	case isSpace(c):
		return s[:prefix(s, isSpace)]
	}
	for _, op := range []string{"==", "!=", "<=", ">=", "//", "**"} {
		if strings.HasPrefix(s, op) {
			return op
		}
	}
	return s[:1]
}

func prefix(s string, is func(byte) bool) int {
	n := 0
	for n < len(s) && is(s[n]) {
		n++
	}
	return n
}

func isWord(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= 0x80
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// rewriter collects the new source.
type rewriter struct {
	strings.Builder
	marked bool
}

func (w *rewriter) data(text string) {
	if w.marked {
		text = mark(text)
	}
	w.WriteString(text)
}

// tag rewrites a tag with its delimiters.
func (w *rewriter) tag(tag string) {
	end := len(tag) - 2
	if tag[1] == '#' || end < 2 || tag[end+1] != '}' {
		w.WriteString(tag)
		return
	}
	if tag[end-1] == '-' || tag[end-1] == '+' {
		end--
	}
	tokens := tokenize(tag[2:max(2, end)])
	w.WriteString(tag[:2])
	if i := slices.Index(tokens, "="); tag[1] == '%' && i >= 0 && word(tokens) == "set" {
		w.verbatim(tokens[:i+1])
		w.output(tokens[i+1:], true)
	} else if tag[1] == '%' {
		w.plain(tokens, false)
	} else {
		w.output(tokens, false)
	}
	w.WriteString(tag[max(2, end):])
}

// word returns the first word.
func word(tokens []string) string {
	for _, t := range tokens {
		if isWord(t[0]) {
			return t
		}
	}
	return ""
}

func (w *rewriter) verbatim(tokens []string) {
	for _, t := range tokens {
		w.WriteString(t)
	}
}

// output rewrites the expression of an output or set tag. A condition outside
// brackets is left to gonja, which then evaluates one side only; in a set tag it
// needs an else for that.
func (w *rewriter) output(tokens []string, isSet bool) {
	cond, alt := condition(tokens)
	switch {
	case cond < 0:
		w.plain(tokens, true)
	case alt < 0 && isSet:
		w.expression(tokens, true)
	case alt < 0:
		w.plain(tokens[:cond], true)
		w.plain(tokens[cond:], false)
	default:
		w.plain(tokens[:cond], true)
		w.plain(tokens[cond:alt+1], false)
		w.expression(tokens[alt+1:], true)
	}
}

// condition finds the first "if" outside brackets, and its "else"; -1 stands for
// none.
func condition(tokens []string) (cond, alt int) {
	cond, alt = -1, -1
	depth := 0
	for i, t := range tokens {
		switch t {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case "if":
			if depth == 0 && cond < 0 {
				cond = i
			}
		case "else":
			if depth == 0 && cond >= 0 {
				return cond, i
			}
		}
	}
	return cond, alt
}

// expression rewrites an expression inside brackets; out tells whether its value
// flows into the output.
func (w *rewriter) expression(tokens []string, out bool) {
	cond, alt := condition(tokens)
	if cond <= 0 {
		w.plain(tokens, out)
		return
	}
	end := len(tokens)
	if alt >= 0 {
		end = alt
	}
	w.WriteString(" choose(")
	w.plain(tokens[cond+1:end], false)
	w.WriteString(", ")
	w.plain(tokens[:cond], out)
	if alt >= 0 {
		w.WriteString(", ")
		w.expression(tokens[alt+1:], out)
	}
	w.WriteByte(')')
}

// plain rewrites tokens without a condition outside brackets.
func (w *rewriter) plain(tokens []string, out bool) {
	for i := 0; i < len(tokens); i++ {
		switch t := tokens[i]; t[0] {
		case '\'', '"':
			if w.marked && out && written(tokens, i) {
				t = markLiteral(t)
			}
			w.WriteString(t)
		case '(', '[', '{':
			end := closing(tokens, i)
			w.WriteString(t)
			w.slots(tokens[i+1:end], t[0], out && flows(tokens, i))
			i = end - 1
		default:
			w.WriteString(t)
		}
	}
}

// closing returns the index of the bracket that closes the one at i, or the
// number of tokens.
func closing(tokens []string, i int) int {
	depth := 0
	for ; i < len(tokens); i++ {
		switch tokens[i] {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return i
}

// slots rewrites what is inside a bracket: expressions between commas, colons
// and the equal signs of keyword arguments.
func (w *rewriter) slots(tokens []string, bracket byte, out bool) {
	from := 0
	for i := 0; i < len(tokens); i++ {
		switch t := tokens[i]; {
		case t == "(" || t == "[" || t == "{":
			i = closing(tokens, i)
		case t == "," || t == ":" && bracket != '(' || t == "=" && bracket == '(':
			w.expression(tokens[from:i], out)
			w.WriteString(t)
			from = i + 1
		}
	}
	w.expression(tokens[from:], out)
}

// neighbour returns the next token from i in direction step that is not white
// space, or "".
func neighbour(tokens []string, i, step int) string {
	for i += step; i >= 0 && i < len(tokens); i += step {
		if !isSpace(tokens[i][0]) {
			return tokens[i]
		}
	}
	return ""
}

// flows reports whether what is inside the bracket at i becomes part of the
// value: not so for subscripts, dictionaries and arguments of methods, filters
// and tests; so for groups, lists and arguments of functions and macros.
func flows(tokens []string, i int) bool {
	before := neighbour(tokens, i, -1)
	switch {
	case tokens[i] == "{":
		return false
	case before == "":
		return true
	case tokens[i] == "[" && isValueEnd(before):
		return false
	case !isValueEnd(before):
		return true
	}
	// A call: of a function if only a word stands there.
	name := i - 1
	for name >= 0 && isSpace(tokens[name][0]) {
		name--
	}
	switch neighbour(tokens, name, -1) {
	case ".", "|", "is", "not":
		return false
	}
	return isWord(before[0])
}

// isValueEnd reports whether a value can end in the token.
func isValueEnd(t string) bool {
	switch t {
	case "and", "or", "not", "in", "is", "if", "else":
		return false
	}
	return isWord(t[0]) || t == ")" || t == "]" || t[0] == '\'' || t[0] == '"'
}

var comparing = map[string]bool{"==": true, "!=": true, "<": true, ">": true, "<=": true, ">=": true, "in": true, "not": true, "is": true}

// written reports whether the literal at i is written rather than compared,
// called a method of, or indexed, and is more than a word.
func written(tokens []string, i int) bool {
	after := neighbour(tokens, i, 1)
	return !comparing[neighbour(tokens, i, -1)] && !comparing[after] && after != "." && after != "[" &&
		strings.Trim(tokens[i][1:], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_'\"") != ""
}

// markLiteral marks the characters of a string literal but for its quotes and
// escapes.
func markLiteral(literal string) string {
	var s strings.Builder
	escaped := false
	for i, r := range literal {
		switch {
		case escaped || r == '\\':
			escaped = !escaped
		case i == 0 || i == len(literal)-1:
		default:
			r = markRune(r)
		}
		s.WriteRune(r)
	}
	return s.String()
}
