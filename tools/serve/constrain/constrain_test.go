package constrain

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/testdata/sprig"
)

// obeys reports whether a text is of a grammar.
func obeys(t testing.TB, g *Grammar, text string) bool {
	t.Helper()
	a, at, err := newAutomaton(g)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) {
		if at = a.step(at, text[i]); at == dead {
			if a.err != nil {
				t.Fatal(a.err)
			}
			return false
		}
		at = a.compact(at)
	}
	return a.states[at].accepts
}

func parse(t testing.TB, schema string) *Schema {
	t.Helper()
	s, err := ParseSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return s
}

const person = `{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
	"tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}}, "required": ["name"], "additionalProperties": false}`

const tree = `{"$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
	"required": ["value", "children"], "additionalProperties": false}}, "$ref": "#/$defs/node"}`

// What a schema's grammar takes, and what it does not. BL-56.
func TestSchemas(t *testing.T) {
	for _, c := range []struct{ schema, good, bad string }{ // texts with | between them
		{person, `{"name": "x"}|{"name":"é\n\u00e9","age":130}|{ "name": "", "tags": ["a", "b"] }|{"name":"x","age":0,"tags":[]}`,
			`{}|{"age": 3}|{"name": "x", "age": 131}|{"name": "x", "age": -1}|{"name": "x", "age": 01}|{"name": "x", "b": 1}|{"name": "x", "tags": ["a","a","a"]}|{"name": "x", "tags": ["c"]}|{"name": "x"`},
		{tree, `{"value": 1, "children": [{"value": 2, "children": []}, {"value": -3, "children": [{"value": 0, "children": []}]}]}`,
			`{"value": 1}|{"value": 1, "children": [1]}`},
		{`{"type": "string", "pattern": "^\\d{4}$"}`, `"1234"`, `"123"|"12345"|"123a"|1234`},
		{`{"type": "string", "pattern": "b+"}`, `"b"|"abba"|"\u0020b"`, `""|"a"`},
		{`{"type": "string", "pattern": "^a|z$"}`, `"ab"|"yz"|"z"`, `"za"|"b"`},
		{`{"type": "string", "pattern": "^[^a-z]\\s(x|\"y\\\\)$"}`, `"A x"|"é\tx"|"\"\n\"y\\"`, `"a x"|"Ax"|"A y"`},
		{`{"type": "string", "pattern": "(?i)^é$"}`, `"é"|"É"`, `"e"`},
		{`{"type": "string", "minLength": 2, "maxLength": 3}`, `"ab"|"é\n☃"`, `"a"|"abcd"`},
		{`{"type": "string", "format": "date"}`, `"2024-12-31"|"0001-02-28"`, `"2024-02-30"|"2024-13-01"|"24-01-01"`},
		{`{"type": "string", "format": "uuid"}`, `"01234567-89ab-cdef-0123-456789abcdef"`, `"01234567"`},
		{`{"type": ["integer", "null"]}`, `null|-7|0`, `1.5|"a"|nul`},
		{`{"type": "integer", "exclusiveMinimum": -13, "maximum": 1205}`, `-12|-9|0|7|99|100|1199|1205`, `-13|-20|1206|2000|10000|-0`},
		{`{"type": "integer", "minimum": 2.5}`, `3|10|999999999999999999`, `2|0|-3`},
		{`{"type": "integer", "maximum": -5}`, `-5|-60`, `-4|0|5`},
		{`{"type": "number", "minimum": 0}`, `0|1.5|2e10|0.001`, `-1|-0.5|.5|1.`},
		{`{"type": "number"}`, `-1.5e-7|3`, `1e999|+1|0x1`},
		{`{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false, "minItems": 1}`, `[1]|[1, "a"]`, `[]|["a"]|[1,"a",2]`},
		{`{"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}`, `[1,2]|[1, 2, 3]`, `[1]|[1,2,3,4]|[1,2,]`},
		{`{"enum": ["a\"b", 1, null, {"k": [true]}]}`, `"a\"b"|1|null|{"k": [true]}|{"k":[true]}`, `"a"|2|{"k": [false]}`},
		{`{"type": "integer", "enum": ["a", 3]}`, `3`, `"a"`},
		{`{"const": "x"}`, `"x"`, `"y"`},
		{`{"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "boolean"}}]}`, `1|[true,false]`, `[1]|true`},
		{`{"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
			{"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}]}`, `{"kind": "a", "x": 1}|{"kind": "b"}`, `{"kind": "a"}|{"kind": "c"}`},
		{`{"type": "object"}`, `{}|{"a": {"b": [1, 2.5, "x", null, true]}}`, `[]|{"a"}|{"a": }`},
		{`{"type": "object", "properties": {"ab": {"type": "integer"}, "a": {"type": "integer"}}, "additionalProperties": {"type": "string"}}`,
			`{}|{"ab": 1}|{"a": 1}|{"ab": 1, "a": 2, "c": "x"}|{"abc": "x", "b": "y"}|{"": "x"}`, `{"c": 1}|{"ab": "x"}|{"a": "x"}|{"c": "x", "a": 1}`},
		{`{}`, `1|"a"|[{}]`, `|tru`},
		{`true`, `null`, `nope`},
		{`{"properties": {"a": {"type": "null"}}, "title": "x", "x-extra": 1}`, `{"a": null}|{}`, `3`},
	} {
		s := parse(t, c.schema)
		for text := range strings.SplitSeq(c.good, "|") {
			if !obeys(t, s.Grammar, text) {
				t.Errorf("%s refuses %s", c.schema, text)
			}
			if err := s.Check(text); err != nil {
				t.Errorf("%s: the check refuses %s: %v", c.schema, text, err)
			}
		}
		for text := range strings.SplitSeq(c.bad, "|") {
			if obeys(t, s.Grammar, text) {
				t.Errorf("%s takes %s", c.schema, text)
			}
		}
	}
}

