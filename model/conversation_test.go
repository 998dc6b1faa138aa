package model

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/ref"
)

func converse(t *testing.T) *Conversation {
	t.Helper()
	c, err := NewConversation(newSession(t, openSprig(t, Options{Executor: ref.New(), Context: 512})))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hear joins an answer.
func hear(t *testing.T, c *Conversation, question string) (text, thought string) {
	t.Helper()
	for p, err := range c.Ask(t.Context(), question) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Thought {
			thought += p.Text
		} else {
			text += p.Text
		}
	}
	return text, thought
}

// A conversation remembers its turns and evaluates each once; thoughts are told
// from answers.
func TestConversation(t *testing.T) {
	sequential(t)
	c := converse(t)
	if got, _ := hear(t, c, "My name is Vera."); !strings.Contains(got, "Vera") {
		t.Errorf("answer %q", got)
	}
	if got, _ := hear(t, c, "What is my name?"); !strings.Contains(got, "Vera") {
		t.Errorf("the name is forgotten: %q", got)
	}
	u := c.Usage()
	if u.Reused == 0 || u.Generated == 0 || u.Prompt <= u.Reused || u.First <= 0 {
		t.Errorf("usage %+v", u)
	}
	if len(c.Messages) != 4 || c.Messages[3].Role != "assistant" {
		t.Errorf("messages %+v", c.Messages)
	}
	c.Messages, c.Kwargs = nil, map[string]any{"enable_thinking": true}
	text, thought := hear(t, c, "What is 7 times 8?")
	if text == "" || thought == "" || strings.Contains(text+thought, "think>") {
		t.Errorf("thought %q, answer %q", thought, text)
	}
	if m := c.Messages[1]; m.Content != text || m.Reasoning != strings.TrimSpace(thought) {
		t.Errorf("message %+v", m)
	}
}

// An answer that its reader stops is kept as far as it came; a question that
// nothing came of is forgotten.
func TestConversationStops(t *testing.T) {
	sequential(t)
	c := converse(t)
	for p, err := range c.Ask(t.Context(), "What is the capital of France?") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(p.Text) == "capital" {
			break
		}
	}
	if len(c.Messages) != 2 || c.Messages[1].Content != "The capital" {
		t.Errorf("messages %+v", c.Messages)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := slices.Clone(c.Messages)
	for _, err := range c.Ask(ctx, "And of Spain?") {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if !slices.Equal(c.Messages, before) {
		t.Errorf("messages %+v, want %+v", c.Messages, before)
	}
	if got, _ := hear(t, c, "What is the capital of Spain?"); got != "The capital of Spain is Madrid." {
		t.Errorf("the next answer is %q", got)
	}
}

// A saved conversation goes on, in another session, with what was said.
func TestConversationSaved(t *testing.T) {
	sequential(t)
	c := converse(t)
	hear(t, c, "My name is Vera.")
	path := filepath.Join(t.TempDir(), "chat")
	if err := c.SaveFile(path); err != nil {
		t.Fatal(err)
	}
	want, _ := hear(t, c, "What is my name?")
	used := c.Usage().Reused
	c.s.Close()
	s, err := c.s.m.RestoreFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if c, err = NewConversation(s); err != nil {
		t.Fatal(err)
	}
	if got, _ := hear(t, c, "What is my name?"); got != want || c.Usage().Reused != used {
		t.Errorf("restored, the answer is %q with %d tokens reused; want %q with %d", got, c.Usage().Reused, want, used)
	}
}
