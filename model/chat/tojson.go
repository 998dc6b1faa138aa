package chat

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// jsonWriter prints as Python's json.dumps does.
type jsonWriter struct {
	strings.Builder
	ascii, sorted bool
	item, key     string // separators
	indent        string // of one level; newlines separate the items if multi is set
	multi         bool
}

// tojson is transformers' filter: json.dumps with ensure_ascii=False by default.
func tojson(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
	w := jsonWriter{item: ", ", key: ": "}
	args := params.KwArgs
	for i, name := range []string{"ensure_ascii", "indent", "separators", "sort_keys"} {
		if i < len(params.Args) {
			args[name] = params.Args[i]
		}
	}
	if v := args["indent"]; !isNothing(v) {
		w.multi, w.item = true, ","
		if w.indent = v.String(); !v.IsString() {
			w.indent = strings.Repeat(" ", max(0, min(v.Integer(), 100)))
		}
	}
	if v := args["separators"]; !isNothing(v) && v.IsList() && v.Len() == 2 {
		w.item, w.key = v.Index(0).String(), v.Index(1).String()
	}
	w.ascii = args["ensure_ascii"] != nil && args["ensure_ascii"].IsTrue()
	w.sorted = args["sort_keys"] != nil && args["sort_keys"].IsTrue()
	if err := w.value(in, 0); err != nil {
		return exec.AsValue(err)
	}
	return exec.AsValue(w.String())
}

func (w *jsonWriter) value(v *exec.Value, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("tojson: nested deeper than %d", maxNesting)
	}
	switch {
	case isNone(v):
		w.WriteString("null")
	case !isDefined(v):
		return fmt.Errorf("tojson: the value is not defined")
	case v.IsBool():
		w.WriteString(strconv.FormatBool(v.Bool()))
	case v.IsInteger():
		w.WriteString(strconv.Itoa(v.Integer()))
	case v.IsFloat():
		w.WriteString(pythonFloat(v.Float()))
	case v.IsString():
		if n, ok := v.Interface().(json.Number); ok {
			w.WriteString(n.String())
		} else {
			w.quote(v.String())
		}
	case v.IsList():
		return w.items('[', ']', v.Len(), depth, func(i int) error { return w.value(v.Index(i), depth+1) })
	case v.IsDict():
		pairs := pairsOf(v)
		if w.sorted {
			slices.SortStableFunc(pairs, func(a, b *exec.Pair) int { return strings.Compare(a.Key.String(), b.Key.String()) })
		}
		return w.items('{', '}', len(pairs), depth, func(i int) error {
			w.quote(pairs[i].Key.String())
			w.WriteString(w.key)
			return w.value(pairs[i].Value, depth+1)
		})
	default:
		return fmt.Errorf("tojson: %s is not JSON", v)
	}
	return nil
}

func (w *jsonWriter) items(begin, end byte, n, depth int, item func(int) error) error {
	w.WriteByte(begin)
	for i := range n {
		if i > 0 {
			w.WriteString(w.item)
		}
		w.newline(depth + 1)
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		w.newline(depth)
	}
	w.WriteByte(end)
	return nil
}

func (w *jsonWriter) newline(depth int) {
	if w.multi {
		w.WriteByte('\n')
		w.WriteString(strings.Repeat(w.indent, depth))
	}
}

func (w *jsonWriter) quote(s string) {
	w.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			w.WriteByte('\\')
			w.WriteByte(byte(r))
		case '\n':
			w.WriteString(`\n`)
		case '\r':
			w.WriteString(`\r`)
		case '\t':
			w.WriteString(`\t`)
		case '\b':
			w.WriteString(`\b`)
		case '\f':
			w.WriteString(`\f`)
		default:
			switch {
			case r < ' ' || w.ascii && 0x7f <= r && r < 0x10000:
				fmt.Fprintf(w, `\u%04x`, r)
			case w.ascii && r >= utf8.RuneSelf:
				fmt.Fprintf(w, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
			default:
				w.WriteRune(r)
			}
		}
	}
	w.WriteByte('"')
}

// pythonFloat is Python's repr of a float: the shortest digits that read back,
// positional from 1e-4 up to 1e16.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 0):
		return map[bool]string{true: "Infinity", false: "-Infinity"}[f > 0]
	case f != 0 && (math.Abs(f) < 1e-4 || math.Abs(f) >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// pairsOf returns the entries of a dictionary in their order; a namespace, which
// has none, gives them sorted.
func pairsOf(v *exec.Value) []*exec.Pair {
	if d, ok := v.Interface().(*exec.Dict); ok {
		return slices.Clone(d.Pairs)
	}
	var pairs []*exec.Pair
	v.IterateOrder(func(_, _ int, key, value *exec.Value) bool {
		pairs = append(pairs, &exec.Pair{Key: key, Value: value})
		return true
	}, func() {}, false, true, true)
	return pairs
}
