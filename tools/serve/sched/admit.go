package sched

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ternvk/tern/model"
)

// kept is a sequence that nothing runs in, kept for requests that begin alike.
type kept struct {
	session *model.Session
	used    time.Time
}

// retire takes out the jobs that have ended and those whose clients have gone.
// Their sequences are kept.
func (e *Engine) retire() {
	e.running = slices.DeleteFunc(e.running, func(j *job) bool {
		if err := j.ctx.Err(); err != nil && !j.over {
			j.end(err, "")
		}
		if !j.over {
			return false
		}
		if j.session != nil {
			e.keep(j.session)
			j.session = nil
		}
		e.mu.Lock()
		if e.count[j.Client]--; e.count[j.Client] == 0 {
			delete(e.count, j.Client)
		}
		e.mu.Unlock()
		return true
	})
}

// admit starts waiting jobs as long as there is a place: those first of whose client
// the fewest are running, of these the one whose turn is longest ago, and of its jobs
// the oldest.
func (e *Engine) admit() {
	for _, j := range e.takeWaiting() {
		if err := e.load(); err != nil {
			j.end(fmt.Errorf("loading the model: %w", err), "")
			continue
		}
		if j.do == nil {
			e.start(j)
			continue
		}
		err := e.roomy(func() error { return j.do(e.loaded.Model) })
		if err == nil {
			err = io.EOF
		}
		j.end(err, "")
	}
}

// takeWaiting takes the next jobs from the queue, and ends those that waited too
// long or for nobody.
func (e *Engine) takeWaiting() (list []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = slices.DeleteFunc(e.waiting, func(j *job) bool {
		err := j.ctx.Err()
		if err == nil && e.cfg.MaxWait > 0 && time.Since(j.submitted) > e.cfg.MaxWait && len(e.running) >= e.cfg.Parallel {
			err = fmt.Errorf("%w: no place within %s", ErrBusy, e.cfg.MaxWait)
		}
		if err != nil {
			j.end(err, "")
		}
		return err != nil
	})
	if len(e.waiting) == 0 {
		clear(e.turn)
	}
	places := e.cfg.Parallel - len(e.running)
	for len(e.waiting) > 0 && places > 0 {
		at := 0
		for i, j := range e.waiting {
			first := e.waiting[at].Client
			if c := cmp.Compare(e.count[j.Client], e.count[first]); c < 0 || c == 0 && e.turn[j.Client] < e.turn[first] {
				at = i
			}
		}
		j := e.waiting[at]
		e.waiting = slices.Delete(e.waiting, at, at+1)
		if list = append(list, j); j.do == nil {
			e.count[j.Client]++
			e.turns++
			e.turn[j.Client] = e.turns
			places--
		}
	}
	return list
}

// start gives a job a sequence, with as much of its prompt as one is there that
// begins alike.
func (e *Engine) start(j *job) {
	e.running = append(e.running, j)
	if err := e.adopt(j); err != nil {
		e.fail(j, err)
		return
	}
	for _, other := range e.running[:len(e.running)-1] {
		if n := common(other.Prompt, j.Prompt); other.prefilling() && n > j.share {
			j.leader, j.share = other, n
		}
	}
	j.share = j.share / model.PagePositions * model.PagePositions
	j.begun = time.Now()
	j.update(func() { j.stats.Waited = j.begun.Sub(j.submitted) })
	close(j.started)
	if f := e.cfg.Observe.Started; f != nil {
		f(j.begun.Sub(j.submitted))
	}
}

// follows reports whether a job waits for another that evaluates the beginning they
// share. When that has been done, the job takes it over.
func (e *Engine) follows(j *job) bool {
	if j.leader == nil {
		return false
	}
	l, have := j.leader, len(j.session.Tokens())
	switch {
	case have >= j.share:
	case l.over:
		j.session.Close()
		if err := e.adopt(j); err != nil {
			e.fail(j, err)
			return true
		}
	case len(l.session.Tokens()) < j.share:
		return true
	case l.session.Forkable(j.share) > have:
		s, err := l.session.Fork(j.share)
		if err != nil {
			e.fail(j, err)
			return true
		}
		j.session.Close()
		e.seat(j, s)
	}
	j.leader = nil
	return false
}

// adopt finds the sequence that has most of a job's prompt. One that nothing runs in
// is taken over, unless the prompt leaves most of it; then, and from one that is in
// use, the job forks.
func (e *Engine) adopt(j *job) error {
	var best *model.Session
	from, most := -1, 0
	for i, k := range e.idle {
		if n := common(k.session.Tokens(), j.Prompt); n > most {
			best, from, most = k.session, i, n
		}
	}
	for _, other := range e.running {
		if other == j || other.session == nil {
			continue
		}
		if n := other.session.Forkable(common(other.session.Tokens(), j.Prompt)); n > most {
			best, from, most = other.session, -1, n
		}
	}
	var s *model.Session
	var err error
	switch {
	case best == nil:
		s, err = e.loaded.NewSession()
	case from >= 0 && most > len(best.Tokens())/2:
		s = best
		e.idle = slices.Delete(e.idle, from, from+1)
		s.Reuse(j.Prompt)
	default:
		s, err = best.Fork(most)
	}
	if err == nil {
		e.seat(j, s)
	}
	return err
}

// seat puts a job into a session that holds the beginning of its prompt.
func (e *Engine) seat(j *job, s *model.Session) {
	j.session = s
	reused := len(s.Tokens())
	j.pending = j.Prompt[reused:]
	j.update(func() { j.stats.Reused = reused })
}

// common is how many tokens two sequences share at their beginning; of the prompt
// at most all but the last.
func common(tokens, prompt []int32) int {
	n := 0
	for n < len(tokens) && n < len(prompt)-1 && tokens[n] == prompt[n] {
		n++
	}
	return n
}

// maxKept bounds the sequences that are kept, for each that can run.
const maxKept = 4

// keep keeps a sequence for later requests, or gives its memory back.
func (e *Engine) keep(s *model.Session) {
	if len(s.Tokens()) == 0 {
		s.Close()
		return
	}
	e.idle = append(e.idle, &kept{s, time.Now()})
	if len(e.idle) > maxKept*e.cfg.Parallel {
		e.evict()
	}
}

// evict gives up the sequence that was used longest ago.
func (e *Engine) evict() bool {
	if len(e.idle) == 0 {
		return false
	}
	at := 0
	for i, k := range e.idle {
		if k.used.Before(e.idle[at].used) {
			at = i
		}
	}
	e.idle[at].session.Close()
	e.idle = slices.Delete(e.idle, at, at+1)
	return true
}
