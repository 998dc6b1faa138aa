package constrain

import (
	"math/big"
	"strings"
	"unicode"
)

// jsonRules are the parts of JSON that every schema uses.
type jsonRules struct {
	*builder
	space expr // what may stand between two tokens
	char  expr // a character of a string
	any   symbol
}

func newJSONRules() *jsonRules {
	j := &jsonRules{builder: newBuilder()}
	blank := j.class(blanks())
	line := append(j.text("\n"), j.repeat(expr{blank}, 0, 32)...)
	j.space = j.either(nil, j.text(" "), line)
	hex := j.runes([]rune("09afAF"))
	escape := j.either(
		expr{j.oneOf(`"\/bfnrt`)},
		concat(j.text("u"), j.either(
			concat(j.runes([]rune("09acefACEF")), hex, hex, hex),
			concat(j.runes([]rune("ddDD")), j.runes([]rune("07")), hex, hex), // no surrogates
		)),
	)
	j.char = j.either(j.plainChar([]rune{0x20, unicode.MaxRune}), append(j.text(`\`), escape...))
	return j
}

func blanks() (c class) {
	c.add(' ', ' ')
	c.add('\t', '\t')
	return c
}

func concat(list ...expr) (e expr) {
	for _, x := range list {
		e = append(e, x...)
	}
	return e
}

// oneOf is one of some ASCII characters.
func (b *builder) oneOf(bytes string) symbol {
	var c class
	for i := range len(bytes) {
		c.add(bytes[i], bytes[i])
	}
	return b.class(c)
}

// plainChar is a character of the ranges that a string holds as it is.
func (j *jsonRules) plainChar(ranges []rune) expr {
	return j.runes(without(without(without(ranges, 0, 0x1f), '"', '"'), '\\', '\\'))
}

// without takes the characters from to to out of ranges.
func without(ranges []rune, from, to rune) (out []rune) {
	for i := 0; i+1 < len(ranges); i += 2 {
		if a, b := ranges[i], min(ranges[i+1], from-1); a <= b {
			out = append(out, a, b)
		}
		if a, b := max(ranges[i], to+1), ranges[i+1]; a <= b {
			out = append(out, a, b)
		}
	}
	return out
}

// str is a string of min to max characters, a negative max being no limit.
func (j *jsonRules) str(min, max int) expr {
	return concat(j.text(`"`), j.repeat(j.char, min, max), j.text(`"`))
}

// value is any JSON.
func (j *jsonRules) value() expr {
	if j.any == 0 {
		j.any = j.rule()
		j.define(j.any, j.str(0, -1), j.number(), j.text("true"), j.text("false"), j.text("null"),
			j.array(nil, expr{j.any}, 0, -1), j.object(nil, expr{j.any}))
	}
	return expr{j.any}
}

func (j *jsonRules) digits(min, max int) expr { return j.repeat(expr{j.bytes('0', '9')}, min, max) }

// integer has at most 18 digits, so that it is one wherever it is read.
func (j *jsonRules) integer() expr {
	return concat(j.optional(j.text("-")), j.natural())
}

func (j *jsonRules) natural() expr {
	return j.either(j.text("0"), concat(expr{j.bytes('1', '9')}, j.digits(0, 17)))
}

// number is one that a float64 can hold.
func (j *jsonRules) number() expr { return concat(j.optional(j.text("-")), j.positive()) }

func (j *jsonRules) positive() expr {
	fraction := concat(j.text("."), j.digits(1, 17))
	exponent := concat(expr{j.oneOf("eE")}, j.optional(expr{j.oneOf("+-")}), j.digits(1, 2))
	return concat(j.natural(), j.optional(fraction), j.optional(exponent))
}

// between is an integer from low to high, either of which may be nil for no limit
// but the number of digits.
func (j *jsonRules) between(low, high *big.Int) expr {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil)
	limit.Sub(limit, big.NewInt(1))
	if low == nil || low.CmpAbs(limit) > 0 && low.Sign() < 0 {
		low = new(big.Int).Neg(limit)
	}
	if high == nil || high.Cmp(limit) > 0 {
		high = limit
	}
	if low.Cmp(high) > 0 {
		j.fail("no integer is from %s to %s", low, high)
		return nil
	}
	var list []expr
	if low.Sign() < 0 {
		from := big.NewInt(1) // of the absolute value
		if high.Sign() < 0 {
			from = new(big.Int).Neg(high)
		}
		for _, e := range j.spread(from.String(), new(big.Int).Neg(low).String()) {
			list = append(list, concat(j.text("-"), e))
		}
		low = new(big.Int)
	}
	if high.Sign() >= 0 {
		list = append(list, j.spread(low.String(), high.String())...)
	}
	return j.either(list...)
}

// spread lists the decimal numbers from low to high by their lengths.
func (j *jsonRules) spread(low, high string) (list []expr) {
	for n := len(low); n <= len(high); n++ {
		from, to := low, high
		if n > len(low) {
			from = "1" + strings.Repeat("0", n-1)
		}
		if n < len(high) {
			to = strings.Repeat("9", n)
		}
		list = append(list, j.sameLength(from, to))
	}
	return list
}

// sameLength is a number from low to high, which have as many digits.
func (j *jsonRules) sameLength(low, high string) expr {
	n := len(low)
	switch {
	case n == 0:
		return nil
	case strings.Trim(low, "0") == "" && strings.Trim(high, "9") == "":
		return j.digits(n, n)
	case low[0] == high[0]:
		return concat(j.text(low[:1]), j.sameLength(low[1:], high[1:]))
	}
	zeros, nines := strings.Repeat("0", n-1), strings.Repeat("9", n-1)
	list := []expr{
		concat(j.text(low[:1]), j.sameLength(low[1:], nines)),
		concat(j.text(high[:1]), j.sameLength(zeros, high[1:])),
	}
	if low[0]+1 < high[0] {
		list = append(list, concat(expr{j.bytes(low[0]+1, high[0]-1)}, j.digits(n-1, n-1)))
	}
	return j.either(list...)
}

// array has min to max items, a negative max being no limit: those of a prefix, then
// others, none if item is nil.
func (j *jsonRules) array(prefix []expr, item expr, min, max int) expr {
	if item == nil && (max < 0 || max > len(prefix)) {
		max = len(prefix)
	}
	if max >= 0 && max < min {
		j.fail("no array has %d to %d items", min, max)
		return nil
	}
	open, shut := concat(j.text("["), j.space), j.text("]")
	if max == 0 {
		return concat(open, shut)
	}
	comma := concat(j.space, j.text(","), j.space)
	var tail func(n int) expr // after n items
	tail = func(n int) expr {
		switch {
		case n == max:
			return nil
		case n >= len(prefix):
			return j.repeat(concat(comma, item), max0(min-n), atLeast(max-n, max))
		}
		more := concat(comma, prefix[n], tail(n+1))
		if n >= min {
			return j.optional(more)
		}
		return more
	}
	first := item
	if len(prefix) > 0 {
		first = prefix[0]
	}
	items := concat(first, tail(1), j.space)
	if min == 0 {
		items = j.optional(items)
	}
	return concat(open, items, shut)
}

func max0(n int) int { return max(n, 0) }

// atLeast is n, or -1 where the limit is none.
func atLeast(n, limit int) int {
	if limit < 0 {
		return -1
	}
	return n
}

// property of an object.
type property struct {
	name     string
	value    expr
	required bool
}

// object has the properties in their order, then others with values of extra, none
// if that is nil.
func (j *jsonRules) object(list []property, extra expr) expr {
	colon := concat(j.space, j.text(":"), j.space)
	comma := concat(j.space, j.text(","), j.space)
	var others, first expr // behind a property, and as the first
	if extra != nil {
		other := expr{j.single(concat(j.otherName(list), colon, extra))}
		others = j.repeat(concat(comma, other), 0, -1)
		first = j.optional(concat(other, others))
	}
	// From the last property on: what follows if one has come before, and if none has.
	for i := len(list) - 1; i >= 0; i-- {
		p := list[i]
		pair := expr{j.single(concat(j.text(quote(p.name)), colon, p.value))}
		here, begins := concat(comma, pair, others), concat(pair, others)
		if p.required {
			others, first = here, begins
		} else {
			others, first = j.either(here, others), j.either(begins, first)
		}
		others, first = expr{j.single(others)}, expr{j.single(first)}
	}
	return concat(j.text("{"), j.space, first, j.space, j.text("}"))
}

// otherName is a name that no property has: it leaves the tree of their names
// somewhere.
func (j *jsonRules) otherName(list []property) expr {
	var names [][]rune
	for _, p := range list {
		names = append(names, []rune(p.name))
	}
	anything := concat(j.repeat(j.char, 0, -1), j.text(`"`))
	var leave func(names [][]rune) expr // after the same beginning
	leave = func(names [][]rune) expr {
		after := map[rune][][]rune{}
		ends := false
		var order []rune
		for _, n := range names {
			if len(n) == 0 {
				ends = true
				continue
			}
			if after[n[0]] == nil {
				order = append(order, n[0])
			}
			after[n[0]] = append(after[n[0]], n[1:])
		}
		ranges := []rune{0x20, unicode.MaxRune}
		var ways []expr
		for _, r := range order {
			ranges = without(ranges, r, r)
			if r >= 0x20 && r != '"' && r != '\\' {
				ways = append(ways, concat(j.text(string(r)), leave(after[r])))
			}
		}
		ways = append(ways, concat(j.plainChar(ranges), anything))
		if !ends {
			ways = append(ways, j.text(`"`))
		}
		return j.either(ways...)
	}
	return concat(j.text(`"`), leave(names))
}
