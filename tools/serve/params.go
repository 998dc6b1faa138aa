package serve

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/ternvk/tern/model"
)

// samplingParams are the settings of a request that say how tokens are chosen, with
// OpenAI's and llama-server's names. What is not given is the model file's, and a
// temperature without top_k has 40, so that the device itself draws.
type samplingParams struct {
	Temperature       *float32           `json:"temperature"`
	TopP              *float32           `json:"top_p"`
	TopK              *int               `json:"top_k"`
	MinP              *float32           `json:"min_p"`
	Seed              *int64             `json:"seed"`
	PresencePenalty   float32            `json:"presence_penalty"`
	FrequencyPenalty  float32            `json:"frequency_penalty"`
	RepeatPenalty     float32            `json:"repeat_penalty"`
	RepetitionPenalty float32            `json:"repetition_penalty"`
	RepeatLast        int                `json:"repeat_last_n"`
	LogitBias         map[string]float32 `json:"logit_bias"`
	IgnoreEOS         bool               `json:"ignore_eos"`
}

const defaultTopK = 40

// settings are those of the i-th answer.
func (p *samplingParams) settings(file model.Sampling, i int) (model.Sampling, error) {
	s := file
	if p.Temperature != nil {
		s.Temperature = *p.Temperature
	}
	if p.TopP != nil {
		s.TopP = *p.TopP
	}
	if p.MinP != nil {
		s.MinP = *p.MinP
	}
	switch {
	case p.TopK != nil:
		s.TopK = *p.TopK
	case s.TopK == 0 && s.Temperature > 0:
		s.TopK = defaultTopK
	}
	s.PresencePenalty, s.FrequencyPenalty, s.RepeatLast = p.PresencePenalty, p.FrequencyPenalty, p.RepeatLast
	if s.RepeatPenalty = p.RepeatPenalty; s.RepeatPenalty == 0 {
		s.RepeatPenalty = p.RepetitionPenalty
	}
	if p.Seed != nil && *p.Seed >= 0 {
		s.Seed = uint64(*p.Seed) + uint64(i)
	} else if s.Temperature > 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		s.Seed = binary.LittleEndian.Uint64(b[:])
	}
	if err := s.Check(); err != nil {
		return s, invalid("", "%v", err)
	}
	return s, nil
}

// bias reads logit_bias: ids of tokens as text.
func (p *samplingParams) bias(vocab int) (map[int32]float32, error) {
	if len(p.LogitBias) > 1024 {
		return nil, invalid("logit_bias", "logit_bias: %d tokens, at most 1024", len(p.LogitBias))
	}
	bias := map[int32]float32{}
	for text, v := range p.LogitBias {
		id, err := strconv.ParseInt(text, 10, 32)
		if err != nil || id < 0 || !(v >= -100 && v <= 100) {
			return nil, invalid("logit_bias", "logit_bias: %q: %g: want ids of tokens and numbers from -100 to 100", text, v)
		}
		if int(id) >= vocab {
			return nil, invalid("logit_bias", "logit_bias: token id %d, the vocabulary has %d", id, vocab)
		}
		bias[int32(id)] = v
	}
	return bias, nil
}

// texts is a string or a list of them.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *texts) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	if data[0] == '"' {
		*l = texts{""}
		return json.Unmarshal(data, &(*l)[0])
	}
	return json.Unmarshal(data, (*[]string)(l))
}

// stops checks stop strings.
func stops(l texts) ([]string, error) {
	if len(l) > 16 {
		return nil, invalid("stop", "stop: %d strings, at most 16", len(l))
	}
	for _, s := range l {
		if s == "" || len(s) > 1000 {
			return nil, invalid("stop", "stop: a string of %d bytes, want 1 to 1000", len(s))
		}
	}
	return l, nil
}

// limit reads a limit of tokens, of the first that is given; 0 for none.
func limit(name string, values ...*int) (int, error) {
	for _, v := range values {
		if v == nil {
			continue
		}
		if *v < 1 {
			return 0, invalid(name, "%s %d: want 1 or more", name, *v)
		}
		return *v, nil
	}
	return 0, nil
}
