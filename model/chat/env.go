package chat

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	controls "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// Bounds of one rendering.
const (
	maxSteps  = 300_000  // tags executed, macros called, numbers of ranges
	maxDepth  = 50       // of macros that call macros
	maxOutput = 64 << 20 // bytes
)

// budget counts what a rendering has used.
type budget struct {
	steps, depth int
	err          error // the first reason to stop
}

const budgetKey = "tern budget" // no name that a template could write

func (b *budget) fail(format string, args ...any) error {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
	return b.err
}

func (b *budget) spend(n int) error {
	if n > maxSteps-b.steps {
		return b.fail("more than %d steps: the template does not come to an end", maxSteps)
	}
	b.steps += n
	return nil
}

func budgetOf(ctx *exec.Context) *budget {
	if b, ok := ctx.Get(budgetKey); ok {
		return b.(*budget)
	}
	return &budget{}
}

// output takes the text of the template's top level.
type output struct {
	strings.Builder
	budget *budget
}

func (o *output) Write(p []byte) (int, error) {
	if len(p) > maxOutput-o.Len() {
		return 0, o.budget.fail("the prompt is longer than %d bytes", maxOutput)
	}
	return o.Builder.Write(p)
}

// environment is what templates can use: gonja's, less what reaches other
// templates or files, with the functions of transformers and with Python's
// behaviour where gonja's differs.
var environment = &exec.Environment{
	Context:           exec.NewContext(functions),
	Filters:           exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters).Update(exec.NewFilterSet(filters)),
	Tests:             exec.NewTestSet(map[string]exec.TestFunction{}).Update(builtins.Tests).Update(exec.NewTestSet(tests)),
	ControlStructures: exec.NewControlStructureSet(statements()),
	Methods: exec.Methods{
		Bool: builtins.Methods.Bool, Int: builtins.Methods.Int, Float: builtins.Methods.Float,
		List: builtins.Methods.List, Dict: exec.NewMethodSet(dictMethods), Str: exec.NewMethodSet(stringMethods()),
	},
}

var functions = map[string]any{
	"none": none,
	"namespace": func(params *exec.VarArgs) *exec.Value {
		ns := map[string]any{}
		for key, value := range params.KwArgs {
			ns[key] = value
		}
		return exec.AsValue(ns)
	},
	"choose": func(params *exec.VarArgs) *exec.Value { // see rewrite
		a := params.Args
		switch {
		case a[0].IsTrue():
			return a[1]
		case len(a) > 2:
			return a[2]
		}
		return exec.AsValue(nil)
	},
	"range": func(e *exec.Evaluator, params *exec.VarArgs) (*exec.Value, error) {
		b := budgetOf(e.Environment.Context)
		start, stop, step := 0, 0, 1
		switch a := params.Args; len(a) {
		case 1:
			stop = a[0].Integer()
		case 2:
			start, stop = a[0].Integer(), a[1].Integer()
		case 3:
			start, stop, step = a[0].Integer(), a[1].Integer(), a[2].Integer()
		}
		if step == 0 {
			return nil, errors.New("range needs one to three numbers, and a step that is not 0")
		}
		l := list{}
		for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
			if err := b.spend(1); err != nil {
				return nil, err
			}
			l = append(l, i)
		}
		return exec.AsValue(l), nil
	},
	"raise_exception": func(e *exec.Evaluator, params *exec.VarArgs) (*exec.Value, error) {
		return nil, budgetOf(e.Environment.Context).fail("%s", params.First().String())
	},
	"strftime_now": func(params *exec.VarArgs) *exec.Value {
		return exec.AsValue(strftime(time.Now(), params.First().String()))
	},
}

// strftime formats the directives that chat templates use.
func strftime(t time.Time, format string) string {
	layouts := map[byte]string{'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'j': "002", 'Z': "MST", 'z': "-0700"}
	var s strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			s.WriteByte(format[i])
			continue
		}
		i++
		switch layout, ok := layouts[format[i]]; {
		case ok:
			s.WriteString(t.Format(layout))
		case format[i] == 'e':
			fmt.Fprintf(&s, "%2d", t.Day())
		default:
			s.WriteByte(format[i])
		}
	}
	return s.String()
}

var filters = map[string]exec.FilterFunction{
	"tojson": tojson,
	"items": func(_ *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
		return exec.AsValue(items(in))
	},
	"dictsort": func(_ *exec.Evaluator, in *exec.Value, _ *exec.VarArgs) *exec.Value {
		l := items(in)
		slices.SortStableFunc(l, func(a, b any) int {
			return strings.Compare(strings.ToLower(a.(list)[0].(string)), strings.ToLower(b.(list)[0].(string)))
		})
		return exec.AsValue(l)
	},
	"default": fallback,
	"d":       fallback,
}

func fallback(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
	value, also := exec.AsValue(""), params.KwArgs["boolean"]
	if v, ok := params.KwArgs["default_value"]; ok {
		value = v
	}
	if len(params.Args) > 0 {
		value = params.Args[0]
	}
	if len(params.Args) > 1 {
		also = params.Args[1]
	}
	if !isDefined(in) || also != nil && also.IsTrue() && !in.IsTrue() {
		return value
	}
	return in
}

// items returns a dictionary's entries as pairs.
func items(v *exec.Value) list {
	l := list{}
	if v.IsDict() {
		for _, p := range pairsOf(v) {
			l = append(l, list{p.Key.String(), p.Value})
		}
	}
	return l
}

