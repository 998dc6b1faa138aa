//go:build cgo

package main

// #include "bridge.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/runtime/graph"
)

// session is a session with its conversation, and the answer that is being given.
type session struct {
	model *opened

	mu      sync.Mutex // of one call, but tern_cancel
	s       *model.Session
	chat    *model.Conversation
	current atomic.Pointer[answer]
	usage   usage
	piece   unsafe.Pointer // C memory of the piece that was handed out
	closed  bool
}

// usage is what an answer has taken.
type usage struct {
	model.Usage
	full bool
}

// answer is given by a goroutine, a piece ahead of its reader.
type answer struct {
	cancel context.CancelFunc
	pieces chan model.Piece
	// These are set before pieces is closed.
	usage usage
	err   error
}

// begin starts an answer; the one before ends where it is.
func (s *session) begin(pieces func(ctx context.Context) iter.Seq2[model.Piece, error], used func() model.Usage) {
	s.stop()
	ctx, cancel := context.WithCancel(context.Background())
	a := &answer{cancel: cancel, pieces: make(chan model.Piece)}
	s.current.Store(a)
	go func() {
		defer close(a.pieces)
		for p, err := range pieces(ctx) {
			if a.err = err; err != nil {
				break
			}
			select {
			case a.pieces <- p:
				continue
			case <-ctx.Done():
				a.err = ctx.Err()
			}
			break
		}
		a.usage = usage{used(), s.s.Finish() == model.ContextEnd}
	}()
}

// stop ends the answer, if there is one, and waits for its goroutine.
func (s *session) stop() {
	a := s.current.Swap(nil)
	if a == nil {
		return
	}
	a.cancel()
	for range a.pieces {
	}
	s.usage = a.usage
}

// next returns the next piece; more is false after the last one.
func (s *session) next() (p model.Piece, more bool, err error) {
	a := s.current.Load()
	if a == nil {
		return p, false, argument("no answer was begun")
	}
	if p, more = <-a.pieces; more {
		return p, true, nil
	}
	a.cancel()
	s.usage = a.usage
	return p, false, a.err
}

// hand copies a piece for the caller, who has it until the next call.
func (s *session) hand(text string) *C.tern_string {
	C.free(s.piece)
	s.piece = unsafe.Pointer(C.CString(text))
	return (*C.tern_string)(s.piece)
}

