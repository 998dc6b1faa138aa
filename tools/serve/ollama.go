package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ternvk/tern/model/chat"
)

// ollamaOptions are the options of Ollama's requests, as far as they are used.
type ollamaOptions struct {
	Temperature      *float32 `json:"temperature"`
	TopK             *int     `json:"top_k"`
	TopP             *float32 `json:"top_p"`
	MinP             *float32 `json:"min_p"`
	Seed             *int64   `json:"seed"`
	NumPredict       *int     `json:"num_predict"`
	Stop             texts    `json:"stop"`
	RepeatPenalty    float32  `json:"repeat_penalty"`
	RepeatLast       int      `json:"repeat_last_n"`
	PresencePenalty  float32  `json:"presence_penalty"`
	FrequencyPenalty float32  `json:"frequency_penalty"`
}

// ollamaRequest is the body of /api/chat and /api/generate.
type ollamaRequest struct {
	Model     string                       `json:"model"`
	Messages  []map[string]json.RawMessage `json:"messages"`
	Prompt    string                       `json:"prompt"`
	System    string                       `json:"system"`
	Suffix    string                       `json:"suffix"`
	Template  string                       `json:"template"`
	Images    []json.RawMessage            `json:"images"`
	Raw       bool                         `json:"raw"`
	Tools     json.RawMessage              `json:"tools"`
	Think     json.RawMessage              `json:"think"`
	Format    json.RawMessage              `json:"format"`
	Options   ollamaOptions                `json:"options"`
	Stream    *bool                        `json:"stream"`
	KeepAlive json.RawMessage              `json:"keep_alive"`
}

// keepAlive reads a duration: text such as 5m, or seconds.
func keepAlive(data json.RawMessage) (*time.Duration, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	var text string
	var seconds float64
	var d time.Duration
	if err := json.Unmarshal(data, &seconds); err == nil {
		d = time.Duration(seconds * float64(time.Second))
	} else if err := json.Unmarshal(data, &text); err != nil {
		return nil, invalid("keep_alive", "keep_alive: want a duration")
	} else if n, err := strconv.Atoi(text); err == nil {
		d = time.Duration(n) * time.Second
	} else if d, err = time.ParseDuration(text); err != nil {
		return nil, invalid("keep_alive", "keep_alive: %v", err)
	}
	return &d, nil
}

// ollamaName takes the tag off that clients put behind a name.
func ollamaName(name string) string { return strings.TrimSuffix(name, ":latest") }

// chatRequest is the same request in OpenAI's words.
func (r *ollamaRequest) chatRequest() (*chatRequest, error) {
	if len(r.Images) > 0 {
		return nil, invalid("images", "images: this model reads text only")
	}
	if r.Suffix != "" || r.Template != "" {
		return nil, invalid("", "suffix and template are not supported")
	}
	messages := r.Messages
	for i, m := range messages {
		if images := string(m["images"]); images != "" && images != "null" && images != "[]" {
			return nil, invalid("messages", "messages[%d]: images: this model reads text only", i)
		}
		if thought := m["thinking"]; thought != nil {
			m["reasoning_content"] = thought
			delete(m, "thinking")
		}
		if name := m["tool_name"]; name != nil {
			m["name"] = name
		}
	}
	o := &r.Options
	c := &chatRequest{
		Model: ollamaName(r.Model), Messages: encode(messages), Tools: r.Tools, Stop: o.Stop,
		samplingParams: samplingParams{
			Temperature: o.Temperature, TopK: o.TopK, TopP: o.TopP, MinP: o.MinP, Seed: o.Seed, RepeatPenalty: o.RepeatPenalty,
			RepeatLast: o.RepeatLast, PresencePenalty: o.PresencePenalty, FrequencyPenalty: o.FrequencyPenalty,
		},
	}
	if o.NumPredict != nil && *o.NumPredict > 0 { // the others mean no limit
		c.MaxTokens = o.NumPredict
	}
	if think := string(r.Think); think != "" && think != "null" {
		on := think != "false" // or how much, which no template here knows
		c.EnableThinking = &on
	}
	format, err := ollamaFormat(r.Format)
	c.ResponseFormat = format
	return c, err
}

// ollamaFormat reads "json" or a schema.
func ollamaFormat(data json.RawMessage) (*responseFormat, error) {
	switch text := string(data); {
	case text == "" || text == "null" || text == `""`:
		return nil, nil
	case text == `"json"`:
		return &responseFormat{Type: "json_object"}, nil
	case text[0] == '{':
		return &responseFormat{Type: "json_object", Schema: data}, nil
	}
	return nil, invalid("format", "format: want \"json\" or a schema")
}

