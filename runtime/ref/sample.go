package ref

import (
	mathbits "math/bits"
	"slices"
)

// Penalise lowers the logits of recent tokens: a logit l of a token that occurs
// count > 0 times becomes l * (1/repeat) if l > 0 and l * repeat otherwise, and
// then tidy(l - (count * frequency + presence)).
func Penalise(logits []float32, recent []int32, repeat, presence, frequency float32) {
	inverse, pairs := InverseRepeat(repeat), Counts(recent, len(logits))
	for i := 0; i < len(pairs); i += 2 {
		l := &logits[pairs[i]]
		*l = penalised(*l, pairs[i+1], repeat, inverse, presence, frequency)
	}
}

// InverseRepeat returns 1/repeat, rounded to float32.
func InverseRepeat(repeat float32) float32 { return float32(1 / float64(repeat)) }

// Counts returns the tokens of a vocabulary that occur, ascending, each followed
// by how often it occurs.
func Counts(recent []int32, vocab int) (pairs []uint32) {
	for _, id := range slices.Sorted(slices.Values(recent)) {
		switch n := len(pairs); {
		case id < 0 || int(id) >= vocab:
		case n > 0 && pairs[n-2] == uint32(id):
			pairs[n-1]++
		default:
			pairs = append(pairs, uint32(id), 1)
		}
	}
	return pairs
}

func penalised(l float32, count uint32, repeat, inverse, presence, frequency float32) float32 {
	if l > 0 {
		l = float32(l * inverse)
	} else {
		l = float32(l * repeat)
	}
	return Tidy(l - (float32(float32(count)*frequency) + presence))
}

// SampleParams are the numbers of Sample.
type SampleParams struct {
	Temperature    float32 // 0: the largest logit
	TopK           int     // 0: all
	TopP, MinP     float32 // 0: all
	Seed, Position uint64
}

// Largest is how many of the largest logits Sample looks at; 0: all.
func (p SampleParams) Largest() int {
	if p.Temperature == 0 {
		return 1
	}
	return p.TopK
}

// Factor returns log2(e)/Temperature, rounded to float32, and at most 2^100.
func (p SampleParams) Factor() float32 {
	t := float32(log2eWide / float64(p.Temperature))
	if t > 0x1p100 {
		return 0x1p100
	}
	return t
}

const log2eWide = 1.4426950408889634

// Sample draws an index from the logits:
//
//	order    by (logit descending, index ascending), the first TopK; only the very
//	         first if it is infinite
//	weight   w_i = exp2((l_i - l_0) * t), t = Factor
//	top-p    the shortest beginning whose sum, in order, is at least TopP * (sum of all)
//	min-p    of these, the beginning with w_i >= MinP
//	draw     the first i whose running sum exceeds u * (sum of what is left),
//	         u = Uniform(Seed, Position)
//
// It returns -1 if no logit is a number.
func Sample(logits []float32, p SampleParams) int {
	order := largest(logits, p.Largest())
	if len(order) == 0 {
		return -1
	}
	list := make([]float32, len(order))
	for i, id := range order {
		list[i] = logits[id]
	}
	return order[draw(list, p.Factor(), p.TopP, p.MinP, Uniform(p.Seed, p.Position))]
}

// draw is Sample on logits in order, at least one: the index in their list.
func draw(list []float32, t, topP, minP, u float32) int {
	if bits(list[0])&0x7fff_ffff >= infBits {
		return 0
	}
	w := make([]float32, len(list))
	var sum float32
	for i, l := range list {
		w[i] = Exp2(float32((l - list[0]) * t))
		sum = sum + w[i]
	}
	n := len(w)
	if topP > 0 && topP < 1 {
		limit := float32(topP * sum)
		var s float32
		for i, v := range w {
			if s = s + v; s >= limit {
				n = i + 1
				break
			}
		}
	}
	for n > 1 && w[n-1] < minP {
		n--
	}
	sum = 0
	for _, v := range w[:n] {
		sum = sum + v
	}
	limit := float32(u * sum)
	var s float32
	for i, v := range w[:n] {
		if s = s + v; s > limit {
			return i
		}
	}
	return n - 1
}

// largest returns the indices of the k largest logits (all for k = 0) in the
// order of Sample, NaN left out.
func largest(logits []float32, k int) []int {
	better := func(a, b int) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return a - b
	}
	var order []int
	for i, v := range logits {
		if v == v {
			order = append(order, i)
		}
	}
	if k == 1 && len(order) > 0 {
		return []int{slices.MinFunc(order, better)}
	}
	slices.SortFunc(order, better)
	if k > 0 && k < len(order) {
		order = order[:k]
	}
	return order
}

// Uniform is a number in [0, 1) of 24 random bits: the first word of Philox
// 4x32-10 (Salmon et al., 2011) with the seed as key and the position as counter.
func Uniform(seed, position uint64) float32 {
	c := [4]uint32{uint32(position), uint32(position >> 32), 0, 0}
	k := [2]uint32{uint32(seed), uint32(seed >> 32)}
	for range 10 {
		h0, l0 := mathbits.Mul32(0xd251_1f53, c[0])
		h1, l1 := mathbits.Mul32(0xcd9e_8d57, c[2])
		c = [4]uint32{h1 ^ c[1] ^ k[0], l1, h0 ^ c[3] ^ k[1], l0}
		k[0] += 0x9e37_79b9
		k[1] += 0xbb67_ae85
	}
	return float32(float32(c[0]>>8) * 0x1p-24)
}
