package model

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// Each family gives the same words however its tokens come: whole, one by one, in
// odd pieces, with other sequences, after going back, on the reference and on the
// machine's device, where TERN_CONFORM=all tries all of these with every family.
func TestFamiliesGiveEqualWords(t *testing.T) {
	dev, err := runtime.Open(runtime.Options{})
	if err != nil && !errors.Is(err, graph.ErrNoDevice) {
		t.Fatal(err)
	}
	if err == nil {
		defer dev.Close()
		t.Log("device: ", dev.Name())
	}
	all := os.Getenv("TERN_CONFORM") == "all"
	for _, g := range goldenModels(t) {
		if testing.Short() && g.name != "qwen35moe" { // recurrent layers and experts
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			ids := g.Prompts[2]
			m := g.open(t, Options{Sequences: 4})
			whole := evalPieces(t, m, ids, len(ids))
			for _, size := range []int{1, 7} {
				same(t, "in pieces", whole, evalPieces(t, m, ids, size))
			}
			g.together(t, m, whole)
			fewOutputs(t, m, ids, whole)
			goBack(t, m, ids, whole)
			if dev == nil {
				t.Skip("no device")
			}
			d := g.open(t, Options{Executor: dev, Sequences: 4})
			same(t, "on "+dev.Name(), whole, evalPieces(t, d, ids, len(ids)))
			g.together(t, d, whole)
			fewOutputs(t, d, ids, whole)
			if g.name == "qwen35-rep2" || all {
				same(t, "in pieces on "+dev.Name(), whole, evalPieces(t, d, ids, 9))
				goBack(t, d, ids, whole)
			}
			if all {
				same(t, "token by token on "+dev.Name(), whole, evalPieces(t, d, ids, 1))
			}
		})
	}
}

// same reports the first logit whose bits differ.
func same(t *testing.T, how string, want, got [][]float32) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%s: %d rows, want %d", how, len(got), len(want))
	}
	for i := range want {
		for j := range want[i] {
			if math.Float32bits(got[i][j]) != math.Float32bits(want[i][j]) {
				t.Fatalf("%s: logit %d of row %d is %g, want %g", how, j, i, got[i][j], want[i][j])
			}
		}
	}
}

func newSession(t *testing.T, m *Model) *Session {
	t.Helper()
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func evalAll(t *testing.T, s *Session, ids []int32) [][]float32 {
	t.Helper()
	rows, err := s.Eval(context.Background(), ids, true)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// evalPieces evaluates ids in pieces of the given size on a new session.
func evalPieces(t *testing.T, m *Model, ids []int32, size int) (rows [][]float32) {
	t.Helper()
	s := newSession(t, m)
	defer s.Close()
	for piece := range slices.Chunk(ids, size) {
		rows = append(rows, evalAll(t, s, piece)...)
	}
	return rows
}

// together evaluates several prompts in a batch, of which the second gives whole, in
// two pieces each.
func (g *goldenModel) together(t *testing.T, m *Model, whole [][]float32) {
	t.Helper()
	prompts := [][]int32{g.Prompts[1], g.Prompts[2], g.Prompts[0], g.Prompts[1]}
	var requests []Request
	for _, p := range prompts {
		s := newSession(t, m)
		defer s.Close()
		requests = append(requests, Request{Session: s, Tokens: p[:min(4, len(p))], Every: true})
	}
	first, err := m.Eval(context.Background(), requests...)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range prompts {
		requests[i].Tokens = p[min(4, len(p)):]
	}
	second, err := m.Eval(context.Background(), requests...)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "with others", whole, append(first[1], second[1]...))
}

// fewOutputs evaluates batches with fewer outputs than tokens, whose last layer is short:
// none, one, and those of some sessions beside all of another.
func fewOutputs(t *testing.T, m *Model, ids []int32, whole [][]float32) {
	t.Helper()
	half, most := len(ids)/2, min(len(ids), 12)
	var of []*Session
	for range 4 {
		s := newSession(t, m)
		defer s.Close()
		of = append(of, s)
	}
	eval := func(requests ...Request) [][][]float32 {
		t.Helper()
		rows, err := m.Eval(context.Background(), requests...)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	eval(Request{Session: of[0], Tokens: ids[:half], None: true})
	rows := eval(Request{Session: of[0], Tokens: ids[half:]})
	same(t, "the last of a piece behind one without outputs", whole[len(ids)-1:], rows[0])
	rows = eval(
		Request{Session: of[1], Tokens: ids[:half], None: true},
		Request{Session: of[2], Tokens: ids[:most], Every: true},
		Request{Session: of[3], Tokens: ids[:3]})
	same(t, "every row beside others", whole[:most], rows[1])
	same(t, "the last beside others", whole[2:3], rows[2])
	rows = eval(Request{Session: of[1], Tokens: ids[half:]}, Request{Session: of[3], Tokens: ids[3:half]})
	same(t, "the last behind a piece beside others", whole[len(ids)-1:], rows[0])
	same(t, "the last of two", whole[half-1:half], rows[1])
}

// goBack truncates a session to places before, at and after snapshots.
func goBack(t *testing.T, m *Model, ids []int32, whole [][]float32) {
	t.Helper()
	s := newSession(t, m)
	defer s.Close()
	evalAll(t, s, ids[:30])
	evalAll(t, s, ids[30:31])
	evalAll(t, s, ids[31:])
	for _, n := range []int{len(ids) - 1, 40, 31, 12} {
		s.Truncate(n)
		if got := len(s.Tokens()); got != n {
			t.Fatalf("truncated to %d tokens, want %d", got, n)
		}
		same(t, "after going back", whole[n:], evalAll(t, s, ids[n:]))
	}
	other := append(slices.Clone(ids[:20]), ids[0], ids[1])
	at := s.Reuse(other)
	if at != len(s.Tokens()) || at > 20 || at < 20 && m.config.Recurrent == nil {
		t.Fatalf("%d tokens reused, %d kept, want 20", at, len(s.Tokens()))
	}
	rows := evalAll(t, s, other[at:])
	same(t, "on another way", evalPieces(t, m, other, len(other))[at:], rows)
}

// A run that is cancelled leaves the state of recurrent layers as it was, and states
// run out with an error.
func TestStateOfFailedRuns(t *testing.T) {
	for _, g := range goldenModels(t) {
		if g.name != "qwen35-rep2" {
			continue
		}
		ids := g.Prompts[1]
		m := g.open(t, Options{Sequences: 1, Snapshots: -1, Activations: op.F32})
		whole := evalPieces(t, m, ids, len(ids))
		s := newSession(t, m)
		evalAll(t, s, ids[:3])
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := s.Eval(ctx, ids[3:], true); !errors.Is(err, context.Canceled) {
			t.Fatalf("a cancelled run: %v", err)
		}
		same(t, "after a cancelled run", whole[3:], evalAll(t, s, ids[3:]))
		for range 2 { // of one sequence and the slot that runs write
			if _, err := newSession(t, m).Eval(context.Background(), ids[:1], false); err != nil {
				if !errors.Is(err, ErrContextFull) {
					t.Fatalf("no state left: %v", err)
				}
				return
			}
		}
		t.Error("three sequences in two slots of state")
	}
}
