package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ternvk/tern/testdata/sprig"
)

// hub serves the embedded model under a short name, as Hugging Face would; its bytes stop
// after limit, if that is not 0.
func hub(t *testing.T, limit *atomic.Int64) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/prism-ml/Ternary-Bonsai-1.7B-gguf/resolve/main/") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("X-Linked-Etag", fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256(sprig.Model))))
		if n := limit.Load(); n > 0 {
			w.Header().Set("Content-Length", fmt.Sprint(len(sprig.Model)))
			w.Write(sprig.Model[:n])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(sprig.Model))
	}))
	t.Cleanup(s.Close)
	return s
}

// A model is pulled by its short name and run by it; half a download is never run.
func TestPull(t *testing.T) {
	var limit atomic.Int64
	limit.Store(1 << 20)
	s := hub(t, &limit)
	models := filepath.Join(t.TempDir(), "модели ☃")
	tern := func(args ...string) *command {
		c := prepare(t, "", args...)
		c.Env = append(os.Environ(), modelsVariable+"="+models, mirrorsVariable+"="+s.URL)
		return c
	}
	const question = "What is the capital of France?"
	tern("run", "bonsai-1.7b", question).exits(t, exitUsage).complains(t, "bonsai-1.7b", "tern pull bonsai-1.7b")
	tern("pull", "--offline", "bonsai-1.7b").exits(t, exitFailure).complains(t, "offline")
	tern("pull", "no-such-name").exits(t, exitUsage).complains(t, "bonsai-8b", "owner/repository")
	tern("pull", "--sha256", "abc", "bonsai-1.7b").exits(t, exitUsage).complains(t, "64 hexadecimal")
	tern("pull", "bonsai-4b").exits(t, exitFailure).complains(t, "404")

	c := tern("pull", "bonsai-1.7b") // the server breaks off every time
	c.Start()
	part := filepath.Join(models, "prism-ml", "Ternary-Bonsai-1.7B-gguf", "Ternary-Bonsai-1.7B-Q2_0_g64.gguf.part")
	for range 6000 {
		if info, err := os.Stat(part); err == nil && info.Size() > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.Process.Kill()
	c.Wait()
	if info, err := os.Stat(part); err != nil || info.Size() == 0 {
		t.Fatalf("%v, %v: want a part", info, err)
	}
	tern("run", "bonsai-1.7b", question).exits(t, exitUsage).complains(t, "bonsai-1.7b")
	limit.Store(0)
	c = tern("pull", "bonsai-1.7b").exits(t, 0)
	path := strings.TrimSpace(c.out.String())
	if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, sprig.Model) {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	tern("pull", "--offline", "--check", "bonsai-1.7b").exits(t, 0)
	for _, args := range [][]string{
		{"run", "bonsai-1.7b", question}, {"run", "-m", "bonsai-1.7b", question}, {"run", "prism-ml/Ternary-Bonsai-1.7B-gguf", question},
	} {
		if got := tern(args...).exits(t, 0).out.String(); got != golden(t)[question]+"\n" {
			t.Errorf("tern %q: %q", args, got)
		}
	}
	tern("run", "-m", "x.gguf", "bonsai-1.7b", question).exits(t, exitUsage).complains(t, "want one model")
}

// -c -1 takes as many positions as fit.
func TestLargestContext(t *testing.T) {
	c := prepare(t, "", "run", "--device", "reference", "-c", "-1", "What is the capital of France?").exits(t, 0)
	if !strings.Contains(c.err.String(), "context: 2048 positions") {
		t.Errorf("standard error: %q", c.err.String())
	}
	c = prepare(t, "", "inspect", "--device", "reference", "-c", "-1").exits(t, 0)
	if !strings.Contains(c.out.String(), "memory with a context of 2048") {
		t.Errorf("standard output: %q", c.out.String())
	}
	prepare(t, "", "run", "-c", "-2", "Hello").exits(t, exitUsage).complains(t, "--context -2")
}