func isDefined(v *exec.Value) bool { return v.Val.IsValid() }

// isNothing reports whether an argument was left out or is None.
func isNothing(v *exec.Value) bool { return v == nil || !isDefined(v) || isNone(v) }

func isNone(v *exec.Value) bool {
	if !v.Val.IsValid() || !v.Val.CanInterface() {
		return false
	}
	_, ok := v.Val.Interface().(null)
	return ok
}

type testFunc = func(*exec.Context, *exec.Value, *exec.VarArgs) (bool, error)

func test(f func(*exec.Value) bool) testFunc {
	return func(_ *exec.Context, in *exec.Value, _ *exec.VarArgs) (bool, error) { return f(in), nil }
}

var tests = map[string]exec.TestFunction{
	"defined":   test(isDefined),
	"undefined": test(func(v *exec.Value) bool { return !isDefined(v) }),
	"none":      test(isNone),
}

var dictMethods = map[string]exec.Method[map[string]any]{
	"get": func(_ map[string]any, self *exec.Value, arguments *exec.VarArgs) (any, error) {
		if v, ok := self.GetItem(arguments.First().String()); ok {
			return v.Interface(), nil
		}
		if len(arguments.Args) > 1 {
			return arguments.Args[1].Interface(), nil
		}
		return none, nil
	},
	"items": func(_ map[string]any, self *exec.Value, _ *exec.VarArgs) (any, error) { return items(self), nil },
	"keys": func(_ map[string]any, self *exec.Value, _ *exec.VarArgs) (any, error) {
		l := list{}
		for _, p := range pairsOf(self) {
			l = append(l, p.Key.Interface())
		}
		return l, nil
	},
	"values": func(_ map[string]any, self *exec.Value, _ *exec.VarArgs) (any, error) {
		l := list{}
		for _, p := range pairsOf(self) {
			l = append(l, p.Value.Interface())
		}
		return l, nil
	},
}

// statements are the tags of a template, each of which costs a step.
func statements() map[string]parser.ControlStructureParser {
	m := map[string]parser.ControlStructureParser{"generation": generation}
	for _, name := range []string{"break", "call", "continue", "do", "filter", "for", "if", "macro", "raw", "set", "with"} {
		m[name], _ = builtins.ControlStructures.Get(name)
	}
	for name, parse := range m {
		m[name] = func(p, args *parser.Parser) (nodes.ControlStructure, error) {
			at := args.Current()
			if at == nil {
				at = p.Current()
			}
			cs, err := parse(p, args)
			if err != nil {
				if at != nil && line(err) == 0 {
					err = p.Error(err.Error(), at)
				}
				return nil, err
			}
			if loop, ok := cs.(*controls.ForControlStructure); ok && loop.Recursive {
				return nil, p.Error("recursive loops are not supported", at)
			}
			return counted{cs.(exec.ControlStructure)}, nil
		}
	}
	return m
}

// counted is a statement that costs a step.
type counted struct{ exec.ControlStructure }

func (c counted) Execute(r *exec.Renderer, tag *nodes.ControlStructureBlock) error {
	ctx := r.Environment.Context
	if err := budgetOf(ctx).spend(1); err != nil {
		return err
	}
	if err := c.ControlStructure.Execute(r, tag); err != nil {
		return err
	}
	if m, ok := c.ControlStructure.(*controls.MacroControlStructure); ok {
		macro, _ := ctx.Get(m.Name)
		ctx.Set(m.Name, bounded(macro.(exec.Macro), budgetOf(ctx)))
	}
	return nil
}

// bounded is a macro that cannot call itself for ever.
func bounded(macro exec.Macro, b *budget) exec.Macro {
	return func(params *exec.VarArgs) *exec.Value {
		if err := b.spend(1); err != nil {
			return exec.AsValue(err)
		}
		if b.depth == maxDepth {
			return exec.AsValue(b.fail("macros call each other more than %d deep", maxDepth))
		}
		b.depth++
		defer func() { b.depth-- }()
		return macro(params)
	}
}

// body is a statement that renders what it encloses.
type body struct {
	at      *tokens.Token
	wrapper *nodes.Wrapper
}

func (b *body) Position() *tokens.Token { return b.at }
func (b *body) String() string          { return "generation" }
func (b *body) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return r.ExecuteWrapper(b.wrapper)
}

// generation parses transformers' tag around what a model has written.
func generation(p, _ *parser.Parser) (nodes.ControlStructure, error) {
	at := p.Current()
	wrapper, _, err := p.WrapUntil("endgeneration")
	if err != nil {
		return nil, err
	}
	return &body{at, wrapper}, nil
}

var lineNumber = regexp.MustCompile(`(?i)\bline:? ?=?(\d+)`)

// line returns the line that an error of gonja names last, which is the
// innermost, or 0.
func line(err error) int {
	n := 0
	for _, m := range lineNumber.FindAllStringSubmatch(err.Error(), -1) {
		n, _ = strconv.Atoi(m[1])
	}
	return n
}

// clean shortens an error of gonja to the line and the cause.
func clean(err error) error {
	n := line(err)
	for {
		if v, ok := err.(*exec.Value); ok {
			err = v.Interface().(error)
		} else if inner := errors.Unwrap(err); inner != nil {
			err = inner
		} else {
			break
		}
	}
	text := unmarkText(err.Error())
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	return fmt.Errorf("chat template: line %d: %s", n, text)
}
