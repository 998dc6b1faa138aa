package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ternvk/tern/model/chat"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/tools/serve/constrain"
	"github.com/ternvk/tern/tools/serve/sched"
)

// chatRequest is the body of /v1/chat/completions, as far as it is used.
type chatRequest struct {
	samplingParams
	Model         string          `json:"model"`
	Messages      json.RawMessage `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	N                   *int            `json:"n"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Stop                texts           `json:"stop"`
	Logprobs            bool            `json:"logprobs"`
	TopLogprobs         int             `json:"top_logprobs"`
	Tools               json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	ResponseFormat      *responseFormat `json:"response_format"`
	Grammar             string          `json:"grammar"`
	TemplateKwargs      map[string]any  `json:"chat_template_kwargs"`
	EnableThinking      *bool           `json:"enable_thinking"`
	ReasoningEffort     string          `json:"reasoning_effort"`
}

// maxAnswers bounds n.
const maxAnswers = 16

// answers reads n.
func answers(n *int) (int, error) {
	if n == nil {
		return 1, nil
	}
	if *n < 1 || *n > maxAnswers {
		return 0, invalid("n", "n %d: want 1 to %d", *n, maxAnswers)
	}
	return *n, nil
}

// chatTasks are the generations that a request asks for.
func (s *Server) chatTasks(r *chatRequest, client string) ([]*task, error) {
	if err := s.knows(r.Model); err != nil {
		return nil, err
	}
	n, err := answers(r.N)
	if err != nil {
		return nil, err
	}
	if r.TopLogprobs < 0 || r.TopLogprobs > 20 || r.TopLogprobs > 0 && !r.Logprobs {
		return nil, invalid("top_logprobs", "top_logprobs %d: want 0 to 20, with logprobs", r.TopLogprobs)
	}
	limit, err := limit("max_tokens", r.MaxCompletionTokens, r.MaxTokens)
	if err != nil {
		return nil, err
	}
	stop, err := stops(r.Stop)
	if err != nil {
		return nil, err
	}
	bias, err := r.bias(s.info.Vocab)
	if err != nil {
		return nil, err
	}
	choice, err := readToolChoice(r.Tools, r.ToolChoice)
	if err != nil {
		return nil, err
	}
	c, err := s.constraint(r.ResponseFormat, r.Grammar)
	if err != nil {
		return nil, err
	}
	p, err := s.chatPrompt(r.Messages, choice.shown, r.kwargs())
	if err != nil {
		return nil, err
	}
	forced := choice.forced != nil
	if forced {
		if c != nil {
			return nil, invalid("tool_choice", "tool_choice asks for a call, response_format or grammar for something else")
		}
		if c, err = s.forceCall(&p, choice.forced); err != nil {
			return nil, err
		}
	}
	var list []*task
	for i := range n {
		t := &task{
			Request: sched.Request{Prompt: p.ids, Limit: limit, Bias: bias, Logprobs: r.Logprobs, Top: r.TopLogprobs, Client: client},
			stops:   stop,
			endless: r.IgnoreEOS && c == nil,
			answer:  chat.NewAnswer(choice.tools, p.thinking),
			oneCall: r.ParallelToolCalls != nil && !*r.ParallelToolCalls,
		}
		if t.Sampling, err = r.settings(s.sampling, i); err != nil {
			return nil, err
		}
		if c != nil {
			o := constrain.Options{After: -1, Out: -1}
			if p.thinking {
				o.After = s.mark(chat.ThinkCloses)
			}
			if choice.tools != nil && !forced {
				o.Out = s.mark(chat.CallOpens)
			}
			if t.Constraint, err = s.vocab.Start(c.grammar, o); err != nil {
				return nil, invalid("response_format", "%v", err)
			}
			t.check = c.check
		}
		if forced {
			t.answer.Mark(chat.CallOpens)
		}
		list = append(list, t)
	}
	return list, nil
}

// kwargs are the variables of the template.
func (r *chatRequest) kwargs() map[string]any {
	kwargs := map[string]any{}
	if r.ReasoningEffort != "" {
		kwargs["enable_thinking"] = r.ReasoningEffort != "none"
	}
	if r.EnableThinking != nil {
		kwargs["enable_thinking"] = *r.EnableThinking
	}
	for k, v := range r.TemplateKwargs {
		kwargs[k] = v
	}
	return kwargs
}

// forceCall makes the prompt open a call, and returns the grammar of one.
func (s *Server) forceCall(p *prompt, functions []constrain.Function) (*constraint, error) {
	opens := s.mark(chat.CallOpens)
	if opens < 0 {
		return nil, invalid("tool_choice", "tool_choice: this model's vocabulary has no %s", chat.CallOpens)
	}
	s.closeThought(p)
	p.ids = append(append(p.ids, opens), s.tokens.Encode("\n", token.Options{})...)
	g, err := constrain.Calls(functions)
	if err != nil {
		return nil, invalid("tools", "tools: %v", err)
	}
	return &constraint{grammar: g}, nil
}

// chatCompletions answers POST /v1/chat/completions.
func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) error {
	var req chatRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	tasks, err := s.chatTasks(&req, clientOf(r))
	if err != nil {
		return err
	}
	reply := chatReply{s: s, id: newID("chatcmpl-"), created: time.Now().Unix()}
	if req.Stream {
		return s.streamAll(w, r, tasks, &reply, req.StreamOptions.IncludeUsage)
	}
	outcomes, err := s.runAll(r.Context(), tasks)
	if err != nil {
		return err
	}
	var u usage
	choices := []any{}
	for i, o := range outcomes {
		u.add(o)
		choices = append(choices, reply.choice(i, o, req.Logprobs))
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"id": reply.id, "object": "chat.completion", "created": reply.created, "model": s.o.Name, "system_fingerprint": s.fingerprint(),
		"choices": choices, "usage": u, "timings": timingsOf(outcomes[0]),
	})
	return nil
}

