package serve

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/testdata/sprig"
)

// small serves a model of one layer, which is quick and talks nonsense.
func small(t testing.TB, change func(*Options)) *client {
	t.Helper()
	c := serveOptions(t, options(t, ref.New(), first(t), change))
	if err := c.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c
}

// Requests that cannot be answered get an error in OpenAI's form that names the field.
func TestErrors(t *testing.T) {
	sequential(t)
	c := small(t, func(o *Options) { o.Context = 64; o.MaxBody = 100 << 10 })
	long := strings.Repeat("1", 60)
	for _, e := range []struct {
		method, path, body string
		status             int
		param, message     string
	}{
		{"POST", "/v1/chat/completions", ``, 400, "", "no body"},
		{"POST", "/v1/chat/completions", `{`, 400, "", "no JSON"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}]} {}`, 400, "", "text after"},
		{"POST", "/v1/chat/completions", `{"messages": 3}`, 400, "messages", "messages"},
		{"POST", "/v1/chat/completions", `{"messages": []}`, 400, "messages", "none"},
		{"POST", "/v1/chat/completions", `{}`, 400, "messages", "none"},
		{"POST", "/v1/chat/completions", `[]`, 400, "", "the request: a JSON array, want an object"},
		{"POST", "/v1/chat/completions", `{"messages": [1]}`, 400, "messages", "messages: a JSON number, want an object"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1.5}`, 400, "max_tokens", "want a whole number"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "tools": 5}`, 400, "tools", "want a list"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"999999": 1}}`, 400, "logit_bias", "the vocabulary has"},
		{"POST", "/v1/embeddings", `{}`, 400, "input", "no input"},
		{"POST", "/v1/chat/completions", `{"messages": [{"content": "x"}]}`, 400, "messages", "role"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]}`, 400, "messages", `"image_url": this model reads text only`},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}`, 400, "messages", "text only"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "temperature": 200}`, 400, "", "temperature"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}`, 400, "temperature", "temperature"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "n": 0}`, 400, "n", "1 to 16"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}`, 400, "max_tokens", "1 or more"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "stop": [""]}`, 400, "stop", "stop"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2}`, 400, "top_logprobs", "logprobs"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"x": 1}}`, 400, "logit_bias", "ids"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "web"}]}`, 400, "tools", "function"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}`, 400, "tool_choice", "no such tool"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "xml"}}`, 400, "response_format", "xml"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "grammar": "root ::= x"}`, 400, "grammar", `"x"`},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}], "model": "gpt-4"}`, 404, "model", "gpt-4"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "` + long + `"}]}`, 400, "messages", "in a context of 64"},
		{"POST", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "` + strings.Repeat("x", 200<<10) + `"}]}`, 413, "", "larger than"},
		{"POST", "/v1/completions", `{}`, 400, "prompt", "no prompt"},
		{"POST", "/v1/completions", `{"prompt": ""}`, 400, "prompt", "empty"},
		{"POST", "/v1/completions", `{"prompt": [1, 99999]}`, 400, "prompt", "99999"},
		{"POST", "/v1/completions", `{"prompt": "x", "suffix": "y"}`, 400, "suffix", "suffix"},
		{"POST", "/v1/completions", `{"prompt": "x", "best_of": 3}`, 400, "best_of", "best_of"},
		{"POST", "/v1/embeddings", `{"input": "x", "dimensions": 3}`, 400, "dimensions", "256"},
		{"POST", "/v1/embeddings", `{"input": "x", "encoding_format": "hex"}`, 400, "encoding_format", "hex"},
		{"POST", "/detokenize", `{"tokens": [-1]}`, 400, "tokens", "-1"},
		{"GET", "/v1/models/gpt-4", ``, 404, "model", "gpt-4"},
		{"GET", "/v1/nothing", ``, 404, "", "/v1/nothing"},
		{"GET", "/v1/chat/completions", ``, 404, "", "GET"},
	} {
		status, v := c.call(e.method, e.path, e.body)
		param, _ := at(v, "error", "param").(string)
		if status != e.status || param != e.param || !strings.Contains(str(at(v, "error", "message")), e.message) || at(v, "error", "type") == nil {
			t.Errorf("%s %s %.150s: %d %v; want %d, %q, %q", e.method, e.path, e.body, status, v, e.status, e.param, e.message)
		}
	}
	if st := c.engine.Status(); st.Running+st.Waiting != 0 {
		t.Errorf("%+v after errors only", st)
	}
}

