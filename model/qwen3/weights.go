package qwen3

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// Weights are a model's tensors on an executor.
type Weights struct {
	Embd, Head *op.Matrix // the same when tied
	OutputNorm op.Const
	Rope       op.Const
	Layers     []Layer
	Consts     *graph.Value
	matrices   []*op.Matrix
}

// Layer holds the tensors of one block. Matrices with the same input are stacked.
type Layer struct {
	QKV, O, GateUp, Down            *op.Matrix
	AttnNorm, FFNNorm, QNorm, KNorm op.Const
}

// matrix names one stacked upload.
type matrix struct {
	to    **op.Matrix
	name  string
	parts []part
	cols  int
}

type part struct {
	name string
	rows int
}

func (w *Weights) plan(c Config) []matrix {
	h := c.Heads
	list := []matrix{{&w.Embd, "token_embd", []part{{"token_embd", c.Vocab}}, c.Hidden}}
	if !c.Tied {
		list = append(list, matrix{&w.Head, "output", []part{{"output", c.Vocab}}, c.Hidden})
	}
	for i := range w.Layers {
		l, p := &w.Layers[i], fmt.Sprintf("blk.%d.", i)
		list = append(list,
			matrix{&l.QKV, p + "attn_qkv", []part{{p + "attn_q", h.Q * h.Dim}, {p + "attn_k", h.KV * h.Dim}, {p + "attn_v", h.KV * h.Dim}}, c.Hidden},
			matrix{&l.O, p + "attn_output", []part{{p + "attn_output", c.Hidden}}, h.Q * h.Dim},
			matrix{&l.GateUp, p + "ffn_gate_up", []part{{p + "ffn_gate", c.FFN}, {p + "ffn_up", c.FFN}}, c.Hidden},
			matrix{&l.Down, p + "ffn_down", []part{{p + "ffn_down", c.Hidden}}, c.FFN},
		)
	}
	return list
}

// Bytes is the memory that the matrices and constants take on a device, with
// rope tables for the given number of positions.
func (c Config) Bytes(positions int) (weights, constants uint64) {
	var w Weights
	w.Layers = make([]Layer, c.Layers)
	for _, m := range w.plan(c) {
		rows := 0
		for _, p := range m.parts {
			rows += p.rows
		}
		weights += op.MatrixBytes(rows, m.cols)
	}
	floats := c.Hidden + c.Layers*(2*c.Hidden+2*c.Heads.Dim) + positions*c.Rope.Dim
	return weights, uint64(floats) * 4
}

// Load checks every tensor of f against the configuration and then uploads all:
// matrices, norms, and the rope table for the given number of positions.
// progress, if not nil, is told the bytes of the file done so far.
func Load(x graph.Executor, f *gguf.File, c Config, positions int, progress func(done, total uint64)) (w *Weights, err error) {
	w = &Weights{Layers: make([]Layer, c.Layers)}
	list := w.plan(c)
	var total, done uint64
	sources := make([][]op.Source, len(list))
	for i, m := range list {
		for _, p := range m.parts {
			t, err := tensor(f, p.name+".weight", gguf.Q2_0, uint64(m.cols), uint64(p.rows))
			if err != nil {
				return nil, err
			}
			sources[i] = append(sources[i], op.Source{Name: t.Name, Rows: p.rows, K: m.cols, Data: t.Data()})
			total += t.Size
		}
	}
	var consts []float32
	norm := func(to *op.Const, name string, n int) {
		if err != nil {
			return
		}
		var t *gguf.Tensor
		if t, err = tensor(f, name, gguf.F32, uint64(n)); err != nil {
			return
		}
		*to = op.Const{Offset: len(consts), Len: n}
		for data := t.Data(); len(data) > 0; data = data[4:] {
			v := math.Float32frombits(binary.LittleEndian.Uint32(data))
			if v-v != 0 {
				err = fmt.Errorf("%s: tensor %s: %w", f.Name, name, graph.ErrNonFinite)
				return
			}
			consts = append(consts, v)
		}
	}
	norm(&w.OutputNorm, "output_norm.weight", c.Hidden)
	for i := range w.Layers {
		l, p := &w.Layers[i], fmt.Sprintf("blk.%d.", i)
		norm(&l.AttnNorm, p+"attn_norm.weight", c.Hidden)
		norm(&l.FFNNorm, p+"ffn_norm.weight", c.Hidden)
		norm(&l.QNorm, p+"attn_q_norm.weight", c.Heads.Dim)
		norm(&l.KNorm, p+"attn_k_norm.weight", c.Heads.Dim)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.Free(x)
		}
	}()
	w.Rope = op.Const{Offset: len(consts), Len: positions * c.Rope.Dim}
	if w.Consts, err = op.UploadConsts(x, consts, c.Rope.Table(positions)); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	for i, m := range list {
		if *m.to, err = op.Upload(x, m.name, sources[i]...); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		w.matrices = append(w.matrices, *m.to)
		for _, s := range sources[i] {
			done += uint64(len(s.Data))
		}
		if progress != nil {
			progress(done, total)
		}
	}
	if c.Tied {
		w.Head = w.Embd
	}
	return w, nil
}

// Free returns all memory of the weights.
func (w *Weights) Free(x graph.Executor) {
	for _, m := range w.matrices {
		m.Free(x)
	}
	w.matrices = nil
	if w.Consts != nil {
		x.Free(w.Consts.Buffer)
		w.Consts = nil
	}
}

func tensor(f *gguf.File, name string, want gguf.Type, dims ...uint64) (*gguf.Tensor, error) {
	t := f.Tensor(name)
	if t == nil {
		return nil, fmt.Errorf("%s: no tensor %s", f.Name, name)
	}
	if t.Type != want {
		return nil, fmt.Errorf("%s: tensor %s is %s; this build runs %s there: %w", f.Name, name, t.Type, want, graph.ErrUnsupported)
	}
	if len(t.Dims) != len(dims) {
		return nil, fmt.Errorf("%s: tensor %s has shape %v, want %v", f.Name, name, t.Dims, dims)
	}
	for i := range dims {
		if t.Dims[i] != dims[i] {
			return nil, fmt.Errorf("%s: tensor %s has shape %v, want %v", f.Name, name, t.Dims, dims)
		}
	}
	return t, nil
}
