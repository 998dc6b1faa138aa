package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/ternvk/tern/model"
)

// speaker continues token sequences in one session.
type speaker struct {
	*app
	m        *opened
	s        *model.Session
	sampling model.Sampling
	predict  int
}

// newSpeaker opens the model for a command that writes text, and says on
// standard error how.
func (a *app) newSpeaker(ctx context.Context, f *samplingFlags) (*speaker, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	m, err := a.open(ctx, model.Options{})
	if err != nil {
		return nil, err
	}
	p := &speaker{app: a, m: m, predict: f.predict}
	if p.sampling, err = f.sampling(m.File()); err == nil && m.Tokenizer() == nil {
		err = fmt.Errorf("%s has no vocabulary: it can neither read nor write text", m.File().Name)
	}
	if err == nil {
		p.s, err = m.NewSession()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	fmt.Fprintf(a.err, "model: %s, %s\n", m.File().Name, samplingText(p.sampling))
	return p, nil
}

func (p *speaker) close() { p.leave(p.m) }

// speed is what a generation took.
type speed struct {
	model.Usage
	full    bool   // the context, which ended the answer
	weights uint64 // bytes read for each token
}

func (p *speaker) speed(u model.Usage) speed {
	return speed{u, p.s.Finish() == model.ContextEnd, p.m.Info().MatrixBytesPerToken}
}

func (s speed) String() string {
	text := fmt.Sprintf("prompt: %d tokens", s.Prompt)
	if s.Reused > 0 {
		text += fmt.Sprintf(", %d of them reused", s.Reused)
	}
	text += fmt.Sprintf(", %.1f t/s; answer: %d tokens", perSecond(s.Prompt-s.Reused, s.First), s.Generated)
	if s.Generated > 1 {
		rate := perSecond(s.Generated-1, s.Rest)
		text += fmt.Sprintf(", %.1f t/s, %.2f GB/s of weights", rate, rate*float64(s.weights)/1e9)
	}
	if s.full {
		text += "; the context is full, -c gives a larger one"
	}
	return text
}

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// longPrompt is how many tokens of a prompt are worth a progress bar.
const longPrompt = 1024

// showPrompt shows a progress bar for long prompts until the result is called.
func (p *speaker) showPrompt() (end func()) {
	progress := p.progress("prompt", false)
	if progress == nil {
		return func() {}
	}
	p.s.Progress = func(done, total int) {
		if total > longPrompt {
			progress(uint64(done), uint64(total))
		}
	}
	return func() { p.s.Progress = nil }
}

// complete writes the model's continuation of ids as it comes.
func (p *speaker) complete(ctx context.Context, ids []int32) (speed, error) {
	defer p.showPrompt()()
	var u model.Usage
	err := p.write(p.s.Continue(ctx, ids, p.sampling, p.predict, model.NewPlainAnswer(p.m.Tokenizer()), &u))
	return p.speed(u), err
}

// write writes an answer to standard output, and thoughts to standard error; each
// ends with a line break.
func (p *speaker) write(answer iter.Seq2[model.Piece, error]) error {
	thinking, trace := false, p.tracer()
	for piece, err := range answer {
		if err != nil {
			return err
		}
		if trace != nil {
			trace("first token")
			trace = nil
		}
		to := p.out
		if piece.Thought {
			to = p.err
		} else if thinking {
			fmt.Fprintln(p.err)
		}
		thinking = piece.Thought
		if _, err := io.WriteString(to, piece.Text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(p.out)
	return err
}
