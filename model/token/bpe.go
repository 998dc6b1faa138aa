package token

// symbol is a token of the piece at hand, in a doubly linked list over its
// array; a symbol that was merged into its left neighbour has id -1.
type symbol struct {
	id         int32
	prev, next int32
}

// bpe merges pieces; its buffers are reused from piece to piece.
type bpe struct {
	t       *Tokenizer
	symbols []symbol
	queue   queue
}

// encode appends the ids of one piece: as long as a pair of neighbours can be
// merged, the leftmost of lowest rank is. n bytes take O(n log n).
func (b *bpe) encode(ids []int32, piece string) []int32 {
	b.symbols, b.queue = b.symbols[:0], b.queue[:0]
	n := int32(len(piece))
	for i := range n {
		b.symbols = append(b.symbols, symbol{id: b.t.bytes[piece[i]], prev: i - 1, next: i + 1})
	}
	for i := range n {
		b.consider(i)
	}
	for len(b.queue) > 0 {
		rank, pos := b.queue.pop()
		m, ok := b.pair(pos)
		if !ok || m.rank != rank {
			continue // one of the two has been merged meanwhile
		}
		left := &b.symbols[pos]
		right := &b.symbols[left.next]
		left.id, left.next, right.id = m.id, right.next, -1
		if left.next < n {
			b.symbols[left.next].prev = pos
		}
		b.consider(left.prev)
		b.consider(pos)
	}
	for i := int32(0); i < n; i = b.symbols[i].next {
		ids = append(ids, b.symbols[i].id)
	}
	return ids
}

// pair returns what the symbol at pos and its successor merge into.
func (b *bpe) pair(pos int32) (merge, bool) {
	if pos < 0 {
		return merge{}, false
	}
	s := b.symbols[pos]
	if s.id < 0 || int(s.next) >= len(b.symbols) {
		return merge{}, false
	}
	m, ok := b.t.merges[[2]int32{s.id, b.symbols[s.next].id}]
	return m, ok
}

// consider queues the pair that begins at pos, if it can be merged.
func (b *bpe) consider(pos int32) {
	if m, ok := b.pair(pos); ok {
		b.queue.push(m.rank, pos)
	}
}

// queue is a binary heap of merges: lowest rank first, then from left to right.
type queue []uint64

func (q *queue) push(rank, pos int32) {
	h := append(*q, uint64(rank)<<32|uint64(pos))
	*q = h
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up] <= h[i] {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
}

func (q *queue) pop() (rank, pos int32) {
	h := *q
	top := h[0]
	h[0] = h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < len(h) && h[down+1] < h[down] {
			down++
		}
		if down >= len(h) || h[i] <= h[down] {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	return int32(top >> 32), int32(uint32(top))
}
