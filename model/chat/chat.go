// Package chat renders the Jinja chat template of a model file: messages in,
// prompt out, byte for byte as Hugging Face's transformers render it
// (trim_blocks and lstrip_blocks set, tojson without escapes and with the keys
// in order). The engine is gonja; this package adds what chat templates expect
// beyond it, keeps hostile templates within bounds, and tells the template's own
// text from that of messages.
//
// # Trust
//
// A prompt holds markers such as <|im_end|>. Those that the template writes are
// to become control tokens; the same characters in a message are not, or a
// message could forge a turn. So each template is rendered twice: as it is, and
// with the text that it writes itself (not that it compares or searches for)
// spelled in a shadow alphabet of private-use characters. Where the second
// result differs from the first, the template speaks. If the shadow text leads
// the template another way (it looks into what it wrote) the two do not fit
// together; then whatever looks like a marker in a message is untrusted wherever
// it occurs. A marker put together from a template's text and a message's field
// counts as the message's.
//
// # Bounds
//
// The sizes of a template, its nesting, the steps of a rendering and the prompt
// are bounded. What is not: the length of a text that a template builds in a
// variable by doubling it, which gonja evaluates in one step.
package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
)

// Template is a parsed chat template. It is safe for concurrent use.
type Template struct {
	plain, marked *exec.Template
}

// Input is what a template is rendered with. Messages and Tools are JSON arrays;
// the order of their keys is kept.
type Input struct {
	Messages            json.RawMessage
	Tools               json.RawMessage // nil: None
	AddGenerationPrompt bool
	Kwargs              map[string]any // further variables, such as enable_thinking
	BOS, EOS            string         // the texts of these tokens
}

// Message is a message of text only.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Messages returns plain messages as Input wants them.
func Messages(m ...Message) json.RawMessage {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		panic(err) // strings can always be encoded
	}
	return json.RawMessage(b.String())
}

// Segment is a part of a prompt; it is trusted if the template wrote it.
type Segment struct {
	Text    string
	Trusted bool
}

// Rendered is a prompt; its segments join to Text.
type Rendered struct {
	Text     string
	Segments []Segment
}

// Parse reads a template. Errors name the line.
func Parse(template string) (*Template, error) {
	plain, err := compile(template, false)
	if err != nil {
		return nil, err
	}
	marked, err := compile(template, true)
	if err != nil {
		return nil, err
	}
	return &Template{plain: plain, marked: marked}, nil
}

func compile(template string, marked bool) (t *exec.Template, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("chat template: %v", p)
		}
	}()
	cfg := config.New()
	cfg.TrimBlocks, cfg.LeftStripBlocks = true, true
	text, err := rewrite(strings.ReplaceAll(template, "\r\n", "\n"), marked)
	if err != nil {
		return nil, err
	}
	t, err = exec.NewTemplate("chat template", cfg, source(text), environment)
	if err != nil {
		return nil, clean(err)
	}
	return t, nil
}

// source is a gonja loader of one template, which can include no other.
type source string

func (s source) Read(string) (io.Reader, error)      { return strings.NewReader(string(s)), nil }
func (s source) Resolve(path string) (string, error) { return path, nil }
func (s source) Inherit(string) (loaders.Loader, error) {
	return nil, fmt.Errorf("other templates cannot be used")
}

// Render makes the prompt.
func (t *Template) Render(in Input) (Rendered, error) {
	vars, shadowed, err := variables(in)
	if err != nil {
		return Rendered{}, err
	}
	text, err := execute(t.plain, vars)
	if err != nil {
		return Rendered{}, err
	}
	if !shadowed {
		vars["bos_token"], vars["eos_token"] = mark(in.BOS), mark(in.EOS)
		if both, err := execute(t.marked, vars); err == nil {
			if segments := unmark(both); join(segments) == text {
				return Rendered{text, segments}, nil
			}
		}
	}
	return Rendered{text, distrust(text, vars)}, nil
}

// variables returns the template's variables, and whether a character of the
// shadow alphabet occurs in them.
func variables(in Input) (map[string]any, bool, error) {
	vars := map[string]any{
		"add_generation_prompt": in.AddGenerationPrompt,
		"bos_token":             in.BOS,
		"eos_token":             in.EOS,
		"none":                  none,
	}
	var d decoder
	for _, v := range []struct {
		name string
		json json.RawMessage
	}{{"messages", in.Messages}, {"tools", in.Tools}} {
		if vars[v.name] = none; v.json == nil {
			continue
		}
		x, err := d.decode(v.json)
		if err != nil {
			return nil, false, fmt.Errorf("chat %s: %w", v.name, err)
		}
		if _, ok := x.(list); !ok {
			return nil, false, fmt.Errorf("chat %s: not a JSON array", v.name)
		}
		vars[v.name] = x
	}
	for k, v := range in.Kwargs {
		// Through JSON, so that a caller's maps and structs become what the
		// template would see of them in a request.
		b, err := json.Marshal(v)
		if err != nil {
			return nil, false, fmt.Errorf("chat variable %s: %w", k, err)
		}
		if vars[k], err = d.decode(b); err != nil {
			return nil, false, fmt.Errorf("chat variable %s: %w", k, err)
		}
	}
	return vars, d.shadowed, nil
}

// execute renders within bounds.
func execute(t *exec.Template, vars map[string]any) (text string, err error) {
	b := &budget{}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("chat template: %v", p)
		}
	}()
	ctx := make(map[string]any, len(vars)+1)
	for k, v := range vars {
		ctx[k] = v
	}
	ctx[budgetKey] = b
	out := &output{budget: b}
	if err := t.Execute(out, exec.NewContext(ctx)); err != nil {
		if b.err != nil { // what stopped it, without the engine's wrapping
			return "", fmt.Errorf("chat template: line %d: %w", line(err), b.err)
		}
		return "", clean(err)
	}
	return out.String(), nil
}
