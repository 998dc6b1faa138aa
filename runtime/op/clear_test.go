package op

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// Clearing a page from a position on leaves the words of the positions before it and
// no others: the words are told apart by the places that the cache's layout gives
// each position.
func TestClearPage(t *testing.T) {
	for _, types := range [][2]CacheType{{CacheF16, CacheF16}, {CacheQ8_0, CacheQ4_0}, {CacheQ4_0, CacheF16}} {
		h := Heads{Q: 2, KV: 2, Dim: 128, Keys: types[0], Values: types[1]}
		for side, typ := range types {
			words := h.KV * typ.words(h.Dim)
			for _, from := range []int{0, 1, 63, PageTokens} {
				page := bytes.Repeat([]byte{0xff}, words*4)
				if side == 0 {
					h.ClearKeys(page, from)
				} else {
					h.ClearValues(page, from)
				}
				left := 0
				for i := range words {
					if binary.LittleEndian.Uint32(page[4*i:]) != 0 {
						left++
					}
				}
				if want := words * from / PageTokens; left != want {
					t.Errorf("%v, side %d, from %d: %d words are left, want %d", types, side, from, left, want)
				}
			}
			// A row of keys is the positions of 8 elements, a row of values one position.
			page := bytes.Repeat([]byte{0xff}, words*4)
			rowWords := typ.bits() / 4
			if side == 1 {
				rowWords = h.Dim * typ.bits() / 32
				h.ClearValues(page, 3)
			} else {
				h.ClearKeys(page, 3)
			}
			for i := range PageTokens * rowWords {
				if kept := page[4*i] != 0; kept != (i < 3*rowWords) {
					t.Fatalf("%v, side %d: word %d of the first row is kept: %v", types, side, i, kept)
				}
			}
		}
	}
}
