package sched

import (
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/runtime/graph"
)

// step runs the model once for all that are running.
func (e *Engine) step() {
	jobs, turns := e.plan()
	began := time.Now()
	next, err := e.run(turns)
	took := time.Since(began)
	switch {
	case err == nil:
		e.measure(turns, took)
		e.deliver(jobs, turns, next)
	case e.ctx.Err() != nil:
	case errors.Is(err, graph.ErrDeviceLost), errors.Is(err, graph.ErrClosed):
		e.failAll(err)
		e.unload()
	case len(jobs) == 1:
		e.fail(jobs[0], err)
	default: // whose fault it is shows when each runs alone
		for i, j := range jobs {
			alone, failed := next, err
			if len(j.session.Tokens()) == j.evaluated() {
				alone, failed = e.run(turns[i : i+1])
			}
			if failed != nil {
				e.fail(j, failed)
				continue
			}
			e.deliver(jobs[i:i+1], turns[i:i+1], alone)
		}
	}
}

// run takes a step.
func (e *Engine) run(turns []model.Turn) (next []model.Next, err error) {
	err = e.roomy(func() error {
		next, err = e.loaded.Step(e.ctx, turns)
		return err
	})
	return next, err
}

// roomy calls f until sequences that are only kept have made room for it.
func (e *Engine) roomy(f func() error) error {
	for {
		err := f()
		if !errors.Is(err, model.ErrContextFull) || !e.evict() {
			return err
		}
	}
}

// smallestPiece of a prompt, in tokens, while others generate.
const smallestPiece = model.PagePositions

// plan lists what the next step does: a token for all that generate, and pieces of
// prompts in what is left of the step, by equal shares.
func (e *Engine) plan() (jobs []*job, turns []model.Turn) {
	var prompts []*job
	for _, j := range e.running {
		if e.follows(j) {
			continue
		}
		if j.prefilling() && len(j.pending) > 1 {
			prompts = append(prompts, j)
			continue
		}
		jobs, turns = append(jobs, j), append(turns, j.turn(len(j.pending)))
	}
	room := e.cfg.Chunk - len(turns)
	if len(turns) > 0 && e.rate > 0 {
		room = min(room, max(smallestPiece, int(e.cfg.StepTime.Seconds()/e.rate)))
	}
	for i, j := range prompts {
		n := min(len(j.pending), max(1, room/(len(prompts)-i)))
		if end := len(j.session.Tokens()) + n; n < len(j.pending) && end%model.PagePositions < n {
			n -= end % model.PagePositions // to the border of a page, where others can fork
		}
		if room -= n; room < 0 {
			break
		}
		jobs, turns = append(jobs, j), append(turns, j.turn(n))
	}
	return jobs, turns
}

// turn evaluates the next n tokens; a token follows the last of them.
func (j *job) turn(n int) model.Turn {
	t := model.Turn{Session: j.session, Tokens: j.pending[:n]}
	if n == len(j.pending) {
		if j.readsLogits() {
			t.Logits = true
		} else {
			t.Sampling = &j.Sampling
		}
	}
	return t
}

// measure learns how long a token of a prompt takes, from steps with pieces of prompts.
func (e *Engine) measure(turns []model.Turn, took time.Duration) {
	tokens, outputs := 0, 0
	for _, t := range turns {
		tokens += len(t.Tokens)
		if t.Sampling != nil || t.Logits {
			outputs++
		}
	}
	if tokens-outputs >= smallestPiece {
		rate := took.Seconds() / float64(tokens)
		if e.rate == 0 {
			e.rate = rate
		}
		e.rate += (rate - e.rate) / 4
	}
	if f := e.cfg.Observe.Step; f != nil {
		f(tokens, outputs, took)
	}
}

