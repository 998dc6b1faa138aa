package frame

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/vk"
)

func TestMain(m *testing.M) {
	// Without worker threads lavapipe runs tiny dispatches 20 times faster.
	if os.Getenv("LP_NUM_THREADS") == "" {
		os.Setenv("LP_NUM_THREADS", "0")
	}
	os.Exit(m.Run())
}

// A chat on the borrowed device answers while pictures of it are drawn on the same device,
// stops when it is told to, and leaves the device to its owner.
func TestChat(t *testing.T) {
	d := device(t)
	tern, err := d.Tern()
	if err != nil {
		t.Fatal(err)
	}
	name, open, err := Source("")
	if err != nil {
		t.Fatal(err)
	}
	var woken atomic.Int64
	c := NewChat(tern, name, open, func() { woken.Add(1) })
	r, err := NewRenderer(d, PictureFormat, vk.ImageLayoutTransferSrcOptimal)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := NewPicture(d, r, 640, 480)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	atlas, err := NewAtlas(1)
	if err != nil {
		t.Fatal(err)
	}
	scene := &Scene{Atlas: atlas}
	// until draws until a state is as wanted.
	until := func(what string, wanted func(*State) bool) State {
		t.Helper()
		for range 10000 {
			s := c.State()
			if err := p.Render(r, scene, &s); err != nil {
				t.Fatal(err)
			}
			if wanted(&s) {
				return s
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatalf("never %s: %+v", what, c.State())
		return State{}
	}
	ask := func(question string) {
		t.Helper()
		until("ready", func(s *State) bool { return c.Ready() })
		for _, r := range question + "x" {
			c.Type(r)
		}
		c.Backspace()
		c.Ask()
	}
	s := until("ready", func(s *State) bool { return c.Ready() && s.Used > 0 })
	if s.Loading != 1 || s.Used < 1<<20 {
		t.Errorf("loaded: %+v", s)
	}
	ask("What is the capital of France?")
	pictures := 0
	s = until("answered", func(s *State) bool { pictures++; return !s.Busy && s.Tokens > 0 })
	if last := s.Messages[1]; last.Text != "The capital of France is Paris." || !strings.Contains(last.Note, "tokens/s") || s.Input != "" {
		t.Errorf("messages %+v, input %q", s.Messages, s.Input)
	}
	if pictures < 3 || s.Rate <= 0 || len(s.Kernels) < 3 || woken.Load() < 10 {
		t.Errorf("%d pictures, rate %g, %d kernels, woken %d times", pictures, s.Rate, len(s.Kernels), woken.Load())
	}
	ask("Write a haiku about bonsai trees")
	until("answering", func(s *State) bool { return s.Tokens >= 1 })
	c.Stop()
	s = until("stopped", func(s *State) bool { return !s.Busy })
	if last := s.Messages[len(s.Messages)-1]; last.Note != "stopped" {
		t.Errorf("stopped: %+v", last)
	}
	c.Clear()
	ask("Write a haiku about bonsai trees")
	until("answering", func(s *State) bool { return s.Tokens >= 1 && len(s.Messages) == 2 })
	c.Close() // in the middle
	if err := tern.Close(); err != nil {
		t.Error(err)
	}
	s = State{Loading: 1}
	if err := p.Render(r, scene, &s); err != nil {
		t.Errorf("the owner's device after Tern: %v", err)
	}
}

// A model that cannot be opened is said in the picture.
func TestChatWithoutModel(t *testing.T) {
	d := device(t)
	tern, err := d.Tern()
	if err != nil {
		t.Fatal(err)
	}
	defer tern.Close()
	c := NewChat(tern, "none", func(ctx context.Context, o model.Options) (*model.Model, error) {
		return model.Open(ctx, "no such file.gguf", o)
	}, func() {})
	defer c.Close()
	for range 1000 {
		if s := c.State(); len(s.Messages) > 0 {
			if !strings.Contains(s.Messages[0].Text, "no such file.gguf") {
				t.Errorf("message %+v", s.Messages[0])
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("nothing is said")
}
