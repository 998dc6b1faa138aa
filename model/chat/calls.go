package chat

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Tools tells for each tool the JSON Schema type of its parameters, "" where the
// schema has none or several.
type Tools map[string]map[string]string

// ParseTools reads the tools of a request, a JSON array of
// {"type": "function", "function": {"name": ..., "parameters": ...}}.
func ParseTools(data json.RawMessage) (Tools, error) {
	var list []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string `json:"name"`
			Parameters struct {
				Properties map[string]struct {
					Type any `json:"type"`
				} `json:"properties"`
			} `json:"parameters"`
		} `json:"function"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	tools := Tools{}
	for i, t := range list {
		switch {
		case t.Type != "function":
			return nil, fmt.Errorf("tools[%d]: type %q: want \"function\"", i, t.Type)
		case t.Function.Name == "":
			return nil, fmt.Errorf("tools[%d]: a function without a name", i)
		case tools[t.Function.Name] != nil:
			return nil, fmt.Errorf("tools[%d]: a second function %q", i, t.Function.Name)
		}
		types := map[string]string{}
		for name, p := range t.Function.Parameters.Properties {
			types[name], _ = p.Type.(string)
		}
		tools[t.Function.Name] = types
	}
	return tools, nil
}

// call is what is known of a call: its name, "" as long as that is not complete, and
// the beginning of its arguments.
type call struct{ name, arguments string }

// parse reads the beginning of a call's body, or all of it if final is set. As the
// body grows, so do the arguments.
func (t Tools) parse(body string, final bool) call {
	body = strings.TrimLeft(body, " \t\r\n")
	if strings.HasPrefix(body, "{") {
		return parseJSONCall(body)
	}
	if rest, ok := strings.CutPrefix(body, "<function="); ok {
		return t.parseXMLCall(rest, final)
	}
	return call{}
}

// parseJSONCall reads {"name": ..., "arguments": {...}}, in either order.
func parseJSONCall(body string) (c call) {
	arguments := ""
	for rest := body[1:]; ; {
		rest = strings.TrimLeft(rest, " \t\r\n,")
		key, n := jsonString(rest)
		if n == 0 {
			break
		}
		rest = strings.TrimLeft(rest[n:], " \t\r\n")
		if !strings.HasPrefix(rest, ":") {
			break
		}
		rest = strings.TrimLeft(rest[1:], " \t\r\n")
		n, complete := jsonValue(rest)
		switch key {
		case "name":
			if complete {
				c.name, _ = jsonString(rest[:n])
			}
		case "arguments", "parameters":
			switch {
			case strings.HasPrefix(rest, "{"):
				arguments = rest[:n]
			case strings.HasPrefix(rest, `"`): // an object in a string
				arguments, _ = jsonString(rest[:n])
			}
		}
		if !complete {
			break
		}
		rest = rest[n:]
	}
	if c.name != "" {
		c.arguments = arguments
	}
	return c
}

// jsonString returns the string literal that text begins with and its length, 0 for
// none that is complete.
func jsonString(text string) (s string, n int) {
	n, complete := jsonValue(text)
	if !strings.HasPrefix(text, `"`) || !complete || json.Unmarshal([]byte(text[:n]), &s) != nil {
		return "", 0
	}
	return s, n
}

// jsonValue measures the value that text begins with, and tells whether it is
// complete. Of numbers and names only what follows tells that.
func jsonValue(text string) (n int, complete bool) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			if quoted = !quoted; !quoted && depth == 0 {
				return i + 1, true
			}
		case quoted:
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth == 0, c == ',' && depth == 0:
			return i, true
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(text), false
}

const (
	parameterOpens  = "<parameter="
	parameterCloses = "</parameter>"
	functionCloses  = "</function>"
)

// parseXMLCall reads NAME>, <parameter=KEY> value </parameter> as often as it comes,
// and </function>.
func (t Tools) parseXMLCall(rest string, final bool) (c call) {
	name, rest, ok := strings.Cut(rest, ">")
	if !ok {
		return call{}
	}
	var b strings.Builder
	b.WriteByte('{')
	c.name = strings.TrimSpace(name)
	types := t[c.name]
	for count := 0; ; count++ {
		rest = strings.TrimLeft(rest, " \t\r\n")
		closes := strings.HasPrefix(rest, functionCloses) || final && rest == ""
		if closes {
			b.WriteByte('}')
		}
		key, value, ok := strings.Cut(rest, ">")
		if closes || !ok || !strings.HasPrefix(key, parameterOpens) {
			break
		}
		if count > 0 {
			b.WriteString(", ")
		}
		key = strings.TrimSpace(key[len(parameterOpens):])
		b.WriteString(quote(key) + ": ")
		value, after, complete := strings.Cut(value, parameterCloses)
		b.WriteString(xmlValue(value, types[key], complete))
		if !complete {
			break
		}
		rest = after
	}
	c.arguments = b.String()
	return c
}

// xmlValue is the value of a parameter as JSON, or as much of it as is certain. It
// is a string if the schema says so or if it is no JSON.
func xmlValue(value, typ string, complete bool) string {
	if after, ok := strings.CutPrefix(strings.TrimPrefix(value, "\r"), "\n"); ok {
		value = after
	}
	if complete {
		if before, ok := strings.CutSuffix(value, "\n"); ok {
			value = strings.TrimSuffix(before, "\r")
		}
		if typ != "string" && json.Valid([]byte(value)) {
			return strings.TrimSpace(value)
		}
		return quote(value)
	}
	if typ != "string" {
		return ""
	}
	const end = "\r\n" + parameterCloses // may be beginning
	for n := min(len(value), len(end)); n > 0; n-- {
		if tail := value[len(value)-n:]; strings.HasPrefix(end, tail) || strings.HasPrefix(end[1:], tail) || strings.HasPrefix(parameterCloses, tail) {
			value = value[:len(value)-n]
			break
		}
	}
	return strings.TrimSuffix(quote(value), `"`)
}

// quote is text as a JSON string.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // strings can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
