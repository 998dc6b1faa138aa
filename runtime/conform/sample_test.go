package conform

import (
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// Lists of parts, joined, equal the list of the whole row.
func TestTopKOfPartsEqualsWhole(t *testing.T) {
	onBoth(t, func(t *testing.T, x graph.Executor) {
		for _, v := range []values{normal, equal, special} {
			list := func(part int) []uint32 {
				return evaluate(t, x, op.F32, func(m *maker) { m.TopK(m.rows("logits", 2, 9001, v), 100, part) })
			}
			whole := list(9001)
			for _, part := range []int{op.TopKPart, 1000, 99} {
				equalWords(t, v.name, list(part), whole)
			}
		}
	})
}
