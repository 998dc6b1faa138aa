package serve

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ternvk/tern/model/chat"
	"github.com/ternvk/tern/model/token"
)

// prompt is what the model goes on from.
type prompt struct {
	text     string
	ids      []int32
	thinking bool // the prompt ends within a thought
}

// chatPrompt renders messages, in OpenAI's form. Errors of the template are the
// messages' fault: templates refuse roles and orders that they do not know.
func (s *Server) chatPrompt(messages, tools json.RawMessage, kwargs map[string]any) (prompt, error) {
	if s.template == nil {
		return prompt{}, invalid("model", "%s has no chat template; use /v1/completions", s.o.Name)
	}
	messages, err := normalise(messages)
	if err != nil {
		return prompt{}, err
	}
	t := s.tokens
	r, err := s.template.Render(chat.Input{
		Messages: messages, Tools: tools, AddGenerationPrompt: true, Kwargs: kwargs,
		BOS: t.Text(t.Vocab().BOS), EOS: t.Text(t.Vocab().EOS),
	})
	if err != nil {
		return prompt{}, invalid("messages", "%v", err)
	}
	segments := make([]token.Segment, len(r.Segments))
	for i, part := range r.Segments {
		segments[i] = token.Segment(part)
	}
	p := prompt{text: r.Text, ids: t.EncodeSegments(segments, token.Options{})}
	opens, closes := s.mark(chat.ThinkOpens), s.mark(chat.ThinkCloses)
	for _, id := range p.ids {
		if id == opens || id == closes {
			p.thinking = id == opens
		}
	}
	return p, nil
}

// mark is the id of a mark that is a token of its own, -1 if the vocabulary has none.
func (s *Server) mark(text string) int32 {
	if id, ok := s.tokens.Find(text); ok && s.tokens.Type(id) != token.Normal {
		return id
	}
	return -1
}

// closeThought ends a thought that the prompt has opened.
func (s *Server) closeThought(p *prompt) {
	if p.thinking {
		p.ids = append(append(p.ids, s.mark(chat.ThinkCloses)), s.tokens.Encode("\n\n", token.Options{})...)
		p.thinking = false
	}
}

// normalise brings messages into the form that templates expect: content is text, and
// the arguments of calls are objects.
func normalise(data json.RawMessage) (json.RawMessage, error) {
	var list []map[string]json.RawMessage
	if len(data) > 0 {
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, badJSON("messages", err)
		}
	}
	if len(list) == 0 {
		return nil, invalid("messages", "messages: there are none")
	}
	for i, m := range list {
		at := fmt.Sprintf("messages[%d]", i)
		var role string
		if err := json.Unmarshal(m["role"], &role); err != nil || role == "" {
			return nil, invalid("messages", "%s: the role is missing or no string", at)
		}
		if role == "developer" {
			m["role"] = json.RawMessage(`"system"`)
		}
		text, err := contentText(at, m["content"])
		if err != nil {
			return nil, err
		}
		m["content"] = encode(text)
		if m["tool_calls"], err = callObjects(at, m["tool_calls"]); err != nil {
			return nil, err
		}
		if m["tool_calls"] == nil {
			delete(m, "tool_calls")
		}
	}
	return encode(list), nil
}

// contentText joins the parts of a content.
func contentText(at string, data json.RawMessage) (string, error) {
	if len(data) == 0 || string(data) == "null" {
		return "", nil
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return "", invalid("messages", "%s: content: want a string or a list of parts", at)
	}
	var b strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text", "refusal":
			b.WriteString(p.Text)
		default:
			return "", invalid("messages", "%s: a part of type %q: this model reads text only", at, p.Type)
		}
	}
	return b.String(), nil
}

// callObjects turns arguments that are JSON in a string into that JSON.
func callObjects(at string, data json.RawMessage) (json.RawMessage, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	var calls []map[string]json.RawMessage
	if err := json.Unmarshal(data, &calls); err != nil {
		return nil, invalid("messages", "%s: tool_calls: want a list of objects", at)
	}
	for _, c := range calls {
		var f map[string]json.RawMessage
		if err := json.Unmarshal(c["function"], &f); err != nil || f == nil {
			return nil, invalid("messages", "%s: a call without a function", at)
		}
		var text string
		if json.Unmarshal(f["arguments"], &text) == nil {
			if strings.TrimSpace(text) == "" {
				text = "{}"
			}
			if json.Valid([]byte(text)) {
				f["arguments"] = json.RawMessage(text)
			}
		}
		c["function"] = encode(f)
	}
	return encode(calls), nil
}

// encode is a value as JSON, without escapes that templates would show.
func encode(v any) json.RawMessage {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // what was decoded can be encoded
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}
