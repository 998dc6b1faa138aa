package model

// pool hands out cache pages.
type pool struct {
	free []uint32
}

func newPool(n int) pool {
	p := pool{make([]uint32, n)}
	for i := range p.free {
		p.free[i] = uint32(n - 1 - i) // lowest first
	}
	return p
}

// take moves pages to list until it holds n, and reports whether there were
// enough; list is unchanged if not.
func (p *pool) take(list *[]uint32, n int) bool {
	need := n - len(*list)
	if need > len(p.free) {
		return false
	}
	for range need {
		last := len(p.free) - 1
		*list = append(*list, p.free[last])
		p.free = p.free[:last]
	}
	return true
}

// give returns all pages of list beyond the first keep.
func (p *pool) give(list *[]uint32, keep int) {
	for len(*list) > keep {
		last := len(*list) - 1
		p.free = append(p.free, (*list)[last])
		*list = (*list)[:last]
	}
}