// A schema that an answer cannot be held to is refused, naming the keyword. BL-56.
func TestRefusedSchemas(t *testing.T) {
	for schema, word := range map[string]string{
		`{"type": "string", "pattern": "("}`:                                        "pattern",
		`{"type": "string", "pattern": "(?=a)b"}`:                                   "pattern",
		`{"type": "string", "pattern": "a\\bc"}`:                                    "pattern",
		`{"type": "string", "pattern": "a$b"}`:                                      "pattern",
		`{"type": "string", "pattern": "^a$", "maxLength": 3}`:                      "length",
		`{"type": "string", "format": "hostname"}`:                                  "format",
		`{"$ref": "http://example.org/schema.json"}`:                                "$ref",
		`{"$ref": "file:///etc/passwd"}`:                                            "$ref",
		`{"$ref": "#/nowhere"}`:                                                     "nowhere",
		`{"$ref": "#"}`:                                                             "",
		`{"anyOf": [{"$ref": "#"}, {"type": "null"}]}`:                              "begins with itself",
		`{"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}`: "never ends",
		`{"enum": []}`:                                         "",
		`{"type": "integer", "multipleOf": 3}`:                 "multipleOf",
		`{"type": "array", "uniqueItems": true}`:               "uniqueItems",
		`{"type": "array", "contains": {"type": "null"}}`:      "contains",
		`{"type": "object", "patternProperties": {"^a": {}}}`:  "patternProperties",
		`{"type": "object", "required": ["a"]}`:                "required",
		`{"not": {"type": "null"}}`:                            "not",
		`{"if": {}, "then": {}}`:                               "if",
		`{"allOf": [{"type": "null"}, {}]}`:                    "allOf",
		`{"oneOf": [{"type": "integer"}, {"type": "number"}]}`: "oneOf",
		`{"anyOf": [{"type": "null"}], "type": "object"}`:      "anyOf beside type",
		`{"type": "number", "maximum": 3}`:                     "numbers",
		`{"type": "integer", "minimum": 5, "maximum": 4}`:      "no integer",
		`{"type": "array", "minItems": 3, "maxItems": 2}`:      "no array",
		`{"type": "string", "minLength": 3, "maxLength": 2}`:   "no string",
		`{"type": "string", "maxLength": 99999999}`:            "too",
		`{"type": "date"}`:                                     "",
		`{"type": 3}`:                                          "",
		`false`:                                                "nothing obeys",
		`3`:                                                    "",
		`{"type": "object"`:                                    "",
		`{"dependentRequired": {"a": ["b"]}}`:                  "dependentRequired",
	} {
		if _, err := ParseSchema(json.RawMessage(schema)); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: error %v, want one with %q", schema, err, word)
		}
	}
}

