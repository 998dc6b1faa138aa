// Command faults plants mistakes in copies of the kernels' sources and of the
// runtime, one after another, and checks that the suite goes red for each and names
// the kernel: tern conform, the lint of exact kernels, or tern verify under
// synchronization validation. Without a mistake the same kernels must pass. It runs
// in the root of the project, with the release compiler, on the driver of the
// environment.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/ternvk/tern/runtime/conform"
	"github.com/ternvk/tern/spirv"
)

func main() {
	only := flag.String("run", "", "plant only faults whose name matches this `pattern`")
	out := flag.String("o", "", "write the table of results to this `file`")
	flag.Parse()
	if err := run(*only, *out); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// outcome is what the suite said about a planted fault.
type outcome struct {
	fault *fault
	by    string // what went red
	first string // its first words
}

func run(only, out string) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	device, err := healthy(dir)
	if err != nil {
		return fmt.Errorf("without a fault: %w", err)
	}
	fmt.Printf("%s: without a fault all is right\n", device)
	var table strings.Builder
	fmt.Fprintf(&table, "| fault | planted in | caught by | names | first sign on %s |\n|---|---|---|---|---|\n", device)
	var errs []error
	for i := range faults {
		f := &faults[i]
		if !pattern.MatchString(f.name) {
			continue
		}
		o, err := f.plant(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
			fmt.Printf("MISSED %-32s %v\n", f.name, err)
			continue
		}
		fmt.Printf("caught %-32s by %s, which names %s: %s\n", f.name, o.by, f.kernel, o.first)
		fmt.Fprintf(&table, "| %s | `%s` | %s | `%s` | %s |\n", f.name, f.file, o.by, f.kernel, strings.ReplaceAll(o.first, "|", "\\|"))
	}
	if out != "" && len(errs) == 0 {
		return os.WriteFile(out, []byte(table.String()), 0o666)
	}
	return errors.Join(errs...)
}

// healthy compiles the kernels of all faults without one and holds them to the
// reference. It returns the device's name.
func healthy(dir string) (string, error) {
	var names []string
	for _, f := range faults {
		names = append(names, f.kernel)
	}
	words, err := compile(filepath.Join(dir, "healthy"), names, nil)
	if err != nil {
		return "", err
	}
	report, err := runConform(words, "*")
	if err != nil {
		return "", err
	}
	for _, r := range report.Results {
		if r.Failed > 0 || r.Cases == 0 {
			return "", errors.New(r.String())
		}
	}
	return report.Executor, nil
}

func (f *fault) plant(dir string) (*outcome, error) {
	if f.file == runtimeFile {
		return f.plantInRuntime(dir)
	}
	words, err := compile(dir, []string{f.kernel}, f)
	if err != nil {
		return nil, err
	}
	if f.strip {
		if err := stripNoContraction(filepath.Join(words, f.kernel+".spv")); err != nil {
			return nil, err
		}
	}
	const control = "pick_rows_f32"
	report, err := runConform(words, f.kernel+","+control, f.args...)
	if err != nil {
		return nil, err
	}
	var o *outcome
	for _, r := range report.Results {
		switch {
		case r.Kernel() == control && r.Failed > 0:
			return nil, fmt.Errorf("the sound kernel fails too: %s", r.String())
		case r.Kernel() == f.kernel && r.Failed > 0:
			o = &outcome{f, "conform, words", r.Failures[0].String()}
			if r.Failures[0].Case == "lint" {
				if o.by = "the lint"; r.Failed > 1 {
					o.by = "the lint, and conform by words"
				}
			}
		}
	}
	if o == nil {
		return nil, fmt.Errorf("nothing was noticed in %s", f.kernel)
	}
	if first, _, more := strings.Cut(o.first, "\n"); more {
		o.first = first + " ..."
	}
	return o, nil
}

