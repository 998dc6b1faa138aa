package serve

import (
	"net/http"
	"sync"
	"time"
)

// writeTimeout is how long a client may take to read what was written before it
// counts as gone.
const writeTimeout = 30 * time.Second

// lines writes a stream of JSON values, each flushed at once: as server-sent events,
// or one a line. It may be used from several goroutines.
type lines struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	c      *http.ResponseController
	events bool
	begun  bool
}

func newLines(w http.ResponseWriter, events bool) *lines {
	return &lines{w: w, c: http.NewResponseController(w), events: events}
}

// write writes values, the header first.
func (l *lines) write(values ...any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun {
		l.begun = true
		h := l.w.Header()
		h.Set("Content-Type", "application/x-ndjson")
		if l.events {
			h.Set("Content-Type", "text/event-stream; charset=utf-8")
			h.Set("Cache-Control", "no-cache")
			h.Set("X-Accel-Buffering", "no")
		}
		l.w.WriteHeader(http.StatusOK)
	}
	var out []byte
	for _, v := range values {
		switch v := v.(type) {
		case string: // the end
			out = append(out, "data: "+v...)
		default:
			if l.events {
				out = append(out, "data: "...)
			}
			out = append(out, encode(v)...)
		}
		out = append(out, '\n')
		if l.events {
			out = append(out, '\n')
		}
	}
	_ = l.c.SetWriteDeadline(time.Now().Add(writeTimeout)) // where the connection has one
	if _, err := l.w.Write(out); err != nil {
		return err
	}
	return l.c.Flush()
}

// reply makes the chunks of a stream.
type reply interface {
	begin(i int) []any
	deltas(i int, e event) []any
	end(i int, o *outcome) []any
	usage(u usage) any
}

// streamAll runs tasks and streams what becomes of them as server-sent events. An
// error before the first of them is returned; a later one is an event, the last.
func (s *Server) streamAll(w http.ResponseWriter, r *http.Request, tasks []*task, c reply, withUsage bool) error {
	out := newLines(w, true)
	outcomes, err := s.each(r.Context(), tasks,
		func(i int) {
			if b := c.begin(i); len(b) > 0 {
				_ = out.write(b...) // the next write fails as well
			}
		},
		func(i int, e event) error { return out.write(c.deltas(i, e)...) })
	if err != nil {
		if !out.begun || clientGone(r, err) {
			return err
		}
		return out.write(openAIError(asAPIError(err)))
	}
	var last []any
	var u usage
	for i, o := range outcomes {
		u.add(o)
		last = append(last, c.end(i, o)...)
	}
	if withUsage {
		last = append(last, c.usage(u))
	}
	return out.write(append(last, "[DONE]")...)
}
