package token

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestSplit compares the cuts with those of the regular expressions themselves,
// as Hugging Face's tokenizers apply them.
func TestSplit(t *testing.T) {
	f, err := os.Open("../../testdata/tokenizer/cases.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Regex map[string]string
		Cases []struct {
			Text          string
			Qwen2, Qwen35 []int // lengths in characters
		}
	}
	if err := json.NewDecoder(z).Decode(&golden); err != nil {
		t.Fatal(err)
	}
	for pre, regex := range golden.Regex {
		if hfSplitters[regex] != pre {
			t.Errorf("%s: the expression %s is not known", pre, regex)
		}
	}
	cut := func(marks bool, text string) (lens []int) {
		s := splitter{marks: marks}
		for len(text) > 0 {
			n := s.next(text)
			lens = append(lens, utf8.RuneCountInString(text[:n]))
			text = text[n:]
		}
		return lens
	}
	for _, c := range golden.Cases {
		if got := cut(false, c.Text); !slices.Equal(got, c.Qwen2) {
			t.Errorf("qwen2: %q\n got %v\nwant %v", c.Text, got, c.Qwen2)
		}
		if got := cut(true, c.Text); !slices.Equal(got, c.Qwen35) {
			t.Errorf("qwen35: %q\n got %v\nwant %v", c.Text, got, c.Qwen35)
		}
	}
}

func TestCompose(t *testing.T) {
	zalgo := strings.Repeat("\u0301\u0323", 40)
	for in, want := range map[string]string{
		"":          "",
		"e\u0301":   "é",
		"a" + zalgo: "\u1ea1" + strings.Repeat("\u0323", 39) + strings.Repeat("\u0301", 40),
		zalgo:       strings.Repeat("\u0323", 40) + strings.Repeat("\u0301", 40),
		"\u1100\u1161\u11a8e\u0301" + strings.Repeat("\u0302", 35): "\uac01é" + strings.Repeat("\u0302", 35),
		"\u09c7\u09be" + strings.Repeat("\u0301", 31):              "\u09cb" + strings.Repeat("\u0301", 31),
	} {
		if got := compose(in); got != want {
			t.Errorf("%+q: %+q, want %+q", in, got, want)
		}
		if in != "" && len([]rune(in)) < 30 && composeLong(in) != want {
			t.Errorf("%+q by the book: %+q, want %+q", in, composeLong(in), want)
		}
	}
}

// TestComposeBook compares the two ways on each character that has a decomposition.
func TestComposeBook(t *testing.T) {
	for r := rune(0); r < 0x30000; r++ {
		for _, s := range []string{string(r), "a" + string(r), string(r) + "\u0301", "e\u0323" + string(r)} {
			if got, want := composeLong(s), compose(s); got != want && utf8.ValidRune(r) {
				t.Fatalf("%+q: %+q, want %+q", s, got, want)
			}
		}
	}
}
