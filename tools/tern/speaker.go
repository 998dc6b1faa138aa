package main

import (
	"context"
	"fmt"
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

func (p *speaker) close() error { return p.m.Close() }

// speed is what a generation took.
type speed struct {
	prompt, reused, generated int
	full                      bool          // the context, which ended the answer
	first, rest               time.Duration // to the first token, and after it
	weights                   uint64        // bytes read for each token
}

func (s speed) String() string {
	text := fmt.Sprintf("prompt: %d tokens", s.prompt)
	if s.reused > 0 {
		text += fmt.Sprintf(", %d of them reused", s.reused)
	}
	text += fmt.Sprintf(", %.1f t/s; answer: %d tokens", perSecond(s.prompt-s.reused, s.first), s.generated)
	if s.generated > 1 {
		rate := perSecond(s.generated-1, s.rest)
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

// speak writes the model's continuation of ids to w as it comes.
func (p *speaker) speak(ctx context.Context, ids []int32, w *answer) (speed, error) {
	sp := speed{prompt: len(ids), reused: p.s.Reuse(ids), weights: p.m.Info().MatrixBytesPerToken}
	start := time.Now()
	if progress := p.progress("prompt", false); progress != nil && len(ids)-sp.reused > longPrompt {
		p.s.Progress = func(done, total int) { progress(uint64(done), uint64(total)) }
		defer func() { p.s.Progress = nil }()
	}
	for g, err := range p.s.Generate(ctx, ids, p.sampling, p.predict) {
		if err != nil {
			return sp, err
		}
		if sp.generated++; sp.generated == 1 {
			sp.first = time.Since(start)
			start = time.Now()
		}
		if err := w.write(g.ID); err != nil {
			return sp, err
		}
	}
	if sp.rest = time.Since(start); sp.generated == 0 {
		sp.first = sp.rest
	}
	sp.full = p.s.Finish() == model.ContextEnd
	return sp, w.end()
}
