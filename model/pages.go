package model

// pool hands out cache pages, or slots of recurrent state.
type pool struct {
	free   []uint32
	shared map[uint32]int // holders beyond the first
}

func newPool(n int) pool {
	p := pool{make([]uint32, n), map[uint32]int{}}
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

// share adds pages that others hold to list.
func (p *pool) share(list *[]uint32, pages []uint32) {
	for _, page := range pages {
		p.shared[page]++
	}
	*list = append(*list, pages...)
}

func (p *pool) isShared(page uint32) bool { return p.shared[page] > 0 }

// give returns all pages of list beyond the first keep; those that others hold too
// stay theirs.
func (p *pool) give(list *[]uint32, keep int) {
	for len(*list) > keep {
		last := len(*list) - 1
		switch page := (*list)[last]; p.shared[page] {
		case 0:
			p.free = append(p.free, page)
		case 1:
			delete(p.shared, page)
		default:
			p.shared[page]--
		}
		*list = (*list)[:last]
	}
}