// A prompt that fills the context gives an answer that ends for its length; the next
// request is as ever. BL-58.
func TestContextFull(t *testing.T) {
	c := small(t, func(o *Options) { o.Context = 64 })
	ids := make([]int, 63)
	for i := range ids {
		ids[i] = 60 + i%20
	}
	for n, want := range map[int]float64{62: 3, 63: 2} {
		v := c.post("/v1/completions", dict{"prompt": ids[:n], "logit_bias": dict{"2": -100, "1": -100, "0": -100}})
		if at(v, "choices", 0, "finish_reason") != "length" || at(v, "usage", "completion_tokens") != want {
			t.Errorf("after %d tokens: %v", n, v)
		}
	}
	if status, v := c.call("POST", "/v1/completions", dict{"prompt": append(ids, 1, 2)}); status != 400 || at(v, "error", "code") != "context_length_exceeded" || !strings.Contains(str(at(v, "error", "message")), "65 tokens in a context of 64") {
		t.Errorf("a prompt that is too long: %d %v", status, v)
	}
	c.post("/v1/completions", dict{"prompt": ids[:5], "max_tokens": 2})
}

// Loopback servers answer for their own names only, pages of strangers are refused
// unless they are listed, and a key is asked for where there is one.
func TestGuard(t *testing.T) {
	c := small(t, func(o *Options) { o.APIKey = "secret"; o.Local = true; o.CORS = []string{"https://app.example"} })
	for _, g := range []struct {
		path   string
		header []string
		status int
	}{
		{"/v1/models", nil, 401},
		{"/v1/models", []string{"Authorization", "Bearer wrong"}, 401},
		{"/v1/models", []string{"Authorization", "Bearer secret"}, 200},
		{"/v1/models", []string{"Authorization", "bearer secret"}, 200},
		{"/metrics", nil, 401},
		{"/api/tags", nil, 401},
		{"/health", nil, 200},
		{"/health", []string{"Host", "evil.example:8080"}, 403},
		{"/health", []string{"Host", "localhost:8080"}, 200},
		{"/health", []string{"Host", "[::1]:8080"}, 200},
		{"/v1/models", []string{"Authorization", "Bearer secret", "Origin", "https://evil.example"}, 403},
		{"/v1/models", []string{"Authorization", "Bearer secret", "Origin", "https://app.example"}, 200},
		{"/v1/models", []string{"Authorization", "Bearer secret", "Origin", c.h.URL}, 200},
		{"/v1/models", []string{"Authorization", "Bearer secret", "Origin", "null"}, 403},
	} {
		resp, err := c.send(t.Context(), "GET", g.path, nil, g.header...)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != g.status {
			t.Errorf("%s %v: %s, want %d", g.path, g.header, resp.Status, g.status)
		}
		if allow := resp.Header.Get("Access-Control-Allow-Origin"); allow != "" && allow != "https://app.example" {
			t.Errorf("%s %v: pages of %q are allowed", g.path, g.header, allow)
		}
	}
	resp, err := c.send(t.Context(), "OPTIONS", "/v1/chat/completions", nil, "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
	if err != nil || resp.StatusCode != http.StatusNoContent || !strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("a preflight: %v, %v", resp, err)
	}
}

// endless is a request that runs until its client goes or the context is full.
func endless() dict {
	return dict{"prompt": "x", "logit_bias": dict{"0": -100, "1": -100, "2": -100}}
}

// A client that hangs up, whether it streams or not, runs or waits, frees its place.
// A full queue answers 503 at once, and says when to come again. BL-57.
func TestHangUpAndFullQueue(t *testing.T) {
	c := small(t, func(o *Options) { o.Context = 2048; o.Parallel = 1; o.Queue = 2 })
	ctx, hangUp := context.WithCancel(t.Context())
	resp, err := c.send(ctx, "POST", "/v1/completions", merge(endless(), dict{"stream": true}))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: {") {
		t.Fatalf("%q, %v", line, err)
	}
	waiting, leave := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for range 2 {
		go func() {
			resp, err := c.send(waiting, "POST", "/v1/completions", endless())
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			done <- err
		}()
	}
	until(t, "two wait", func() bool { return c.engine.Status().Waiting == 2 })
	full, err := c.send(t.Context(), "POST", "/v1/chat/completions", user("x"))
	if err != nil || full.StatusCode != http.StatusServiceUnavailable || full.Header.Get("Retry-After") == "" {
		t.Errorf("a full queue: %v, %v", full, err)
	}
	hangUp()
	until(t, "the next one runs", func() bool { return c.engine.Status().Waiting < 2 })
	leave()
	for range 2 {
		if err := <-done; err == nil {
			t.Error("an answer for a client that has gone")
		}
	}
	c.waitIdle()
	c.post("/v1/completions", dict{"prompt": "x", "max_tokens": 1})
	until(t, "three clients left", func() bool { // they are counted a little later than they end
		return metric(t, c, `tern_requests_total{code="499",endpoint="POST /v1/completions"}`) == 3
	})
}

