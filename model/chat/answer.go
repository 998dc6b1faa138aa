package chat

import (
	"strings"
	"unicode"
)

// The marks that models of the qwen families put around what is not content, as
// tokens of their own.
const (
	ThinkOpens  = "<think>"
	ThinkCloses = "</think>"
	CallOpens   = "<tool_call>"
	CallCloses  = "</tool_call>"
)

// PartKind says what a part of an answer is.
type PartKind uint8

// The kinds.
const (
	Content   PartKind = iota
	Reasoning          // between the think marks
	CallName           // a call of a tool begins; the text is the tool's name
	CallArguments
)

// Part is a piece of an answer. The pieces of one kind, and of one call, join to
// what the model said; the arguments of a complete call are a JSON object.
type Part struct {
	Kind PartKind
	Text string
	Call int // of calls: which, from 0
}

// Answer takes an answer apart as it comes: reasoning, content and calls of tools
// in Qwen's two forms, a JSON object with name and arguments, or XML-like elements
// for the function and each of its parameters. Blank space around the marks is left
// out; a line break parts content before a mark from content after it. A call that is neither is content, as it was written.
type Answer struct {
	tools    Tools
	withCall bool

	state   PartKind // Content, Reasoning, or CallArguments within a call
	calls   int
	started bool    // the present state has text
	spoke   [2]bool // content, reasoning: there was text before
	space   string  // blank space that is said only if text follows, or at the end
	body    string  // of the present call
	name    bool    // of the present call was said
	said    int     // bytes of its arguments that were
}

// NewAnswer begins an answer. tools, nil for none, are those that it may call; where
// there are none, marks of calls are content. thinking tells that the prompt has
// opened a thought.
func NewAnswer(tools Tools, thinking bool) *Answer {
	a := &Answer{tools: tools, withCall: tools != nil}
	if thinking {
		a.state = Reasoning
	}
	return a
}

// Thinking reports whether what comes next is reasoning.
func (a *Answer) Thinking() bool { return a.state == Reasoning }

// Calling reports whether what comes next is a call.
func (a *Answer) Calling() bool { return a.state == CallArguments }

// Calls is the number of calls that were said.
func (a *Answer) Calls() int { return a.calls }

// IsMark reports whether the text of a token is a mark to be given to Mark.
func IsMark(text string) bool {
	return text == ThinkOpens || text == ThinkCloses || text == CallOpens || text == CallCloses
}

// Mark takes a token that is a mark.
func (a *Answer) Mark(text string) []Part {
	switch {
	case text == ThinkOpens && a.state == Content:
		return a.enter(Reasoning)
	case text == ThinkCloses && a.state == Reasoning:
		return a.enter(Content)
	case text == CallOpens && a.withCall && a.state != CallArguments:
		parts := a.enter(CallArguments)
		a.body, a.name, a.said = "", false, 0
		return parts
	case text == CallCloses && a.state == CallArguments:
		parts := a.endCall(true)
		return append(parts, a.enter(Content)...)
	case text == ThinkCloses: // of a thought that the template has closed already
		return nil
	}
	return a.Text(text)
}

func (a *Answer) enter(state PartKind) []Part {
	a.state, a.started, a.space = state, false, ""
	return nil
}

// Text takes text that is not a mark.
func (a *Answer) Text(text string) []Part {
	if a.state == CallArguments {
		a.body += text
		return a.progress(false)
	}
	if !a.started {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	text = a.space + text
	said := strings.TrimRightFunc(text, unicode.IsSpace)
	a.space = text[len(said):]
	if said == "" {
		return nil
	}
	if !a.started && a.spoke[a.state] {
		said = "\n" + said
	}
	a.started, a.spoke[a.state] = true, true
	return []Part{{Kind: a.state, Text: said}}
}

// End ends the answer.
func (a *Answer) End() []Part {
	if a.state == CallArguments {
		return a.endCall(false)
	}
	if a.state == Content && a.started && a.space != "" {
		space := a.space
		a.space = ""
		return []Part{{Kind: Content, Text: space}}
	}
	return nil
}

// progress says what is new of the present call.
func (a *Answer) progress(final bool) (parts []Part) {
	c := a.tools.parse(a.body, final)
	if c.name == "" {
		return nil
	}
	if final && c.arguments == "" {
		c.arguments = "{}"
	}
	if !a.name {
		a.name = true
		parts = append(parts, Part{CallName, c.name, a.calls})
	}
	if len(c.arguments) > a.said {
		parts = append(parts, Part{CallArguments, c.arguments[a.said:], a.calls})
		a.said = len(c.arguments)
	}
	return parts
}

// endCall ends the present call, whose closing mark has come, or never will.
func (a *Answer) endCall(closed bool) []Part {
	parts := a.progress(true)
	if a.name {
		a.calls++
		return parts
	}
	text := CallOpens + a.body
	if closed {
		text += CallCloses
	}
	a.state = Content
	return []Part{{Kind: Content, Text: text}}
}
