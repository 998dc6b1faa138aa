// Package conform holds the page about the suite to what it says.
package conform

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// Commands and targets that the page and the workflow name exist.
func TestPageNamesWhatThereIs(t *testing.T) {
	page, workflow, makefile := read(t, "README.md"), read(t, "workflow.yml"), read(t, filepath.Join(root, "Makefile"))
	for _, m := range regexp.MustCompile(`\bmake ([a-z-]+)`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(makefile, "\n"+m[1]+":") {
			t.Errorf("the page names make %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Error(err)
		}
	}
	help, err := exec.Command("go", "run", root+"/tools/tern", "conform", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page + workflow) {
		if !strings.Contains(line, "tern conform ") {
			continue
		}
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(line, -1) {
			if !strings.Contains(string(help), flag+" ") {
				t.Errorf("tern conform has no %s: %s", flag, line)
			}
		}
	}
}

// Following the page gives a kernel that is held to the reference, in a copy of the
// project; so do the workflow's own commands.
func TestPageIsFollowed(t *testing.T) {
	if os.Getenv("TERN_CONFORM") != "all" {
		t.Skip("a minute of compiling: with TERN_CONFORM=all")
	}
	dir := copyOfProject(t)
	blocks := regexp.MustCompile("(?s)\n   ```sh\n(.*?)   ```\n").FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) != 5 {
		t.Fatalf("%d blocks in the page, want 5", len(blocks))
	}
	for _, b := range blocks {
		shell(t, dir, regexp.MustCompile(`(?m)^   `).ReplaceAllString(b[1], ""))
	}
	steps := regexp.MustCompile(`(?m)^      - run: (.*)$`).FindAllStringSubmatch(read(t, "workflow.yml"), -1)
	if len(steps) != 5 {
		t.Fatalf("%d commands in the workflow, want 5", len(steps))
	}
	for _, s := range steps[1:] { // the first one installs packages
		shell(t, dir, s[1])
	}
	if report := read(t, filepath.Join(dir, "conform.xml")); !strings.Contains(report, `name="pick_rows_f32__pair"`) {
		t.Error("the workflow's report has not the page's kernel")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// copyOfProject copies what git knows of, with the release compiler if it is unpacked.
func copyOfProject(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	shell(t, root, "git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf - --ignore-failed-read | tar -xf - -C "+dir)
	if tree, err := filepath.Abs(root + "/.root/trixie"); err == nil && os.Getenv("TERN_TRIXIE") == "" {
		if _, err := os.Stat(tree); err == nil {
			t.Setenv("TERN_TRIXIE", tree)
		}
	}
	return dir
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	c := exec.Command("sh", "-eu", "-c", script)
	c.Dir = dir
	c.Env = append(os.Environ(), "LP_NUM_THREADS=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
}