// ollamaChat answers POST /api/chat.
func (s *Server) ollamaChat(w http.ResponseWriter, r *http.Request) error {
	var req ollamaRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	c, err := req.chatRequest()
	if err != nil {
		return err
	}
	if len(req.Messages) == 0 { // loads the model, or unloads it
		return s.ollamaLoad(w, r, &req)
	}
	tasks, err := s.chatTasks(c, clientOf(r))
	if err != nil {
		return err
	}
	return s.ollamaRun(w, r, &req, tasks[0], func(parts []chat.Part, o *outcome) map[string]any {
		message := map[string]any{"role": "assistant", "content": ""}
		text := joined(parts)
		if message["content"] = text[chat.Content]; text[chat.Reasoning] != "" {
			message["thinking"] = text[chat.Reasoning]
		}
		if o != nil && len(o.calls) > 0 {
			calls := []any{}
			for i := range o.calls {
				arguments := json.RawMessage(o.calls[i].arguments.String())
				if !json.Valid(arguments) {
					arguments = encode(string(arguments))
				}
				calls = append(calls, map[string]any{"function": map[string]any{"name": o.calls[i].name, "arguments": arguments}})
			}
			message["tool_calls"] = calls
		}
		return map[string]any{"message": message}
	})
}

// joined joins the parts of each kind.
func joined(parts []chat.Part) map[chat.PartKind]string {
	text := map[chat.PartKind]string{}
	for _, p := range parts {
		text[p.Kind] += p.Text
	}
	return text
}

// ollamaGenerate answers POST /api/generate.
func (s *Server) ollamaGenerate(w http.ResponseWriter, r *http.Request) error {
	var req ollamaRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if req.Prompt == "" {
		return s.ollamaLoad(w, r, &req)
	}
	add := func(role, text string) {
		if text != "" {
			req.Messages = append(req.Messages, map[string]json.RawMessage{"role": encode(role), "content": encode(text)})
		}
	}
	add("system", req.System)
	add("user", req.Prompt)
	c, err := req.chatRequest()
	if err != nil {
		return err
	}
	var tasks []*task
	if req.Raw || s.template == nil {
		tasks, err = s.completionTasks(&completionRequest{
			samplingParams: c.samplingParams, Model: c.Model, Prompt: encode(req.Prompt), MaxTokens: c.MaxTokens, Stop: c.Stop, ResponseFormat: c.ResponseFormat,
		}, clientOf(r))
	} else {
		tasks, err = s.chatTasks(c, clientOf(r))
	}
	if err != nil {
		return err
	}
	return s.ollamaRun(w, r, &req, tasks[0], func(parts []chat.Part, _ *outcome) map[string]any {
		text := joined(parts)
		out := map[string]any{"response": text[chat.Content]}
		if text[chat.Reasoning] != "" {
			out["thinking"] = text[chat.Reasoning]
		}
		return out
	})
}

// ollamaRun runs a task and writes its answer: lines, unless the request wants it
// whole. say makes the body of a line; its outcome is nil but for the last.
func (s *Server) ollamaRun(w http.ResponseWriter, r *http.Request, req *ollamaRequest, t *task, say func([]chat.Part, *outcome) map[string]any) error {
	began := time.Now()
	var err error
	if t.KeepAlive, err = keepAlive(req.KeepAlive); err != nil {
		return err
	}
	stamp := func(line map[string]any, done bool) map[string]any {
		line["model"], line["created_at"], line["done"] = req.Model, time.Now().UTC().Format(time.RFC3339Nano), done
		return line
	}
	stream := req.Stream == nil || *req.Stream
	out := newLines(w, false)
	var all []chat.Part
	outcomes, err := s.each(r.Context(), []*task{t}, func(int) {}, func(_ int, e event) error {
		if all = append(all, e.parts...); !stream {
			return nil
		}
		if text := joined(e.parts); text[chat.Content] == "" && text[chat.Reasoning] == "" {
			return nil
		}
		return out.write(stamp(say(e.parts, nil), false))
	})
	if err != nil {
		if !out.begun || clientGone(r, err) {
			return err
		}
		return out.write(map[string]string{"error": asAPIError(err).message})
	}
	o := outcomes[0]
	if stream {
		all = nil
		if len(o.calls) > 0 {
			if err := out.write(stamp(say(nil, o), false)); err != nil {
				return err
			}
		}
	}
	last := say(all, nil)
	if !stream {
		last = say(all, o)
	}
	stamp(last, true)
	reason := "stop"
	if o.finish == "length" {
		reason = "length"
	}
	last["done_reason"] = reason
	last["total_duration"] = time.Since(began).Nanoseconds()
	last["load_duration"] = o.stats.Waited.Nanoseconds()
	last["prompt_eval_count"] = o.stats.Prompt
	last["prompt_eval_duration"] = o.stats.Prefill.Nanoseconds()
	last["eval_count"] = o.tokens
	last["eval_duration"] = o.stats.Decode.Nanoseconds()
	if stream {
		return out.write(last)
	}
	writeJSON(w, http.StatusOK, last)
	return nil
}

