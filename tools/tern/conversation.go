package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model/chat"
	"github.com/ternvk/tern/model/token"
)

// chatFlags are the flags of commands that use a chat template.
type chatFlags struct {
	system         string
	think, noThink bool
}

func (f *chatFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.system, "system", "", "system message")
	cmd.Flags().BoolVar(&f.think, "think", false, "let the model think first, where its template offers that")
	cmd.Flags().BoolVar(&f.noThink, "no-think", false, "do not let the model think first")
}

func (f *chatFlags) check() error {
	if f.think && f.noThink {
		return usagef("--think and --no-think exclude each other")
	}
	return nil
}

// message is a turn, as chat templates expect it.
type message struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content,omitempty"`
}

// conversation is a speaker with the messages so far.
type conversation struct {
	*speaker
	template *chat.Template
	flags    chatFlags
	messages []message
}

// newConversation takes the chat template of the model's file.
func newConversation(p *speaker, f chatFlags) (*conversation, error) {
	file := p.m.File()
	text, ok, err := file.String("tokenizer.chat_template")
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("%s has no chat template; 'tern run --raw' completes a text without one", file.Name)
	}
	c := &conversation{speaker: p, flags: f}
	if c.template, err = chat.Parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	}
	c.clear()
	return c, nil
}

// clear forgets all messages but the system message.
func (c *conversation) clear() {
	c.messages = nil
	if c.flags.system != "" {
		c.messages = []message{{Role: "system", Content: c.flags.system}}
	}
}

// ask adds a question, writes the answer as it comes, and adds that. When
// nothing comes of it, the question is forgotten.
func (c *conversation) ask(ctx context.Context, question string) (speed, error) {
	before := c.messages
	c.messages = append(c.messages, message{Role: "user", Content: question})
	ids, err := c.prompt()
	if err != nil {
		c.messages = before
		return speed{}, err
	}
	w := newAnswer(c.out, c.err, c.m.Tokenizer(), ids)
	sp, err := c.speak(ctx, ids, w)
	if err != nil && w.text.Len() == 0 {
		c.messages = before
		return sp, err
	}
	c.messages = append(c.messages, message{"assistant", w.text.String(), strings.TrimSpace(w.thought.String())})
	return sp, err
}

// prompt renders the messages to the ids that the model goes on from. What
// messages say never becomes a control token.
func (c *conversation) prompt() ([]int32, error) {
	var messages strings.Builder
	e := json.NewEncoder(&messages)
	e.SetEscapeHTML(false)
	if err := e.Encode(c.messages); err != nil {
		return nil, err
	}
	kwargs := map[string]any{}
	if c.flags.think || c.flags.noThink {
		kwargs["enable_thinking"] = c.flags.think
	}
	t := c.m.Tokenizer()
	r, err := c.template.Render(chat.Input{
		Messages: json.RawMessage(messages.String()), AddGenerationPrompt: true, Kwargs: kwargs,
		BOS: t.Text(t.Vocab().BOS), EOS: t.Text(t.Vocab().EOS),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.m.File().Name, err)
	}
	segments := make([]token.Segment, len(r.Segments))
	for i, s := range r.Segments {
		segments[i] = token.Segment(s)
	}
	return t.EncodeSegments(segments, token.Options{}), nil
}
