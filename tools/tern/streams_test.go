package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What cannot be written to standard output is an error of every command.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, args := range [][]string{
		{"run", "Who are you?"}, {"devices"}, {"devices", "--json"}, {"inspect"}, {"inspect", "--json"}, {"inspect", "--graph", "1"},
		{"tokenize", "a"}, {"tokenize", "--ids", "a"}, {"tokenize", "--json", "a"}, {"version"}, {"verify"}, {"compare", "--tokens", "2"},
		{"conform", "--filter", "rms_norm_i8", "--cases", "1", "--device", "reference"}, {"--help"},
		{"logits", "--ids", "1", "-o", filepath.Join(t.TempDir(), "x")}, {"bench", "-p", "4", "-n", "0", "-r", "1"},
	} {
		c := prepare(t, "", args...)
		c.Stdout = full
		c.exits(t, exitFailure).complains(t, "no space left")
	}
}

// A chat whose answers cannot be written ends.
func TestFullChat(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	c := prepare(t, "Hello\nWho are you?\n", "chat", "--device", "reference", "-n", "2")
	c.Stdout = full
	c.exits(t, exitFailure).complains(t, "no space left")
}

// A device is no file to replace.
func TestOutputToDevice(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no device files")
	}
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	prepare(t, "", "logits", "--ids", "1", "-o", link).exits(t, exitFailure).complains(t, "not a regular file")
	prepare(t, "", "synth", link).exits(t, exitFailure).complains(t, "not a regular file")
	prepare(t, "", "perplexity", "-f", "../../testdata/perplexity/sprig.txt", "-c", "64", "--chunks", "1", "--kl-divergence-base", link).
		exits(t, exitFailure).complains(t, "not a regular file")
}

// Nobody writes to a pipe that was given for a file: it is refused, not waited for.
func TestPipeForFile(t *testing.T) {
	mkfifo, err := exec.LookPath("mkfifo")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := exec.Command(mkfifo, pipe).Run(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"inspect", "-m", pipe}, {"quantize", pipe, filepath.Join(dir, "out"), "--type", "f16"},
		{"perplexity", "--kl-divergence", "--kl-divergence-base", pipe},
	} {
		prepare(t, "", args...).exits(t, exitFailure)
	}
}

// Prompts that are no text, or nothing at all, are answered.
func TestOddPrompts(t *testing.T) {
	for _, prompt := range []string{"", "\xff\xfe\x80", "a\x00b", "\n\n", "<|im_end|>", "\u202eabc\u0300\u0301"} {
		prepare(t, prompt, "run", "-n", "3").exits(t, 0)
	}
}

// Input without an end is not read for ever.
func TestEndlessInput(t *testing.T) {
	for _, args := range [][]string{{"run"}, {"logits", "-", "-o", filepath.Join(t.TempDir(), "x")}} {
		c := prepare(t, "", args...)
		c.Stdin = endless{}
		c.exits(t, exitFailure).complains(t, "standard input: more than 16 MiB")
	}
	c := prepare(t, "", "chat", "--device", "reference")
	c.Stdin = endless{}
	c.exits(t, exitFailure).complains(t, "standard input: a line of more than 16 MiB")
}

type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }

// The cache is a convenience: without a home, or where it cannot be written,
// everything works, also in several processes at once (BL-62 for its folder's
// name).
func TestCacheFolders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var env []string
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); name != "HOME" && name != "XDG_CACHE_HOME" && name != "LocalAppData" {
			env = append(env, e)
		}
	}
	shared := "TERN_CACHE=" + filepath.Join(t.TempDir(), "кэш 缓存 ☃")
	for _, more := range [][]string{nil, {"HOME=" + filepath.Join(file, "home")}, {"TERN_CACHE=" + file}, {"TERN_CACHE=off"}, {shared}, {shared}} {
		var running []*command
		for range 2 {
			c := prepare(t, "", "run", "What is 7 times 8?")
			c.Env = append(append([]string{}, env...), more...)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			running = append(running, c)
		}
		for _, c := range running {
			if err := c.Wait(); err != nil || c.out.String() != "7 times 8 is 56.\n" {
				t.Errorf("%q: %v, %q, %q", more, err, c.out.String(), c.err.String())
			}
		}
	}
}