// ollamaLoad is a request without a prompt: it loads the model, and keep_alive says
// for how long.
func (s *Server) ollamaLoad(w http.ResponseWriter, r *http.Request, req *ollamaRequest) error {
	if err := s.knows(ollamaName(req.Model)); err != nil {
		return err
	}
	d, err := keepAlive(req.KeepAlive)
	if err != nil {
		return err
	}
	reason := "load"
	if d != nil {
		s.engine.SetKeepAlive(*d)
		if *d == 0 {
			reason = "unload"
		}
	}
	if reason == "load" {
		if err := s.Load(r.Context()); err != nil {
			return err
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"model": req.Model, "created_at": time.Now().UTC().Format(time.RFC3339Nano), "done": true, "done_reason": reason,
		"response": "", "message": map[string]string{"role": "assistant", "content": ""},
	})
	return nil
}

// ollamaEmbed answers POST /api/embed.
func (s *Server) ollamaEmbed(w http.ResponseWriter, r *http.Request) error {
	began := time.Now()
	var req struct {
		Model string          `json:"model"`
		Input json.RawMessage `json:"input"`
	}
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if err := s.knows(ollamaName(req.Model)); err != nil {
		return err
	}
	vectors, count, err := s.embed(r, req.Input, "")
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"model": req.Model, "embeddings": vectors, "prompt_eval_count": count,
		"total_duration": time.Since(began).Nanoseconds(), "load_duration": 0})
	return nil
}

// ollamaModel describes the model in lists.
func (s *Server) ollamaModel(name string) map[string]any {
	return map[string]any{
		"name": name, "model": name, "modified_at": s.started.UTC().Format(time.RFC3339), "size": s.info.FileBytes,
		"digest": "", "details": s.ollamaDetails(),
	}
}

func (s *Server) ollamaDetails() map[string]any {
	return map[string]any{
		"parent_model": "", "format": "gguf", "family": s.info.Architecture, "families": []string{s.info.Architecture},
		"parameter_size": fmt.Sprintf("%.1fM", float64(s.info.Parameters)/1e6), "quantization_level": s.info.Quantisation,
	}
}

// ollamaTags answers GET /api/tags.
func (s *Server) ollamaTags(w http.ResponseWriter, _ *http.Request) error {
	list := []any{s.ollamaModel(s.o.Name)}
	for _, a := range s.o.Aliases {
		list = append(list, s.ollamaModel(a))
	}
	writeJSON(w, http.StatusOK, map[string]any{"models": list})
	return nil
}

// ollamaRunning answers GET /api/ps.
func (s *Server) ollamaRunning(w http.ResponseWriter, _ *http.Request) error {
	list := []any{}
	if s.engine.Status().Loaded {
		list = append(list, s.ollamaModel(s.o.Name))
	}
	writeJSON(w, http.StatusOK, map[string]any{"models": list})
	return nil
}

// ollamaShow answers POST /api/show.
func (s *Server) ollamaShow(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		Model string `json:"model"`
		Name  string `json:"name"` // as older clients say
	}
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if req.Model == "" {
		req.Model = req.Name
	}
	if err := s.knows(ollamaName(req.Model)); err != nil {
		return err
	}
	template, _, _ := s.o.File.String("tokenizer.chat_template")
	license, _, _ := s.o.File.String("general.license")
	meta := map[string]any{}
	for _, kv := range s.o.File.Meta {
		switch v := kv.Value.(type) {
		case string:
			if kv.Key != "tokenizer.chat_template" {
				meta[kv.Key] = v
			}
		case bool, uint8, int8, uint16, int16, uint32, int32, uint64, int64, float32, float64:
			meta[kv.Key] = v
		}
	}
	capabilities := []string{"completion"}
	if s.template != nil && s.mark(chat.CallOpens) >= 0 {
		capabilities = append(capabilities, "tools")
	}
	if s.mark(chat.ThinkOpens) >= 0 {
		capabilities = append(capabilities, "thinking")
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"license": license, "modelfile": "FROM " + s.o.Name, "parameters": "", "template": template, "details": s.ollamaDetails(),
		"model_info": meta, "capabilities": capabilities, "modified_at": s.started.UTC().Format(time.RFC3339),
	})
	return nil
}

// ollamaVersion answers GET /api/version.
func (s *Server) ollamaVersion(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]string{"version": s.o.Version})
	return nil
}
