package chat_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/ternvk/tern/model/chat"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/testdata/sprig"
)

// TestSprigGolden goes from messages to ids with the template and tokenizer of
// the model's own file.
func TestSprigGolden(t *testing.T) {
	f, err := gguf.Parse("sprig", sprig.Model)
	if err != nil {
		t.Fatal(err)
	}
	src, _, err := f.String("tokenizer.chat_template")
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := chat.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := token.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../testdata/sprig/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Cases []struct {
			Messages json.RawMessage
			Options  struct {
				Tools    json.RawMessage
				Thinking *bool `json:"enable_thinking"`
			}
			Rendered  string
			PromptIDs []int32 `json:"prompt_ids"`
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	for i, c := range golden.Cases {
		in := chat.Input{Messages: c.Messages, Tools: c.Options.Tools, AddGenerationPrompt: true, Kwargs: map[string]any{}}
		if c.Options.Thinking != nil {
			in.Kwargs["enable_thinking"] = *c.Options.Thinking
		}
		r, err := tpl.Render(in)
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		if r.Text != c.Rendered {
			t.Errorf("case %d:\n got %q\nwant %q", i, r.Text, c.Rendered)
		}
		segments := make([]token.Segment, len(r.Segments))
		for j, s := range r.Segments {
			segments[j] = token.Segment(s)
		}
		if ids := tok.EncodeSegments(segments, token.Options{AddSpecial: true}); !slices.Equal(ids, c.PromptIDs) {
			t.Errorf("case %d: ids\n got %v\nwant %v", i, ids, c.PromptIDs)
		}
	}
}