// runAll runs tasks side by side to their ends.
func (s *Server) runAll(ctx context.Context, tasks []*task) ([]*outcome, error) {
	return s.each(ctx, tasks, func(int) {}, func(int, event) error { return nil })
}

// each runs tasks side by side; begin is called when one starts, emit for what is new
// of it. The first error ends all.
func (s *Server) each(ctx context.Context, tasks []*task, begin func(i int), emit func(i int, e event) error) ([]*outcome, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	outcomes := make([]*outcome, len(tasks))
	var wg sync.WaitGroup
	for i, t := range tasks {
		wg.Go(func() {
			own, cancel := context.WithCancel(ctx)
			defer cancel()
			stream, err := s.submit(own, t)
			if err == nil {
				begin(i)
				outcomes[i], err = s.generate(ctx, stream, t, cancel, func(e event) error { return emit(i, e) })
			}
			if err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return outcomes, nil
}

// chatReply makes OpenAI's objects of a chat.
type chatReply struct {
	s       *Server
	id      string
	created int64
}

// choice is one whole answer.
func (c *chatReply) choice(i int, o *outcome, logprobs bool) any {
	message := map[string]any{"role": "assistant", "content": o.content.String(), "refusal": nil}
	if o.reasoning.Len() > 0 {
		message["reasoning_content"] = o.reasoning.String()
	}
	if len(o.calls) > 0 {
		var calls []any
		for k := range o.calls {
			calls = append(calls, map[string]any{
				"id": c.callID(i, k), "type": "function",
				"function": map[string]any{"name": o.calls[k].name, "arguments": o.calls[k].arguments.String()},
			})
		}
		message["tool_calls"] = calls
		if o.content.Len() == 0 {
			message["content"] = nil
		}
	}
	choice := map[string]any{"index": i, "message": message, "finish_reason": o.finish, "logprobs": nil}
	if logprobs {
		choice["logprobs"] = map[string]any{"content": c.s.logprobs(o.logprobs), "refusal": nil}
	}
	return choice
}

// callID names a call: it is the same whether streamed or not.
func (c *chatReply) callID(choice, call int) string {
	return fmt.Sprintf("call_%s_%d_%d", strings.TrimPrefix(c.id, "chatcmpl-"), choice, call)
}

// chunk is a piece of a stream.
func (c *chatReply) chunk(choices []any) map[string]any {
	return map[string]any{"id": c.id, "object": "chat.completion.chunk", "created": c.created, "model": c.s.o.Name, "system_fingerprint": c.s.fingerprint(), "choices": choices}
}

func (c *chatReply) begin(i int) []any {
	return []any{c.chunk([]any{map[string]any{"index": i, "delta": map[string]any{"role": "assistant", "content": ""}, "finish_reason": nil, "logprobs": nil}})}
}

// deltas are the chunks of an event: parts of one kind each.
func (c *chatReply) deltas(i int, e event) (chunks []any) {
	add := func(delta map[string]any) {
		choice := map[string]any{"index": i, "delta": delta, "finish_reason": nil, "logprobs": nil}
		if len(e.tokens) > 0 {
			choice["logprobs"] = map[string]any{"content": c.s.logprobs(e.tokens), "refusal": nil}
			e.tokens = nil
		}
		chunks = append(chunks, c.chunk([]any{choice}))
	}
	for _, p := range e.parts {
		switch p.Kind {
		case chat.Content:
			add(map[string]any{"content": p.Text})
		case chat.Reasoning:
			add(map[string]any{"reasoning_content": p.Text})
		case chat.CallName:
			add(map[string]any{"tool_calls": []any{map[string]any{
				"index": p.Call, "id": c.callID(i, p.Call), "type": "function", "function": map[string]any{"name": p.Text, "arguments": ""},
			}}})
		case chat.CallArguments:
			add(map[string]any{"tool_calls": []any{map[string]any{"index": p.Call, "function": map[string]any{"arguments": p.Text}}}})
		}
	}
	if len(e.tokens) > 0 {
		add(map[string]any{})
	}
	return chunks
}

func (c *chatReply) end(i int, o *outcome) []any {
	chunk := c.chunk([]any{map[string]any{"index": i, "delta": map[string]any{}, "finish_reason": o.finish, "logprobs": nil}})
	chunk["timings"] = timingsOf(o)
	return []any{chunk}
}

func (c *chatReply) usage(u usage) any {
	chunk := c.chunk([]any{})
	chunk["usage"] = u
	return chunk
}

// logprobs are tokens with their log probabilities, as OpenAI has them in chats.
func (s *Server) logprobs(tokens []sched.Token) []any {
	one := func(id int32, p float64) map[string]any {
		bytes := []int{}
		for _, b := range s.tokens.Piece(id) {
			bytes = append(bytes, int(b))
		}
		return map[string]any{"token": string(s.tokens.Piece(id)), "logprob": p, "bytes": bytes}
	}
	list := []any{}
	for _, t := range tokens {
		entry := one(t.ID, t.Logprob)
		top := []any{}
		for _, l := range t.Top {
			top = append(top, one(l.ID, l.Logprob))
		}
		entry["top_logprobs"] = top
		list = append(list, entry)
	}
	return list
}

// fingerprint names what answers are made of: program and model.
func (s *Server) fingerprint() string {
	return "tern-" + s.o.Version + "-" + strconv.FormatUint(s.info.FileBytes, 36)
}
