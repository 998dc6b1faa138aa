package ref

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
)

// What a kernel with the bound of attention may do stays within it, and within a 32nd in the mean;
// a position too few does not, wherever it is.
func TestAttentionBound(t *testing.T) {
	const dim, pos, pages = 64, 90, 2
	r := rand.New(rand.NewPCG(1, 2))
	c := cacheF16{make([]uint32, 2*pages*page*dim/2), pages * page * dim / 2, dim, 1}
	for i := range c.words {
		c.words[i] = uint32(F16(float32(r.NormFloat64()))) | uint32(F16(float32(r.NormFloat64())))<<16
	}
	words := make([]uint32, dim)
	q := Floats(words)
	for i := range q {
		q[i] = Round13(float32(0.05 * r.NormFloat64()))
	}
	node := &graph.Node{Spec: []uint32{dim, 1, 1}, Push: []uint32{1, dim, 0, 1, uint32(c.vBase)}}
	args := [][]uint32{words, c.words, {pos, 2, 1, 0}, make([]uint32, dim)}
	attentionF16(node, args)
	rule := BoundOf("attention")
	want, bound := Floats(args[3]), rule.Of(node, args)

	// The softmax of queries and weights in halves, of all positions but one.
	attend := func(without int) (worst, mean float64) {
		var w [pos + 1]float64
		l := 0.0
		for j := range w {
			for d, v := range q {
				w[j] = w[j] + float64(F32(F16(v)))*float64(half(c.words, c.key(1-j/page, 0, j%page, d), d))
			}
			if w[j] = float64(F32(F16(float32(math.Exp2(w[j]))))); j == without {
				w[j] = 0
			}
			l = l + w[j]
		}
		for d := range dim {
			y := 0.0
			for j := range w {
				y = y + w[j]*float64(half(c.words, c.value(1-j/page, 0, j%page, d), d))
			}
			share := math.Abs(y/l-float64(want[d])) / float64(bound[d])
			worst, mean = max(worst, share), mean+share/dim
		}
		return worst, mean
	}
	if worst, mean := attend(-1); worst > 0.25 || mean > rule.Mean {
		t.Errorf("rounded to halves: %.3f of the bound, %.4f in the mean", worst, mean)
	}
	for j := range pos + 1 {
		if worst, mean := attend(j); worst <= 1 && mean <= rule.Mean {
			t.Errorf("without position %d: %.3f of the bound, %.4f in the mean", j, worst, mean)
		}
	}
	q[3] = 65536
	for d, b := range rule.Of(node, args) {
		if !math.IsInf(float64(b), 1) {
			t.Fatalf("bound %g of element %d of a query that is no half", b, d)
		}
	}
	if BoundOf("no such rule") != nil {
		t.Error("a rule without a name")
	}
}
