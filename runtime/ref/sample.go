package ref

import (
	mathbits "math/bits"
	"slices"
)

// Penalise lowers the logits of recent tokens: a logit l of a token that occurs
// count > 0 times becomes l * (1/repeat) if l > 0 and l * repeat otherwise, and
// then l - (count * frequency + presence). 1/repeat is rounded to float32.
func Penalise(logits []float32, recent []int32, repeat, presence, frequency float32) {
	counts := map[int32]int{}
	for _, id := range recent {
		if id >= 0 && int(id) < len(logits) {
			counts[id]++
		}
	}
	inverse := float32(1 / float64(repeat))
	for id, count := range counts {
		l := logits[id]
		if l > 0 {
			l = float32(l * inverse)
		} else {
			l = float32(l * repeat)
		}
		logits[id] = l - (float32(float32(count)*frequency) + presence)
	}
}

// SampleParams are the numbers of Sample.
type SampleParams struct {
	Temperature    float32 // 0: the largest logit
	TopK           int     // 0: all
	TopP, MinP     float32 // 0: all
	Seed, Position uint64
}

// Sample draws an index from the logits:
//
//	order    by (logit descending, index ascending), the first TopK
//	weight   w_i = exp2((l_i - l_0) * t), t = float32(log2(e)/Temperature)
//	top-p    the shortest beginning whose sum, in order, is at least TopP * (sum of all)
//	min-p    of these, the beginning with w_i >= MinP
//	draw     the first i whose running sum exceeds u * (sum of what is left),
//	         u = Uniform(Seed, Position)
//
// It returns -1 if no logit is a number.
func Sample(logits []float32, p SampleParams) int {
	order := largest(logits, p.TopK, p.Temperature == 0)
	if len(order) == 0 {
		return -1
	}
	if p.Temperature == 0 {
		return order[0]
	}
	t := float32(1.4426950408889634 / float64(p.Temperature))
	w := make([]float32, len(order))
	var sum float32
	for i, id := range order {
		w[i] = Exp2(float32((logits[id] - logits[order[0]]) * t))
		sum = sum + w[i]
	}
	n := len(w)
	if p.TopP > 0 && p.TopP < 1 {
		limit := float32(p.TopP * sum)
		var s float32
		for i, v := range w {
			if s = s + v; s >= limit {
				n = i + 1
				break
			}
		}
	}
	for n > 1 && w[n-1] < p.MinP {
		n--
	}
	sum = 0
	for _, v := range w[:n] {
		sum = sum + v
	}
	limit := float32(Uniform(p.Seed, p.Position) * sum)
	var s float32
	for i, v := range w[:n] {
		if s = s + v; s > limit {
			return order[i]
		}
	}
	return order[n-1]
}

// largest returns the indices of the k largest logits (all for k = 0, one for
// single) in the order of Sample, NaN left out.
func largest(logits []float32, k int, single bool) []int {
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
	if single && len(order) > 0 {
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