// A call is an object with the name of a function and arguments of its schema, whose
// references are its own.
func TestCalls(t *testing.T) {
	g, err := Calls([]Function{
		{"a", json.RawMessage(`{"$defs": {"n": {"type": "integer"}}, "type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}`)},
		{"b", json.RawMessage(`{"$defs": {"n": {"type": "null"}}, "type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}`)},
		{"c", nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{"name": "a", "arguments": {"n": 3}}`:      true,
		`{"name":"b","arguments":{"n":null}}`:       true,
		`{"name": "c", "arguments": {"any": [1]}}`:  true,
		`{"name": "a", "arguments": {"n": null}}`:   false,
		`{"name": "d", "arguments": {}}`:            false,
		`{"name": "c"}`:                             false,
		`{"name": "c", "arguments": {}, "more": 1}`: false,
	} {
		if obeys(t, g, text) != want {
			t.Errorf("%s: taken %v", text, !want)
		}
	}
	if _, err := Calls([]Function{{"a", json.RawMessage(`{"type": "array", "uniqueItems": true}`)}}); err == nil || !strings.Contains(err.Error(), "uniqueItems") {
		t.Error(err)
	}
}

// A grammar that makes too much work fails its answer, soon.
func TestTooMuchWork(t *testing.T) {
	v, tok := vocabulary(t)
	g, err := ParseGBNF("root ::= [a-z]{0,500} [a-z]{0,500} [a-z]{0,500} [a-z]{0,500}")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := v.Start(g, Options{-1, -1})
	for range 600 {
		if err != nil {
			break
		}
		if err = guide.Mask(make([]float32, tok.Len())); err == nil {
			err = guide.Accept(tok.Encode("a", token.Options{})[0])
		}
	}
	if err == nil || !strings.Contains(err.Error(), "ambiguous") {
		t.Error(err)
	}
}

func TestGBNF(t *testing.T) {
	for _, c := range []struct{ grammar, good, bad string }{
		{`root ::= "yes" | "no"`, "yes|no", "|maybe|ye"},
		{"# a list\nroot ::= item (\",\" item)*\nitem ::= [a-c]+ \"!\"?", "a|ab!,c", ",|a,|d"},
		{`root ::= [^a-z] . "\x41\n" [\]\-^]{2,3} "é"{1}`, "Xé" + "A\n]-é", "xéA\n]-é"},
		{"root ::= (\n  \"a\" |\n  \"b\"\n){2,} x\nx ::=", "ab|bbb", "a"},
		{`root ::= "(" root ")" | ""`, "((()))|", "(()"},
	} {
		g, err := ParseGBNF(c.grammar)
		if err != nil {
			t.Errorf("%s: %v", c.grammar, err)
			continue
		}
		for text := range strings.SplitSeq(c.good, "|") {
			if !obeys(t, g, text) {
				t.Errorf("%s refuses %q", c.grammar, text)
			}
		}
		for text := range strings.SplitSeq(c.bad, "|") {
			if obeys(t, g, text) {
				t.Errorf("%s takes %q", c.grammar, text)
			}
		}
	}
	for grammar, word := range map[string]string{
		`a ::= "x"`:                            "no rule root",
		`root ::= b`:                           `rule "b"`,
		`root ::= root "a" | "b"`:              "begins with itself",
		`root ::= "" root`:                     "", // never ends, or begins with itself
		`root ::= "a" root`:                    "never ends",
		`root ::= "a`:                          "line 1",
		"root ::= \"a\"\nroot ::= \"b\"":       "line 2: a second",
		`root ::= ("a"`:                        "not closed",
		`root ::= [z-a]`:                       "set",
		`root ::= "a"{3,1}`:                    "repetition",
		`root ::= "\q"`:                        "escape",
		`root = "a"`:                           "::=",
		`root ::= "a" )`:                       "unexpected",
		`root ::= ("a"*)*`:                     "begins with itself",
		"root ::= " + strings.Repeat("(", 500): "deeper",
	} {
		if _, err := ParseGBNF(grammar); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%.40s: error %v, want one with %q", grammar, err, word)
		}
	}
}

