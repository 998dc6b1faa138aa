package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ternvk/tern/runtime/graph"
)

var _ graph.Executor = (*Device)(nil)

// ready checks that a program may run, and records it again when it must be.
// mu is held.
func (d *Device) ready(gp graph.Program) (*Program, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	p, ok := gp.(*Program)
	switch {
	case !ok || p.device != d:
		return nil, fmt.Errorf("%s: the program belongs to another executor", d.Name())
	case p.closed:
		return nil, fmt.Errorf("%s: program %s: %w", d.Name(), p.g.Name, graph.ErrClosed)
	}
	if p.freed != d.freed {
		for _, n := range p.nodes {
			for _, a := range n.Args {
				if b, ok := a.Buffer.(*Buffer); ok && b.freed {
					return nil, fmt.Errorf("%s: program %s uses buffer %q, which was freed: %w", d.Name(), p.g.Name, b.name, graph.ErrClosed)
				}
			}
		}
		p.freed = d.freed
	}
	if p.scratchN != d.scratchN || p.stale {
		if err := d.growScratch(p.layout.Bytes); err != nil {
			return nil, err
		}
		return p, p.record()
	}
	return p, nil
}

// Run executes a program. Between its submissions it looks at ctx.
func (d *Device) Run(ctx context.Context, gp graph.Program) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		p, err := d.ready(gp)
		if err == nil {
			p.remember()
			err = d.run(ctx, p, p.segments)
		}
		if err != nil {
			return err
		}
		if p.punctual() {
			p.learn()
			return nil
		}
	}
}

// RunNodes executes nodes [from, to). The commands are recorded at the first
// call for a range and kept.
func (d *Device) RunNodes(ctx context.Context, gp graph.Program, from, to int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.ready(gp)
	if err != nil {
		return err
	}
	if from < 0 || to > len(p.nodes) || from > to {
		return fmt.Errorf("%s: nodes %d..%d of program %s, which has %d", d.Name(), from, to, p.g.Name, len(p.nodes))
	}
	part, ok := p.parts[[2]int{from, to}]
	if !ok {
		if part, err = p.recordNodes(from, to, nil); err != nil {
			return err
		}
		p.parts[[2]int{from, to}] = part
	}
	return d.run(ctx, p, part)
}

// ahead is how many submissions are in flight, so that the device need not
// wait for the host between two.
const ahead = 2

// run submits segments in order and waits for all of them, also after an
// error. mu is held.
func (d *Device) run(ctx context.Context, p *Program, list []*segment) error {
	var err error
	var last time.Time // when the segment before was done
	for sent, done := 0, 0; done < len(list); {
		if err == nil && sent < len(list) && sent-done < ahead {
			if err = ctx.Err(); err == nil {
				list[sent].began = time.Now()
				err = d.submit(p.g.Name, list[sent].submit, list[sent].fence[0])
			}
			if err == nil {
				sent++
			}
			continue
		}
		if done == sent {
			break // an error, and nothing is in flight
		}
		s := list[done]
		if err := d.wait(p.g.Name, s.fence); err != nil {
			return err
		}
		if s.began.After(last) {
			last = s.began
		}
		now := time.Now()
		s.took = now.Sub(last)
		last = now
		done++
	}
	return err
}

// joinAfter is the run after which segments are joined that took less than was
// expected: recording a long program anew costs as much as hundreds of submissions,
// and many prompts come once.
const joinAfter = 8

// learn corrects the estimates of segments that took less than half or more
// than twice of what was expected, and has the program recorded anew if it needs more
// segments, or fewer and has come to run often.
func (p *Program) learn() {
	p.runs++
	var took, expected float64
	wrong := false
	for _, s := range p.segments {
		took += float64(s.took)
		expected += s.ns
		if ratio := float64(s.took) / s.ns; s.took > time.Millisecond && (ratio > 2 || ratio < 0.5) {
			wrong = true
			s.ns = 0
			for i := s.from; i < s.to; i++ {
				p.nodes[i].ns *= ratio
				s.ns += p.nodes[i].ns
			}
		}
	}
	if wrong {
		p.rate *= took / expected
		p.device.rate += (p.rate - p.device.rate) / 2
	}
	if wrong || p.runs == joinAfter {
		ends := split(p.times())
		same := slices.EqualFunc(ends, p.segments, func(end int, s *segment) bool { return end == s.to })
		p.stale = p.stale || !same && (len(ends) > len(p.segments) || p.runs >= joinAfter)
	}
}
