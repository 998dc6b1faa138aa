package serve

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/tools/serve/constrain"
	"github.com/ternvk/tern/tools/serve/sched"
)

// completionRequest is the body of /v1/completions, as far as it is used.
type completionRequest struct {
	samplingParams
	Model         string          `json:"model"`
	Prompt        json.RawMessage `json:"prompt"`
	Stream        bool            `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	N              *int            `json:"n"`
	BestOf         *int            `json:"best_of"`
	MaxTokens      *int            `json:"max_tokens"`
	Stop           texts           `json:"stop"`
	Logprobs       *int            `json:"logprobs"`
	Echo           bool            `json:"echo"`
	Suffix         string          `json:"suffix"`
	ResponseFormat *responseFormat `json:"response_format"`
	Grammar        string          `json:"grammar"`
	// ParseSpecial, true unless it is given, has control tokens found in the prompt.
	ParseSpecial *bool `json:"parse_special"`
}

// maxPrompts bounds the prompts of a request.
const maxPrompts = 64

// prompts reads the prompt of a field: text, ids, or a list of one of these.
func (s *Server) prompts(field string, data json.RawMessage, parseSpecial bool) ([][]int32, error) {
	o := token.Options{ParseSpecial: parseSpecial, AddSpecial: true}
	var text texts
	var ids []int32
	var lists [][]int32
	switch {
	case len(data) == 0 || string(data) == "null":
		return nil, invalid(field, "there is no %s", field)
	case json.Unmarshal(data, &text) == nil:
		for _, t := range text {
			lists = append(lists, s.tokens.Encode(t, o))
		}
	case json.Unmarshal(data, &ids) == nil:
		lists = [][]int32{ids}
	case json.Unmarshal(data, &lists) == nil:
	default:
		return nil, invalid(field, "%s: want text, ids of tokens, or a list of these", field)
	}
	if len(lists) == 0 || len(lists) > maxPrompts {
		return nil, invalid(field, "%s: %d of them, want 1 to %d", field, len(lists), maxPrompts)
	}
	for _, list := range lists {
		if len(list) == 0 {
			return nil, invalid(field, "%s: it is empty", field)
		}
		for _, id := range list {
			if id < 0 || int(id) >= s.info.Vocab {
				return nil, invalid(field, "%s: token id %d, the vocabulary has %d", field, id, s.info.Vocab)
			}
		}
	}
	return lists, nil
}

func (s *Server) completionTasks(r *completionRequest, client string) ([]*task, error) {
	if err := s.knows(r.Model); err != nil {
		return nil, err
	}
	n, err := answers(r.N)
	if err != nil {
		return nil, err
	}
	if r.BestOf != nil && *r.BestOf != n {
		return nil, invalid("best_of", "best_of is not supported")
	}
	if r.Suffix != "" {
		return nil, invalid("suffix", "suffix is not supported")
	}
	limit, err := limit("max_tokens", r.MaxTokens)
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
	top := 0
	if r.Logprobs != nil {
		if top = *r.Logprobs; top < 0 || top > 20 {
			return nil, invalid("logprobs", "logprobs %d: want 0 to 20", top)
		}
	}
	c, err := s.constraint(r.ResponseFormat, r.Grammar)
	if err != nil {
		return nil, err
	}
	lists, err := s.prompts("prompt", r.Prompt, r.ParseSpecial == nil || *r.ParseSpecial)
	if err != nil {
		return nil, err
	}
	var tasks []*task
	for _, ids := range lists {
		for i := range n {
			t := &task{
				Request: sched.Request{Prompt: ids, Limit: limit, Bias: bias, Logprobs: r.Logprobs != nil, Top: top, Client: client},
				stops:   stop,
				endless: r.IgnoreEOS && c == nil,
			}
			if t.Sampling, err = r.settings(s.sampling, i); err != nil {
				return nil, err
			}
			if c != nil {
				if t.Constraint, err = s.vocab.Start(c.grammar, constrain.Options{After: -1, Out: -1}); err != nil {
					return nil, invalid("grammar", "%v", err)
				}
				t.check = c.check
			}
			tasks = append(tasks, t)
		}
	}
	return tasks, nil
}

// completions answers POST /v1/completions.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) error {
	var req completionRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	tasks, err := s.completionTasks(&req, clientOf(r))
	if err != nil {
		return err
	}
	reply := &completionReply{s: s, id: newID("cmpl-"), created: time.Now().Unix(), tasks: tasks, echo: req.Echo, offsets: make([]int, len(tasks))}
	if req.Stream {
		return s.streamAll(w, r, tasks, reply, req.StreamOptions.IncludeUsage)
	}
	outcomes, err := s.runAll(r.Context(), tasks)
	if err != nil {
		return err
	}
	var u usage
	choices := []any{}
	for i, o := range outcomes {
		u.add(o)
		choices = append(choices, reply.choice(i, reply.echoed(i)+o.content.String(), o.logprobs, o.finish))
	}
	out := reply.chunk(choices)
	out["usage"], out["timings"] = u, timingsOf(outcomes[0])
	writeJSON(w, http.StatusOK, out)
	return nil
}

// completionReply makes OpenAI's objects of completions.
type completionReply struct {
	s       *Server
	id      string
	created int64
	tasks   []*task
	echo    bool
	offsets []int // of the next token's text, by answer
}

func (c *completionReply) echoed(i int) string {
	if !c.echo {
		return ""
	}
	text := c.s.tokens.Decode(c.tasks[i].Prompt)
	c.offsets[i] = len(text)
	return text
}

func (c *completionReply) chunk(choices []any) map[string]any {
	return map[string]any{"id": c.id, "object": "text_completion", "created": c.created, "model": c.s.o.Name, "system_fingerprint": c.s.fingerprint(), "choices": choices}
}

func (c *completionReply) choice(i int, text string, tokens []sched.Token, finish any) any {
	choice := map[string]any{"index": i, "text": text, "finish_reason": finish, "logprobs": nil}
	if c.tasks[i].Logprobs && (len(tokens) > 0 || finish != nil) {
		choice["logprobs"] = c.logprobs(i, tokens)
	}
	return choice
}

func (c *completionReply) begin(i int) []any {
	if text := c.echoed(i); text != "" {
		return []any{c.chunk([]any{c.choice(i, text, nil, nil)})}
	}
	return nil
}

func (c *completionReply) deltas(i int, e event) []any {
	text := ""
	for _, p := range e.parts {
		text += p.Text
	}
	return []any{c.chunk([]any{c.choice(i, text, e.tokens, nil)})}
}

func (c *completionReply) end(i int, o *outcome) []any {
	chunk := c.chunk([]any{c.choice(i, "", nil, o.finish)})
	chunk["timings"] = timingsOf(o)
	return []any{chunk}
}

func (c *completionReply) usage(u usage) any {
	chunk := c.chunk([]any{})
	chunk["usage"] = u
	return chunk
}

// logprobs are tokens with their log probabilities, as OpenAI has them in completions.
func (c *completionReply) logprobs(i int, tokens []sched.Token) any {
	texts, probs, tops, offsets := []string{}, []float64{}, []any{}, []int{}
	for _, t := range tokens {
		piece := string(c.s.tokens.Piece(t.ID))
		top := map[string]float64{}
		for _, l := range t.Top {
			top[string(c.s.tokens.Piece(l.ID))] = l.Logprob
		}
		texts, probs, tops, offsets = append(texts, piece), append(probs, t.Logprob), append(tops, top), append(offsets, c.offsets[i])
		c.offsets[i] += len(piece)
	}
	return map[string]any{"tokens": texts, "token_logprobs": probs, "top_logprobs": tops, "text_offset": offsets}
}
