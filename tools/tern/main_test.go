package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/ternvk/tern/testdata/sprig"
)

// program is what is tested, built by TestMain.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tern-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(dir, "tern")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	code := 1
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// command is a run of the program with its streams.
type command struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func prepare(t *testing.T, stdin string, args ...string) *command {
	t.Helper()
	c := &command{Cmd: exec.CommandContext(t.Context(), program, args...)}
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &c.out, &c.err
	return c
}

// noVulkan hides all drivers.
func (c *command) noVulkan() *command {
	c.Env = append(os.Environ(), "VK_ICD_FILENAMES=/nonexistent", "VK_DRIVER_FILES=/nonexistent")
	return c
}

// exits runs the program and expects an exit status.
func (c *command) exits(t *testing.T, status int) *command {
	t.Helper()
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := c.ProcessState.ExitCode(); got != status {
		t.Fatalf("tern %q: exit status %d, want %d\n%s", c.Args[1:], got, status, c.err.String())
	}
	return c
}

// complains expects that the last line of standard error is the program's
// complaint, that it has the given parts, and that nothing was answered.
func (c *command) complains(t *testing.T, parts ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(c.err.String(), "\n"), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "tern: ") || strings.Count(c.err.String(), "tern: ") != 1 {
		t.Errorf("tern %q: standard error is %q, want one complaint", c.Args[1:], c.err.String())
	}
	for _, p := range parts {
		if !strings.Contains(last, p) {
			t.Errorf("tern %q: %q does not name %q", c.Args[1:], last, p)
		}
	}
	if c.out.Len() > 0 {
		t.Errorf("tern %q: standard output is %q", c.Args[1:], c.out.String())
	}
}

func decode(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%v in %.200q", err, data)
	}
}

// modelFile writes the embedded model to a folder whose name is not ASCII.
func modelFile(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "модель 模型 ☃")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sprig.gguf")
	if err := os.WriteFile(path, sprig.Model, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args  []string
		parts []string
	}{
		{[]string{"fly"}, []string{`unknown command "fly"`}},
		{[]string{"run", "--speed", "9"}, []string{"unknown flag: --speed", "tern run --help"}},
		{[]string{"run", "a", "b", "c"}, []string{"accepts at most 2 arg"}},
		{[]string{"run", "--temp", "hot", "a"}, []string{"--temp"}},
		{[]string{"run", "--top-p", "1.5", "a"}, []string{"top-p 1.5: want 0 to 1"}},
		{[]string{"run", "-n", "-1", "a"}, []string{"-n -1"}},
		{[]string{"run", "--think", "--no-think", "a"}, []string{"think"}},
		{[]string{"run", "--raw", "--system", "b", "a"}, []string{"--raw excludes --system"}},
		{[]string{"run", "-m", "missing.gguf", "a"}, []string{"missing.gguf"}},
		{[]string{"run", "-m", "synth:huge", "a"}, []string{`no synthetic shape "huge"`}},
		{[]string{"run", "--activations", "int4", "--device", "reference", "a"}, []string{"int4"}},
		{[]string{"run", "--kernels", "missing", "a"}, []string{"--kernels", "missing"}},
		{[]string{"run", "--kernel", "fast", "a"}, []string{"contract=impl"}},
		{[]string{"run", "--profile", "wild", "a"}, []string{"exact or fast"}},
		{[]string{"inspect", "missing.gguf"}, []string{"missing.gguf"}},
		{[]string{"tokenize", "--ids", "--json", "a"}, []string{"ids"}},
		{[]string{"logits", "--ids", "1"}, []string{"--output is needed"}},
		{[]string{"logits", "-o", "x"}, []string{"either a text or --ids"}},
		{[]string{"bench", "--output", "xml"}, []string{`--output "xml"`}},
		{[]string{"bench", "--shape", "huge"}, []string{`no synthetic shape "huge"`}},
		{[]string{"run", "-c", "-5", "a"}, []string{"--context -5"}},
		{[]string{"run", "--q2-group", "7", "a"}, []string{"--q2-group 7"}},
		{[]string{"devices", "--activations", "int4"}, []string{"int4"}},
		{[]string{"inspect", "--graph", "-1"}, []string{"--graph -1"}},
		{[]string{"compare", "--tokens", "-3"}, []string{"--tokens"}},
		{[]string{"compare", "--from", "-1"}, []string{"--from"}},
		{[]string{"compare", "--ids", "1", "-p", "a"}, []string{"--prompt and --ids exclude each other"}},
		{[]string{"bench", "-p", "-4"}, []string{"-p"}},
		{[]string{"bench", "-d", "9223372036854775807"}, []string{"too large"}},
		{[]string{"inspect", "a", "-m", "b"}, []string{"one model"}},
		{[]string{"quantize", "a", "c", "--type", "q8_0", "-m", "b"}, []string{"one model"}},
		{[]string{"bench", "-d", "0,-1"}, []string{"-d"}},
		{[]string{"bench", "--peak", "NaN"}, []string{"--peak"}},
		{[]string{"bench", "--batch", "0"}, []string{"--batch"}},
		{[]string{"bench", "-p", "0", "-n", "0"}, []string{"nothing to measure"}},
		{[]string{"bench", "--products", "-p", "0"}, []string{"nothing to measure"}},
		{[]string{"bench", "--products", "-p", "2000000000"}, []string{"at most 16384"}},
		{[]string{"bench", "--products", "-r", "0"}, []string{"nothing to measure"}},
	} {
		prepare(t, "", c.args...).exits(t, exitUsage).complains(t, c.parts...)
	}
}

