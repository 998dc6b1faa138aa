package serve

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Real clients from npm, unmodified, against Sprig: chat, streams, tools, schemas, log
// probabilities, aborts, errors; and the chat page in a browser. Where node, npm and
// chromium are, and TERN_CONFORM=all, since packages are downloaded.
func TestRealClients(t *testing.T) {
	if os.Getenv("TERN_CONFORM") != "all" {
		t.Skip("downloads clients: TERN_CONFORM=all")
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	scripts := []string{"openai.mjs", "ollama.mjs", "ai-sdk.mjs"}
	if browser, err := exec.LookPath("chromium"); err == nil {
		t.Setenv("CHROMIUM", browser)
		scripts = append(scripts, "page.mjs")
	} else {
		t.Log("the chat page is left out:", err)
	}
	dir := t.TempDir()
	files, err := filepath.Glob("clients/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(f)), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := talk(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	run := func(name string, args ...string) {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		t.Logf("%s %v:\n%s", name, args, out)
		if err != nil {
			t.Errorf("%s %v: %v", name, args, err)
		}
	}
	run("npm", "ci", "--no-audit", "--no-fund")
	for _, script := range scripts {
		run("node", script, c.h.URL)
	}
	c.waitIdle()
}
