package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/tools/pull"
)

// briefPrompt is how many bytes a prompt must have to open the device for kernels in
// PTX: on an H200 that takes 120 ms longer, which the 8B shape's prompts win back with
// 6,000 tokens, and the texts are compiled at the first start.
const briefPrompt = 24 << 10

func (a *app) runCommand() *cobra.Command {
	var sampling samplingFlags
	var chatting chatFlags
	var raw bool
	cmd := &cobra.Command{
		Use:   "run [MODEL] [PROMPT]",
		Short: "Answer one prompt",
		Long: "Answer one prompt, through the model's chat template. Without PROMPT, or with -, the prompt is read from standard\n" +
			"input. MODEL is what -m takes; alone it must be a short name of 'tern pull'. Standard output gets the answer,\n" +
			"standard error the device, the settings, thoughts and speeds.",
		Example: `  tern run "What is the capital of France?"
  tern run bonsai-1.7b "Why is the sky blue?"
  tern run -m model.gguf --temp 0.7 --top-p 0.9 --seed 42 "Write a haiku"
  tern run --raw -n 32 "Once upon a time"
  tern run --device reference < prompt.txt`,
		Args: usage(cobra.MaximumNArgs(2)),
		RunE: interruptible(func(ctx context.Context, args []string) error {
			if len(args) == 2 || len(args) == 1 && pull.IsShort(args[0]) {
				if a.model != "" {
					return usagef("-m %s beside %s: want one model", a.model, args[0])
				}
				a.model, args = args[0], args[1:]
			}
			if err := chatting.check(); err != nil {
				return err
			}
			if raw && chatting != (chatFlags{}) {
				return usagef("--raw excludes --system, --think and --no-think")
			}
			prompt, err := a.text(ctx, args, longestPrompt)
			if err != nil {
				return err
			}
			a.brief = len(prompt) < briefPrompt
			p, err := a.newSpeaker(ctx, &sampling)
			if err != nil {
				return err
			}
			defer p.close()
			var sp speed
			if raw {
				t := p.m.Tokenizer()
				sp, err = p.complete(ctx, t.Encode(prompt, token.Options{ParseSpecial: true, AddSpecial: true}))
			} else {
				var c *conversation
				if c, err = newConversation(p, chatting); err == nil {
					sp, err = c.ask(ctx, prompt)
				}
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(a.err, sp)
			return nil
		}),
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&raw, "raw", false, "complete the prompt as it is; its control tokens count")
	chatting.register(cmd)
	sampling.register(cmd.Flags())
	return cmd
}
