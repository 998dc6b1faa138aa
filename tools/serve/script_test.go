package serve

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/ternvk/tern/model/chat"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/tools/serve/sched"
)

// script is a constraint that lets a model say one thing only.
type script struct{ ids []int32 }

func (s *script) Mask(logits []float32) error {
	for i := range logits {
		if int32(i) != s.ids[0] {
			logits[i] = float32(math.Inf(-1))
		}
	}
	return nil
}

func (s *script) Accept(int32) error {
	s.ids = s.ids[1:]
	return nil
}

// bytewise is a text token by token: marks whole, all else byte by byte.
func (c *client) bytewise(text string) (ids []int32) {
	single := map[byte]int32{}
	for id := range int32(c.tokens.Len()) {
		if p := c.tokens.Piece(id); len(p) == 1 && c.tokens.Type(id) == token.Normal {
			single[p[0]] = id
		}
	}
	for text != "" {
		mark := ""
		for _, m := range []string{chat.ThinkOpens, chat.ThinkCloses, chat.CallOpens, chat.CallCloses} {
			if strings.HasPrefix(text, m) {
				mark = m
			}
		}
		if mark != "" {
			ids, text = append(ids, c.mark(mark)), text[len(mark):]
			continue
		}
		ids, text = append(ids, single[text[0]]), text[1:]
	}
	return append(ids, c.vocab.Ends()[0])
}

// A scripted model: characters come whole though their bytes are tokens of their own,
// a character that is cut ends as U+FFFD, stop strings end the text wherever it is cut,
// calls come in Qwen's two forms, and an answer of one call ends with it. BL-53, BL-54.
func TestScriptedAnswers(t *testing.T) {
	c := small(t, nil)
	tools, err := chat.ParseTools(encode([]any{weather, clock}))
	if err != nil {
		t.Fatal(err)
	}
	const call = `<tool_call>{"name": "get_time", "arguments": {"city": "Łódź"}}</tool_call>`
	const xml = "<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n</parameter>\n</function>\n</tool_call>"
	for _, s := range []struct {
		says    string
		stops   []string
		oneCall bool
		content string
		calls   string
		finish  string
	}{
		{"é☃🌳!", nil, false, "é☃🌳!", "", "stop"},
		{"a\xf0\x9f\x8c", nil, false, "a\ufffd", "", "stop"},
		{"a\xffb\xe2\x98", nil, false, "a\ufffdb\ufffd", "", "stop"},
		{"What?\nMore", []string{"?\n"}, false, "What", "", "stop"},
		{"☃TREE\nAAA", []string{"TREE\nAAAA"}, false, "☃TREE\nAAA", "", "stop"},
		{"x☃y", []string{"☃"}, false, "x", "", "stop"},
		{"<think>a\nb</think>\n\nc\nd", []string{"\n"}, false, "c", "", "stop"}, // of the content, not of the thought
		{call + "\n" + call, nil, false, "", `get_time{"city": "Łódź"};get_time{"city": "Łódź"};`, "tool_calls"},
		{call + "\n" + call, nil, true, "", `get_time{"city": "Łódź"};`, "tool_calls"},
		{"Look:\n" + xml, nil, false, "Look:", `get_weather{"city": "12"};`, "tool_calls"},
		{"<tool_call>oops</tool_call>", nil, false, "<tool_call>oops</tool_call>", "", "stop"},
	} {
		task := &task{
			Request: sched.Request{Prompt: []int32{5}, Constraint: &script{c.bytewise(s.says)}},
			stops:   s.stops, oneCall: s.oneCall, answer: chat.NewAnswer(tools, false),
		}
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := c.submit(ctx, task)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		o, err := c.generate(ctx, stream, task, cancel, func(e event) error {
			for _, p := range e.parts {
				if p.Kind == chat.Content {
					said += p.Text
				}
			}
			return nil
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		calls := ""
		for i := range o.calls {
			calls += o.calls[i].name + o.calls[i].arguments.String() + ";"
		}
		if o.content.String() != s.content || said != s.content || calls != s.calls || o.finish != s.finish {
			t.Errorf("%q: content %q, streamed %q, calls %s, %s; want %q, %s, %s", s.says, o.content.String(), said, calls, o.finish, s.content, s.calls, s.finish)
		}
	}
}
