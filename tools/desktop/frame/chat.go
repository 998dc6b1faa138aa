package frame

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
)

// Chat talks with a model in goroutines of its own, and keeps the state that the picture
// shows. Its methods return at once, but for Close.
type Chat struct {
	d    *runtime.Device
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	wake func() // the state has changed

	mu     sync.Mutex
	state  State
	m      *model.Model
	talk   *model.Conversation
	cancel context.CancelFunc // of the present answer
}

// Open opens a model; it is passed to NewChat, which does not know where models come from.
type Open func(ctx context.Context, o model.Options) (*model.Model, error)

// NewChat loads a model on the device. wake is called, from any goroutine, when there is something
// new to draw.
func NewChat(d *runtime.Device, name string, open Open, wake func()) *Chat {
	c := &Chat{d: d, wake: wake, state: State{Model: name, Device: d.Name(), Total: MemoryOf(d)}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.work.Go(func() {
		if err := c.load(open); err != nil {
			c.change(func(s *State) { s.Messages = append(s.Messages, Message{Text: err.Error()}) })
		}
	})
	return c
}

func (c *Chat) load(open Open) error {
	m, err := open(c.ctx, model.Options{Executor: c.d, Progress: func(done, total uint64) {
		c.change(func(s *State) { s.Loading = float32(done) / float32(total) * 0.999 })
	}})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.m = m
	c.mu.Unlock()
	s, err := m.NewSession()
	if err != nil {
		return err
	}
	talk, err := model.NewConversation(s)
	if err != nil {
		return err
	}
	c.change(func(s *State) { c.talk, s.Loading = talk, 1 })
	c.measure()
	return nil
}

// change changes the state and has it drawn.
func (c *Chat) change(f func(s *State)) {
	c.mu.Lock()
	f(&c.state)
	c.mu.Unlock()
	c.wake()
}

// State returns what is to be drawn now.
func (c *Chat) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Messages, s.Now = slices.Clone(s.Messages), time.Now()
	return s
}

// Ready reports whether a question can be asked.
func (c *Chat) Ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.talk != nil && !c.state.Busy
}

// Type adds to the prompt line.
func (c *Chat) Type(r rune) { c.change(func(s *State) { s.Input += string(r) }) }

// Backspace takes the last character off the prompt line.
func (c *Chat) Backspace() {
	c.change(func(s *State) {
		if r := []rune(s.Input); len(r) > 0 {
			s.Input = string(r[:len(r)-1])
		}
	})
}

// Scroll moves the chat by so many points.
func (c *Chat) Scroll(points float32) {
	c.change(func(s *State) { s.Scroll = max(0, s.Scroll+points) })
}

// FrameTook notes what a picture took.
func (c *Chat) FrameTook(t time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Frame = t
}

// Clear forgets the chat.
func (c *Chat) Clear() {
	c.change(func(s *State) {
		if !s.Busy && c.talk != nil {
			c.talk.Messages, s.Messages, s.Scroll = nil, nil, 0
		}
	})
}

// Stop ends the present answer.
func (c *Chat) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}

// Ask asks what the prompt line says, if the model is ready.
func (c *Chat) Ask() {
	c.mu.Lock()
	question := strings.TrimSpace(c.state.Input)
	if c.talk == nil || c.state.Busy || question == "" {
		c.mu.Unlock()
		return
	}
	s := &c.state
	s.Input, s.Busy, s.Scroll, s.Tokens, s.Rate = "", true, 0, 0, 0
	s.Messages = append(s.Messages, Message{User: true, Text: question}, Message{})
	ctx, cancel := context.WithCancel(c.ctx)
	c.cancel = cancel
	c.mu.Unlock()
	c.work.Go(func() { c.answer(ctx, question) })
}

// answer has the model answer, and the state show it.
func (c *Chat) answer(ctx context.Context, question string) {
	var failed error
	for p, err := range c.talk.Ask(ctx, question) {
		if failed = err; err != nil {
			break
		}
		u, used := c.talk.Usage(), usedOf(c.d)
		c.change(func(s *State) {
			m := &s.Messages[len(s.Messages)-1]
			if p.Thought {
				m.Thought += p.Text
			} else {
				m.Text += p.Text
			}
			s.Tokens, s.Rate, s.Used = u.Generated, rate(u), used
		})
	}
	if failed == nil {
		c.measure()
	}
	u := c.talk.Usage()
	c.change(func(s *State) {
		m := &s.Messages[len(s.Messages)-1]
		s.Busy, c.cancel = false, nil
		m.Note = fmt.Sprintf("%d tokens, %.1f tokens/s, first after %d ms", u.Generated, rate(u), u.First.Milliseconds())
		switch {
		case errors.Is(failed, context.Canceled):
			m.Note = "stopped"
		case errors.Is(failed, graph.ErrDeviceLost):
			m.Note = "the device was lost: start the program again"
		case failed != nil:
			m.Note = failed.Error()
		}
	})
}

func rate(u model.Usage) float64 {
	if u.Rest <= 0 || u.Generated < 2 {
		return 0
	}
	return float64(u.Generated-1) / u.Rest.Seconds()
}

// measure takes the GPU times of a token's kernels, and the memory.
func (c *Chat) measure() {
	kernels, used, err := Measure(c.ctx, c.d, c.m)
	c.change(func(s *State) {
		s.Used = used
		if err == nil {
			s.Kernels = kernels
		}
	})
}

// MemoryOf is the size of a device's memory, in bytes.
func MemoryOf(d *runtime.Device) (n uint64) {
	for _, h := range d.Plan().Heaps {
		if h.DeviceLocal {
			n = max(n, h.Bytes)
		}
	}
	return n
}

// usedOf is how much of it Tern's buffers take.
func usedOf(d *runtime.Device) (n uint64) {
	for _, u := range d.Stats().Purposes {
		n += u.Bytes
	}
	return n
}

// Measure runs the step of a token again, with a time stamp around each kernel, and tells
// what each takes in all, the longest first, and the bytes that the device has given out.
func Measure(ctx context.Context, d *runtime.Device, m *model.Model) (kernels []Kernel, used uint64, err error) {
	used = usedOf(d)
	p, err := m.Program(1, 1, 1)
	if err != nil {
		return nil, used, err
	}
	times, err := d.Profile(ctx, p)
	if err != nil {
		return nil, used, err
	}
	sums := map[string]float64{}
	for _, t := range times {
		sums[t.Kernel] += t.NS
	}
	for name, ns := range sums {
		kernels = append(kernels, Kernel{name, ns})
	}
	slices.SortFunc(kernels, func(a, b Kernel) int { return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Name, b.Name)) })
	return kernels, used, nil
}

// Close ends what runs and closes the model.
func (c *Chat) Close() {
	c.stop()
	c.work.Wait()
	if c.m != nil {
		c.m.Close()
	}
}
