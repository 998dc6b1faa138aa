// Package constrain holds the answers of a model to a grammar: a JSON Schema, or
// rules in the notation of GBNF. A grammar is compiled to rules over bytes; an
// automaton follows the bytes of an answer through them, and of the tokens of a
// vocabulary tells which may follow.
//
// What a schema says is obeyed or refused: a keyword that this package cannot hold an
// answer to is an error, never ignored.
package constrain

import (
	"fmt"
	"unicode/utf8"
)

// Grammar is a compiled grammar. It is safe for concurrent use.
type Grammar struct {
	classes []class
	symbols []symbol  // of all alternatives, each ended by end
	rules   [][]int32 // for each rule where its alternatives begin
	root    int32
}

// class is a set of bytes.
type class [4]uint64

func (c *class) add(from, to byte) {
	for b := int(from); b <= int(to); b++ {
		c[b/64] |= 1 << (b % 64)
	}
}

func (c *class) has(b byte) bool { return c[b/64]>>(b%64)&1 != 0 }

// symbol is a class of bytes, a rule, or the end of an alternative.
type symbol int32

const end symbol = -1

func ruleSymbol(r int32) symbol { return symbol(-2 - r) }
func (s symbol) isRule() bool   { return s <= -2 }
func (s symbol) rule() int32    { return int32(-2 - s) }

// maxSymbols bounds what a grammar may grow to.
const maxSymbols = 1 << 18

// expr is a sequence of symbols.
type expr []symbol

// builder makes a grammar. Its first error stays.
type builder struct {
	alternatives [][]expr // by rule
	classes      []class
	classOf      map[class]symbol
	size         int
	err          error
}

func newBuilder() *builder { return &builder{classOf: map[class]symbol{}} }

