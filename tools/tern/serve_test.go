package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// safeBuffer is a buffer that is written while it is read.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// The service starts on a free port, says where, answers with the embedded model, and
// ends well when it is interrupted.
func TestServeCommand(t *testing.T) {
	var said safeBuffer
	a := &app{in: strings.NewReader(""), out: io.Discard, err: &said}
	root := a.root()
	root.SetArgs([]string{"serve", "--port", "0", "--device", "reference", "--parallel", "2", "-c", "-1", "--alias", "tiny"})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	var url string
	for range 12000 {
		if m := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(said.String()); m != "" && strings.Contains(said.String(), "ready") {
			url = m
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if url == "" {
		t.Fatalf("no address: %s", said.String())
	}
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(
		`{"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": "What is the capital of France?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"content":"The capital"`) {
		t.Errorf("%s, %v: %s", resp.Status, err, body)
	}
	interrupt()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("still running after the interrupt")
	}
}

func TestServeFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--port":     {"--port", "70000"},
		"--parallel": {"--parallel", "0"},
		"--chunk":    {"--parallel", "64", "--chunk", "100"},
		"--max-body": {"--max-body", "0"},
		"--queue":    {"--queue", "0"},
		"at most":    {"--max-body", "9007199254740993"},
	} {
		var out, err bytes.Buffer
		if status := execute(append([]string{"serve"}, args...), strings.NewReader(""), &out, &err); status != exitUsage || !strings.Contains(err.String(), want) {
			t.Errorf("%v: status %d, %s", args, status, err.String())
		}
	}
	var out, err bytes.Buffer
	if status := execute([]string{"serve", "--host", "203.0.113.1", "--port", "0"}, strings.NewReader(""), &out, &err); status != exitFailure {
		t.Errorf("an address of others: status %d, %s", status, err.String())
	}
}
