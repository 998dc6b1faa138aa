package serve

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/ternvk/tern/model/chat"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/tools/serve/sched"
)

// task is a generation that a request asks for.
type task struct {
	sched.Request
	stops   []string
	answer  *chat.Answer // nil: the text is content as it is
	oneCall bool         // the answer ends with its first call
	endless bool         // tokens that end a turn do not end the answer
	check   func(content string) error
}

// event is what is new of an answer.
type event struct {
	parts  []chat.Part
	tokens []sched.Token // with log probabilities, if asked for
}

// outcome is what became of a task.
type outcome struct {
	finish    string // stop, length or tool_calls
	stop      string // the stop string, if one ended it
	content   strings.Builder
	reasoning strings.Builder
	calls     []*toolCall
	thought   int // tokens
	tokens    int
	stats     sched.Stats
	logprobs  []sched.Token
}

// toolCall is a call as it was said.
type toolCall struct {
	name      string
	arguments strings.Builder
}

func (o *outcome) add(e event) {
	for _, p := range e.parts {
		switch p.Kind {
		case chat.Content:
			o.content.WriteString(p.Text)
		case chat.Reasoning:
			o.reasoning.WriteString(p.Text)
		case chat.CallName:
			o.calls = append(o.calls, &toolCall{name: p.Text})
		case chat.CallArguments:
			o.calls[p.Call].arguments.WriteString(p.Text)
		}
	}
	o.logprobs = append(o.logprobs, e.tokens...)
}

// submit queues a task and waits until it runs.
func (s *Server) submit(ctx context.Context, t *task) (*sched.Stream, error) {
	if !t.endless {
		t.EndsTurn = s.tokens.EndsTurn
	}
	stream, err := s.engine.Submit(ctx, t.Request)
	if err != nil {
		return nil, err
	}
	select {
	case <-stream.Started():
		return stream, stream.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// generate reads a stream to its end and calls emit for what is new of the answer.
// cancel ends the stream's generation.
func (s *Server) generate(ctx context.Context, stream *sched.Stream, t *task, cancel func(), emit func(event) error) (*outcome, error) {
	w := writer{s: s, t: t, stop: stopper{stops: t.stops}}
	o := &outcome{}
	say := func(e event) error {
		o.add(e)
		if len(e.parts) == 0 && len(e.tokens) == 0 {
			return nil
		}
		return emit(e)
	}
	for {
		tok, err := stream.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return o, err
		}
		o.tokens++
		if t.answer != nil && t.answer.Thinking() {
			o.thought++
		}
		e := event{parts: w.write(tok.ID)}
		if t.Logprobs {
			e.tokens = []sched.Token{tok}
		}
		if err := say(e); err != nil {
			return o, err
		}
		if w.stop.found != "" || t.oneCall && t.answer.Calls() > 0 {
			cancel()
			break
		}
	}
	if err := say(event{parts: w.end()}); err != nil {
		return o, err
	}
	var finish sched.Finish
	o.stats, finish = stream.Stats()
	o.stop = w.stop.found
	switch {
	case o.stop == "" && finish == sched.Length:
		o.finish = "length"
	case len(o.calls) > 0:
		o.finish = "tool_calls"
	default:
		o.finish = "stop"
	}
	if t.check != nil && o.finish == "stop" && o.stop == "" {
		if err := t.check(o.content.String()); err != nil {
			return o, &apiError{500, "server_error", "response_format", "", "the answer does not obey the schema: " + err.Error()}
		}
	}
	s.metrics.count(o)
	return o, nil
}

// writer turns tokens into parts of an answer. Stop strings are looked for in its
// content, not in thoughts and calls.
type writer struct {
	s       *Server
	t       *task
	decoder token.Decoder
	stop    stopper
}

// write takes the next token.
func (w *writer) write(id int32) []chat.Part {
	tokens := w.s.tokens
	if text := tokens.Text(id); w.t.answer != nil && chat.IsMark(text) && tokens.Type(id) != token.Normal {
		return w.pass(append(w.parts(w.decoder.Flush()), w.t.answer.Mark(text)...))
	}
	return w.pass(w.parts(w.decoder.Write(tokens.Piece(id))))
}

// end is what was held back.
func (w *writer) end() []chat.Part {
	parts := w.parts(w.decoder.Flush())
	if w.t.answer != nil {
		parts = append(parts, w.t.answer.End()...)
	}
	return append(w.pass(parts), content(w.stop.flush())...)
}

// parts takes text apart.
func (w *writer) parts(text string) []chat.Part {
	if w.t.answer == nil || text == "" {
		return content(text)
	}
	return w.t.answer.Text(text)
}

// pass passes content through the stop strings.
func (w *writer) pass(parts []chat.Part) (out []chat.Part) {
	for _, p := range parts {
		switch {
		case w.stop.found != "":
			return out
		case p.Kind == chat.Content:
			out = append(out, content(w.stop.write(p.Text))...)
		default:
			out = append(append(out, content(w.stop.flush())...), p)
		}
	}
	return out
}

func content(text string) []chat.Part {
	if text == "" {
		return nil
	}
	return []chat.Part{{Kind: chat.Content, Text: text}}
}

// usage is what OpenAI reports of a request.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (u *usage) add(o *outcome) {
	u.Prompt = o.stats.Prompt
	u.Details.Cached = max(u.Details.Cached, o.stats.Reused)
	u.Completion += o.tokens
	u.CompletionDetails.Reasoning += o.thought
	u.Total = u.Prompt + u.Completion
}

// timings are llama-server's, and the time in the queue.
type timings struct {
	CacheN             int     `json:"cache_n"`
	PromptN            int     `json:"prompt_n"`
	PromptMS           float64 `json:"prompt_ms"`
	PromptPerSecond    float64 `json:"prompt_per_second"`
	PredictedN         int     `json:"predicted_n"`
	PredictedMS        float64 `json:"predicted_ms"`
	PredictedPerSecond float64 `json:"predicted_per_second"`
	QueueMS            float64 `json:"queue_ms"`
}

func timingsOf(o *outcome) timings {
	st := o.stats
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	rate := func(n int, d time.Duration) float64 {
		if n <= 0 || d <= 0 {
			return 0
		}
		return float64(n) / d.Seconds()
	}
	return timings{
		CacheN: st.Reused, PromptN: st.Prompt - st.Reused, PromptMS: ms(st.Prefill), PromptPerSecond: rate(st.Prompt-st.Reused, st.Prefill),
		PredictedN: o.tokens, PredictedMS: ms(st.Decode), PredictedPerSecond: rate(o.tokens-1, st.Decode), QueueMS: ms(st.Waited),
	}
}