func TestHelp(t *testing.T) {
	for _, name := range []string{"run", "chat", "devices", "inspect", "tokenize", "logits", "compare", "verify", "bench", "version", "quantize", "convert", "perplexity"} {
		c := prepare(t, "", name, "--help").exits(t, 0)
		for _, part := range []string{"Examples:\n  tern " + name, "Global Flags:", "--device"} {
			if !strings.Contains(c.out.String(), part) {
				t.Errorf("help of %s lacks %q", name, part)
			}
		}
	}
	c := prepare(t, "").exits(t, 0)
	for _, part := range []string{"Available Commands:", "TERN_DISABLE", "coopmat", "TERN_FORCE", "TERN_CACHE"} {
		if !strings.Contains(c.out.String(), part) {
			t.Errorf("tern alone does not tell of %q: %q", part, c.out.String())
		}
	}
}

// Commands that need no device work without a driver (BL-18).
func TestWithoutVulkan(t *testing.T) {
	if c := prepare(t, "", "--version").noVulkan().exits(t, 0); !strings.HasPrefix(c.out.String(), "tern ") {
		t.Errorf("--version says %q", c.out.String())
	}
	if c := prepare(t, "", "version").noVulkan().exits(t, 0); !strings.Contains(c.out.String(), "arithmetic ") {
		t.Errorf("version says %q", c.out.String())
	}
	prepare(t, "", "inspect").noVulkan().exits(t, 0)
	c := prepare(t, "", "devices").noVulkan().exits(t, 0)
	if !strings.Contains(c.out.String(), "reference") || !strings.Contains(c.err.String(), "no usable device") {
		t.Errorf("devices says %q and %q", c.out.String(), c.err.String())
	}
	c = prepare(t, "", "run", "What is the capital of France?").noVulkan().exits(t, 0)
	if c.out.String() != "The capital of France is Paris.\n" || !strings.Contains(c.err.String(), "device: the Go reference, slowly, because: no usable device") {
		t.Errorf("run says %q and %q", c.out.String(), c.err.String())
	}
	prepare(t, "", "run", "--device", "0", "Hello!").noVulkan().exits(t, exitFailure).complains(t, "no usable device", "--device reference")
}

// The reference is no stand-in for a validation layer that is not installed.
func TestValidationMissing(t *testing.T) {
	c := prepare(t, "", "verify", "--validate")
	c.Env = append(os.Environ(), "VK_LAYER_PATH=/nonexistent")
	c.exits(t, exitFailure).complains(t, "VK_LAYER_KHRONOS_validation is not installed")
	prepare(t, "", "verify", "--validate").noVulkan().exits(t, exitFailure).complains(t, "no usable device")
}

func TestDevices(t *testing.T) {
	var list []deviceReport
	decode(t, prepare(t, "", "devices", "--json").exits(t, 0).out.Bytes(), &list)
	if len(list) == 0 {
		t.Fatal("this machine has no Vulkan device")
	}
	text := prepare(t, "", "devices").exits(t, 0).out.String()
	for _, d := range list {
		if d.Exact == nil || !*d.Exact || d.Subgroup[0] == 0 || len(d.Heaps) == 0 || d.Driver == "" {
			t.Errorf("device %+v", d)
		}
		if !strings.Contains(text, d.Name) || !strings.Contains(text, d.Version) {
			t.Errorf("the table lacks %s:\n%s", d.Name, text)
		}
		c := prepare(t, "", "run", "--device", d.Name, "-n", "1", "Hello!").exits(t, 0)
		if !strings.Contains(c.err.String(), d.Name) {
			t.Errorf("run does not tell its device: %q", c.err.String())
		}
	}
	c := prepare(t, "", "devices", "--json")
	c.Env = append(os.Environ(), "TERN_DISABLE=int8,probe")
	decode(t, c.exits(t, 0).out.Bytes(), &list)
	if list[0].Exact != nil || strings.Contains(strings.Join(list[0].Features, " "), "int8") {
		t.Errorf("with int8 and the probe off: %+v", list[0])
	}
}

// --trace tells the steps of a start in the order of time, and the program that leaves
// its device to the system keeps its pipelines.
func TestTrace(t *testing.T) {
	c := prepare(t, "", "run", "--trace", "-n", "1", "hi")
	dir := t.TempDir()
	c.Env = append(os.Environ(), "TERN_CACHE="+dir)
	c.exits(t, 0)
	var last float64
	seen := map[string]bool{}
	for line := range strings.Lines(c.err.String()) {
		at, step, ok := strings.Cut(strings.TrimSpace(line), " ms: ")
		if !ok {
			continue
		}
		seen[step] = true
		ms, err := strconv.ParseFloat(at, 64)
		if err != nil || ms < last {
			t.Errorf("%q after %g ms", line, last)
		}
		last = ms
	}
	for _, step := range []string{"file parsed", "tokenizer read", "memory allocated", "weights uploaded", "first token"} {
		if !seen[step] {
			t.Errorf("%q is missing in\n%s", step, c.err.String())
		}
	}
	if files, err := os.ReadDir(dir); seen["device created"] && (err != nil || len(files) < 2) {
		t.Errorf("kept are %v, error %v", files, err)
	}
}