// sample writes a text that a grammar takes, by draws of bytes, or gives up.
func sample(t testing.TB, g *Grammar, r *rand.Rand) (string, bool) {
	a, at, err := newAutomaton(g)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for len(text) < 3000 {
		s := a.states[at]
		if s.accepts && r.IntN(3) == 0 {
			return string(text), true
		}
		var list []byte
		for b := range 256 {
			if a.step(at, byte(b)) != dead {
				list = append(list, byte(b))
				if strings.ContainsRune(`"]}`, rune(b)) { // so that it comes to an end
					list = append(list, byte(b), byte(b), byte(b))
				}
			}
		}
		if len(list) == 0 {
			if !s.accepts {
				t.Errorf("after %q nothing may follow", text)
			}
			return string(text), s.accepts
		}
		b := list[r.IntN(len(list))]
		text = append(text, b)
		at = a.compact(a.step(at, b))
	}
	return "", false
}

// Whatever a grammar of a schema lets through obeys the schema, by another's judgement.
func TestSamplesObey(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, schema := range []string{person, tree, `{}`,
		`{"type": "object", "properties": {"ab": {"type": "integer"}, "a\"": {"type": "number"}}, "additionalProperties": {"type": "string"}, "required": ["a\""]}`,
		`{"type": "array", "items": {"type": "integer", "minimum": -1234, "exclusiveMaximum": 98765}, "minItems": 5}`,
		`{"type": "array", "items": {"type": "string", "pattern": "x\\W[^\\d]{2,3}(a|\\n)"}}`,
		`{"type": "array", "prefixItems": [{"format": "date-time"}, {"format": "email"}, {"format": "ipv4"}, {"format": "uuid"}, {"format": "time"}], "minItems": 5}`,
		`{"type": "array", "items": {"type": "string", "minLength": 3, "maxLength": 5}}`,
	} {
		s := parse(t, schema)
		good := 0
		for range 60 {
			text, ok := sample(t, s.Grammar, r)
			if !ok {
				continue
			}
			if good++; !utf8.ValidString(text) {
				t.Errorf("%s: %q is not UTF-8", schema, text)
			} else if err := s.Check(text); err != nil {
				t.Errorf("%s: %s: %v", schema, text, err)
			}
		}
		if good < 20 {
			t.Errorf("%s: %d samples came to an end", schema, good)
		}
	}
}

func vocabulary(t testing.TB) (*Vocabulary, *token.Tokenizer) {
	t.Helper()
	f, err := gguf.Parse("sprig", sprig.Model)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := token.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	return NewVocabulary(tok), tok
}

// The tokens that a guide allows are those whose bytes the grammar takes, each tried
// by itself.
func TestMaskEqualsTrial(t *testing.T) {
	v, tok := vocabulary(t)
	s := parse(t, person)
	g, err := v.Start(s.Grammar, Options{-1, -1})
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, id := range append(tok.Encode(`{"name": "Nora ☃", "age": 42`, token.Options{}), tok.Encode(`}`, token.Options{})...) {
		logits := make([]float32, tok.Len()+3) // a head may be longer than the vocabulary
		if err := g.Mask(logits); err != nil {
			t.Fatal(err)
		}
		a, here, _ := newAutomaton(s.Grammar)
		for i := range len(said) {
			here = a.step(here, said[i])
		}
		for i, l := range logits {
			at, piece := here, tok.Piece(int32(i))
			want := i < tok.Len() && tok.Type(int32(i)) == token.Normal && len(piece) > 0
			for _, b := range piece {
				if at = a.step(at, b); at == dead {
					want = false
					break
				}
			}
			if got := !math.IsInf(float64(l), -1); got != want {
				t.Fatalf("after %q, token %d %q: allowed %v, want %v", said, i, piece, got, want)
			}
		}
		if logits[id] != 0 {
			t.Fatalf("after %q, %q is not allowed", said, tok.Piece(id))
		}
		if err := g.Accept(id); err != nil {
			t.Fatal(err)
		}
		said += string(tok.Piece(id))
	}
	logits := make([]float32, tok.Len())
	if err := g.Mask(logits); err != nil || !g.Complete() {
		t.Fatalf("after %q: %v", said, err)
	}
	for i, l := range logits {
		if (l == 0) != tok.EndsTurn(int32(i)) {
			t.Errorf("after the end, token %d %q: %g", i, tok.Piece(int32(i)), l)
		}
	}
	if err := g.Accept(tok.Encode("x", token.Options{})[0]); err == nil {
		t.Error("a token that must not follow was accepted")
	}
}

