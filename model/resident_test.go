package model

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/runtime/ref"
)

// A token in one dispatch gives the words of the dispatches it replaces: from the
// first position, over the border of a chunk, with chunks joined by each workgroup
// (up to 4) and once for all, and with the choice of the token.
func TestResidentEqualsDispatches(t *testing.T) {
	plain := device(t, runtime.Options{Disable: []string{"resident"}})
	forced := device(t, runtime.Options{Force: []string{"resident"}})
	if !forced.Plan().Has("resident") {
		t.Skip("the device does not run resident kernels")
	}
	ids := noise(270)
	whole := newSession(t, openSprig(t, Options{Executor: plain, Context: 512}))
	want := evalAll(t, whole, ids)
	m := openSprig(t, Options{Executor: forced, Context: 512, Sequences: 8})
	p, err := m.Program(1, 1, 512)
	if err != nil {
		t.Fatal(err)
	}
	if nodes := p.(*runtime.Program).Resident(); nodes < 80 {
		t.Fatalf("%d nodes in one dispatch", nodes)
	}
	for _, span := range [][2]int{{0, 3}, {62, 67}, {255, 259}} {
		s := newSession(t, m)
		if span[0] > 0 {
			if _, err := s.Eval(context.Background(), ids[:span[0]], false); err != nil {
				t.Fatal(err)
			}
		}
		var rows [][]float32
		for i := span[0]; i < span[1]; i++ {
			row, err := s.Eval(context.Background(), ids[i:i+1], false)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row...)
		}
		same(t, "token by token", want[span[0]:span[1]], rows)
	}
	prompt := ids[:70]
	expect, err := text(context.Background(), newSession(t, openSprig(t, Options{Executor: plain, Context: 512})), prompt, Sampling{}, 8)
	if err != nil {
		t.Fatal(err)
	}
	got, err := text(context.Background(), newSession(t, m), prompt, Sampling{}, 8)
	if err != nil || !slices.Equal(got, expect) {
		t.Errorf("chose %v, %v, want %v", got, err, expect)
	}
}

// Joins of many chunks, of fewer and of more after each other in the same memory.
func TestResidentDeep(t *testing.T) {
	plain := device(t, runtime.Options{Disable: []string{"resident"}})
	forced := device(t, runtime.Options{Force: []string{"resident"}})
	if !forced.Plan().Has("resident") {
		t.Skip("the device does not run resident kernels")
	}
	depths := []int{450, 300, 330}
	ids := noise(slices.Max(depths) + 4)
	context := slices.Max(depths) + 64
	want, got := openSprig(t, Options{Executor: plain, Context: context}), openSprig(t, Options{Executor: forced, Context: context})
	for _, depth := range depths {
		var rows [2][][]float32
		for i, m := range []*Model{want, got} {
			s := newSession(t, m)
			if _, err := s.Eval(t.Context(), ids[:depth], false); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids[depth:][:4] {
				row, err := s.Eval(t.Context(), []int32{id}, false)
				if err != nil {
					t.Fatal(err)
				}
				rows[i] = append(rows[i], row...)
			}
			s.Close()
		}
		same(t, fmt.Sprintf("at depth %d", depth), rows[0], rows[1])
	}
}

// Workgroups that do not meet, because the device does not hold them all, end the use
// of the resident kernel and cost nothing else.
func TestLateResident(t *testing.T) {
	plain := device(t, runtime.Options{Disable: []string{"resident"}})
	late := device(t, runtime.Options{Force: []string{"resident"}, Test: runtime.Test{Late: true}})
	if !late.Plan().Has("resident") {
		t.Skip("the device does not run resident kernels")
	}
	ids := noise(3)
	want := evalPieces(t, openSprig(t, Options{Executor: plain, Context: 64}), ids, 1)
	same(t, "after a missed meeting", want, evalPieces(t, openSprig(t, Options{Executor: late, Context: 64}), ids, 1))
	if late.Plan().Has("resident") {
		t.Error("the device goes on with resident kernels")
	}
}

// A tape has the embedding, five steps a layer, six where many chunks are joined, the
// head, and two for the choice; graphs that the kernel cannot run have none.
func TestTape(t *testing.T) {
	m := openSprig(t, Options{Executor: ref.New(), Context: 1024})
	layers := m.Info().Layers
	for _, c := range []struct {
		shape shape
		steps int
	}{
		{shape{n: 1, out: 1, chunks: 1, by: byLargest}, 1 + 5*layers + 1 + 2},
		{shape{n: 1, out: 1, chunks: 4}, 1 + 5*layers + 1},
		{shape{n: 1, out: 1, chunks: 8}, 1 + 6*layers + 1},
		{shape{n: 1, chunks: 1}, 0},
		{shape{n: 2, out: 1, chunks: 1}, 0},
	} {
		g, _ := m.record(c.shape)
		tape := plan.TapeOf(g)
		if (tape == nil) != (c.steps == 0) || tape != nil && len(tape.Steps) != c.steps {
			t.Errorf("%+v: %+v, want %d steps", c.shape, tape, c.steps)
		}
	}
	float := openSprig(t, Options{Executor: ref.New(), Context: 64, Activations: op.F16})
	if g, _ := float.record(shape{n: 1, out: 1, chunks: 1}); plan.TapeOf(g) != nil {
		t.Error("a tape for f16 activations")
	}
}