func (s *session) close() {
	if a := s.current.Load(); a != nil {
		a.cancel() // also for a thread that waits for the next piece
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	s.s.Close()
	C.free(s.piece)
	s.piece, s.closed = nil, true
}

// locked runs a call on a session.
func locked(n C.tern_session, f func(s *session) error) C.int {
	s, err := sessions.get("session", uint64(n))
	if err != nil {
		return fail(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fail(fmt.Errorf("the session: %w", graph.ErrClosed))
	}
	return fail(f(s))
}

// addSession gives a session its number.
func addSession(m *opened, s *model.Session, out *C.tern_session) C.int {
	c, err := model.NewConversation(s)
	if err != nil {
		s.Close()
		return fail(err)
	}
	*out = C.tern_session(sessions.add(&session{model: m, s: s, chat: c}))
	return C.TERN_OK
}

//export tern_session_open
func tern_session_open(n C.tern_model, out *C.tern_session) C.int {
	m, err := models.get("model", uint64(n))
	if err == nil && out == nil {
		err = argument("no room for the session")
	}
	if err != nil {
		return fail(err)
	}
	*out = 0
	s, err := m.NewSession()
	if err != nil {
		return fail(err)
	}
	return addSession(m, s, out)
}

//export tern_session_close
func tern_session_close(n C.tern_session) C.int {
	s, err := sessions.take("session", uint64(n))
	if err != nil {
		return fail(err)
	}
	s.close()
	return C.TERN_OK
}

//export tern_session_save
func tern_session_save(n C.tern_session, path *C.tern_string) C.int {
	return locked(n, func(s *session) error {
		if path == nil {
			return argument("no path")
		}
		s.stop()
		return s.chat.SaveFile(C.GoString(path))
	})
}

//export tern_session_restore
func tern_session_restore(n C.tern_model, path *C.tern_string, out *C.tern_session) C.int {
	m, err := models.get("model", uint64(n))
	if err == nil && (out == nil || path == nil) {
		err = argument("no path, or no room for the session")
	}
	if err != nil {
		return fail(err)
	}
	*out = 0
	s, err := m.RestoreFile(C.GoString(path))
	if err != nil {
		return fail(err)
	}
	return addSession(m, s, out)
}

//export tern_sampling_init
func tern_sampling_init(n C.tern_model, out *C.tern_sampling) C.int {
	m, err := models.get("model", uint64(n))
	if err == nil && out == nil {
		err = argument("no room for the sampling")
	}
	if err != nil {
		return fail(err)
	}
	s := model.FileSampling(m.File())
	*out = C.tern_sampling{
		size: C.sizeof_tern_sampling, temperature: C.float(s.Temperature), top_k: C.int32_t(s.TopK),
		top_p: C.float(s.TopP), min_p: C.float(s.MinP), repeat_penalty: 1,
	}
	return C.TERN_OK
}

// sampling sets how the session's next answer is chosen.
func (s *session) sampling(in *C.tern_sampling_in) error {
	s.chat.Sampling, s.chat.Limit = model.FileSampling(s.model.File()), 0
	if in == nil {
		return nil
	}
	if in.size < C.sizeof_tern_sampling || in.limit < 0 {
		return argument("sampling of %d bytes, limit %d", in.size, in.limit)
	}
	s.chat.Limit = int(in.limit)
	s.chat.Sampling = model.Sampling{
		Temperature: float32(in.temperature), TopK: int(in.top_k), TopP: float32(in.top_p), MinP: float32(in.min_p),
		RepeatPenalty: float32(in.repeat_penalty), Seed: uint64(in.seed),
	}
	if err := s.chat.Sampling.Check(); err != nil {
		return fmt.Errorf("%w (%w)", err, errArgument)
	}
	return nil
}

//export tern_system
func tern_system(n C.tern_session, text *C.tern_string) C.int {
	return locked(n, func(s *session) error {
		s.stop()
		s.chat.Messages = nil
		if text != nil {
			s.chat.Messages = []model.Message{{Role: "system", Content: C.GoString(text)}}
		}
		return nil
	})
}

// prompt begins the answer to a message.
func (s *session) prompt(text *C.tern_string, sampling *C.tern_sampling_in) error {
	s.stop()
	if text == nil {
		return argument("no text")
	}
	if err := s.sampling(sampling); err != nil {
		return err
	}
	question := C.GoString(text)
	s.begin(func(ctx context.Context) iter.Seq2[model.Piece, error] { return s.chat.Ask(ctx, question) }, s.chat.Usage)
	return nil
}

//export tern_prompt
func tern_prompt(n C.tern_session, text *C.tern_string, sampling *C.tern_sampling_in) C.int {
	return locked(n, func(s *session) error { return s.prompt(text, sampling) })
}

//export tern_complete
func tern_complete(n C.tern_session, text *C.tern_string, sampling *C.tern_sampling_in) C.int {
	return locked(n, func(s *session) error {
		s.stop()
		if text == nil {
			return argument("no text")
		}
		if err := s.sampling(sampling); err != nil {
			return err
		}
		t := s.model.Tokenizer()
		ids := t.Encode(C.GoString(text), token.Options{AddSpecial: true})
		var u model.Usage
		s.begin(func(ctx context.Context) iter.Seq2[model.Piece, error] {
			return s.s.Continue(ctx, ids, s.chat.Sampling, s.chat.Limit, model.NewPlainAnswer(t), &u)
		}, func() model.Usage { return u })
		return nil
	})
}

func flagsOf(p model.Piece) C.uint32_t {
	if p.Thought {
		return C.TERN_THOUGHT
	}
	return 0
}

//export tern_next
func tern_next(n C.tern_session, piece **C.tern_string, length *C.size_t, flags *C.uint32_t) (code C.int) {
	ended := false
	code = locked(n, func(s *session) error {
		if piece == nil {
			return argument("no room for the piece")
		}
		p, more, err := s.next()
		if err != nil {
			*piece = nil
			return err
		}
		ended = !more
		*piece = s.hand(p.Text)
		if length != nil {
			*length = C.size_t(len(p.Text))
		}
		if flags != nil {
			*flags = flagsOf(p)
		}
		return nil
	})
	if ended {
		return C.TERN_END
	}
	return code
}

//export tern_ask
func tern_ask(n C.tern_session, text *C.tern_string, sampling *C.tern_sampling_in, f C.tern_piece, user unsafe.Pointer) C.int {
	return locked(n, func(s *session) error {
		if err := s.prompt(text, sampling); err != nil {
			return err
		}
		for {
			p, more, err := s.next()
			if err != nil || !more {
				return err
			}
			if f != nil && C.tern_call_piece(f, user, s.hand(p.Text), C.size_t(len(p.Text)), flagsOf(p)) != 0 {
				s.stop()
				return context.Canceled
			}
		}
	})
}

//export tern_cancel
func tern_cancel(n C.tern_session) C.int {
	s, err := sessions.get("session", uint64(n))
	if err != nil {
		return fail(err)
	}
	if a := s.current.Load(); a != nil {
		a.cancel()
	}
	return C.TERN_OK
}

//export tern_session_usage
func tern_session_usage(n C.tern_session, out *C.tern_usage) C.int {
	return locked(n, func(s *session) error {
		if out == nil || out.size < C.sizeof_tern_usage {
			return argument("no room for the usage, or its size is not set")
		}
		u := s.usage
		out.prompt, out.reused, out.generated = C.int32_t(u.Prompt), C.int32_t(u.Reused), C.int32_t(u.Generated)
		out.first_seconds, out.rest_seconds, out.full = C.double(u.First.Seconds()), C.double(u.Rest.Seconds()), 0
		if u.full {
			out.full = 1
		}
		return nil
	})
}
