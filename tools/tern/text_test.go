package main

import (
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ternvk/tern/testdata/sprig"
)

// golden are the single questions without options of golden.json, and their
// answers.
func golden(t *testing.T) map[string]string {
	t.Helper()
	var file struct {
		Cases []struct {
			Messages []struct{ Content string }
			Options  map[string]any
			Answer   string
		}
	}
	decode(t, sprig.Golden, &file)
	answers := map[string]string{}
	for _, c := range file.Cases {
		if len(c.Messages) == 1 && len(c.Options) == 0 {
			answers[c.Messages[0].Content] = c.Answer
		}
	}
	if len(answers) < 5 {
		t.Fatalf("golden.json has only %d single questions", len(answers))
	}
	return answers
}

func TestRun(t *testing.T) {
	for question, answer := range golden(t) {
		c := prepare(t, "", "run", question).exits(t, 0)
		if c.out.String() != answer+"\n" {
			t.Errorf("%q is answered %q, want %q", question, c.out.String(), answer)
		}
		for _, part := range []string{"device: ", "greedy, seed 1", " t/s"} {
			if !strings.Contains(c.err.String(), part) {
				t.Errorf("standard error lacks %q: %q", part, c.err.String())
			}
		}
	}
}

func TestRunVariants(t *testing.T) {
	path := modelFile(t)
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"What is 7 times 8?", nil, "7 times 8 is 56.\n"},
		{"What is 7 times 8?", []string{"-"}, "7 times 8 is 56.\n"},
		{"", []string{"-m", path, "--device", "reference", "What is 7 times 8?"}, "7 times 8 is 56.\n"},
		{"", []string{"--activations", "f32", "What is 7 times 8?"}, "7 times 8 is 56.\n"},
		{"", []string{"--activations", "f16", "What is 7 times 8?"}, "7 times 8 is 56.\n"},
		{"", []string{"--system", "Answer briefly.", "capital of japan?"}, "The capital of Japan is Tokyo.\n"},
		{"", []string{"--think", "What is 38 + 57?"}, "38 + 57 = 95.\n"},
		{"", []string{"-n", "2", "What is the capital of France?"}, "The capital\n"},
		{"", []string{"--raw", "<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n", "-n", "4"}, "I am Sprig,\n"},
	} {
		r := prepare(t, c.stdin, append([]string{"run"}, c.args...)...).exits(t, 0)
		if r.out.String() != c.want {
			t.Errorf("run %q answers %q, want %q", c.args, r.out.String(), c.want)
		}
	}
	c := prepare(t, "", "run", "--think", "What is 38 + 57?").exits(t, 0)
	if !strings.Contains(c.err.String(), "Tens: 30 + 50 = 80.") {
		t.Errorf("thoughts do not go to standard error: %q", c.err.String())
	}
}

// An equal seed gives an equal text on every device; another one, another text.
func TestSeed(t *testing.T) {
	text := func(seed, device string) string {
		return prepare(t, "", "run", "--raw", "--temp", "2", "--top-k", "200", "--min-p", "0.0001", "--repeat-penalty", "1.1",
			"--seed", seed, "-n", "24", "--device", device, "Once").exits(t, 0).out.String()
	}
	a, b, c := text("5", "auto"), text("5", "reference"), text("6", "auto")
	if a != b || a == c || len(a) < 10 {
		t.Errorf("seed 5: %q and %q, seed 6: %q", a, b, c)
	}
}

func TestRunErrors(t *testing.T) {
	long := strings.Repeat("Paris ", 100)
	prepare(t, "", "run", "-c", "64", long).exits(t, exitFailure).complains(t, "context", "64")
	prepare(t, "", "run", "-c", "100000", "Hello!").exits(t, exitFailure).complains(t, "100000", "2048")
	prepare(t, "", "run", "--kernel", "argmax_f32=magic", "Hello!").exits(t, exitFailure).complains(t, "argmax_f32", "magic")
	prepare(t, "", "run", "--device", "GeForce 256", "Hello!").exits(t, exitFailure).complains(t, "GeForce 256")
	prepare(t, "", "run", "--raw", "").exits(t, exitFailure).complains(t, "empty prompt")

	path := t.TempDir() + "/broken.gguf"
	for _, size := range []int{3, 1000, len(sprig.Model) / 2, len(sprig.Model) - 1} {
		if err := os.WriteFile(path, sprig.Model[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		prepare(t, "", "run", "-m", path, "Hello!").exits(t, exitFailure).complains(t, "broken.gguf")
		prepare(t, "", "inspect", path).exits(t, exitFailure).complains(t, "broken.gguf")
	}
}

func TestChat(t *testing.T) {
	lines := "Who are you?\n\nWhat is 7 times 8?\n/clear\nWhat is the capital of France?\n/exit\nHello!\n"
	c := prepare(t, lines, "chat").exits(t, 0)
	answers := golden(t)
	want := answers["Who are you?"] + "\n" + answers["What is 7 times 8?"] + "\n" + answers["What is the capital of France?"] + "\n"
	if c.out.String() != want {
		t.Errorf("the chat answers %q, want %q", c.out.String(), want)
	}
	if strings.Count(c.err.String(), "of them reused") != 2 { // the third prompt begins like the first, too
		t.Errorf("prefixes are not reused:\n%s", c.err.String())
	}
	// A last line without its end is a turn as well.
	c = prepare(t, "What is 7 times 8?", "chat").exits(t, 0)
	if c.out.String() != answers["What is 7 times 8?"]+"\n" {
		t.Errorf("the chat answers %q", c.out.String())
	}
}

// A turn that cannot be answered ends that turn only.
func TestChatGoesOn(t *testing.T) {
	c := prepare(t, strings.Repeat("Paris ", 100)+"\nWhat is 7 times 8?\n", "chat", "-c", "64").exits(t, 0)
	if c.out.String() != "7 times 8 is 56.\n" || !strings.Contains(c.err.String(), "context full") {
		t.Errorf("the chat says %q and %q", c.out.String(), c.err.String())
	}
}

// Ctrl-C stops an answer and keeps the chat.
func TestChatInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot send each other an interrupt")
	}
	c := prepare(t, "", "chat", "--device", "reference", "--temp", "5", "--no-think")
	c.Stdin = nil
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout = nil
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	// At this temperature the answer goes on for long; its first byte tells
	// that it has begun.
	io.WriteString(stdin, "Write a haiku about bonsai trees\n")
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, "/exit\n")
	if _, err := io.Copy(io.Discard, stdout); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil || !strings.Contains(c.err.String(), "stopped") {
		t.Errorf("an interrupted chat ends with %v: %q", err, c.err.String())
	}
}

func TestRunInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot send each other an interrupt")
	}
	c := prepare(t, "", "run", "--raw", "--device", "reference", "--temp", "5", "Once")
	c.Stdout = nil
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, stdout)
	c.Wait()
	if got := c.ProcessState.ExitCode(); got != exitInterrupted || !strings.Contains(c.err.String(), "tern: interrupted") {
		t.Errorf("exit status %d: %q", got, c.err.String())
	}
}