// Before the token that ends a thought everything goes but the end; a call of a tool
// leads out of the grammar, at its beginning only.
func TestGuideBorders(t *testing.T) {
	v, tok := vocabulary(t)
	find := func(text string) int32 {
		id, ok := tok.Find(text)
		if !ok {
			t.Fatal(text)
		}
		return id
	}
	closes, call, end := find("</think>"), find("<tool_call>"), find("<|im_end|>")
	x, brace := tok.Encode("x", token.Options{})[0], tok.Encode("{", token.Options{})[0]
	s := parse(t, `{"type": "object"}`)
	g, err := v.Start(s.Grammar, Options{After: closes, Out: call})
	if err != nil {
		t.Fatal(err)
	}
	allowed := func(id int32) bool {
		logits := make([]float32, tok.Len())
		if err := g.Mask(logits); err != nil {
			t.Fatal(err)
		}
		return logits[id] == 0
	}
	for range 2 {
		if !allowed(x) || allowed(end) || !allowed(closes) {
			t.Error("within a thought")
		}
		if err := g.Accept(x); err != nil {
			t.Error(err)
		}
	}
	if err := g.Accept(closes); err != nil || allowed(x) || !allowed(brace) || !allowed(call) || allowed(end) {
		t.Error("after a thought", err)
	}
	if g.Accept(brace); allowed(call) || g.Complete() {
		t.Error("within the answer")
	}
	g, _ = v.Start(s.Grammar, Options{After: -1, Out: call})
	if g.Accept(call); !allowed(x) || !allowed(end) || !g.Complete() {
		t.Error("after the call")
	}
}

// Remembering is bounded, and forgetting changes nothing.
func TestCompact(t *testing.T) {
	s := parse(t, `{"type": "array", "items": {"type": "string", "maxLength": 3000}, "maxItems": 3000}`)
	text := "[" + strings.Repeat(`"`+strings.Repeat("a", 2900)+`",`, 3) + `"x"]`
	if !obeys(t, s.Grammar, text) {
		t.Error("a long text is refused")
	}
	if obeys(t, s.Grammar, `["`+strings.Repeat("a", 3001)+`"]`) {
		t.Error("a string that is too long is taken")
	}
}

// A schema is refused or obeyed, and never a crash.
func FuzzSchema(f *testing.F) {
	for _, s := range []string{person, tree, `{"pattern": "a*(b|c)$"}`, `{"type": "integer", "maximum": 77}`, `{"oneOf": [{"type": "null"}, {"enum": [1]}]}`} {
		f.Add(s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, schema string, seed uint64) {
		if len(schema) > 2000 {
			return
		}
		s, err := ParseSchema(json.RawMessage(schema))
		if err != nil {
			return
		}
		if text, ok := sample(t, s.Grammar, rand.New(rand.NewPCG(seed, 0))); ok {
			if err := s.Check(text); err != nil {
				t.Errorf("%s: %s: %v", schema, text, err)
			}
		}
	})
}

func FuzzGBNF(f *testing.F) {
	f.Add(`root ::= "a" [b-c]* (x | "d"){1,3}` + "\nx ::= .")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 500 {
			return
		}
		if g, err := ParseGBNF(text); err == nil {
			if a, _, err := newAutomaton(g); err == nil {
				a.step(1, 'a')
			}
		}
	})
}
