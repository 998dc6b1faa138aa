package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"text/tabwriter"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/tools/internal/synth"
)

// coldBytes is how much weights a measurement goes through before it meets the same
// again, so that they come from memory: more than the caches of cards hold.
const coldBytes = 256 << 20

// matrix is one of a layer's matrices, with int8 activations of some tokens and what
// the reference makes of the first and the last of them.
type matrix struct {
	name    string
	sources []op.Source
	rows, k int
}

// benchMatrices are the matrices of a layer of a dense model, stacked as it runs them.
var benchMatrices = map[string][]string{
	"attn_qkv": {"attn_q", "attn_k", "attn_v"}, "attn_output": {"attn_output"}, "ffn_gate_up": {"ffn_gate", "ffn_up"}, "ffn_down": {"ffn_down"},
}

// layerMatrices reads them from a file.
func layerMatrices(f *gguf.File) (list []matrix, err error) {
	for name, tensors := range benchMatrices {
		m := matrix{name: name}
		for _, tensor := range tensors {
			t := f.Tensor("blk.0." + tensor + ".weight")
			if t == nil {
				return nil, fmt.Errorf("%s: no tensor blk.0.%s.weight: --products wants a dense model: %w", f.Name, tensor, graph.ErrUnsupported)
			}
			format, err := op.FormatOf(t.Type.String())
			if err != nil {
				return nil, err
			}
			m.k = int(t.Dims[0])
			m.rows += int(t.Dims[1])
			m.sources = append(m.sources, op.Source{Name: t.Name, Format: format, Rows: int(t.Dims[1]), K: m.k, Data: t.Data()})
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b matrix) int { return cmp.Compare(a.rows*a.k, b.rows*b.k) })
	return list, nil
}

// timeProducts measures every implementation of the matrix products of a layer alone:
// first whether its words are the reference's, then the time behind a barrier.
func (b *bench) timeProducts(ctx context.Context) error {
	s, err := synth.Lookup(cmp.Or(b.shape, "ternary-bonsai-1.7b"))
	if err != nil {
		return usageError{err}
	}
	s.Layers = 1
	data, err := s.BytesContext(ctx)
	if err != nil {
		return err
	}
	f, err := gguf.Parse(s.Name, data)
	if err != nil {
		return err
	}
	defer f.Close()
	list, err := layerMatrices(f)
	if err != nil {
		return err
	}
	o, err := b.deviceOptions(b.device)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "tokens\trows x K\tus\tGB/s\tTOP/s\t  kernel")
	want := map[string][]float32{}
	contract := "mul_mat_" + list[0].sources[0].Format.Kernel + "_i8"
	for _, kernel := range spirv.Contract(contract) {
		o.Kernels = map[string]string{contract: kernel.Impl}
		d, err := runtime.Open(o)
		if errors.Is(err, graph.ErrUnsupported) && !errors.Is(err, graph.ErrNoDevice) {
			continue // this device lacks what the kernel needs
		}
		if err != nil {
			return err
		}
		for _, m := range list {
			for _, n := range b.prompt {
				key := fmt.Sprint(m.name, n)
				if want[key] == nil {
					if want[key], err = m.product(ctx, ref.New(), n, nil); err != nil {
						break
					}
				}
				var ns float64
				var got []float32
				if got, err = m.product(ctx, d, n, &ns); err != nil {
					break
				}
				if i := firstDifference(want[key], got); i >= 0 {
					err = fmt.Errorf("%s: word %d of %s by %d tokens is %g, the reference has %g", kernel.Name, i, m.name, n, got[i], want[key][i])
					break
				}
				bytes := float64(op.PackedBytes(m.sources...))
				fmt.Fprintf(w, "%d\t%d x %d\t%.1f\t%.0f\t%.1f\t  %s\n", n, m.rows, m.k, ns/1e3, bytes/ns, 2*float64(n*m.rows*m.k)/ns/1e3, kernel.Name)
			}
			if err != nil {
				break
			}
		}
		d.Close()
		if err != nil {
			return err
		}
	}
	return w.Flush()
}

// product multiplies the matrix by n tokens and returns the results of the first and the
// last. With ns it is measured, over as many copies of the weights as caches do not
// hold; without, only these two tokens are computed.
func (m *matrix) product(ctx context.Context, x graph.Executor, n int, ns *float64) ([]float32, error) {
	tokens, copies := n, 1
	if ns == nil {
		tokens = min(n, 2)
	} else {
		copies = int(min(coldBytes/op.PackedBytes(m.sources...)+1, 64))
	}
	input := make([]byte, 0, tokens*m.k*4)
	for t := range tokens {
		seed := uint64(t)
		if ns == nil && t == 1 {
			seed = uint64(n - 1)
		}
		r := rand.New(rand.NewPCG(seed, 1))
		for range m.k {
			input = binary.LittleEndian.AppendUint32(input, math.Float32bits(r.Float32()-0.5))
		}
	}
	buffer, err := x.Alloc(graph.Scratch, "activations", uint64(len(input)))
	if err != nil {
		return nil, err
	}
	defer x.Free(buffer)
	if err := x.Write(buffer, 0, input); err != nil {
		return nil, err
	}
	g := graph.New("product")
	b := &op.Builder{G: g, Act: op.I8}
	acts := b.Quantize("act", op.Rows{Value: &graph.Value{Name: "x", Buffer: buffer, Bytes: uint64(len(input))}, N: tokens, K: m.k})
	var y op.Rows
	for range copies {
		w, err := op.Upload(x, m.name, m.sources...)
		if err != nil {
			return nil, err
		}
		defer w.Free(x)
		y = b.MulMat(m.name, w, acts)
	}
	p, err := x.Compile(g)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := x.Run(ctx, p); err != nil {
		return nil, err
	}
	if d, ok := x.(*runtime.Device); ok {
		times, err := d.Profile(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, t := range times[1:] {
			*ns += t.NS / float64(copies)
		}
	}
	place, offset := p.Place(y.Value)
	var out []float32
	for _, t := range []int{0, tokens - 1} {
		raw := make([]byte, m.rows*4)
		if err := x.Read(place, offset+uint64(t*m.rows*4), raw); err != nil {
			return nil, err
		}
		for i := range m.rows {
			out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		}
	}
	return out, nil
}

// firstDifference is the index of the first word that differs, -1 if none does.
func firstDifference(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}