func (b *builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

// rule adds a rule without alternatives.
func (b *builder) rule() symbol {
	b.alternatives = append(b.alternatives, nil)
	return ruleSymbol(int32(len(b.alternatives) - 1))
}

// define adds alternatives to a rule.
func (b *builder) define(r symbol, alternatives ...expr) {
	for _, a := range alternatives {
		if b.size += len(a) + 1; b.size > maxSymbols {
			b.fail("the grammar is too large: more than %d symbols", maxSymbols)
			return
		}
		b.alternatives[r.rule()] = append(b.alternatives[r.rule()], a)
	}
}

func (b *builder) class(c class) symbol {
	s, ok := b.classOf[c]
	if !ok {
		s = symbol(len(b.classes))
		b.classes, b.classOf[c] = append(b.classes, c), s
	}
	return s
}

func (b *builder) bytes(from, to byte) symbol {
	var c class
	c.add(from, to)
	return b.class(c)
}

// text is a literal.
func (b *builder) text(s string) (e expr) {
	for i := range len(s) {
		e = append(e, b.bytes(s[i], s[i]))
	}
	return e
}

// either is one of several.
func (b *builder) either(alternatives ...expr) expr {
	if len(alternatives) == 1 {
		return alternatives[0]
	}
	r := b.rule()
	b.define(r, alternatives...)
	return expr{r}
}

func (b *builder) optional(e expr) expr { return b.either(e, nil) }

// single is a sequence as one symbol, to be repeated.
func (b *builder) single(e expr) symbol {
	if len(e) == 1 {
		return e[0]
	}
	r := b.rule()
	b.define(r, e)
	return r
}

// repeat is e at least min and at most max times; a negative max is no limit.
func (b *builder) repeat(e expr, min, max int) (out expr) {
	if min > maxSymbols || max > maxSymbols {
		b.fail("%d repetitions are too many", max)
		return nil
	}
	s := b.single(e)
	for range min {
		out = append(out, s)
	}
	if max < 0 {
		r := b.rule()
		b.define(r, expr{s, r}, nil)
		return append(out, r)
	}
	var rest expr
	for range max - min {
		rest = b.optional(append(expr{s}, rest...))
	}
	return append(out, rest...)
}

// runes is a character of the ranges, pairs of first and last.
func (b *builder) runes(ranges []rune) expr {
	var one class
	var alternatives []expr
	for i := 0; i+1 < len(ranges); i += 2 {
		from, to := ranges[i], ranges[i+1]
		if from < utf8.RuneSelf {
			one.add(byte(from), byte(min(to, utf8.RuneSelf-1)))
			from = utf8.RuneSelf
		}
		alternatives = b.multibyte(alternatives, from, to)
	}
	if one != (class{}) {
		alternatives = append(alternatives, expr{b.class(one)})
	}
	if len(alternatives) == 0 {
		b.fail("an empty set of characters")
		return nil
	}
	return b.either(alternatives...)
}

// multibyte adds the encodings of the characters from to to, none of them ASCII:
// ranges of characters whose bytes range independently.
func (b *builder) multibyte(list []expr, from, to rune) []expr {
	const surrogate, lastSurrogate = 0xd800, 0xdfff
	if from <= lastSurrogate && to >= surrogate {
		list = b.multibyte(list, from, surrogate-1)
		from = lastSurrogate + 1
	}
	if from > to {
		return list
	}
	for _, last := range []rune{0x7ff, 0xffff} { // of those with 2 and 3 bytes
		if from <= last && to > last {
			return b.multibyte(b.multibyte(list, from, last), last+1, to)
		}
	}
	for bits := 6; bits <= 18; bits += 6 {
		low := rune(1)<<bits - 1
		if from&^low == to&^low {
			break
		}
		if from&low != 0 {
			return b.multibyte(b.multibyte(list, from, from|low), (from|low)+1, to)
		}
		if to&low != low {
			return b.multibyte(b.multibyte(list, from, to&^low-1), to&^low, to)
		}
	}
	first, last := utf8.AppendRune(nil, from), utf8.AppendRune(nil, to)
	var e expr
	for i := range first {
		e = append(e, b.bytes(first[i], last[i]))
	}
	return append(list, e)
}

// grammar finishes, with root as what an answer is. Rules that begin with themselves
// are an error.
func (b *builder) grammar(root expr) (*Grammar, error) {
	start := b.single(root)
	if !start.isRule() {
		start = b.rule()
		b.define(start, root)
	}
	if b.err != nil {
		return nil, b.err
	}
	g := &Grammar{classes: b.classes, root: start.rule(), rules: make([][]int32, len(b.alternatives))}
	for r, alternatives := range b.alternatives {
		for _, a := range alternatives {
			g.rules[r] = append(g.rules[r], int32(len(g.symbols)))
			g.symbols = append(append(g.symbols, a...), end)
		}
	}
	if err := g.check(); err != nil {
		return nil, err
	}
	return g, nil
}

// check refuses rules that can begin with themselves, and a grammar that no text
// obeys.
func (g *Grammar) check() error {
	empty, ends := make([]bool, len(g.rules)), make([]bool, len(g.rules)) // can be empty, can end
	for changed := true; changed; {
		changed = false
		for r, alternatives := range g.rules {
			for _, at := range alternatives {
				nothing, finite := true, true
				for ; g.symbols[at] != end; at++ {
					s := g.symbols[at]
					nothing = nothing && s.isRule() && empty[s.rule()]
					finite = finite && (!s.isRule() || ends[s.rule()])
				}
				if nothing && !empty[r] || finite && !ends[r] {
					empty[r], ends[r], changed = empty[r] || nothing, ends[r] || finite, true
				}
			}
		}
	}
	if !ends[g.root] {
		return fmt.Errorf("nothing obeys the grammar: it never ends")
	}
	state := make([]uint8, len(g.rules)) // 1: being visited, 2: good
	var visit func(r int32) error
	visit = func(r int32) error {
		switch state[r] {
		case 1:
			return fmt.Errorf("a rule begins with itself")
		case 2:
			return nil
		}
		state[r] = 1
		for _, at := range g.rules[r] {
			for ; g.symbols[at].isRule(); at++ {
				s := g.symbols[at].rule()
				if err := visit(s); err != nil {
					return err
				}
				if !empty[s] {
					break
				}
			}
		}
		state[r] = 2
		return nil
	}
	for r := range g.rules {
		if err := visit(int32(r)); err != nil {
			return err
		}
	}
	return nil
}
