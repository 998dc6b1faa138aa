package constrain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a JSON Schema as a grammar, and as a check of what came of that.
type Schema struct {
	Grammar *Grammar
	full    *jsonschema.Schema
}

// JSON is the grammar of any JSON object.
func JSON() (*Grammar, error) {
	j := newJSONRules()
	return j.grammar(concat(j.space, j.object(nil, j.value())))
}

// maxSchema bounds the text of a schema.
const maxSchema = 256 << 10

// ParseSchema compiles a JSON Schema (draft 2020-12, of which formats that are not
// listed in the package, and keywords that would need more than a grammar, are
// refused). Objects have their properties in the order of the schema; others they
// have only if the schema asks for them.
func ParseSchema(data json.RawMessage) (*Schema, error) {
	full, root, err := readSchema(data)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	p := &schemaParser{jsonRules: newJSONRules(), root: root, refs: map[string]symbol{}}
	g, err := p.grammar(concat(p.space, p.schema("#", root)))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Schema{g, full}, nil
}

// readSchema reads a schema, and makes sure that it is one.
func readSchema(data json.RawMessage) (*jsonschema.Schema, any, error) {
	if len(data) > maxSchema {
		return nil, nil, fmt.Errorf("it has %d bytes, at most %d", len(data), maxSchema)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.AssertFormat()
	const name = "urn:schema"
	if err := c.AddResource(name, doc); err != nil {
		return nil, nil, err
	}
	full, err := c.Compile(name)
	if err != nil {
		return nil, nil, err
	}
	root, err := decodeOrdered(data)
	return full, root, err
}

// Function is a tool that may be called.
type Function struct {
	Name       string
	Parameters json.RawMessage // their schema; nil: any object
}

// Calls is the grammar of a call of one of the functions: an object with name and
// arguments.
func Calls(functions []Function) (*Grammar, error) {
	j := newJSONRules()
	var list []expr
	for _, f := range functions {
		arguments := j.object(nil, j.value())
		if f.Parameters != nil {
			_, root, err := readSchema(f.Parameters)
			if err != nil {
				return nil, fmt.Errorf("parameters of %s: %w", f.Name, err)
			}
			p := &schemaParser{jsonRules: j, root: root, refs: map[string]symbol{}}
			arguments = p.schema("parameters of "+f.Name+": #", root)
		}
		list = append(list, j.object([]property{{"name", j.text(quote(f.Name)), true}, {"arguments", arguments, true}}, nil))
	}
	return j.grammar(concat(j.space, j.either(list...)))
}

// Check reports whether text is what the schema wants.
func (s *Schema) Check(text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.full.Validate(v)
}

// noLoader refuses schemas from elsewhere.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref to %s: only references within the schema are supported", url)
}

type schemaParser struct {
	*jsonRules
	root any
	refs map[string]symbol
}

// annotations say nothing about an answer.
var annotations = []string{"$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "example",
	"deprecated", "readOnly", "writeOnly"}