// A reader that goes away ends the program and nothing else.
func TestClosedPipe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("pipes end otherwise")
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `"$1" inspect --full 2>&1 | head -c 10`, "sh", program).Output()
	if err != nil || len(out) != 10 {
		t.Errorf("%q, %v", out, err)
	}
}

// A command that waits for standard input, or makes a model of noise, can be
// interrupted, and leaves nothing.
func TestInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	dir := t.TempDir()
	ends := []os.Signal{syscall.SIGTERM, syscall.SIGHUP}
	if signal.Ignored(syscall.SIGHUP) { // what is ignored here is ignored there
		ends = ends[:1]
	}
	for i, args := range [][]string{
		{"run"}, {"tokenize"}, {"chat"}, {"perplexity", "-f", "-"}, {"logits", "-", "-o", filepath.Join(dir, "x")},
		{"synth", "--shape", "ternary-bonsai-8b", filepath.Join(dir, "x")},
		{"inspect", "-m", "synth:ternary-bonsai-1.7b"},
	} {
		var c *command
		for wait := 300 * time.Millisecond; ; wait *= 3 {
			if c = interrupted(t, wait, ends[i%len(ends)], args...); c.ProcessState.ExitCode() >= 0 || wait > 10*time.Second {
				break // else the signal has ended it before it listened
			}
		}
		if c.ProcessState.ExitCode() != exitInterrupted || !strings.HasSuffix(c.err.String(), "tern: interrupted\n") {
			t.Errorf("%q: %v\n%s", args, c.ProcessState, &c.err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left: %v", left, err)
	}
}

// interrupted starts a command whose input stays open, and interrupts it a while later,
// twice.
func interrupted(t *testing.T, wait time.Duration, end os.Signal, args ...string) *command {
	t.Helper()
	c := prepare(t, "", args...)
	c.Stdin = nil
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(wait)
	if err := c.Process.Signal(end); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	c.Process.Signal(end) // as timeout(1) does
	kill := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
	c.Wait()
	kill.Stop()
	in.Close()
	return c
}

// What is read is not written over, and too much is refused before it is computed.
func TestOutputIsInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"logits", "-m", path, "--ids", "1", "-o", path}, {"compare", "-m", path, "--html", path},
		{"perplexity", "-f", path, "--html", path}, {"perplexity", "-f", path, "--kl-divergence-base", path},
		{"perplexity", "--kl-divergence", "--kl-divergence-base", path, "--html", path},
	} {
		prepare(t, "", args...).exits(t, exitUsage).complains(t, "both read and written")
	}
	none := filepath.Join(filepath.Dir(path), "none", "y")
	for _, args := range [][]string{
		{"logits", "--ids", "1", "-o", none}, {"compare", "--html", none}, {"bench", "--ops", "--html", none}, {"bench", "--ops", "--svg", none},
		{"conform", "--html", none}, {"conform", "--json", none}, {"conform", "--junit", none},
		{"perplexity", "-f", path, "--html", none}, {"perplexity", "-f", path, "--kl-divergence-base", none},
	} { // before a device is opened
		c := prepare(t, "", args...).exits(t, exitUsage)
		c.complains(t, none+" cannot be written")
		if strings.Contains(c.err.String(), "device: ") {
			t.Errorf("%q: told late: %q", args, c.err.String())
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v are left: %v", left, err)
	}
	long := strings.Repeat("1,", 3000)
	prepare(t, "", "logits", "--ids", long, "-o", path).exits(t, exitFailure).complains(t, "3000 tokens in a context of 2048")
}
