package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

var weatherTools = json.RawMessage(`[
	{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}},
	{"type": "function", "function": {"name": "now"}}]`)

// take reads an answer, in which marks are written as they are, cut into pieces.
func take(tools Tools, thinking bool, text string, piece int) string {
	a := NewAnswer(tools, thinking)
	said := map[string]*strings.Builder{}
	var order []string
	add := func(parts []Part) {
		for _, p := range parts {
			key := fmt.Sprintf("%d.%d", p.Kind, p.Call)
			if p.Kind == CallName {
				order = append(order, "")
			}
			if said[key] == nil {
				said[key] = &strings.Builder{}
				order = append(order, key)
			}
			said[key].WriteString(p.Text)
		}
	}
	for text != "" {
		n, mark := len(text), ""
		for _, m := range []string{ThinkOpens, ThinkCloses, CallOpens, CallCloses} {
			if i := strings.Index(text, m); i >= 0 && i < n {
				n, mark = i, m
			}
		}
		for i := 0; i < n; i += piece {
			add(a.Text(text[i:min(i+piece, n)]))
		}
		if mark != "" {
			add(a.Mark(mark))
		}
		text = text[n+len(mark):]
	}
	add(a.End())
	var b strings.Builder
	for _, key := range order {
		if key != "" {
			fmt.Fprintf(&b, "%s=%s|", key, said[key])
		}
	}
	return b.String()
}

// Answers come apart the same way however they are cut: 0 is content, 1 reasoning,
// 2 the name of a call and 3 its arguments. BL-51, BL-53.
func TestAnswerParts(t *testing.T) {
	tools, err := ParseTools(weatherTools)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text     string
		thinking bool
		want     string
	}{
		{"Hello!\n", false, "0.0=Hello!\n|"},
		{"<think>\nTwo and two.\n</think>\n\n4.", false, "1.0=Two and two.|0.0=4.|"},
		{"Two and two.\n</think>\n\n4.", true, "1.0=Two and two.|0.0=4.|"},
		{"never ends", true, "1.0=never ends|"},
		{"</think>\n\n4", false, "0.0=4|"},
		{"<think>\n\n</think>\n\nyes", false, "0.0=yes|"},
		{"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Lima\"}}\n</tool_call>", false, `2.0=get_weather|3.0={"city": "Lima"}|`},
		{"Let me see.\n<tool_call>\n{\"arguments\": {\"city\": \"a}\\\"{\"}, \"name\": \"get_weather\"}\n</tool_call>\n<tool_call>{\"name\":\"now\"}</tool_call>", false,
			`0.0=Let me see.|2.0=get_weather|3.0={"city": "a}\"{"}|2.1=now|3.1={}|`},
		{`<tool_call>{"name": "now", "arguments": "{\"a\": 1}"}</tool_call>`, false, `2.0=now|3.0={"a": 1}|`},
		{`<tool_call>{"name": "now", "arguments": null}</tool_call> done`, false, `2.0=now|3.0={}|0.0=done|`},
		{"<tool_call>\n<function=get_weather>\n<parameter=city>\nSão \"Paulo\"\n\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>", false,
			`2.0=get_weather|3.0={"city": "São \"Paulo\"\n", "days": 3}|`},
		{"<tool_call><function=get_weather><parameter=city>12</parameter><parameter=days>many</parameter></function></tool_call>", false,
			`2.0=get_weather|3.0={"city": "12", "days": "many"}|`},
		{"<tool_call>\n<function=now>\n</function>\n</tool_call>", false, `2.0=now|3.0={}|`},
		{"<tool_call>\n<function=get_weather>\n<parameter=other>\n{\"a\": [1, 2]}\n</parameter>\n</function>\n</tool_call>", false,
			`2.0=get_weather|3.0={"other": {"a": [1, 2]}}|`},
		{"<tool_call>I would rather not</tool_call> then", false, "0.0=<tool_call>I would rather not</tool_call>then|"},
		{`<tool_call>{"name": "get_w`, false, `0.0=<tool_call>{"name": "get_w|`},
		{`<tool_call>{"name": "now", "arguments": {"a": "cut`, false, `2.0=now|3.0={"a": "cut|`},
		{"think <think>deep</think> and <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>", false, "0.0=think\nand|1.0=deep|2.0=now|3.0={}|"},
	} {
		for _, piece := range []int{1, 2, 3, 7, 1000} {
			if piece < 3 && strings.ContainsFunc(c.text, func(r rune) bool { return r > 127 }) {
				continue // text comes in whole characters
			}
			if got := take(tools, c.thinking, c.text, piece); got != c.want {
				t.Errorf("%q in pieces of %d:\n got %s\nwant %s", c.text, piece, got, c.want)
			}
		}
	}
	if got := take(nil, false, "<tool_call>{}</tool_call>", 4); got != "0.0=<tool_call>{}</tool_call>|" {
		t.Errorf("without tools: %s", got)
	}
}

func TestParseTools(t *testing.T) {
	for _, bad := range []string{`{}`, `[{"type": "retrieval"}]`, `[{"type": "function", "function": {}}]`, `[1]`,
		`[{"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "a"}}]`} {
		if tools, err := ParseTools(json.RawMessage(bad)); err == nil {
			t.Errorf("%s: %v", bad, tools)
		}
	}
	if tools, err := ParseTools(json.RawMessage(`[]`)); tools != nil || err != nil {
		t.Errorf("no tools: %v, %v", tools, err)
	}
}

// Whatever a model writes into a call, its arguments only grow, and the answer is
// the same in one piece.
func FuzzCall(f *testing.F) {
	f.Add(`{"name": "now", "arguments": {"a": [1, "]"]}}`)
	f.Add("<function=get_weather>\n<parameter=city>\r\nx\r\n</parameter>\n<parameter=days>1</parameter></function>")
	f.Add(`{"arguments": {}, "name": 3}`)
	tools, err := ParseTools(weatherTools)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 2000 || strings.Contains(body, "<think>") || strings.Contains(body, "tool_call>") || strings.Contains(body, "</think>") {
			return
		}
		text := CallOpens + body + CallCloses
		if whole, cut := take(tools, false, text, 1<<20), take(tools, false, text, 1); whole != cut && strings.ToValidUTF8(body, "") == body && len(body) == len([]rune(body)) {
			t.Errorf("%q:\n%s in one piece\n%s byte by byte", body, whole, cut)
		}
	})
}
