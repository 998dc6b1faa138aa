package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model"
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

// conversation is a speaker with the messages so far.
type conversation struct {
	*speaker
	*model.Conversation
	flags chatFlags
}

// newConversation takes the chat template of the model's file.
func newConversation(p *speaker, f chatFlags) (*conversation, error) {
	c, err := model.NewConversation(p.s)
	if err != nil {
		return nil, fmt.Errorf("%w; 'tern run --raw' completes a text without one", err)
	}
	c.Sampling, c.Limit = p.sampling, p.predict
	if f.think || f.noThink {
		c.Kwargs = map[string]any{"enable_thinking": f.think}
	}
	talk := &conversation{p, c, f}
	talk.clear()
	return talk, nil
}

// clear forgets all messages but the system message.
func (c *conversation) clear() {
	c.Messages = nil
	if c.flags.system != "" {
		c.Messages = []model.Message{{Role: "system", Content: c.flags.system}}
	}
}

// ask writes the answer to a question as it comes.
func (c *conversation) ask(ctx context.Context, question string) (speed, error) {
	defer c.showPrompt()()
	err := c.write(c.Ask(ctx, question))
	return c.speed(c.Usage()), err
}
