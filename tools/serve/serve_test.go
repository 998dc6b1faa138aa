package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/testdata/sprig"
	"github.com/ternvk/tern/tools/serve/sched"
)

func TestMain(m *testing.M) {
	// Without worker threads lavapipe runs tiny dispatches 20 times faster.
	if os.Getenv("LP_NUM_THREADS") == "" {
		os.Setenv("LP_NUM_THREADS", "0")
	}
	code := m.Run()
	if shared.Server != nil {
		shared.Close()
		shared.x.Close()
	}
	os.Exit(code)
}

// client is a server with Sprig, and how tests talk to it.
type client struct {
	*Server
	t testing.TB
	x graph.Executor
	h *httptest.Server
}

var shared struct {
	*Server
	sync.Once
	x graph.Executor
}

// device opens the machine's device, or the reference.
func device(t testing.TB) graph.Executor {
	t.Helper()
	d, err := runtime.Open(runtime.Options{CacheDir: "off"})
	if errors.Is(err, graph.ErrNoDevice) {
		return ref.New()
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func sprigFile(t testing.TB) *gguf.File {
	t.Helper()
	f, err := gguf.Parse("sprig", sprig.Model)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// options serve a model on an executor; change, if not nil, makes them others.
func options(t testing.TB, x graph.Executor, data []byte, change func(*Options)) Options {
	t.Helper()
	file, err := gguf.Parse("sprig", data)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Name: "sprig", Aliases: []string{"tiny"}, File: file, Context: 512, Parallel: 4, KeepAlive: -1, Version: "test", Device: x.Name}
	if change != nil {
		change(&o)
	}
	o.Load = func(ctx context.Context) (sched.Loaded, error) {
		m, err := model.OpenBytes(ctx, "sprig", data, model.Options{Executor: x, Context: o.Context, Sequences: o.Parallel})
		if err != nil {
			return sched.Loaded{}, err
		}
		return sched.Loaded{Model: m, Close: m.Close}, nil
	}
	return o
}

// first is Sprig cut to its first layer: quick, and it talks nonsense.
func first(t testing.TB) []byte {
	t.Helper()
	f := sprigFile(t)
	meta := slices.Clone(f.Meta)
	for i := range meta {
		if meta[i].Key == "qwen3.block_count" {
			meta[i].Value = uint32(1)
		}
	}
	var specs []gguf.Spec
	var data []byte
	for i := range f.Tensors {
		if w := &f.Tensors[i]; !strings.HasPrefix(w.Name, "blk.") || strings.HasPrefix(w.Name, "blk.0.") {
			specs = append(specs, gguf.Spec{Name: w.Name, Type: w.Type, Dims: w.Dims})
			data = append(data, w.Data()...)
		}
	}
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, meta, specs)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// serveOptions starts a server of its own.
func serveOptions(t testing.TB, o Options) *client {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return listen(t, s)
}

func listen(t testing.TB, s *Server) *client {
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return &client{Server: s, t: t, h: h}
}

// talk returns the server that tests share.
func talk(t testing.TB) *client {
	t.Helper()
	shared.Do(func() {
		shared.x = ref.New() // quicker than a CPU driver
		if os.Getenv("TERN_CONFORM") == "all" {
			shared.x = device(t)
		}
		s, err := New(options(t, shared.x, sprig.Model, nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Load(context.Background()); err != nil {
			t.Fatal(err)
		}
		shared.Server = s
	})
	if shared.Server == nil {
		t.Skip("no server")
	}
	return listen(t, shared.Server)
}

// sequential skips a test that asks for one thing after another, when the race detector
// is at work: there it takes ten times as long and finds nothing.
func sequential(t *testing.T) {
	if testing.Short() {
		t.Skip("not under the race detector")
	}
}

type dict = map[string]any

// send makes a request; body is JSON text or a value.
func (c *client) send(ctx context.Context, method, path string, body any, header ...string) (*http.Response, error) {
	c.t.Helper()
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		r = bytes.NewReader(encode(b))
	}
	req, err := http.NewRequestWithContext(ctx, method, c.h.URL+path, r)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	return c.h.Client().Do(req)
}

// call returns the status and the JSON of an answer.
func (c *client) call(method, path string, body any, header ...string) (int, dict) {
	c.t.Helper()
	resp, err := c.send(context.Background(), method, path, body, header...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var v dict
	data, err := io.ReadAll(resp.Body)
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		c.t.Fatalf("%s %s: %v: %.300s", method, path, err, data)
	}
	return resp.StatusCode, v
}

// post is a call that must be good.
func (c *client) post(path string, body any) dict {
	c.t.Helper()
	status, v := c.call("POST", path, body)
	if status != http.StatusOK {
		c.t.Fatalf("POST %s %v: %d %v", path, body, status, v)
	}
	return v
}

// at walks through a value: names of objects, indices of arrays.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(dict)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func str(v any) string { s, _ := v.(string); return s }

// events reads server-sent events up to [DONE].
func (c *client) events(path string, body any) (list []dict) {
	c.t.Helper()
	resp, err := c.send(context.Background(), "POST", path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		data, _ := io.ReadAll(resp.Body)
		c.t.Fatalf("POST %s: %s, %s", path, resp.Status, data)
	}
	lines := bufio.NewScanner(resp.Body)
	for done := false; lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case lines.Text() == "":
		case !ok || done:
			c.t.Fatalf("line %q", lines.Text())
		case data == "[DONE]":
			done = true
		default:
			var v dict
			if err := json.Unmarshal([]byte(data), &v); err != nil {
				c.t.Fatalf("%s: %v", data, err)
			}
			list = append(list, v)
		}
	}
	return list
}

// streamed puts the chunks of a chat together, in the form of an answer that is not
// streamed: message, finish_reason, log probabilities.
func (c *client) streamed(body dict) (choices []dict, usage any) {
	c.t.Helper()
	body = merge(body, dict{"stream": true, "stream_options": dict{"include_usage": true}})
	for _, e := range c.events("/v1/chat/completions", body) {
		if e["usage"] != nil {
			usage = e["usage"]
		}
		list, _ := e["choices"].([]any)
		for _, ch := range list {
			i := int(at(ch, "index").(float64))
			for len(choices) <= i {
				choices = append(choices, dict{"message": dict{}, "logprobs": []any{}})
			}
			m := choices[i]["message"].(dict)
			delta := at(ch, "delta").(dict)
			for _, k := range []string{"content", "reasoning_content"} {
				if s, ok := delta[k].(string); ok && (s != "" || m[k] != nil) {
					m[k] = str(m[k]) + s
				}
			}
			calls, _ := delta["tool_calls"].([]any)
			for _, call := range calls {
				k := int(at(call, "index").(float64))
				all, _ := m["tool_calls"].([]any)
				if k == len(all) {
					m["tool_calls"] = append(all, dict{"name": at(call, "function", "name"), "arguments": ""})
					all = m["tool_calls"].([]any)
				}
				all[k].(dict)["arguments"] = str(at(all, k, "arguments")) + str(at(call, "function", "arguments"))
			}
			if f := at(ch, "finish_reason"); f != nil {
				choices[i]["finish_reason"] = f
			}
			if l, ok := at(ch, "logprobs", "content").([]any); ok {
				choices[i]["logprobs"] = append(choices[i]["logprobs"].([]any), l...)
			}
		}
	}
	return choices, usage
}

// whole makes a choice that was not streamed comparable to one that was.
func whole(choice any) dict {
	m := dict{}
	for _, k := range []string{"content", "reasoning_content"} {
		if s := str(at(choice, "message", k)); s != "" {
			m[k] = s
		}
	}
	if calls, ok := at(choice, "message", "tool_calls").([]any); ok {
		var list []any
		for _, call := range calls {
			list = append(list, dict{"name": at(call, "function", "name"), "arguments": at(call, "function", "arguments")})
		}
		m["tool_calls"] = list
	}
	l, _ := at(choice, "logprobs", "content").([]any)
	if l == nil {
		l = []any{}
	}
	return dict{"message": m, "finish_reason": at(choice, "finish_reason"), "logprobs": l}
}

func merge(list ...dict) dict {
	all := dict{}
	for _, d := range list {
		for k, v := range d {
			all[k] = v
		}
	}
	return all
}

// both asks for a chat whole and streamed, and fails unless that is the same.
func (c *client) both(body dict) (choices []dict) {
	c.t.Helper()
	v := c.post("/v1/chat/completions", body)
	list, _ := v["choices"].([]any)
	for _, ch := range list {
		choices = append(choices, whole(ch))
	}
	streamed, usage := c.streamed(body)
	if a, b := fmt.Sprint(choices), fmt.Sprint(streamed); a != b {
		c.t.Errorf("%v:\n   whole %s\nstreamed %s", body, a, b)
	}
	for _, k := range []string{"prompt_tokens", "completion_tokens", "total_tokens"} {
		if at(v, "usage", k) != at(usage, k) {
			c.t.Errorf("%s: %v whole, %v streamed", k, at(v, "usage", k), at(usage, k))
		}
	}
	return choices
}

func user(text string) dict {
	return dict{"messages": []any{dict{"role": "user", "content": text}}}
}

// until waits for what comes by itself, on a busy machine late.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for range 6000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("after a minute not %s", what)
}

// waitIdle waits until nothing runs or waits any more.
func (c *client) waitIdle() {
	c.t.Helper()
	until(c.t, "idle", func() bool {
		st := c.engine.Status()
		return st.Running == 0 && st.Waiting == 0
	})
}

var parseSpecial = token.Options{ParseSpecial: true, AddSpecial: true}
