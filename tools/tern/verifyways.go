package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/spirv"
)

// way is one way to compute the logits of token sequences; all ways give the
// same bits.
type way struct {
	name       string
	cut        int // tokens of a piece of a prompt, 0: whole
	together   int // sequences in one batch
	contract   string
	impl       string
	forcesImpl bool
}

// ways lists the splits of a prompt at the borders of attention chunks, token by
// token, five sequences in one batch, and every implementation of the contracts
// that the model uses, forced in turn, for whole prompts and token by token.
func ways(contracts []string) []way {
	list := []way{
		{name: "whole", together: 1},
		{name: fmt.Sprintf("pieces of %d", op.PageTokens-1), cut: op.PageTokens - 1, together: 1},
		{name: fmt.Sprintf("pieces of %d", op.PageTokens), cut: op.PageTokens, together: 1},
		{name: fmt.Sprintf("pieces of %d", op.PageTokens+1), cut: op.PageTokens + 1, together: 1},
		{name: "token by token", cut: 1, together: 1},
		{name: "five sequences in one batch", cut: 37, together: 5},
	}
	for _, c := range contracts {
		impls := spirv.Contract(c)
		if len(impls) < 2 {
			continue
		}
		for _, k := range impls {
			w := way{name: k.Name, together: 1, contract: c, impl: k.Impl, forcesImpl: true}
			list = append(list, w)
			w.name, w.cut = w.name+", token by token", 1
			list = append(list, w)
		}
	}
	return list
}

// hashes evaluates sequences in a way and returns the SHA-256 of each one's
// logits. total, if not nil, gets the logits of all in order; the way must then
// take one sequence at a time.
func (w way) hashes(ctx context.Context, m *model.Model, sequences [][]int32, total hash.Hash) ([][]byte, error) {
	var sums [][]byte
	for group := range slices.Chunk(sequences, w.together) {
		n := len(group)
		for len(group) < w.together { // fill the batch up
			group = append(slices.Clip(group), group[0])
		}
		hashers := make([]hash.Hash, len(group))
		requests := make([]model.Request, len(group))
		for i := range group {
			s, err := m.NewSession()
			if err != nil {
				return nil, err
			}
			defer s.Close()
			hashers[i], requests[i] = sha256.New(), model.Request{Session: s, Every: true}
		}
		longest := len(slices.MaxFunc(group, func(a, b []int32) int { return len(a) - len(b) }))
		cut := w.cut
		if cut == 0 {
			cut = longest
		}
		for at := 0; at < longest; at += cut {
			for i, ids := range group {
				requests[i].Tokens = ids[min(at, len(ids)):min(at+cut, len(ids))]
			}
			logits, err := m.Eval(ctx, requests...)
			if err != nil {
				return nil, err
			}
			for i, rows := range logits {
				for _, row := range rows {
					binary.Write(hashers[i], binary.LittleEndian, row)
					if total != nil {
						binary.Write(total, binary.LittleEndian, row)
					}
				}
			}
		}
		for i := range group {
			sum := hashers[i].Sum(nil)
			if i < n {
				sums = append(sums, sum)
			} else if !slices.Equal(sum, sums[len(sums)-n]) {
				return nil, fmt.Errorf("%s: copies of one sequence in a batch differ", w.name)
			}
			requests[i].Session.Close()
		}
	}
	return sums, nil
}

// verifyWays evaluates the sequences in every way and compares with want, the
// hashes of the whole prompts. A line a way goes to standard error.
func (a *app) verifyWays(ctx context.Context, s source, o model.Options, contracts []string, sequences [][]int32, want [][]byte) error {
	wrong := 0
	for _, w := range ways(contracts)[1:] {
		b := *a
		b.err = io.Discard
		if w.forcesImpl {
			b.kernels = append(slices.Clip(a.kernels), w.contract+"="+w.impl)
			b.force = []string{"dot"} // emulated where it is not fast
		}
		verdict, err := b.tryWay(ctx, s, o, w, sequences, want)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if verdict == "WRONG" {
			wrong++
		}
		fmt.Fprintf(a.err, "%-48s %s\n", w.name, verdict)
	}
	if wrong > 0 {
		return fmt.Errorf("%d ways give other logits than whole prompts", wrong)
	}
	return nil
}

func (a *app) tryWay(ctx context.Context, s source, o model.Options, w way, sequences [][]int32, want [][]byte) (string, error) {
	o.Sequences = w.together
	x, err := a.executor(a.device)
	if err == nil {
		var m *opened
		if m, err = a.load(ctx, s, x, o); err == nil {
			defer m.Close()
			var got [][]byte
			if got, err = w.hashes(ctx, m.Model, sequences, nil); err == nil && !slices.EqualFunc(got, want, bytes.Equal) {
				return "WRONG", nil
			}
		}
	}
	switch {
	case w.forcesImpl && errors.Is(err, graph.ErrUnsupported):
		return "not on this device", nil
	case err != nil:
		return "", err
	}
	return "same bits", nil
}

// contracts lists the contracts of the model's graphs, for one token and for many.
func contracts(m *model.Model) ([]string, error) {
	var names []string
	for _, n := range []int{1, 2 * op.PageTokens} {
		p, err := m.Program(n, 1, n)
		if err != nil {
			return nil, err
		}
		for _, node := range p.Graph().Nodes {
			names = append(names, node.Contract)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
