// Command tern runs ternary language models on Vulkan devices.
//
// Standard output carries only the answer; all else goes to standard error.
// The exit status is 0 for success, 1 for an error, 2 for a command line that
// cannot be followed (unknown flags, files that do not exist) and 130 when
// interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/tools/internal/buildinfo"
)

func main() {
	a := &app{ends: true}
	os.Exit(a.execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit statuses besides 0.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// execute runs one command of a program that goes on, and returns the exit status.
func execute(args []string, in io.Reader, out, err io.Writer) int {
	return new(app).execute(args, in, out, err)
}

func (a *app) execute(args []string, in io.Reader, out, err io.Writer) int {
	answers := &output{to: out}
	a.in, a.out, a.err = in, answers, err
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(answers)
	root.SetErr(err)
	ends := []os.Signal{syscall.SIGTERM} // a second one changes nothing: timeout(1) sends two
	if !signal.Ignored(syscall.SIGHUP) { // as nohup(1) has it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	fail := root.ExecuteContext(ctx)
	if fail == nil {
		fail = answers.failed()
	}
	switch usage := (usageError{}); {
	case fail == nil:
		return 0
	case errors.Is(fail, context.Canceled):
		fmt.Fprintln(err, "tern: interrupted")
		return exitInterrupted
	default:
		// Joined errors have several lines; people and scripts get one.
		fmt.Fprintln(err, "tern:", strings.Join(strings.Split(strings.TrimSpace(fail.Error()), "\n"), "; "))
		if errors.As(fail, &usage) || errors.Is(fail, fs.ErrNotExist) {
			return exitUsage
		}
		return exitFailure
	}
}

// output is standard output, which remembers that it could not be written: no command
// succeeds whose answer nobody gets.
type output struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		o.err = err
		o.mu.Unlock()
	}
	return n, err
}

func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// root builds the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tern",
		Short: "Ternary language models on every Vulkan device",
		Long: "Tern runs ternary (Q2_0) language models on Vulkan devices, with the same bits on each of them.\n" +
			"Without -m the embedded model answers.\n\n" +
			"Environment: " + runtime.DisableVariable + " switches features of devices and parts of the runtime off, a list with commas of\n  " +
			strings.Join(plan.Words(), " ") + "\n" +
			runtime.ForceVariable + " uses features, of the same words, that the device has but does not gain from.\n" +
			runtime.CacheVariable + " is the folder of the pipeline cache and of tunings, off for none (default: tern in the user's cache folder).",
		Example: `  tern run "What is the capital of France?"
  tern chat -m Ternary-Bonsai-1.7B-Q2_0_g64.gguf
  tern devices`,
		Version:           buildinfo.Version(),
		Args:              usage(cobra.NoArgs),
		RunE:              func(cmd *cobra.Command, args []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
	}
	root.SetVersionTemplate("tern {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w (see '%s --help')", err, cmd.CommandPath())
	})
	a.globalFlags(root.PersistentFlags())
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return a.check() }
	root.AddCommand(a.runCommand(), a.chatCommand(), a.serveCommand(), a.devicesCommand(), a.inspectCommand(), a.tokenizeCommand(),
		a.logitsCommand(), a.compareCommand(), a.verifyCommand(), a.conformCommand(), a.benchCommand(), a.tuneCommand(), a.synthCommand(), a.quantizeCommand(), a.convertCommand(), a.perplexityCommand(), a.pullCommand(), a.versionCommand())
	return root
}

// interruptible is the body of a command that Ctrl-C ends: the first time in good
// order, the second time at once.
func interruptible(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		context.AfterFunc(ctx, stop)
		return f(ctx, args)
	}
}

// input is standard input until ctx ends: somebody may never write to it.
func (a *app) input(ctx context.Context) io.Reader { return waiting{ctx, a.in} }

type waiting struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader. A read that is given up goes on by itself, so it has
// memory of its own.
func (w waiting) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	type read struct {
		data []byte
		err  error
	}
	done := make(chan read, 1)
	go func() {
		data := make([]byte, len(p))
		n, err := w.in.Read(data)
		done <- read{data[:n], err}
	}()
	select {
	case r := <-done:
		return copy(p, r.data), r.err
	case <-w.ctx.Done():
		return 0, w.ctx.Err()
	}
}

// onlyFlags is the check of commands whose model is named by a flag alone.
func onlyFlags(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q: a model is named with -m", args[0])
	}
	return nil
}

// usage makes the errors of a check of arguments usage errors.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usagef("%w (see '%s --help')", err, cmd.CommandPath())
		}
		return nil
	}
}
