package serve

import (
	"encoding/json"
	"errors"
	"sync"

	"github.com/ternvk/tern/model/chat"
	"github.com/ternvk/tern/tools/serve/constrain"
)

// responseFormat is what an answer is to look like.
type responseFormat struct {
	Type       string          `json:"type"`
	Schema     json.RawMessage `json:"schema"` // of json_object, as llama-server has it
	JSONSchema struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// constraint is a grammar, and a check of the whole answer.
type constraint struct {
	grammar *constrain.Grammar
	check   func(content string) error
}

// constraint returns what a request holds its answer to, nil for nothing.
func (s *Server) constraint(f *responseFormat, grammar string) (*constraint, error) {
	var schema json.RawMessage
	switch {
	case f == nil || f.Type == "text" || f.Type == "":
		if grammar == "" {
			return nil, nil
		}
		g, err := constrain.ParseGBNF(grammar)
		if err != nil {
			return nil, invalid("grammar", "%v", err)
		}
		return &constraint{grammar: g}, nil
	case grammar != "":
		return nil, invalid("grammar", "grammar and response_format exclude each other")
	case f.Type == "json_object":
		if schema = f.Schema; schema == nil {
			schema = json.RawMessage(`{"type": "object"}`)
		}
	case f.Type == "json_schema":
		if schema = f.JSONSchema.Schema; schema == nil {
			schema = f.Schema
		}
		if schema == nil {
			return nil, invalid("response_format", "response_format: json_schema has no schema")
		}
	default:
		return nil, invalid("response_format", "response_format: type %q: want text, json_object or json_schema", f.Type)
	}
	c, err := s.schemas.get(schema)
	if err != nil {
		return nil, invalid("response_format", "response_format: %v", err)
	}
	return c, nil
}

// schemaCache keeps the last compiled schemas.
type schemaCache struct {
	mu   sync.Mutex
	list map[string]*constraint
}

const maxSchemas = 64

func (c *schemaCache) get(schema json.RawMessage) (*constraint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.list[string(schema)]; found != nil {
		return found, nil
	}
	s, err := constrain.ParseSchema(schema)
	if err != nil {
		return nil, err
	}
	if c.list == nil || len(c.list) >= maxSchemas {
		c.list = map[string]*constraint{}
	}
	made := &constraint{s.Grammar, s.Check}
	c.list[string(schema)] = made
	return made, nil
}

// toolChoice is what a request says of tools.
type toolChoice struct {
	shown  json.RawMessage      // to the template; nil: none
	tools  chat.Tools           // that an answer may call; nil: none
	forced []constrain.Function // of which one must be called; nil: none must
}

// badTools says what is wrong with tools.
func badTools(err error) error {
	var field *json.UnmarshalTypeError
	if errors.As(err, &field) {
		return badJSON("tools", err)
	}
	return invalid("tools", "%v", err)
}

// readToolChoice reads tools and tool_choice.
func readToolChoice(tools, choice json.RawMessage) (c toolChoice, err error) {
	var list []struct {
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	if len(tools) > 0 && string(tools) != "null" {
		if c.tools, err = chat.ParseTools(tools); err != nil {
			return c, badTools(err)
		}
		_ = json.Unmarshal(tools, &list) // it has just been read
	}
	name, mode := "", "auto"
	if len(choice) > 0 && string(choice) != "null" {
		var one struct {
			Type     string `json:"type"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if json.Unmarshal(choice, &mode) != nil {
			if err := json.Unmarshal(choice, &one); err != nil || one.Type != "function" || one.Function.Name == "" {
				return c, invalid("tool_choice", "tool_choice: want none, auto, required or {type: function, function: {name}}")
			}
			name, mode = one.Function.Name, "required"
		}
	}
	switch {
	case mode != "none" && mode != "auto" && mode != "required":
		return c, invalid("tool_choice", "tool_choice %q: want none, auto or required", mode)
	case mode == "none" || c.tools == nil && mode == "auto":
		return toolChoice{}, nil
	case c.tools == nil || name != "" && c.tools[name] == nil:
		return c, invalid("tool_choice", "tool_choice: no such tool is given")
	}
	c.shown = tools
	if mode == "required" {
		for _, t := range list {
			if name == "" || t.Function.Name == name {
				parameters := t.Function.Parameters
				if string(parameters) == "null" {
					parameters = nil
				}
				c.forced = append(c.forced, constrain.Function{Name: t.Function.Name, Parameters: parameters})
			}
		}
	}
	return c, nil
}
