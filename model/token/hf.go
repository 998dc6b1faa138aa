package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// hfFile is the part of Hugging Face's tokenizer.json that matters here.
type hfFile struct {
	AddedTokens []struct {
		ID      int32  `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	PreTokenizer struct {
		Pretokenizers []struct {
			Pattern struct{ Regex string }
		} `json:"pretokenizers"`
	} `json:"pre_tokenizer"`
	Model struct {
		Type   string           `json:"type"`
		Vocab  map[string]int32 `json:"vocab"`
		Merges []hfMerge        `json:"merges"`
	} `json:"model"`
}

// hfMerge is "left right", or in newer files ["left", "right"].
type hfMerge string

func (m *hfMerge) UnmarshalJSON(b []byte) error {
	var pair []string
	if len(b) > 0 && b[0] == '[' {
		if err := json.Unmarshal(b, &pair); err != nil {
			return err
		}
		*m = hfMerge(strings.Join(pair, " "))
		return nil
	}
	return json.Unmarshal(b, (*string)(m))
}

// The expressions of the two splitters, as tokenizer.json spells them.
var hfSplitters = map[string]string{
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:             "qwen2",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "qwen35",
}

// ReadHF reads a tokenizer.json of the Qwen family. The file does not say which
// tokens begin and end a text; these ids are -1.
func ReadHF(data []byte) (Vocab, error) {
	var f hfFile
	if err := json.Unmarshal(data, &f); err != nil {
		return Vocab{}, fmt.Errorf("tokenizer.json: %w", err)
	}
	v := Vocab{BOS: -1, EOS: -1, EOT: -1, Pad: -1}
	for _, p := range f.PreTokenizer.Pretokenizers {
		if p.Pattern.Regex != "" {
			v.Pre = hfSplitters[p.Pattern.Regex]
		}
	}
	switch {
	case f.Model.Type != "BPE":
		return Vocab{}, fmt.Errorf("tokenizer.json: the model is %q, not BPE", f.Model.Type)
	case v.Pre == "":
		return Vocab{}, errors.New("tokenizer.json: the splitter is not one of the Qwen family's")
	}
	n := len(f.Model.Vocab) + len(f.AddedTokens) // no id can be higher without a gap
	v.Tokens = make([]string, n)
	v.Types = make([]Type, n)
	size := 0
	put := func(id int32, text string, typ Type) error {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("tokenizer.json: token %q has id %d of %d tokens", text, id, n)
		}
		v.Tokens[id], v.Types[id] = text, typ
		size = max(size, int(id)+1)
		return nil
	}
	for text, id := range f.Model.Vocab {
		if err := put(id, text, Normal); err != nil {
			return Vocab{}, err
		}
	}
	for _, a := range f.AddedTokens {
		typ := UserDefined
		if a.Special {
			typ = Control
		}
		if err := put(a.ID, a.Content, typ); err != nil {
			return Vocab{}, err
		}
	}
	v.Tokens, v.Types = v.Tokens[:size], v.Types[:size]
	for id, typ := range v.Types {
		if typ == 0 {
			return Vocab{}, fmt.Errorf("tokenizer.json: there is no token with id %d", id)
		}
	}
	for _, m := range f.Model.Merges {
		v.Merges = append(v.Merges, string(m))
	}
	return v, nil
}
