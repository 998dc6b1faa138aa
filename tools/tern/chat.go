package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"

	"github.com/chzyer/readline"
	"github.com/spf13/cobra"

	"github.com/ternvk/tern/runtime/graph"
)

func (a *app) chatCommand() *cobra.Command {
	var sampling samplingFlags
	var chatting chatFlags
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk with a model",
		Long: "Talk with a model, a line a turn. Ctrl-C stops an answer and keeps the chat; at the prompt, Ctrl-C or Ctrl-D leaves.\n" +
			"/clear forgets what was said, /exit leaves. When standard input is no terminal, each of its lines is a turn.",
		Example: `  tern chat
  tern chat -m model.gguf --system "Answer in one sentence." --temp 0.7
  printf 'Hello!\nWho are you?\n' | tern chat`,
		Args: usage(onlyFlags),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := chatting.check(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			p, err := a.newSpeaker(ctx, &sampling)
			stop()
			if err != nil {
				return err
			}
			defer p.close()
			c, err := newConversation(p, chatting)
			if err != nil {
				return err
			}
			lines, err := a.lines(cmd.Context())
			if err != nil {
				return err
			}
			defer lines.Close()
			return c.talk(cmd.Context(), lines)
		},
	}
	cmd.Flags().SortFlags = false
	chatting.register(cmd)
	sampling.register(cmd.Flags())
	return cmd
}

// talk answers lines until they end. Mistakes of a turn end that turn only.
func (c *conversation) talk(ctx context.Context, lines lines) error {
	for {
		line, err := lines.Readline()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, readline.ErrInterrupt) && line != "":
			continue // Ctrl-C drops a line that was begun
		case errors.Is(err, readline.ErrInterrupt), errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch line = strings.TrimSpace(line); line {
		case "":
			continue
		case "/exit":
			return nil
		case "/clear":
			c.clear()
			continue
		}
		turn, stop := signal.NotifyContext(ctx, os.Interrupt)
		sp, err := c.ask(turn, line)
		stop()
		switch {
		case err == nil:
			fmt.Fprintln(c.err, sp)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.Canceled):
			fmt.Fprintln(c.out)
			fmt.Fprintln(c.err, "stopped")
		case !fatal(err):
			fmt.Fprintln(c.err, "tern:", err)
		default:
			return err
		}
	}
}

// lines are the turns of the user.
type lines interface {
	Readline() (string, error)
	Close() error
}

// lines edits lines on a terminal and else just reads them.
func (a *app) lines(ctx context.Context) (lines, error) {
	if !terminal(a.in) {
		l := plainLines{bufio.NewScanner(a.input(ctx))}
		l.Buffer(nil, longestPrompt)
		return l, nil
	}
	// The prompt goes to standard error: standard output is for answers.
	l, err := readline.NewEx(&readline.Config{Prompt: "> ", Stdout: a.err})
	if err == nil {
		context.AfterFunc(ctx, func() { l.Close() })
	}
	return l, err
}

type plainLines struct{ *bufio.Scanner }

func (l plainLines) Readline() (string, error) {
	switch {
	case l.Scan():
		return l.Text(), nil
	case errors.Is(l.Err(), bufio.ErrTooLong):
		return "", fmt.Errorf("standard input: a line of more than %d MiB", longestPrompt>>20)
	}
	return "", cmp.Or(l.Err(), io.EOF)
}

func (plainLines) Close() error { return nil }

// fatal reports whether no later turn can succeed after an error: the device is lost, or
// answers cannot be written.
func fatal(err error) bool {
	var output *fs.PathError
	return errors.As(err, &output) || errors.Is(err, graph.ErrDeviceLost) || errors.Is(err, graph.ErrClosed)
}