// deliver hands out what a step gave. Choices from logits are made side by side.
func (e *Engine) deliver(jobs []*job, turns []model.Turn, next []model.Next) {
	tokens := make([]Token, len(jobs))
	errs := make([]error, len(jobs))
	var choices sync.WaitGroup
	for i, j := range jobs {
		tokens[i].ID = next[i].Token
		if turns[i].Logits {
			choices.Go(func() { tokens[i], errs[i] = j.choose(next[i].Logits) })
		}
	}
	choices.Wait()
	for i, j := range jobs {
		j.pending = j.pending[len(turns[i].Tokens):]
		switch {
		case errs[i] != nil:
			e.fail(j, errs[i])
		case turns[i].Logits || turns[i].Sampling != nil:
			e.say(j, tokens[i])
		}
	}
}

// choose picks the next token from its logits.
func (j *job) choose(logits []float32) (t Token, err error) {
	var plain []float32
	if j.Logprobs {
		plain = slices.Clone(logits)
	}
	for id, b := range j.Bias {
		if id >= 0 && int(id) < len(logits) {
			logits[id] += b
		}
	}
	if j.Constraint != nil {
		if err := j.Constraint.Mask(logits); err != nil {
			return t, err
		}
	}
	if t.ID, err = j.Sampling.Choose(logits, j.session.Tokens()); err != nil {
		return t, err
	}
	if j.Constraint != nil {
		if err := j.Constraint.Accept(t.ID); err != nil {
			return t, err
		}
	}
	if j.Logprobs {
		t.Logprob, t.Top = likelihoods(plain, t.ID, j.Top)
	}
	return t, nil
}

// likelihoods returns the log probability of a token and the likeliest top ones.
func likelihoods(logits []float32, id int32, top int) (float64, []Likelihood) {
	largest := float64(slices.Max(logits))
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - largest)
	}
	norm := largest + math.Log(sum)
	var list []Likelihood
	for i, l := range logits {
		v := Likelihood{int32(i), float64(l) - norm}
		if len(list) == top && (top == 0 || v.Logprob <= list[top-1].Logprob) {
			continue
		}
		at, _ := slices.BinarySearchFunc(list, v, func(a, b Likelihood) int {
			if a.Logprob >= b.Logprob {
				return -1
			}
			return 1
		})
		list = slices.Insert(list, at, v)
		list = list[:min(len(list), top)]
	}
	return float64(logits[id]) - norm, list
}

// say gives out a token and notes where that leads.
func (e *Engine) say(j *job, t Token) {
	if j.prefilling() {
		j.first = time.Now()
		if f := e.cfg.Observe.First; f != nil {
			f(j.first.Sub(j.submitted))
		}
		j.update(func() { j.stats.Prefill = j.first.Sub(j.begun) })
	}
	if j.EndsTurn != nil && j.EndsTurn(t.ID) {
		j.end(io.EOF, Stop)
		return
	}
	j.count++
	j.update(func() {
		j.tokens = append(j.tokens, t)
		j.stats.Generated, j.stats.Decode = j.count, time.Since(j.first)
	})
	j.pending = []int32{t.ID}
	if j.count == j.Limit || len(j.session.Tokens()) >= e.cfg.Context {
		j.end(io.EOF, Length)
	}
}

// fail ends a job whose session may hold anything.
func (e *Engine) fail(j *job, err error) {
	if j.session != nil {
		j.session.Close()
		j.session = nil
	}
	j.end(err, "")
}

// failAll ends all that runs and waits.
func (e *Engine) failAll(err error) {
	for _, j := range e.running {
		if !j.over {
			e.fail(j, err)
		}
	}
	e.retire()
	e.mu.Lock()
	waiting := e.waiting
	e.waiting = nil
	e.mu.Unlock()
	for _, j := range waiting {
		j.end(err, "")
	}
}

// load opens the model if it is not open.
func (e *Engine) load() error {
	if e.loaded.Model != nil {
		return nil
	}
	l, err := e.cfg.Load(e.ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.loaded = l
	e.mu.Unlock()
	return nil
}

// unload closes the model and all its sessions.
func (e *Engine) unload() {
	if e.loaded.Model == nil {
		return
	}
	for e.evict() {
	}
	_ = e.loaded.Close() // nothing is left to be lost
	e.mu.Lock()
	e.loaded = Loaded{}
	e.mu.Unlock()
}
