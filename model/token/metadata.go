package token

import "fmt"

// Metadata is what FromGGUF reads; *gguf.File implements it.
type Metadata interface {
	String(key string) (string, bool, error)
	Strings(key string) ([]string, bool, error)
	I32s(key string) ([]int32, bool, error)
	U32(key string) (uint32, bool, error)
	Bool(key string) (bool, bool, error)
}

// FromGGUF sets up the tokenizer that the tokenizer.ggml keys describe.
func FromGGUF(m Metadata) (*Tokenizer, error) {
	r := metaReader{m: m}
	model := r.str("model")
	if r.err != nil {
		return nil, r.err
	}
	if model != "gpt2" {
		return nil, fmt.Errorf("tokenizer.ggml.model is %q; only byte-level BPE (\"gpt2\") is supported", model)
	}
	v := Vocab{
		Pre: r.str("pre"), Tokens: r.strs("tokens"), Merges: r.strs("merges"),
		BOS: r.id("bos_token_id"), EOS: r.id("eos_token_id"), EOT: r.id("eot_token_id"), Pad: r.id("padding_token_id"),
		AddBOS: r.flag("add_bos_token"), AddEOS: r.flag("add_eos_token"),
	}
	types, _, err := m.I32s(prefix + "token_type")
	if r.err == nil {
		r.err = err
	}
	if r.err != nil {
		return nil, r.err
	}
	for _, t := range types {
		v.Types = append(v.Types, Type(t))
	}
	return New(v)
}

const prefix = "tokenizer.ggml."

// metaReader reads keys of the tokenizer and keeps the first error.
type metaReader struct {
	m   Metadata
	err error
}

func read[T any](r *metaReader, get func(string) (T, bool, error), key string, need bool) (T, bool) {
	v, ok, err := get(prefix + key)
	if err == nil && !ok && need {
		err = fmt.Errorf("metadata key %q is missing", prefix+key)
	}
	if r.err == nil {
		r.err = err
	}
	return v, ok
}

func (r *metaReader) str(key string) string {
	s, _ := read(r, r.m.String, key, true)
	return s
}

func (r *metaReader) strs(key string) []string {
	s, _ := read(r, r.m.Strings, key, true)
	return s
}

func (r *metaReader) flag(key string) bool {
	b, _ := read(r, r.m.Bool, key, false)
	return b
}

func (r *metaReader) id(key string) int32 {
	v, ok := read(r, r.m.U32, key, false)
	if !ok || v > 1<<31-1 { // some converters write 2^32-1 for none
		return -1
	}
	return int32(v)
}

// Entry is one metadata key with its value.
type Entry struct {
	Key   string
	Value any
}

// Metadata returns the keys by which a GGUF file describes the tokenizer, those
// that FromGGUF reads.
func (v Vocab) Metadata() []Entry {
	types := make([]int32, len(v.Tokens))
	for i := range types {
		types[i] = int32(Normal)
		if v.Types != nil {
			types[i] = int32(v.Types[i])
		}
	}
	out := []Entry{
		{prefix + "model", "gpt2"}, {prefix + "pre", v.Pre},
		{prefix + "tokens", v.Tokens}, {prefix + "token_type", types}, {prefix + "merges", v.Merges},
		{prefix + "add_bos_token", v.AddBOS}, {prefix + "add_eos_token", v.AddEOS},
	}
	for _, s := range []struct {
		key string
		id  int32
	}{{"bos", v.BOS}, {"eos", v.EOS}, {"eot", v.EOT}, {"padding", v.Pad}} {
		if s.id >= 0 {
			out = append(out, Entry{prefix + s.key + "_token_id", uint32(s.id)})
		}
	}
	return out
}
