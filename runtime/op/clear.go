package op

// ClearKeys zeroes the positions from on of a page of keys, as it lies in a cache.
func (h Heads) ClearKeys(page []byte, from int) {
	h.clearPage(page, h.Keys, from, h.Dim/8, h.Dim/64)
}

// ClearValues zeroes the positions from on of a page of values.
func (h Heads) ClearValues(page []byte, from int) { h.clearPage(page, h.Values, from, 1, 1) }

// clearPage clears a page that holds for each head so many rows of positions of
// elements, then of scales.
func (h Heads) clearPage(page []byte, t CacheType, from, rows, scaleRows int) {
	elements := 4 * PageTokens * h.Dim * t.bits() / 32
	all := 4 * t.words(h.Dim)
	for head := range h.KV {
		part := page[head*all:][:all]
		clearRows(part[:elements], rows, from)
		clearRows(part[elements:], scaleRows, from) // none beside halves
	}
}

func clearRows(part []byte, rows, from int) {
	row := len(part) / rows
	for i := range rows {
		clear(part[i*row+from*row/PageTokens : (i+1)*row])
	}
}