// Who sends slowly is cut off; who reads an answer for longer than that is not, but
// told when the server ends.
func TestSlowClients(t *testing.T) {
	c := small(t, func(o *Options) { o.Context = 2048 })
	c.bodyTime, c.grace = 300*time.Millisecond, 100*time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Serve(ctx, l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("half a request: %v, %v", resp, err)
	}
	began := time.Now()
	resp, err = http.Post("http://"+l.Addr().String()+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "x", "max_tokens": 300, "ignore_eos": true, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(data), "data: [DONE]\n\n") {
		t.Errorf("after %s: %v, %d bytes", time.Since(began), err, len(data))
	}
	if took := time.Since(began); took < c.bodyTime {
		t.Logf("the answer took %s only", took)
	}
	resp, err = http.Post("http://"+l.Addr().String()+"/v1/completions", "application/json", strings.NewReader(`{"prompt": "x", "ignore_eos": true, "n": 4, "stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if data, err = io.ReadAll(resp.Body); err != nil || !strings.Contains(string(data), "shutting down") {
		t.Errorf("an answer that runs when the server ends: %v, %.300s", err, data[max(0, len(data)-300):])
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// metric reads a value of /metrics, -1 if it is not there.
func metric(t *testing.T, c *client, name string) (v float64) {
	t.Helper()
	resp, err := c.send(t.Context(), "GET", "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			if _, err := fmt.Sscan(rest, &v); err != nil {
				t.Error(err)
			}
			return v
		}
	}
	return -1
}

func TestMetrics(t *testing.T) {
	c := small(t, nil)
	for range 2 {
		c.post("/v1/completions", dict{"prompt": "The same beginning of a prompt", "max_tokens": 3, "logit_bias": dict{"2": -100}})
	}
	c.waitIdle()
	n := float64(len(c.tokens.Encode("The same beginning of a prompt", parseSpecial)))
	for name, want := range map[string]float64{
		"tern_generated_tokens_total": 6, "tern_prompt_tokens_total": 2 * n, "tern_prompt_tokens_reused_total": n - 1, "tern_queue_seconds_count": 2,
		"tern_first_token_seconds_count": 2, "tern_requests_running": 0, "tern_requests_waiting": 0, "tern_model_loaded": 1,
	} {
		if got := metric(t, c, name); got != want {
			t.Errorf("%s %g, want %g", name, got, want)
		}
	}
	if use := metric(t, c, "tern_cache_usage_ratio"); !(use > 0 && use < 1) {
		t.Errorf("cache usage %g", use)
	}
}

// Embeddings have length 1, are the same in both encodings and whatever is asked for
// beside them.
func TestEmbeddings(t *testing.T) {
	c := small(t, nil)
	v := c.post("/v1/embeddings", dict{"input": []string{"Hello there", "Good bye"}})
	b := c.post("/v1/embeddings", dict{"input": "Good bye", "encoding_format": "base64"})
	data, err := base64.StdEncoding.DecodeString(str(at(b, "data", 0, "embedding")))
	if err != nil || len(data) != 4*256 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	norm := 0.0
	for i := range 256 {
		x := at(v, "data", 1, "embedding", i).(float64)
		norm += x * x
		if y := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])); float32(x) != y {
			t.Fatalf("component %d: %g and %g", i, x, y)
		}
	}
	if math.Abs(norm-1) > 1e-5 {
		t.Errorf("length %g", norm)
	}
	last := c.post("/v1/embeddings", dict{"input": "Good bye", "pooling": "last"})
	if at(last, "data", 0, "embedding", 0) == at(v, "data", 1, "embedding", 0) {
		t.Error("the last state is the mean of all")
	}
	if at(v, "usage", "total_tokens").(float64) <= at(b, "usage", "total_tokens").(float64) {
		t.Errorf("%v, %v", v["usage"], b["usage"])
	}
	o := c.post("/api/embed", dict{"model": "sprig", "input": "Good bye"})
	if at(o, "embeddings", 0, 0) != at(v, "data", 1, "embedding", 0) {
		t.Error("Ollama's endpoint gives another embedding")
	}
}

// Prompts of completions are text, ids, or several; streamed and whole they are the
// same.
func TestCompletions(t *testing.T) {
	c := small(t, nil)
	body := dict{"prompt": []string{"The capital", "One"}, "max_tokens": 5, "echo": true, "logprobs": 2, "n": 2, "temperature": 1, "seed": 4, "logit_bias": dict{"2": -100}}
	v := c.post("/v1/completions", body)
	texts := make([]string, 4)
	for _, e := range c.events("/v1/completions", merge(body, dict{"stream": true})) {
		for _, ch := range e["choices"].([]any) {
			texts[int(at(ch, "index").(float64))] += str(at(ch, "text"))
		}
	}
	for i, text := range texts {
		ch := at(v, "choices", i)
		tokens, _ := at(ch, "logprobs", "tokens").([]any)
		if at(ch, "text") != text || len(tokens) != 5 || at(ch, "finish_reason") != "length" {
			t.Errorf("answer %d: %v, streamed %q", i, ch, text)
		}
		joined := ""
		for k, tok := range tokens {
			if off := int(at(ch, "logprobs", "text_offset", k).(float64)); off != len([]string{"The capital", "The capital", "One", "One"}[i])+len(joined) {
				t.Errorf("answer %d: token %d at %d", i, k, off)
			}
			joined += str(tok)
		}
	}
	ids := c.post("/tokenize", dict{"content": "One"})["tokens"]
	one := c.post("/v1/completions", merge(body, dict{"prompt": ids, "n": 1}))
	if at(one, "choices", 0, "text") != at(v, "choices", 2, "text") {
		t.Errorf("ids %v: %v", ids, one)
	}
}

func TestTokenize(t *testing.T) {
	c := small(t, nil)
	const text = "Olá, 世界! 🌳 12"
	ids := c.post("/tokenize", dict{"content": text})["tokens"]
	if back := c.post("/detokenize", dict{"tokens": ids})["content"]; back != text {
		t.Errorf("%v: %q", ids, back)
	}
	joined := []byte{}
	for _, p := range c.post("/tokenize", dict{"content": text, "with_pieces": true})["tokens"].([]any) {
		switch piece := at(p, "piece").(type) {
		case string:
			joined = append(joined, piece...)
		case []any:
			for _, b := range piece {
				joined = append(joined, byte(b.(float64)))
			}
		}
	}
	if string(joined) != text {
		t.Errorf("pieces join to %q", joined)
	}
}

// The lists that clients ask for, the page, and health before and after the model is
// loaded.
func TestLists(t *testing.T) {
	c := serveOptions(t, options(t, ref.New(), sprig.Model, nil))
	if status, v := c.call("GET", "/health", nil); status != 503 || at(v, "error", "message") == nil {
		t.Errorf("health while loading: %d %v", status, v)
	}
	if err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	get := func(path string) dict {
		t.Helper()
		status, v := c.call("GET", path, nil)
		if status != 200 {
			t.Errorf("%s: %d", path, status)
		}
		return v
	}
	if v := get("/health"); v["status"] != "ok" {
		t.Errorf("%v", v)
	}
	if v := get("/v1/models"); at(v, "data", 0, "id") != "sprig" || at(v, "data", 1, "id") != "tiny" || at(v, "data", 0, "meta", "n_vocab") != 2048.0 {
		t.Errorf("%v", v)
	}
	if v := get("/v1/models/tiny"); v["id"] != "tiny" {
		t.Errorf("%v", v)
	}
	if v := get("/props"); v["device"] != "reference" || v["context"] != 512.0 || v["loaded"] != true {
		t.Errorf("%v", v)
	}
	if v := get("/api/tags"); at(v, "models", 0, "name") != "sprig" || at(v, "models", 0, "details", "family") != "qwen3" {
		t.Errorf("%v", v)
	}
	if v := get("/api/ps"); at(v, "models", 0, "name") != "sprig" {
		t.Errorf("%v", v)
	}
	if v := get("/api/version"); v["version"] != "test" {
		t.Errorf("%v", v)
	}
	show := c.post("/api/show", dict{"model": "sprig:latest"})
	if at(show, "model_info", "qwen3.block_count") != 8.0 || !strings.Contains(str(show["template"]), "im_start") || fmt.Sprint(show["capabilities"]) != "[completion tools thinking]" {
		t.Errorf("%v", show)
	}
	resp, err := c.send(t.Context(), "GET", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, _ := io.ReadAll(resp.Body)
	if !strings.Contains(string(page), "<!doctype html>") || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%v: %.100s", resp.Header, page)
	}
}

// lines reads newline-delimited JSON.
func (c *client) lines(path string, body any) (list []dict) {
	c.t.Helper()
	resp, err := c.send(context.Background(), "POST", path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	for d := json.NewDecoder(resp.Body); d.More(); {
		var v dict
		if err := d.Decode(&v); err != nil {
			c.t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// Ollama's endpoints, streamed and whole, with thoughts, tools, formats and errors.
func TestOllama(t *testing.T) {
	sequential(t)
	c := talk(t)
	question := dict{"model": "sprig", "messages": []any{dict{"role": "user", "content": "What is 7 times 8?"}}}
	text := ""
	list := c.lines("/api/chat", question)
	for i, l := range list {
		text += str(at(l, "message", "content"))
		if l["done"] != (i == len(list)-1) {
			t.Errorf("line %d: %v", i, l)
		}
	}
	last := list[len(list)-1]
	if text != "7 times 8 is 56." || last["done_reason"] != "stop" || last["eval_count"].(float64) < 5 || last["total_duration"].(float64) <= 0 {
		t.Errorf("%q, %v", text, last)
	}
	if v := c.post("/api/chat", merge(question, dict{"stream": false})); at(v, "message", "content") != text {
		t.Errorf("%v", v)
	}
	if v := c.post("/api/generate", dict{"model": "sprig", "prompt": "What is 7 times 8?", "stream": false, "options": dict{"num_predict": 3}}); v["response"] != "7 times " || v["done_reason"] != "length" {
		t.Errorf("%v", v)
	}
	if v := c.post("/api/generate", dict{"model": "sprig", "prompt": "The capital of France is", "raw": true, "stream": false, "options": dict{"num_predict": 3}}); v["response"] != " Paris." {
		t.Errorf("%v", v)
	}
	if v := c.post("/api/generate", dict{"model": "sprig", "prompt": "What is 7 times 8?", "stream": false, "format": dict{"type": "integer", "minimum": 10, "maximum": 99}}); len(str(v["response"])) != 2 {
		t.Errorf("%v", v)
	}
	thought := c.post("/api/chat", dict{"model": "sprig", "messages": []any{dict{"role": "user", "content": "What is 1 + 1?"}}, "think": true, "stream": false})
	if at(thought, "message", "thinking") == nil || strings.Contains(str(at(thought, "message", "content")), "think") {
		t.Errorf("%v", thought)
	}
	calls := c.lines("/api/chat", dict{"model": "sprig", "messages": []any{dict{"role": "user", "content": "What is the weather in Lima?"}}, "tools": []any{weather}})
	if at(calls[len(calls)-2], "message", "tool_calls", 0, "function", "arguments", "city") != "Lima" {
		t.Errorf("%v", calls)
	}
	for body, status := range map[string]int{
		`{"model": "llama3", "messages": [{"role": "user", "content": "x"}]}`:                    404,
		`{"model": "sprig", "messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}`: 400,
		`{"model": "sprig", "messages": [{"role": "user", "content": "x"}], "format": 3}`:        400,
		`{"model": "sprig", "messages": [{"role": "user", "content": "x"}], "keep_alive": "x"}`:  400,
		`{`: 400,
	} {
		if got, v := c.call("POST", "/api/chat", body); got != status || str(v["error"]) == "" {
			t.Errorf("%s: %d %v", body, got, v)
		}
	}
}

// keep_alive 0 unloads the model, and the next request loads it again. BL-61.
func TestKeepAlive(t *testing.T) {
	c := small(t, nil)
	if v := c.post("/api/generate", dict{"model": "sprig", "keep_alive": 0}); v["done_reason"] != "unload" {
		t.Errorf("%v", v)
	}
	until(t, "unloaded", func() bool { return !c.engine.Status().Loaded })
	c.post("/api/generate", dict{"model": "sprig", "prompt": "x", "stream": false, "keep_alive": "5m", "options": dict{"num_predict": 1}})
	if !c.engine.Status().Loaded {
		t.Error("unloaded after a request that wants it kept")
	}
}

// A request that breaks off is the client's fault.
func TestBrokenBody(t *testing.T) {
	c := small(t, nil)
	conn, err := net.Dial("tcp", c.h.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 400 ") {
		t.Errorf("%q, %v", line, err)
	}
}