// keywords that are obeyed, by the types that they speak of.
var keywords = map[string][]string{
	"object":  {"properties", "required", "additionalProperties"},
	"array":   {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"},
	"string":  {"minLength", "maxLength", "pattern", "format"},
	"integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
	"number":  {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
	"boolean": nil, "null": nil,
}

// combining are the keywords that stand alone.
var combining = []string{"$ref", "anyOf", "oneOf", "allOf", "enum", "const"}

// schema is what the schema at a place wants.
func (p *schemaParser) schema(at string, v any) expr {
	if p.err != nil {
		return nil
	}
	if yes, ok := v.(bool); ok {
		if !yes {
			p.fail("%s: a schema that nothing obeys", at)
		}
		return p.value()
	}
	o, ok := v.(object)
	if !ok {
		p.fail("%s: not a schema", at)
		return nil
	}
	var used []string
	for _, m := range o {
		if !slices.Contains(annotations, m.name) && !strings.HasPrefix(m.name, "x-") {
			used = append(used, m.name)
		}
	}
	for _, name := range combining {
		if value, ok := o.get(name); ok {
			for _, other := range used {
				if other != name && !(other == "type" && (name == "enum" || name == "const")) {
					p.fail("%s: %s beside %s is not supported", at, name, other)
					return nil
				}
			}
			return p.combine(at, name, value, o)
		}
	}
	types, ok := p.types(at, o, used)
	if !ok {
		return nil
	}
	if len(types) == 0 {
		return p.value()
	}
	for _, name := range used {
		if name != "type" && !slices.ContainsFunc(types, func(t string) bool { return slices.Contains(keywords[t], name) }) {
			p.fail("%s: the keyword %s is not supported there", at, name)
			return nil
		}
	}
	var list []expr
	for _, t := range types {
		list = append(list, p.typed(at, t, o))
	}
	return p.either(list...)
}

// types lists the types of a schema; those that keywords speak of, where it names
// none, and none if anything goes.
func (p *schemaParser) types(at string, o object, used []string) (list []string, ok bool) {
	v, _ := o.get("type")
	switch v := v.(type) {
	case string:
		list = []string{v}
	case []any:
		for _, t := range v {
			s, _ := t.(string)
			list = append(list, s)
		}
	default:
		if len(used) == 0 {
			return nil, true
		}
		for _, t := range []string{"object", "array", "string", "number"} {
			if slices.ContainsFunc(used, func(k string) bool { return slices.Contains(keywords[t], k) }) {
				list = append(list, t)
			}
		}
		if len(list) == 0 {
			p.fail("%s: the keyword %s is not supported", at, used[0])
			return nil, false
		}
	}
	for _, t := range list {
		if _, known := keywords[t]; !known {
			p.fail("%s: type %q is not supported", at, t)
			return nil, false
		}
	}
	return list, true
}

// combine is a keyword that stands alone.
func (p *schemaParser) combine(at, name string, v any, o object) expr {
	here := at + "/" + name
	list, _ := v.([]any)
	switch name {
	case "$ref":
		return p.ref(at, v)
	case "const":
		return p.literal(v)
	case "enum":
		var out []expr
		for _, v := range list {
			if typ, has := o.get("type"); !has || isOf(v, typ) {
				out = append(out, p.literal(v))
			}
		}
		if len(out) == 0 {
			p.fail("%s: no value to choose from", here)
			return nil
		}
		return p.either(out...)
	case "allOf":
		if len(list) != 1 {
			p.fail("%s: more than one schema is not supported", here)
			return nil
		}
	case "oneOf":
		if !exclusive(list) {
			p.fail("%s: supported are schemas of different types, or objects that a required constant tells apart; use anyOf", here)
			return nil
		}
	}
	var out []expr
	for i, v := range list {
		out = append(out, p.schema(here+"/"+strconv.Itoa(i), v))
	}
	if len(out) == 0 {
		p.fail("%s: no schema to choose from", here)
		return nil
	}
	return p.either(out...)
}

// isOf reports whether a value is of a type, or of one of a list.
func isOf(v, typ any) bool {
	if list, ok := typ.([]any); ok {
		return slices.ContainsFunc(list, func(t any) bool { return isOf(v, t) })
	}
	switch v := v.(type) {
	case nil:
		return typ == "null"
	case string:
		return typ == "string"
	case bool:
		return typ == "boolean"
	case json.Number:
		return typ == "number" || typ == "integer" && !strings.ContainsAny(v.String(), ".eE")
	case object:
		return typ == "object"
	}
	return typ == "array"
}

// exclusive reports whether no value can obey two of the schemas.
func exclusive(list []any) bool {
	for i, v := range list {
		for _, w := range list[:i] {
			a, okA := v.(object)
			b, okB := w.(object)
			if !okA || !okB || !differ(a, b) {
				return false
			}
		}
	}
	return true
}

func differ(a, b object) bool {
	s, _ := a.get("type")
	t, _ := b.get("type")
	s1, okS := s.(string)
	t1, okT := t.(string)
	if okS && okT && s1 != t1 && s1+t1 != "integernumber" && s1+t1 != "numberinteger" {
		return true
	}
	for name, v := range constants(a) {
		if w, ok := constants(b)[name]; ok && v != w {
			return true
		}
	}
	return false
}

// constants are the required properties of which a schema fixes the text.
func constants(o object) map[string]string {
	list := map[string]string{}
	required, _ := o.get("required")
	names, _ := required.([]any)
	properties, _ := o.get("properties")
	members, _ := properties.(object)
	for _, m := range members {
		s, _ := m.value.(object)
		v, ok := s.get("const")
		if values, _ := s.get("enum"); !ok {
			if one, _ := values.([]any); len(one) == 1 {
				v = one[0]
			}
		}
		if text, ok := v.(string); ok && slices.Contains(names, any(m.name)) {
			list[m.name] = text
		}
	}
	return list
}

// ref is a schema elsewhere in the document, which may lead back here.
func (p *schemaParser) ref(at string, v any) expr {
	name, _ := v.(string)
	path, ok := strings.CutPrefix(name, "#")
	if !ok || path != "" && path[0] != '/' {
		p.fail("%s: $ref %q: only references of the form #/... are supported", at, name)
		return nil
	}
	if r, ok := p.refs[name]; ok {
		return expr{r}
	}
	target := p.root
	for _, step := range strings.Split(path, "/")[1:] {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		switch t := target.(type) {
		case object:
			target, ok = t.get(step)
		case []any:
			i, err := strconv.Atoi(step)
			if ok = err == nil && i >= 0 && i < len(t); ok {
				target = t[i]
			}
		default:
			ok = false
		}
		if !ok {
			p.fail("%s: $ref %q leads nowhere", at, name)
			return nil
		}
	}
	r := p.rule()
	p.refs[name] = r
	p.define(r, p.schema(name, target))
	return expr{r}
}

// literal is a value as it is, whatever the space in it.
func (p *schemaParser) literal(v any) expr {
	switch v := v.(type) {
	case nil:
		return p.text("null")
	case bool:
		return p.text(strconv.FormatBool(v))
	case json.Number:
		return p.text(v.String())
	case string:
		return p.text(quote(v))
	case object:
		var list []property
		for _, m := range v {
			list = append(list, property{m.name, p.literal(m.value), true})
		}
		return p.object(list, nil)
	}
	var items []expr
	for _, x := range v.([]any) {
		items = append(items, p.literal(x))
	}
	return p.array(items, nil, len(items), len(items))
}

// typed is a value of one type.
func (p *schemaParser) typed(at, typ string, o object) expr {
	switch typ {
	case "object":
		return p.objectOf(at, o)
	case "array":
		return p.arrayOf(at, o)
	case "string":
		return p.stringOf(at, o)
	case "integer":
		low, high := p.bounds(at, o)
		if low == nil && high == nil {
			return p.integer()
		}
		return p.between(low, high)
	case "number":
		low, high := p.bounds(at, o)
		switch {
		case low == nil && high == nil:
			return p.number()
		case low != nil && low.Sign() == 0 && high == nil && !has(o, "exclusiveMinimum"):
			return p.positive()
		}
		p.fail("%s: limits of numbers that are not integers are not supported, but for a minimum of 0", at)
		return nil
	case "boolean":
		return p.either(p.text("true"), p.text("false"))
	}
	return p.text("null")
}

func has(o object, name string) bool {
	_, ok := o.get(name)
	return ok
}

// bounds are the limits of an integer.
func (p *schemaParser) bounds(at string, o object) (low, high *big.Int) {
	limit := func(name string, up bool, step int64) *big.Int {
		v, ok := o.get(name)
		if !ok {
			return nil
		}
		n, _ := v.(json.Number)
		r, ok := new(big.Rat).SetString(n.String())
		if !ok || len(n) > 40 || strings.ContainsAny(n.String(), "eE") {
			p.fail("%s/%s: %v is not supported", at, name, v)
			return nil
		}
		whole := new(big.Int).Div(r.Num(), r.Denom()) // rounded down
		switch exact := r.IsInt(); {
		case exact:
			whole.Add(whole, big.NewInt(step))
		case up:
			whole.Add(whole, big.NewInt(1))
		}
		return whole
	}
	for _, l := range []*big.Int{limit("minimum", true, 0), limit("exclusiveMinimum", true, 1)} {
		if l != nil && (low == nil || l.Cmp(low) > 0) {
			low = l
		}
	}
	for _, l := range []*big.Int{limit("maximum", false, 0), limit("exclusiveMaximum", false, -1)} {
		if l != nil && (high == nil || l.Cmp(high) < 0) {
			high = l
		}
	}
	return low, high
}

// count is the value of a keyword that counts, or other.
func (p *schemaParser) count(at string, o object, name string, other int) int {
	v, ok := o.get(name)
	if !ok {
		return other
	}
	n, _ := v.(json.Number)
	i, err := strconv.Atoi(strings.TrimSuffix(n.String(), ".0"))
	if err != nil || i < 0 {
		p.fail("%s/%s: %v is not supported", at, name, v)
	}
	return i
}

func (p *schemaParser) objectOf(at string, o object) expr {
	v, _ := o.get("required")
	required, _ := v.([]any)
	v, _ = o.get("properties")
	members, _ := v.(object)
	var list []property
	for _, m := range members {
		list = append(list, property{m.name, p.schema(at+"/properties/"+m.name, m.value), slices.Contains(required, any(m.name))})
	}
	more, given := o.get("additionalProperties")
	if !given && len(list) == 0 {
		more = true
	}
	var extra expr
	if more != nil && more != false {
		extra = p.schema(at+"/additionalProperties", more)
	}
	for _, r := range required {
		name, _ := r.(string)
		if !slices.ContainsFunc(list, func(q property) bool { return q.name == name }) {
			p.fail("%s: required property %q is not among its properties", at, name)
		}
	}
	return p.object(list, extra)
}

func (p *schemaParser) arrayOf(at string, o object) expr {
	if v, ok := o.get("uniqueItems"); ok && v != false {
		p.fail("%s: the keyword uniqueItems is not supported", at)
		return nil
	}
	v, _ := o.get("prefixItems")
	prefix, _ := v.([]any)
	var first []expr
	for i, s := range prefix {
		first = append(first, p.schema(at+"/prefixItems/"+strconv.Itoa(i), s))
	}
	item := p.value()
	if v, ok := o.get("items"); ok {
		if item = nil; v != false {
			item = p.schema(at+"/items", v)
		}
	} else if len(first) > 0 {
		item = nil
	}
	return p.array(first, item, p.count(at, o, "minItems", 0), p.count(at, o, "maxItems", -1))
}

const (
	datePattern = `\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))`
	timePattern = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)`
)

// formats are the regular expressions of those that are supported.
var formats = map[string]string{
	"date":      "^" + datePattern + "$",
	"time":      "^" + timePattern + "$",
	"date-time": "^" + datePattern + "T" + timePattern + "$",
	"uuid":      `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`,
	"email":     `^[a-z0-9_+-]{1,20}(\.[a-z0-9_+-]{1,20}){0,2}@[a-z0-9]{1,30}(-[a-z0-9]{1,30})?(\.[a-z0-9]{1,30}){1,3}$`,
	"ipv4":      `^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$`,
}

func (p *schemaParser) stringOf(at string, o object) expr {
	low, high := p.count(at, o, "minLength", 0), p.count(at, o, "maxLength", -1)
	var text string
	if v, ok := o.get("pattern"); ok {
		text, _ = v.(string)
	}
	if v, ok := o.get("format"); ok {
		name, _ := v.(string)
		if formats[name] == "" || text != "" {
			p.fail("%s: format %q is not supported there", at, name)
			return nil
		}
		text = formats[name]
	}
	switch {
	case text != "" && (low > 0 || high >= 0):
		p.fail("%s: limits of length beside a pattern or format are not supported", at)
		return nil
	case text != "":
		return p.pattern(text)
	case high >= 0 && high < low:
		p.fail("%s: no string has %d to %d characters", at, low, high)
		return nil
	}
	return p.str(low, high)
}
