package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
)

// Sampling says how a token is chosen from its logits. The zero value is
// greedy. The order is: penalties, temperature, top-k, top-p, min-p, draw; all
// in float32 as runtime/ref has it, so that an equal seed gives an equal text on
// every device. With a top-k of 1 to 128, or temperature 0, the device itself
// draws and only the token is read back.
type Sampling struct {
	Temperature float32 // 0: the largest logit
	TopK        int     // the k likeliest; 0: all
	TopP        float32 // the likeliest up to this share; 0 or 1: all
	MinP        float32 // those at least this much as likely as the likeliest; 0: all
	Seed        uint64

	RepeatPenalty    float32 // divides positive logits of recent tokens, multiplies negative ones; 0 or 1: none
	PresencePenalty  float32 // taken off once
	FrequencyPenalty float32 // taken off for each occurrence
	RepeatLast       int     // how many tokens are recent; 0: 64, negative: all
}

// FileSampling returns what the file's general.sampling.* keys ask for: greedy
// if it has none.
func FileSampling(f *gguf.File) Sampling {
	var s Sampling
	s.Temperature, _, _ = f.F32("general.sampling.temp")
	s.TopP, _, _ = f.F32("general.sampling.top_p")
	s.MinP, _, _ = f.F32("general.sampling.min_p")
	k, _, _ := f.U32("general.sampling.top_k")
	s.TopK = int(k)
	return s
}

// Check reports settings out of range.
func (s Sampling) Check() error {
	for _, r := range []struct {
		name     string
		v        float32
		from, to float32
	}{
		{"temperature", s.Temperature, 0, 100},
		{"top-p", s.TopP, 0, 1},
		{"min-p", s.MinP, 0, 1},
		{"repeat penalty", s.RepeatPenalty, 0, 100},
		{"presence penalty", s.PresencePenalty, -100, 100},
		{"frequency penalty", s.FrequencyPenalty, -100, 100},
	} {
		if !(r.v >= r.from && r.v <= r.to) {
			return fmt.Errorf("%s %g: want %g to %g", r.name, r.v, r.from, r.to)
		}
	}
	if s.Temperature > 0 && s.Temperature < 1e-6 {
		return fmt.Errorf("temperature %g: want 0, which is greedy, or at least 1e-6", s.Temperature)
	}
	if s.TopK < 0 {
		return fmt.Errorf("top-k %d: want 0 or more", s.TopK)
	}
	return nil
}

func (s Sampling) penalises() bool {
	return s.RepeatPenalty != 0 && s.RepeatPenalty != 1 || s.PresencePenalty != 0 || s.FrequencyPenalty != 0
}

func (s Sampling) greedy() bool { return s.Temperature == 0 && !s.penalises() }

// recent is the end of tokens, followed by ids, that penalties look at.
func (s Sampling) recent(tokens, ids []int32) []int32 {
	if !s.penalises() {
		return nil
	}
	first := len(tokens) + len(ids) - cmp.Or(s.RepeatLast, 64)
	if s.RepeatLast < 0 || first < 0 {
		first = 0
	}
	if first >= len(tokens) {
		return ids[first-len(tokens):]
	}
	return slices.Concat(tokens[first:], ids)
}

func (s Sampling) repeat() float32 { return cmp.Or(s.RepeatPenalty, 1) }

// params are for the token at a position.
func (s Sampling) params(position int) ref.SampleParams {
	return ref.SampleParams{
		Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP, MinP: s.MinP,
		Seed: s.Seed, Position: uint64(position),
	}
}

// maxPairs bounds the tokens that a device penalises for a draw.
const maxPairs = 1024

// draw is what a device needs to choose the token that follows.
type draw struct {
	op.Draw
	pairs []uint32
}

// draw returns nil for settings that are the host's: it draws from all tokens, or
// from more than a device lists, penalises more than a device takes, or by a factor
// about zero.
func (s Sampling) draw(tokens, ids []int32, vocab int) *draw {
	p, repeat := s.params(len(tokens)+len(ids)), s.repeat()
	pairs := ref.Counts(s.recent(tokens, ids), vocab)
	if k := p.Largest(); k < 1 || k > op.MaxTopK || len(pairs) > 2*maxPairs || repeat < 0x1p-60 {
		return nil
	}
	return &draw{op.Draw{
		Count:  len(pairs) / 2,
		Repeat: repeat, Inverse: ref.InverseRepeat(repeat), Presence: s.PresencePenalty, Frequency: s.FrequencyPenalty,
		Factor: p.Factor(), TopK: p.Largest(), TopP: p.TopP, MinP: p.MinP, Seed: p.Seed, Position: p.Position,
	}, pairs}
}

// choose picks the token that follows tokens. It changes logits.
func (s Sampling) choose(logits []float32, tokens []int32) (int32, error) {
	if s.penalises() {
		ref.Penalise(logits, s.recent(tokens, nil), s.repeat(), s.PresencePenalty, s.FrequencyPenalty)
	}
	id := ref.Sample(logits, s.params(len(tokens)))
	if id < 0 {
		return 0, fmt.Errorf("logits: %w", graph.ErrNonFinite)
	}
	return int32(id), nil
}
