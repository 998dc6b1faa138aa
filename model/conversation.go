package model

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ternvk/tern/model/chat"
	"github.com/ternvk/tern/model/token"
)

// Message is a turn of a conversation, as chat templates expect it.
type Message struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content,omitempty"`
}

// Conversation is a chat in a session, through the template of the model's file.
// It is used from one goroutine at a time.
type Conversation struct {
	Messages []Message
	Sampling Sampling
	Limit    int            // tokens of an answer; 0: as many as the context holds
	Kwargs   map[string]any // further variables of the template, such as enable_thinking

	s        *Session
	template *chat.Template
	usage    Usage
}

// NewConversation begins a conversation in s, which stays the caller's, or goes on with
// that of a restored session. Sampling is what the file asks for. A file without a vocabulary or a template is an error.
func NewConversation(s *Session) (*Conversation, error) {
	f := s.m.file
	if s.m.tok == nil {
		return nil, fmt.Errorf("%s has no vocabulary: it can neither read nor write text", f.Name)
	}
	text, ok, err := f.String("tokenizer.chat_template")
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("%s has no chat template", f.Name)
	}
	c := &Conversation{s: s, Sampling: FileSampling(f)}
	if c.template, err = chat.Parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	if len(s.Note) > 0 {
		if err := json.Unmarshal(s.Note, &c.Messages); err != nil {
			return nil, fmt.Errorf("%s: the note of the session is no conversation: %w", f.Name, err)
		}
	}
	return c, nil
}

// SaveFile saves the session with the messages as its note. A session that
// [Model.RestoreFile] makes of the file goes on with them in a new Conversation.
func (c *Conversation) SaveFile(path string) (err error) {
	if c.s.Note, err = json.Marshal(c.Messages); err != nil {
		return err
	}
	return c.s.SaveFile(path)
}

// Piece is text of an answer, of whole characters.
type Piece struct {
	Text    string
	Thought bool // it stands between <think> and </think>
}

// Usage is what an answer took.
type Usage struct {
	Prompt, Reused, Generated int           // tokens
	First, Rest               time.Duration // to the first token, and after it
}

// Usage tells what the last answer took so far.
func (c *Conversation) Usage() Usage { return c.usage }

// Ask adds a question and yields the answer as it comes. Text in questions never
// becomes a control token. The answer is added when it ends, also early; when
// nothing came of it, the question is forgotten. [Session.Finish] tells why it ended.
func (c *Conversation) Ask(ctx context.Context, question string) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		before := c.Messages
		c.Messages = append(slices.Clip(before), Message{Role: "user", Content: question})
		c.usage = Usage{}
		ids, err := c.prompt()
		if err != nil {
			c.Messages = before
			yield(Piece{}, err)
			return
		}
		var text, thought strings.Builder
		var failed error
		for p, err := range c.s.Continue(ctx, ids, c.Sampling, c.Limit, NewAnswer(c.s.m.tok, ids), &c.usage) {
			if failed = err; err != nil {
				break
			}
			if p.Thought {
				thought.WriteString(p.Text)
			} else {
				text.WriteString(p.Text)
			}
			if !yield(p, nil) {
				break
			}
		}
		if failed != nil && text.Len() == 0 {
			c.Messages = before
		} else {
			c.Messages = append(c.Messages, Message{"assistant", text.String(), strings.TrimSpace(thought.String())})
		}
		if failed != nil {
			yield(Piece{}, failed)
		}
	}
}

// Continue generates like Generate, and yields the text that a makes of the tokens;
// pieces are not empty. u, if not nil, tells what it took so far.
func (s *Session) Continue(ctx context.Context, prompt []int32, sampling Sampling, limit int, a *Answer, u *Usage) iter.Seq2[Piece, error] {
	if u == nil {
		u = &Usage{}
	}
	return func(yield func(Piece, error) bool) {
		*u = Usage{Prompt: len(prompt)}
		start := time.Now()
		for g, err := range s.Generate(ctx, prompt, sampling, limit) {
			if err != nil {
				yield(Piece{}, err)
				return
			}
			if u.Generated++; u.Generated == 1 {
				u.Reused, u.First = g.Reused, time.Since(start)
			}
			u.Rest = time.Since(start) - u.First
			if p := a.Write(g.ID); p.Text != "" && !yield(p, nil) {
				return
			}
		}
		if u.Generated == 0 {
			u.First = time.Since(start)
		}
		if p := a.Flush(); p.Text != "" {
			yield(p, nil)
		}
	}
}

// prompt renders the messages to the ids that the model goes on from.
func (c *Conversation) prompt() ([]int32, error) {
	var messages strings.Builder
	e := json.NewEncoder(&messages)
	e.SetEscapeHTML(false)
	if err := e.Encode(c.Messages); err != nil {
		return nil, err
	}
	t := c.s.m.tok
	r, err := c.template.Render(chat.Input{
		Messages: json.RawMessage(messages.String()), AddGenerationPrompt: true, Kwargs: c.Kwargs,
		BOS: t.Text(t.Vocab().BOS), EOS: t.Text(t.Vocab().EOS),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.s.m.file.Name, err)
	}
	segments := make([]token.Segment, len(r.Segments))
	for i, s := range r.Segments {
		segments[i] = token.Segment(s)
	}
	return t.EncodeSegments(segments, token.Options{}), nil
}

// Answer makes text of the tokens of an answer: of whole characters, and thoughts
// apart from the rest.
type Answer struct {
	tokens  *token.Tokenizer
	parts   *chat.Answer // nil: all is text
	decoder token.Decoder
}

// NewAnswer is for what follows prompt, which may have opened a thought.
func NewAnswer(t *token.Tokenizer, prompt []int32) *Answer {
	a := &Answer{tokens: t}
	thinking := false
	for _, id := range prompt {
		if text := a.mark(id); text == chat.ThinkOpens || text == chat.ThinkCloses {
			thinking = text == chat.ThinkOpens
		}
	}
	a.parts = chat.NewAnswer(nil, thinking)
	return a
}

// NewPlainAnswer keeps the marks of thoughts, and all space.
func NewPlainAnswer(t *token.Tokenizer) *Answer { return &Answer{tokens: t} }

// mark is the text of a token that is a mark, "" of others.
func (a *Answer) mark(id int32) string {
	if a.tokens.Type(id) == token.Normal {
		return ""
	}
	if text := a.tokens.Text(id); chat.IsMark(text) {
		return text
	}
	return ""
}

// Write returns the text that a token completes.
func (a *Answer) Write(id int32) Piece {
	if a.parts == nil {
		return Piece{Text: a.decoder.Write(a.tokens.Piece(id))}
	}
	if text := a.mark(id); text != "" {
		return piece(append(a.parts.Text(a.decoder.Flush()), a.parts.Mark(text)...))
	}
	return piece(a.parts.Text(a.decoder.Write(a.tokens.Piece(id))))
}

// Flush returns what is left at the end.
func (a *Answer) Flush() Piece {
	if a.parts == nil {
		return Piece{Text: a.decoder.Flush()}
	}
	return piece(append(a.parts.Text(a.decoder.Flush()), a.parts.End()...))
}

// piece joins parts, which are of one kind where no tool can be called.
func piece(parts []chat.Part) (p Piece) {
	for _, part := range parts {
		p.Text += part.Text
		p.Thought = part.Kind == chat.Reasoning
	}
	return p
}
