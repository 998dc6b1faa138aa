package chat

import (
	"errors"
	"strings"
	"unicode"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

type stringMethod = exec.Method[string]

// stringMethods are Python's; those that gonja's lack or get wrong are here.
func stringMethods() map[string]stringMethod {
	m := map[string]stringMethod{
		"strip":      stripper(strings.Trim, strings.TrimFunc),
		"lstrip":     stripper(strings.TrimLeft, strings.TrimLeftFunc),
		"rstrip":     stripper(strings.TrimRight, strings.TrimRightFunc),
		"split":      splitter(strings.Index, false),
		"rsplit":     splitter(strings.LastIndex, true),
		"startswith": affix(strings.HasPrefix),
		"endswith":   affix(strings.HasSuffix),
		"replace": func(self string, _ *exec.Value, a *exec.VarArgs) (any, error) {
			if len(a.Args) < 2 {
				return nil, errors.New("replace needs the old and the new text")
			}
			n := -1
			if len(a.Args) > 2 {
				n = a.Args[2].Integer()
			}
			return strings.Replace(self, a.Args[0].String(), a.Args[1].String(), n), nil
		},
	}
	for _, name := range []string{"capitalize", "count", "find", "isalnum", "isalpha", "isdigit", "islower", "isnumeric", "isspace", "isupper", "join", "lower", "removeprefix", "removesuffix", "rfind", "splitlines", "title", "upper", "zfill"} {
		if method, ok := builtins.Methods.Str.Get(name); ok {
			m[name] = method
		}
	}
	return m
}

func stripper(chars func(s, cutset string) string, space func(string, func(rune) bool) string) stringMethod {
	return func(self string, _ *exec.Value, a *exec.VarArgs) (any, error) {
		if len(a.Args) == 0 || isNothing(a.Args[0]) {
			return space(self, unicode.IsSpace), nil
		}
		return chars(self, a.Args[0].String()), nil
	}
}

func affix(has func(s, affix string) bool) stringMethod {
	return func(self string, _ *exec.Value, a *exec.VarArgs) (any, error) {
		v := a.First()
		if !v.IsList() {
			return has(self, v.String()), nil
		}
		for i := range v.Len() { // any of a tuple
			if has(self, v.Index(i).String()) {
				return true, nil
			}
		}
		return false, nil
	}
}

// splitter cuts at a separator from one side, at most as often as the second
// argument says, or at white space if there is no separator.
func splitter(index func(s, sep string) int, fromEnd bool) stringMethod {
	return func(self string, _ *exec.Value, a *exec.VarArgs) (any, error) {
		args := append([]*exec.Value{}, a.Args...)
		if len(args) == 0 && a.KwArgs["sep"] != nil {
			args = append(args, a.KwArgs["sep"])
		}
		limit := -1
		if v := a.KwArgs["maxsplit"]; v != nil {
			limit = v.Integer()
		}
		if len(args) > 1 {
			limit = args[1].Integer()
		}
		out := list{}
		if len(args) == 0 || isNothing(args[0]) {
			if limit >= 0 {
				return nil, errors.New("split at white space takes no limit here")
			}
			for _, f := range strings.Fields(self) {
				out = append(out, f)
			}
			return out, nil
		}
		sep := args[0].String()
		if sep == "" {
			return nil, errors.New("empty separator")
		}
		for limit < 0 || len(out) < limit {
			i := index(self, sep)
			if i < 0 {
				break
			}
			if fromEnd {
				out = append(list{self[i+len(sep):]}, out...)
				self = self[:i]
			} else {
				out = append(out, self[:i])
				self = self[i+len(sep):]
			}
		}
		if fromEnd {
			return append(list{self}, out...), nil
		}
		return append(out, self), nil
	}
}
