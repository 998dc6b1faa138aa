package model

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
)

// onHost is Generate with the choice on the host.
func onHost(t *testing.T, m *Model, prompt []int32, sampling Sampling, n int) (ids []int32) {
	t.Helper()
	s := newSession(t, m)
	defer s.Close()
	for pending := prompt; len(ids) < n; pending = ids[len(ids)-1:] {
		logits, err := s.Eval(t.Context(), pending, false)
		if err != nil {
			t.Fatal(err)
		}
		id, err := sampling.choose(logits[0], s.Tokens())
		if err != nil {
			t.Fatal(err)
		}
		if m.Tokenizer().EndsTurn(id) {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// Tokens that the program draws are those that the host draws from its logits, on
// the reference and on the device.
func TestDrawsEqualHost(t *testing.T) {
	cases, _ := golden(t)
	prompt, n := cases[0].PromptIDs[:3], 24 // no question that Sprig knows the answer of
	dev := device(t, runtime.Options{})
	list := []Sampling{
		{Temperature: 1.2, TopK: 40, TopP: 0.95, MinP: 0.02},
		{Temperature: 1.7, TopK: 128},
		{Temperature: 3, TopK: 20, TopP: 0.8, RepeatPenalty: 1.3, PresencePenalty: 0.4, FrequencyPenalty: 0.2},
		{RepeatPenalty: 1.5, RepeatLast: -1},
	}
	texts := map[string]bool{}
	for _, seed := range []uint64{1, 2, 1 << 40} {
		for i, sampling := range list {
			sampling.Seed = seed
			if sampling.draw(nil, prompt, 2048) == nil {
				t.Fatalf("%+v is the host's", sampling)
			}
			var want []int32
			for _, x := range []graph.Executor{ref.New(), dev} {
				if testing.Short() && x != dev || seed != 1 && x != dev {
					continue // slow
				}
				m := openSprig(t, Options{Executor: x, Context: 512})
				if want == nil {
					want = onHost(t, m, prompt, sampling, n)
				}
				s := newSession(t, m)
				var ids []int32
				for tok, err := range s.Generate(t.Context(), prompt, sampling, n) {
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, tok.ID)
				}
				if !slices.Equal(ids, want) {
					t.Errorf("%s, settings %d, seed %d: %v, the host draws %v", x.Name(), i, seed, ids, want)
				}
				m.Close()
			}
			texts[fmt.Sprint(want)] = true
		}
	}
	if len(texts) < 6 {
		t.Errorf("%d different texts of 12", len(texts))
	}
}

// Settings that the device does not take, and their borders.
func TestDrawOrHost(t *testing.T) {
	many := make([]int32, maxPairs+1)
	for i := range many {
		many[i] = int32(i)
	}
	for _, c := range []struct {
		s      Sampling
		tokens []int32
		device bool
	}{
		{Sampling{Temperature: 1}, nil, false},
		{Sampling{Temperature: 1, TopK: 1}, nil, true},
		{Sampling{Temperature: 1, TopK: 128}, nil, true},
		{Sampling{Temperature: 1, TopK: 129}, nil, false},
		{Sampling{PresencePenalty: 1, TopK: 1000}, nil, true}, // the largest only
		{Sampling{PresencePenalty: 1, RepeatLast: -1}, many, false},
		{Sampling{PresencePenalty: 1, RepeatLast: -1}, many[1:], true},
		{Sampling{PresencePenalty: 1}, many, true},
		{Sampling{RepeatPenalty: 1e-30}, nil, false},
	} {
		if got := c.s.draw(c.tokens, []int32{1}, 5000) != nil; got != c.device {
			t.Errorf("%+v after %d tokens: device %v", c.s, len(c.tokens), got)
		}
	}
	d := Sampling{FrequencyPenalty: 1, RepeatLast: 3}.draw([]int32{9, 7, 5}, []int32{7}, 10)
	if want := []uint32{5, 1, 7, 2}; !slices.Equal(d.pairs, want) || d.Position != 4 {
		t.Errorf("pairs %v at %d, want %v at 4", d.pairs, d.Position, want)
	}
}
