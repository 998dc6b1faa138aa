package ref

import (
	"slices"

	"github.com/ternvk/tern/runtime/graph"
)

// A mixture of experts: every token takes the k experts of the largest router
// logits, in that order, ties to the lower number. Pair i = t*k + rank is the
// product of token t with the expert of that rank. Products by experts find
// their expert behind their results: y is rows of m = n*k pairs, then m words, the
// number of each pair's expert; for the last product then n*(k+1) floats, the
// weights of each token's experts and that of the shared expert.

// expertsRoute:
//
//	order    experts by logit, descending; equal ones by number. Logits count as
//	         integers of the same order (bits, those of negative ones inverted).
//	weights  e_r / sum of e_r, in order of ranks: e_r = exp(l_r - l_0), times recip
//	shared   sigmoid of the logit behind those of the experts
//
//	push  n, experts, k, stride of logits, first word of ids in 1, in 2, shared (0, 1)
//	0 in  logits[n][stride]   1 io first product   2 io last product
//	domain: n x 1
func expertsRoute(node *graph.Node, args [][]uint32) {
	p := node.Push
	n, count, k, stride := int(p[0]), int(p[1]), int(p[2]), int(p[3])
	up, down := args[1][p[4]:], args[2][p[5]:]
	weights := Floats(down[n*k:])
	for t := range n {
		logits := args[0][t*stride:][:stride]
		order := make([]int, count)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			x, y := orderKey(logits[a]), orderKey(logits[b])
			switch {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return 0
		})
		e, sum := make([]float32, k), float32(0)
		for r := range k {
			e[r] = Exp(fromBits(logits[order[r]]) - fromBits(logits[order[0]]))
			sum = sum + e[r]
			up[t*k+r], down[t*k+r] = uint32(order[r]), uint32(order[r])
		}
		inv := Recip(sum)
		for r := range k {
			weights[t*(k+1)+r] = Tidy(float32(e[r] * inv))
		}
		weights[t*(k+1)+k] = 0
		if p[6] != 0 {
			weights[t*(k+1)+k] = Tidy(Sigmoid(fromBits(logits[count])))
		}
	}
}

// orderKey orders the bits of floats as integers.
func orderKey(u uint32) uint32 {
	if u>>31 != 0 {
		return ^u
	}
	return u | 1<<31
}

// byExpert makes of a matrix product one by experts, whose matrices of `rows` rows
// (a multiple of 32) are stacked: row i of y is the product of the matrix of its
// expert with row i/share of the activations. A segment of the stack holds the
// rows first to first+held-1; results of others are left alone.
//
//	spec  as in the product
//	push  rows, n (rows of activations), blocks (or elements) a row, first, held,
//	      share, first word of ids in y
//	0.. in weights   in activations   io y[m][rows], ids
//	domain: rows x m
func byExpert(product Twin, a act) Twin {
	return func(node *graph.Node, args [][]uint32) {
		p := node.Push
		rows, n, width, first, held, share, ids := int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4]), int(p[5]), int(p[6])
		parts := len(args) - 2
		x, y := args[parts], args[parts+1]
		pairs := map[int][]int{} // of each expert, whose weights are unpacked once
		for i := range int(node.Domain[1]) {
			expert := int(y[ids+i])
			pairs[expert] = append(pairs[expert], i)
		}
		for expert, list := range pairs {
			from := expert * rows
			low, high := max(from, first), min(from+rows, first+held)
			if low >= high {
				continue
			}
			sub := make([][]uint32, 0, parts+2)
			for _, w := range args[:parts] {
				group := len(w) / ((held + 31) / 32)
				sub = append(sub, w[(low-first)/32*group:])
			}
			out := make([]uint32, len(list)*(high-low))
			sub = append(sub, a.rows(x, n, list, share), out)
			product(&graph.Node{Spec: node.Spec, Push: []uint32{uint32(high - low), uint32(len(list)), uint32(width), 0, uint32(high - low)}}, sub)
			for j, i := range list {
				copy(y[i*rows+low-from:], out[j*(high-low):][:high-low])
			}
		}
	}
}

// rows are the rows of some pairs, share of them a row, of n rows of activations, by themselves.
func (a act) rows(x []uint32, n int, pairs []int, share int) (rows []uint32) {
	words := len(x) / n
	if a == actI8 {
		nb := words / 18
		words = nb * 16
		rows = make([]uint32, len(pairs)*nb*18)
		for j, i := range pairs {
			for b := range nb {
				from, to := actBlock(n, i/share, b), actBlock(len(pairs), j, b)
				copy(rows[to*16:], x[from*16:][:16])
				copy(rows[len(pairs)*words+to*2:], x[n*words+from*2:][:2])
			}
		}
		return rows
	}
	for _, i := range pairs {
		rows = append(rows, x[i/share*words:][:words]...)
	}
	return rows
}

// expertsSum: y = tidy(the sum over ranks in order of weight * row, and at last of
// the shared expert's weight * row if there is one).
//
//	push  n, k, width, first word of ids in 0, shared (0, 1)
//	0 in  last product[n*k][width], ids, weights   1 in shared[n][width]   2 out y[n][width]
//	domain: width x n
func expertsSum(node *graph.Node, args [][]uint32) {
	p := node.Push
	n, k, width := int(p[0]), int(p[1]), int(p[2])
	x, shared, y := Floats(args[0]), Floats(args[1]), Floats(args[2])
	weights := x[int(p[3])+n*k:]
	for t := range n {
		w := weights[t*(k+1):][:k+1]
		for d := range width {
			var s float32
			for r := range k {
				s = s + float32(w[r]*x[(t*k+r)*width+d])
			}
			if p[4] != 0 {
				s = s + float32(w[k]*shared[t*width+d])
			}
			y[t*width+d] = Tidy(s)
		}
	}
}
