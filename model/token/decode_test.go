package token

import (
	"strings"
	"testing"
)

// BL-53.
func TestDecoder(t *testing.T) {
	for _, c := range []struct {
		pieces []string
		want   []string // what each piece completes, then the flush
	}{
		{[]string{"a", "b"}, []string{"a", "b", ""}},
		{[]string{"\xc3", "\xa9"}, []string{"", "é", ""}},
		{[]string{"\xe4", "\xbd", "\xa0!"}, []string{"", "", "你!", ""}},
		{[]string{"\xf0", "\x9f", "\x8c", "\xb3"}, []string{"", "", "", "🌳", ""}},
		{[]string{"x\xf0\x9f"}, []string{"x", "\ufffd"}},
		{[]string{"\xf0\x9f", "a"}, []string{"", "\ufffda", ""}},
		{[]string{"\xe4\xbd", "\xe4\xbd\xa0"}, []string{"", "\ufffd你", ""}},
		{[]string{"\x80", "\xff"}, []string{"\ufffd", "\ufffd", ""}},
		{[]string{"\xed\xa0", "\x80"}, []string{"\ufffd\ufffd", "\ufffd", ""}}, // a surrogate is three stray bytes
		{[]string{"\xc3", "", "\xa9"}, []string{"", "", "é", ""}},
	} {
		var d Decoder
		var got []string
		for _, p := range c.pieces {
			got = append(got, d.Write([]byte(p)))
		}
		got = append(got, d.Flush())
		if strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%q: %q, want %q", c.pieces, got, c.want)
		}
		if whole, _ := decode([]byte(strings.Join(c.pieces, "")), true); whole != strings.Join(got, "") {
			t.Errorf("%q: streamed %q, at once %q", c.pieces, got, whole)
		}
	}
}
