package model

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
)

// counter counts the tokens of bursts.
type counter struct {
	*runtime.Device
	tokens int
}

func (c *counter) Repeat(ctx context.Context, p graph.Program, times int) error {
	err := c.Device.Repeat(ctx, p, times)
	if err == nil {
		c.tokens += times
	}
	return err
}

// Tokens of bursts are those of single runs, over the border of a page; a session
// that is left, or changed, within a burst is as if there were none.
func TestBurstEqualsSingle(t *testing.T) {
	if !device(t, runtime.Options{Force: []string{"resident"}}).Plan().Has("resident") {
		t.Skip("the device does not run resident kernels")
	}
	plain := openSprig(t, Options{Executor: device(t, runtime.Options{Disable: []string{"resident"}}), Context: 128})
	c := &counter{Device: device(t, runtime.Options{Force: []string{"resident"}})}
	m := openSprig(t, Options{Executor: c, Context: 128})
	m.burstTime = time.Hour
	prompt, ctx := noise(55), context.Background()
	want, err := text(ctx, newSession(t, plain), prompt, Sampling{}, 14)
	if err != nil {
		t.Fatal(err)
	}
	got, err := text(ctx, newSession(t, m), prompt, Sampling{}, 14)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if c.tokens < 8 {
		t.Fatalf("%d tokens in bursts", c.tokens)
	}
	s, changed := newSession(t, m), false
	var ids []int32
	for g, err := range s.Generate(ctx, prompt, Sampling{}, 14) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, g.ID)
		if len(ids) == 5 {
			if whole := append(slices.Clone(prompt), ids[:4]...); !slices.Equal(s.Tokens(), whole) {
				t.Fatalf("tokens %v within a burst, want %v", s.Tokens(), whole)
			}
			s.Truncate(20) // and back to where it was, by other tokens
			if _, err := s.Eval(ctx, noise(39), false); err != nil {
				t.Fatal(err)
			}
			changed = true
		}
		if len(ids) == 6 {
			break
		}
	}
	if !changed {
		t.Fatalf("only %v", ids)
	}
	other := newSession(t, plain)
	whole := append(append(slices.Clone(prompt[:20]), noise(39)...), ids[4])
	same(t, "a changed session", evalAll(t, other, append(whole, 7))[len(whole):], mustEval(t, s, 7))
	if !slices.Equal(s.Tokens(), append(whole, 7)) {
		t.Errorf("tokens %v, want %v", s.Tokens(), append(whole, 7))
	}
}

// A generation ends with its context within a burst.
func TestBurstCancelled(t *testing.T) {
	d := device(t, runtime.Options{Force: []string{"resident"}})
	if !d.Plan().Has("resident") {
		t.Skip("the device does not run resident kernels")
	}
	m := openSprig(t, Options{Executor: d, Context: 128})
	m.burstTime = time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	var last error
	for _, err := range newSession(t, m).Generate(ctx, noise(8), Sampling{}, 14) {
		if last = err; err != nil {
			break
		}
		if n++; n == 4 {
			cancel()
		}
	}
	if n != 4 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d tokens, %v", n, last)
	}
}

func mustEval(t *testing.T, s *Session, ids ...int32) [][]float32 {
	t.Helper()
	rows, err := s.Eval(context.Background(), ids, false)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
