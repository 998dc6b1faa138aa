package serve

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/token"
)

// newID is an id that no other reply has.
func newID(prefix string) string { return prefix + rand.Text() }

// clientOf names who asks, for fairness: the key, else the address.
func clientOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}

// knows reports an error unless a name is the model's, or none is given.
func (s *Server) knows(name string) error {
	if name == "" || name == s.o.Name || slices.Contains(s.o.Aliases, name) {
		return nil
	}
	return &apiError{http.StatusNotFound, "invalid_request_error", "model", "model_not_found", fmt.Sprintf("model %q not found: this server has %q", name, s.o.Name)}
}

// modelObject describes the model as OpenAI and llama-server do.
func (s *Server) modelObject(id string) any {
	return map[string]any{
		"id": id, "object": "model", "created": s.started.Unix(), "owned_by": "tern",
		"meta": map[string]any{"n_vocab": s.info.Vocab, "n_ctx": s.o.Context, "n_ctx_train": s.info.TrainedContext, "n_embd": s.info.Hidden,
			"n_params": s.info.Parameters, "size": s.info.FileBytes},
	}
}

// models answers GET /v1/models.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) error {
	list := []any{s.modelObject(s.o.Name)}
	for _, a := range s.o.Aliases {
		list = append(list, s.modelObject(a))
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
	return nil
}

// modelByID answers GET /v1/models/{id}.
func (s *Server) modelByID(w http.ResponseWriter, r *http.Request) error {
	if err := s.knows(r.PathValue("id")); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, s.modelObject(r.PathValue("id")))
	return nil
}

// health answers GET /health.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	if !s.ready.Load() {
		return &apiError{http.StatusServiceUnavailable, "unavailable_error", "", "loading", "the model is being loaded"}
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// props answers GET /props: what the chat page shows.
func (s *Server) props(w http.ResponseWriter, _ *http.Request) error {
	st := s.engine.Status()
	writeJSON(w, http.StatusOK, map[string]any{
		"model": s.o.Name, "description": s.info.Name, "architecture": s.info.Architecture, "quantisation": s.info.Quantisation,
		"parameters": s.info.Parameters, "device": s.o.Device(), "version": s.o.Version, "context": s.o.Context, "parallel": s.o.Parallel,
		"loaded": st.Loaded, "running": st.Running, "waiting": st.Waiting, "chat": s.template != nil,
		"sampling": map[string]any{"temperature": s.sampling.Temperature, "top_k": s.sampling.TopK, "top_p": s.sampling.TopP, "min_p": s.sampling.MinP},
	})
	return nil
}

// tokenize answers POST /tokenize.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		Content      string `json:"content"`
		AddSpecial   bool   `json:"add_special"`
		ParseSpecial *bool  `json:"parse_special"`
		WithPieces   bool   `json:"with_pieces"`
	}
	if err := readJSON(r, &req); err != nil {
		return err
	}
	ids := s.tokens.Encode(req.Content, token.Options{AddSpecial: req.AddSpecial, ParseSpecial: req.ParseSpecial == nil || *req.ParseSpecial})
	list := []any{}
	for _, id := range ids {
		if !req.WithPieces {
			list = append(list, id)
			continue
		}
		var piece any = string(s.tokens.Piece(id))
		if !utf8.Valid(s.tokens.Piece(id)) {
			bytes := []int{}
			for _, b := range s.tokens.Piece(id) {
				bytes = append(bytes, int(b))
			}
			piece = bytes
		}
		list = append(list, map[string]any{"id": id, "piece": piece})
	}
	writeJSON(w, http.StatusOK, map[string]any{"tokens": list})
	return nil
}

// detokenize answers POST /detokenize.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := readJSON(r, &req); err != nil {
		return err
	}
	for _, id := range req.Tokens {
		if id < 0 || int(id) >= s.tokens.Len() {
			return invalid("tokens", "tokens: id %d, the vocabulary has %d", id, s.tokens.Len())
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"content": s.tokens.Decode(req.Tokens)})
	return nil
}

// applyTemplate answers POST /apply-template: the prompt of a chat.
func (s *Server) applyTemplate(w http.ResponseWriter, r *http.Request) error {
	var req chatRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	choice, err := readToolChoice(req.Tools, req.ToolChoice)
	if err != nil {
		return err
	}
	p, err := s.chatPrompt(req.Messages, choice.shown, req.kwargs())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"prompt": p.text, "tokens": p.ids})
	return nil
}

// embeddings answers POST /v1/embeddings. The embedding of a text is the mean, or the
// last ("pooling": "last"), of the normed hidden states of its tokens, scaled to
// length 1.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		Model      string          `json:"model"`
		Input      json.RawMessage `json:"input"`
		Format     string          `json:"encoding_format"`
		Dimensions *int            `json:"dimensions"`
		Pooling    string          `json:"pooling"`
	}
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if err := s.knows(req.Model); err != nil {
		return err
	}
	switch {
	case req.Format != "" && req.Format != "float" && req.Format != "base64":
		return invalid("encoding_format", "encoding_format %q: want float or base64", req.Format)
	case req.Dimensions != nil && *req.Dimensions != s.info.Hidden:
		return invalid("dimensions", "dimensions %d: this model's embeddings have %d", *req.Dimensions, s.info.Hidden)
	}
	vectors, count, err := s.embed(r, req.Input, req.Pooling)
	if err != nil {
		return err
	}
	data := []any{}
	for i, v := range vectors {
		var e any = v
		if req.Format == "base64" {
			b := make([]byte, 0, 4*len(v))
			for _, x := range v {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			e = base64.StdEncoding.EncodeToString(b)
		}
		data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": e})
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"object": "list", "model": s.o.Name, "data": data,
		"usage": map[string]int{"prompt_tokens": count, "total_tokens": count},
	})
	return nil
}

// embed returns the embeddings of texts or lists of ids, and the number of tokens.
func (s *Server) embed(r *http.Request, input json.RawMessage, pooling string) (vectors [][]float32, count int, err error) {
	if pooling != "" && pooling != "mean" && pooling != "last" {
		return nil, 0, invalid("pooling", "pooling %q: want mean or last", pooling)
	}
	lists, err := s.prompts("input", input, false)
	if err != nil {
		return nil, 0, err
	}
	for _, ids := range lists {
		if len(ids) > s.o.Context {
			return nil, 0, invalid("input", "input: %d tokens in a context of %d", len(ids), s.o.Context)
		}
		var states [][]float32
		err := s.engine.Do(r.Context(), func(m *model.Model) (err error) {
			states, err = m.Hidden(r.Context(), ids)
			return err
		})
		if err != nil {
			return nil, 0, err
		}
		if pooling == "last" {
			states = states[len(states)-1:]
		}
		vectors = append(vectors, pool(states))
		count += len(ids)
	}
	return vectors, count, nil
}

// pool is the mean of vectors, scaled to length 1.
func pool(states [][]float32) []float32 {
	sum := make([]float64, len(states[0]))
	for _, st := range states {
		for i, x := range st {
			sum[i] += float64(x)
		}
	}
	norm := 0.0
	for _, x := range sum {
		norm += x * x
	}
	norm = math.Sqrt(norm)
	out := make([]float32, len(sum))
	for i, x := range sum {
		if norm > 0 {
			out[i] = float32(x / norm)
		}
	}
	return out
}