// plantInRuntime builds the program with the edited file in place of its own and runs
// a model under synchronization validation, whose messages name the node's kernel: the
// base implementation, which is the same on every device.
func (f *fault) plantInRuntime(dir string) (*outcome, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(f.file)
	if err != nil {
		return nil, err
	}
	edited, err := f.edit(string(text))
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(f.file)
	if err != nil {
		return nil, err
	}
	copied, overlay := filepath.Join(dir, filepath.Base(f.file)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: copied}})
	if err == nil {
		err = errors.Join(os.WriteFile(copied, []byte(edited), 0o666), os.WriteFile(overlay, replace, 0o666))
	}
	if err != nil {
		return nil, err
	}
	c := exec.Command("go", "run", "-overlay", overlay, "./tools/tern", "verify", "--validate", "--kernel", f.kernel+"=")
	printed, err := c.CombinedOutput()
	if err == nil {
		return nil, fmt.Errorf("nothing was noticed:\n%s", printed)
	}
	hazard, kernel := regexp.MustCompile(`SYNC-HAZARD-[A-Z-]+`).Find(printed), []byte("["+f.kernel+"]")
	if hazard == nil || !bytes.Contains(printed, kernel) {
		return nil, fmt.Errorf("it is not named:\n%s", printed)
	}
	return &outcome{f, "synchronization validation", fmt.Sprintf("%s in the pipeline of %s", hazard, f.kernel)}, nil
}

// edit makes the fault.
func (f *fault) edit(text string) (string, error) {
	if n := strings.Count(text, f.old); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, want once: the source has changed, choose another text", f.file, f.old, n)
	}
	return strings.Replace(text, f.old, f.new, 1), nil
}

// compile compiles kernels of the list from a copy of the sources in dir, with a fault
// or none, and returns the folder of the words.
func compile(dir string, names []string, f *fault) (string, error) {
	glsl, words := filepath.Join(dir, "glsl"), filepath.Join(dir, "words")
	if err := os.CopyFS(glsl, os.DirFS("glsl")); err != nil {
		return "", err
	}
	if f != nil && !f.strip {
		path := filepath.Join(dir, f.file)
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		edited, err := f.edit(string(text))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(edited), 0o666); err != nil {
			return "", err
		}
	}
	list := filepath.Join(glsl, "kernels.txt")
	text, err := os.ReadFile(list)
	if err != nil {
		return "", err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		for _, name := range names {
			if strings.HasPrefix(line, name+" ") {
				lines = append(lines, line)
				break
			}
		}
	}
	if err := os.WriteFile(list, []byte(strings.Join(lines, "")), 0o666); err != nil {
		return "", err
	}
	c := exec.Command("go", "run", "./tools/kernels", "-words", "-stamps", "", "-glsl", glsl, "-out", words,
		"-glslc", "tools/scripts/glslc", "-opt", "tools/scripts/spirv-opt", "-val", "tools/scripts/spirv-val")
	c.Env = append(os.Environ(), "GOFLAGS=") // the compiler is not for the driver's libraries
	if printed, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling: %w\n%s", err, printed)
	}
	return words, nil
}

// runConform runs the cases of the kernels that filter names, of which those in the
// folder replace the built-in ones.
func runConform(words, filter string, args ...string) (*conform.Report, error) {
	command := []string{"run", "./tools/tern", "conform", "--kernels", words, "--json", "-", "--cases", "60", "--time", "0", "--work", "4000000"}
	if filter != "*" {
		command = append(command, "--filter", filter)
	}
	c := exec.Command("go", append(command, args...)...)
	var complaints bytes.Buffer
	c.Stderr = &complaints
	printed, runErr := c.Output()
	report := &conform.Report{}
	if err := json.Unmarshal(printed, report); err != nil {
		return nil, fmt.Errorf("tern conform: %w\n%s", errors.Join(runErr, err), &complaints)
	}
	if failed := runErr != nil; failed != report.Failed() {
		return nil, fmt.Errorf("tern conform: the report says failed %v, and the exit status: %v", report.Failed(), runErr)
	}
	return report, nil
}

// stripNoContraction takes the decorations off the words in a file.
func stripNoContraction(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	words, err := spirv.WordsOf(data)
	if err != nil {
		return err
	}
	m, err := spirv.Parse(words)
	if err != nil {
		return err
	}
	const noContraction = 42
	var kept []byte
	at := 0 // in bytes, of what is copied
	for _, in := range m.Instructions {
		if in.Op == spirv.OpDecorate && in.Operands[1] == noContraction {
			kept = append(kept, data[at:4*in.Offset]...)
			at = 4 * (in.Offset + 1 + len(in.Operands))
		}
	}
	if at == 0 {
		return fmt.Errorf("%s has no NoContraction decoration", path)
	}
	return os.WriteFile(path, append(kept, data[at:]...), 0o666)
}
