package model

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
)

// randomIDs returns n token ids below vocab, the same for a seed.
func randomIDs(n, vocab int, seed uint32) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		seed = seed*1664525 + 1013904223
		ids[i] = int32(seed>>8) % int32(vocab)
	}
	return ids
}

// A step of everything at once, pieces of prompts, greedy tokens, draws on the
// device, draws of the host and logits to read, gives what each session gives alone.
func TestStepEqualsGenerate(t *testing.T) {
	samplings := []*Sampling{
		{},
		{Temperature: 1.5, TopK: 40, TopP: 0.9, Seed: 3},
		{Temperature: 2, Seed: 7}, // the host's: from all tokens
		{RepeatPenalty: 1.5, Temperature: 0.8, TopK: 20, Seed: 1},
		nil, // logits
		nil,
	}
	executors := []graph.Executor{ref.New()}
	if d, err := runtime.Open(runtime.Options{CacheDir: "off"}); err == nil {
		defer d.Close()
		executors = append(executors, d)
	}
	for _, x := range executors {
		for _, g := range goldenModels(t) {
			if g.name != "qwen3" && g.name != "qwen35-rep2" {
				continue
			}
			m := g.open(t, Options{Executor: x, Sequences: len(samplings) + 1, Context: 128})
			const n = 4
			var turns []Turn
			var want [][]int32
			for i, s := range samplings {
				prompt := randomIDs(3+5*i, g.Vocab, uint32(i))
				alone := newSession(t, m)
				var ids []int32
				for pending := prompt; len(ids) < n; pending = ids[len(ids)-1:] {
					rows, err := alone.Eval(t.Context(), pending, false)
					if err != nil {
						t.Fatal(err)
					}
					pick := Sampling{}
					if s != nil {
						pick = *s
					}
					id, err := pick.Choose(rows[0], alone.Tokens())
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, id)
				}
				alone.Close()
				want = append(want, ids)
				turns = append(turns, Turn{Session: newSession(t, m), Tokens: prompt, Sampling: s, Logits: s == nil})
			}
			long := randomIDs(40, g.Vocab, 9)
			other := newSession(t, m)
			for k := range n {
				step := append(turns[:len(samplings):len(samplings)], Turn{Session: other, Tokens: long[10*k : 10*k+10]})
				next, err := m.Step(t.Context(), step)
				if err != nil {
					t.Fatal(err)
				}
				if last := next[len(next)-1]; last.Token != -1 || last.Logits != nil {
					t.Errorf("a piece of a prompt gave %d", last.Token)
				}
				for i := range samplings {
					id := next[i].Token
					if turns[i].Logits {
						if id, err = (Sampling{}).Choose(next[i].Logits, turns[i].Session.Tokens()); err != nil {
							t.Fatal(err)
						}
					}
					if id != want[i][k] {
						t.Errorf("%s on %s, turn %d, token %d: %d, alone %d", g.name, x.Name(), i, k, id, want[i][k])
					}
					turns[i].Tokens = []int32{id}
				}
			}
			rows, err := other.Eval(t.Context(), []int32{1}, false)
			if err != nil {
				t.Fatal(err)
			}
			alone := newSession(t, m)
			if full, err := alone.Eval(t.Context(), append(long, 1), false); err != nil || !slices.Equal(full[0], rows[0]) {
				t.Errorf("%s: a prompt in pieces beside others: %v", g.name, err)
			}
		}
	}
}

func TestOnDevice(t *testing.T) {
	for k, want := range map[int]bool{0: false, 1: true, 128: true, 129: false} {
		if got := (Sampling{Temperature: 1, TopK: k}).OnDevice(); got != want {
			t.Errorf("top-k %d: %v", k, got)
		}
	}
	if !(Sampling{}).OnDevice() {
		t.Error("greedy is the host's")
	}
}

// A fork goes on as its original does, whatever either does afterwards.
func TestForkEqualsOriginal(t *testing.T) {
	for _, g := range goldenModels(t) {
		if g.name != "qwen3" && g.name != "qwen35-rep2" {
			continue
		}
		m := g.open(t, Options{Sequences: 4, Context: 256, Chunk: 64})
		free := m.Room()
		ids := randomIDs(150, g.Vocab, 5)
		logitsOf := func(ids []int32) []float32 {
			s := newSession(t, m)
			defer s.Close()
			rows, err := s.Eval(t.Context(), ids, false)
			if err != nil {
				t.Fatal(err)
			}
			return rows[0]
		}
		check := func(what string, s *Session, rest []int32) {
			t.Helper()
			rows, err := s.Eval(t.Context(), rest, false)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(rows[0], logitsOf(s.Tokens())) {
				t.Errorf("%s: %s: other logits after %d tokens", g.name, what, len(s.Tokens()))
			}
		}
		a := newSession(t, m)
		if _, err := a.Eval(t.Context(), ids, false); err != nil {
			t.Fatal(err)
		}
		before := m.Room().Pages
		b, err := a.Fork(140)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(b.Tokens()); n != 128 || a.Forkable(140) != n || m.Room().Pages != before {
			t.Errorf("%s: a fork at 140 has %d tokens and took %d pages", g.name, n, before-m.Room().Pages)
		}
		c, err := b.Fork(100)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(c.Tokens()); n != 64 && n != 0 {
			t.Errorf("%s: a fork at 100 has %d tokens", g.name, n)
		}
		a.Truncate(70) // into a page that b holds too
		check("the original, truncated", a, randomIDs(20, g.Vocab, 6))
		check("the fork", b, randomIDs(7, g.Vocab, 7))
		check("the fork's fork", c, randomIDs(80, g.Vocab, 8))
		b.Truncate(65)
		check("the fork, truncated", b, randomIDs(3, g.Vocab, 9))
		check("the original", a, []int32{3})
		a.Close()
		check("the fork without its original", b, []int32{4})
		b.Close()
		c.Close()
		if got := m.Room(); got != free {
			t.Errorf("%s: %+v when all are closed, at first %+v", g.name, got, free)
		}
	}
}

// The states that embeddings are made of are those that the head makes logits of.
func TestHiddenStates(t *testing.T) {
	m := openSprig(t, Options{Executor: ref.New(), Chunk: 8})
	ids := randomIDs(11, 2048, 1)
	rows, err := m.Hidden(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(ids) || len(rows[0]) != 256 {
		t.Fatalf("%d rows", len(rows))
	}
	alone, err := m.Hidden(t.Context(), ids[:5])
	if err != nil {
		t.Fatal(err)
	}
	for i := range alone {
		if !slices.Equal(alone[i], rows[i]) {
			t.Errorf("the state of token %d depends on what follows", i)
		}
	}
	texts := map[string]bool{}
	for _, r := range rows {
		texts[fmt.Sprint(r)] = true
	}
	if len(texts) != len(rows) {
		t.Errorf("%d different states of %d tokens", len(texts), len(rows))
	}
}
