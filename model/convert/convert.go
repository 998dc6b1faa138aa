package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/quantize"
	"github.com/ternvk/tern/model/safetensors"
	"github.com/ternvk/tern/model/token"
)

// Model is a folder as a GGUF file will have it.
type Model struct {
	Meta    []gguf.KV // without the keys of the format, which package quantize adds
	Tensors []quantize.Tensor
	Type    gguf.Type // of the embeddings in the folder
	// Skipped counts tensors of parts that are not run: vision, and the prediction of
	// further tokens.
	Skipped int
	// NoTokenizer says that the folder has no tokenizer.json, so that the file will
	// have no vocabulary.
	NoTokenizer bool

	folder *safetensors.Folder
}

// Open reads the folder dir. The caller closes the model, when its tensors are
// written. An error names the key, file or tensor that cannot be converted.
func Open(dir string) (*Model, error) {
	c, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	folder, err := safetensors.Open(dir)
	if err != nil {
		return nil, err
	}
	m := &Model{folder: folder}
	if err := m.read(dir, c); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return m, nil
}

// Close closes the folder's files.
func (m *Model) Close() error { return m.folder.Close() }

func (m *Model) read(dir string, c *config) (err error) {
	if m.Tensors, err = collect(c, m.folder); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	m.Type = m.Tensors[0].From
	for name := range m.folder.Tensors {
		if skipped(name) {
			m.Skipped++
		}
	}
	keys, err := c.metadata()
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	name := filepath.Base(filepath.Clean(dir))
	if full, err := filepath.Abs(dir); err == nil { // for "."
		name = filepath.Base(full)
	}
	m.Meta = append([]gguf.KV{{Key: "general.architecture", Value: c.arch}, {Key: "general.type", Value: "model"}, {Key: "general.name", Value: name}}, keys...)
	vocab, err := m.vocabulary(dir, c)
	m.Meta = append(m.Meta, vocab...)
	return err
}

// tokenizerConfig is what matters of tokenizer_config.json.
type tokenizerConfig struct {
	BOS      special         `json:"bos_token"`
	EOS      special         `json:"eos_token"`
	Pad      special         `json:"pad_token"`
	AddBOS   bool            `json:"add_bos_token"`
	Template json.RawMessage `json:"chat_template"`
}

// special is the text of a token, or an object with it, or null.
type special string

func (s *special) UnmarshalJSON(b []byte) error {
	var o struct{ Content string }
	if len(b) > 0 && b[0] == '{' {
		err := json.Unmarshal(b, &o)
		*s = special(o.Content)
		return err
	}
	return json.Unmarshal(b, (*string)(s))
}

// optional reads a file that need not be there.
func optional(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// vocabulary are the keys of the tokenizer.
func (m *Model) vocabulary(dir string, c *config) ([]gguf.KV, error) {
	path := filepath.Join(dir, "tokenizer.json")
	data, err := optional(path)
	if err != nil {
		return nil, err
	}
	if data == nil {
		m.NoTokenizer = true
		return []gguf.KV{{Key: "tokenizer.ggml.model", Value: "no_vocab"}}, nil
	}
	v, err := token.ReadHF(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var t tokenizerConfig
	if data, err = optional(filepath.Join(dir, "tokenizer_config.json")); err != nil {
		return nil, err
	} else if data != nil {
		if err := json.Unmarshal(data, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "tokenizer_config.json"), err)
		}
	}
	v.AddBOS = t.AddBOS
	if len(c.EOS) > 0 {
		v.EOS = c.EOS[0]
	}
	for _, s := range []struct {
		text special
		id   *int32
	}{{t.BOS, &v.BOS}, {t.EOS, &v.EOS}, {t.Pad, &v.Pad}} {
		if s.text == "" {
			continue
		}
		if *s.id = int32(slices.Index(v.Tokens, string(s.text))); *s.id < 0 {
			return nil, fmt.Errorf("%s: there is no token %q", path, s.text)
		}
	}
	if len(v.Tokens) > c.Vocab {
		return nil, fmt.Errorf("%s: %d tokens for a vocab_size of %d", path, len(v.Tokens), c.Vocab)
	}
	for i := len(v.Tokens); i < c.Vocab; i++ { // rows of the embedding that no text gives
		v.Tokens, v.Types = append(v.Tokens, "[PAD"+strconv.Itoa(i)+"]"), append(v.Types, token.Unused)
	}
	if _, err := token.New(v); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var kvs []gguf.KV
	for _, e := range v.Metadata() {
		kvs = append(kvs, gguf.KV(e))
	}
	template, err := chatTemplate(dir, t.Template)
	if template != "" {
		kvs = append(kvs, gguf.KV{Key: "tokenizer.chat_template", Value: template})
	}
	return kvs, err
}

// chatTemplate is that of chat_template.jinja, or of tokenizer_config.json: a string,
// or named ones, of which "default" counts.
func chatTemplate(dir string, config json.RawMessage) (string, error) {
	data, err := optional(filepath.Join(dir, "chat_template.jinja"))
	if err != nil || data != nil || config == nil {
		return string(data), err
	}
	var text string
	if json.Unmarshal(config, &text) == nil {
		return text, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(config, &named); err != nil {
		return "", fmt.Errorf("%s: chat_template: %w", filepath.Join(dir, "tokenizer_config.json"), err)
	}
	for _, n := range named {
		if n.Name == "default" {
			return n.Template, nil
		}
	}
	return "", nil
}
