package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/tools/serve/constrain"
	"github.com/ternvk/tern/tools/serve/sched"
)

// apiError is an error as clients see it.
type apiError struct {
	status           int
	typ, param, code string // as OpenAI has them
	message          string
}

func (e *apiError) Error() string { return e.message }

// invalid is a request's mistake; param names the field, if there is one.
func invalid(param, format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "invalid_request_error", param, "", fmt.Sprintf(format, args...)}
}

// retryAfter is how many seconds clients should wait when the server is busy.
const retryAfter = "2"

// asAPIError finds the status of an error.
func asAPIError(err error) *apiError {
	var api *apiError
	var size *http.MaxBytesError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &size):
		return &apiError{http.StatusRequestEntityTooLarge, "invalid_request_error", "", "request_too_large", fmt.Sprintf("the request is larger than %d bytes", size.Limit)}
	case errors.Is(err, sched.ErrTooLong):
		return &apiError{http.StatusBadRequest, "invalid_request_error", "messages", "context_length_exceeded", err.Error()}
	case errors.Is(err, sched.ErrBusy):
		return &apiError{http.StatusServiceUnavailable, "unavailable_error", "", "busy", err.Error()}
	case errors.Is(err, sched.ErrClosed):
		return &apiError{http.StatusServiceUnavailable, "unavailable_error", "", "shutting_down", err.Error()}
	case errors.Is(err, constrain.ErrComplex):
		return invalid("response_format", "%v", err)
	case errors.Is(err, graph.ErrDeviceLost), errors.Is(err, graph.ErrOutOfMemory):
		return &apiError{http.StatusServiceUnavailable, "server_error", "", "device", err.Error()}
	}
	return &apiError{http.StatusInternalServerError, "server_error", "", "", err.Error()}
}

// openAIError is the body of an error.
func openAIError(e *apiError) any {
	nullable := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return map[string]any{"error": map[string]any{"message": e.message, "type": e.typ, "param": nullable(e.param), "code": nullable(e.code)}}
}

func writeOpenAIError(w http.ResponseWriter, e *apiError) { writeError(w, e, openAIError(e)) }

func writeOllamaError(w http.ResponseWriter, e *apiError) {
	writeError(w, e, map[string]string{"error": e.message})
}

func writeError(w http.ResponseWriter, e *apiError, body any) {
	if e.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	writeJSON(w, e.status, body)
}

// writeJSON answers with a JSON value. A client that does not take it has gone.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}

// readJSON decodes the body of a request.
func readJSON(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return invalid("", "the request has no body")
		}
		return badJSON("", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return invalid("", "text after the JSON of the request")
	}
	return nil
}

// badJSON says what is wrong with a field, or with the request for "", in JSON's words
// and not Go's.
func badJSON(name string, err error) error {
	subject := name
	if name == "" {
		subject = "the request"
	}
	var field *json.UnmarshalTypeError
	if !errors.As(err, &field) {
		return invalid(name, "%s is no JSON: %v", subject, err)
	}
	within := strings.TrimPrefix(field.Field, "samplingParams.") // which is embedded
	switch {
	case within != "" && name == "":
		name, subject = within, within
	case within != "":
		subject += ": " + within
	}
	return invalid(name, "%s: a JSON %s, want %s", subject, field.Value, jsonKind(field.Type))
}

// jsonKind is what a Go type is called in JSON.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number of at most " + strconv.Itoa(t.Bits()) + " bits"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// clientGone reports whether an error only says that nobody listens any more.
func clientGone(r *http.Request, err error) bool {
	return r.Context().Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, r.Context().Err()))
}
