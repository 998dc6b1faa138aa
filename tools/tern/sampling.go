package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
)

// defaultSeed is used when none is given: equal commands give equal texts.
const defaultSeed = 1

// samplingFlags are the flags of commands that generate text. Those that are
// not given take what the model's file says, and else are greedy.
type samplingFlags struct {
	set     *pflag.FlagSet
	s       model.Sampling
	predict int
}

func (f *samplingFlags) register(set *pflag.FlagSet) {
	f.set = set
	set.IntVarP(&f.predict, "predict", "n", 0, "`tokens` to generate at most (default: as many as the context holds)")
	set.Float32Var(&f.s.Temperature, "temp", 0, "temperature; 0 is greedy")
	set.IntVar(&f.s.TopK, "top-k", 0, "draw from the k likeliest tokens; 0: all")
	set.Float32Var(&f.s.TopP, "top-p", 1, "draw from the likeliest tokens up to this share")
	set.Float32Var(&f.s.MinP, "min-p", 0, "draw from tokens at least this much as likely as the likeliest")
	set.Float32Var(&f.s.RepeatPenalty, "repeat-penalty", 1, "divide the logits of recent tokens by this")
	set.Float32Var(&f.s.PresencePenalty, "presence-penalty", 0, "take this off the logits of recent tokens")
	set.Float32Var(&f.s.FrequencyPenalty, "frequency-penalty", 0, "take this off the logits of recent tokens, for each time they occur")
	set.Uint64Var(&f.s.Seed, "seed", defaultSeed, "seed of the draws; equal seeds give equal texts on every device")
}

// check reports settings out of range.
func (f *samplingFlags) check() error {
	if f.predict < 0 {
		return usagef("-n %d: want 0 or more", f.predict)
	}
	if err := f.s.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

// sampling merges the flags with the keys of the file.
func (f *samplingFlags) sampling(file *gguf.File) (model.Sampling, error) {
	s, own := f.s, model.FileSampling(file)
	for name, take := range map[string]func(){
		"temp":  func() { s.Temperature = own.Temperature },
		"top-k": func() { s.TopK = own.TopK },
		"top-p": func() { s.TopP = cmp.Or(own.TopP, 1) },
		"min-p": func() { s.MinP = own.MinP },
	} {
		if !f.set.Changed(name) {
			take()
		}
	}
	if err := s.Check(); err != nil {
		return s, fmt.Errorf("%s: general.sampling: %w", file.Name, err)
	}
	return s, nil
}

// samplingText says on one line how tokens are chosen.
func samplingText(s model.Sampling) string {
	text := "greedy"
	if s.Temperature > 0 {
		text = fmt.Sprintf("temperature %g, top-k %d, top-p %g, min-p %g", s.Temperature, s.TopK, s.TopP, s.MinP)
	}
	if s.RepeatPenalty != 0 && s.RepeatPenalty != 1 || s.PresencePenalty != 0 || s.FrequencyPenalty != 0 {
		text += fmt.Sprintf(", penalties: repeat %g, presence %g, frequency %g", s.RepeatPenalty, s.PresencePenalty, s.FrequencyPenalty)
	}
	return fmt.Sprintf("%s, seed %d", text, s.Seed)
}
