package op

import (
	"math"

	"github.com/ternvk/tern/runtime/graph"
)

// Delta is the geometry of a gated delta net: heads of keys (and queries) and of
// values, all of Dim elements, and the taps of its convolution over time. Value
// head h goes with key head h mod Keys.
type Delta struct {
	Keys, Values, Dim, Taps int
}

// Channels is the number of elements that the convolution goes over: q, k and v.
func (d Delta) Channels() int { return (2*d.Keys + d.Values) * d.Dim }

// Inner is the number of elements of all value heads.
func (d Delta) Inner() int { return d.Values * d.Dim }

// Row is the length of a row of the layer's product: q, k and v heads, z, beta
// and alpha.
func (d Delta) Row() int { return d.Channels() + d.Inner() + 2*d.Values }

func (d Delta) spec() []uint32 { return u32(d.Dim, d.Keys, d.Values) }

// State is the recurrent state of one layer, in slots.
type State struct {
	conv, rule *graph.Value
}

// StateBytes is the size of a layer's state in slots: of the convolution's last
// inputs and of the matrices.
func StateBytes(d Delta, slots int) (conv, rule uint64) {
	return uint64(slots) * uint64((d.Taps-1)*d.Channels()) * 4, uint64(slots) * uint64(d.Inner()*d.Dim) * 4
}

// NewState views two buffers as the state of a layer.
func NewState(name string, conv, rule graph.Buffer, d Delta, slots int) State {
	c, r := StateBytes(d, slots)
	return State{
		&graph.Value{Name: name + ".conv", Kind: graph.F32, Bytes: c, Buffer: conv, Shape: []int{d.Channels(), d.Taps - 1, slots}},
		&graph.Value{Name: name + ".state", Kind: graph.F32, Bytes: r, Buffer: rule, Shape: []int{d.Dim, d.Dim, d.Values, slots}},
	}
}

// Buffers returns what NewState was given.
func (s State) Buffers() []graph.Buffer { return []graph.Buffer{s.conv.Buffer, s.rule.Buffer} }

// DeltaRows is rows [n][Row] for the products of a delta net's input, with room for
// outputs [n][Channels] behind.
func (b *Builder) DeltaRows(d Delta) Rows {
	n := b.Layout.N
	return Rows{b.G.Temp(b.prefix+"delta", graph.F32, uint64(n*(d.Row()+d.Channels()))*4, d.Row(), n), n, d.Row()}
}

// DeltaInputs makes of the product x the normed queries and keys, the values and
// the gates, after the convolution whose weights [channels][taps], decay
// coefficients a and time biases dt are given; queries also by 1/sqrt(dim).
func (b *Builder) DeltaInputs(x Rows, d Delta, s State, weights, a, dt Const, eps float32) {
	must(weights.Len == d.Channels()*d.Taps && a.Len == d.Values && dt.Len == d.Values, "delta net: weights of %d, a of %d, dt of %d", weights.Len, a.Len, dt.Len)
	must(d.Dim%64 == 0 && d.Dim <= 256 && d.Values%d.Keys == 0 && d.Taps >= 2, "delta net %+v", d)
	l := b.Layout
	must(l.Seqs > 0, "a batch without records of sequences")
	push := append(u32(x.N, weights.Offset, a.Offset, dt.Offset, l.Members, l.Sequences), f32(eps), f32(float32(1/math.Sqrt(float64(d.Dim)))))
	b.add("delta_inputs", "delta_inputs_f32", 2*d.Keys+d.Values+1, x.N, append(d.spec(), uint32(d.Taps)), push, uint64(20*x.N*d.Channels()), 2*uint64(x.N*d.Channels())*4,
		graph.InOut(x.Value), graph.InOut(s.conv), graph.In(b.Batch), graph.In(b.Consts))
}

// DeltaRule runs the recurrence; x's value heads become its outputs.
func (b *Builder) DeltaRule(x Rows, d Delta, s State) {
	l := b.Layout
	b.add("delta_rule", "delta_rule_f32", d.Inner(), l.Seqs, d.spec(), u32(x.N, l.Sequences), uint64(6*x.N*d.Inner()*d.Dim), uint64(2*l.Seqs*d.Inner()*d.Dim*4+3*x.N*d.Channels()*4),
		graph.InOut(x.Value), graph.InOut(s.rule), graph.In(b.Batch))
}

// DeltaNorm is the norm of each value head times silu(z), as activations [n][Inner].
func (b *Builder) DeltaNorm(x Rows, d Delta, weight Const, eps float32) Acts {
	must(weight.Len == d.Dim, "delta net: norm of %d for heads of %d", weight.Len, d.Dim)
	a := b.acts("delta_norm", x.N, d.Inner())
	push := append(u32(x.N, weight.Offset), f32(1/float32(d.Dim)), f32(eps))
	b.add("delta_norm", "delta_norm_"+b.Act.suffix(), d.Values, x.N, d.spec(), push, uint64(40*x.N*d.Inner()), uint64(8*x.N*d.Inner())+a.Bytes,
		graph.In(x.Value), graph.In(b.Consts), graph.Out(a.Value))
	return a
}

// SigmoidMul is x * sigmoid(gate), the gates being elements first.. of wider rows.
func (b *Builder) SigmoidMul(label string, x, gates Rows, first int) Acts {
	must(x.N == gates.N && first+x.K <= gates.K, "%s: gates %d.. of %d for rows of %d", label, first, gates.K, x.K)
	a := b.acts(label, x.N, x.K)
	b.add(label, "sigmoid_mul_"+b.Act.suffix(), x.K/b.Act.perWord(), x.N, nil, u32(x.N, x.K, gates.K, first), uint64(32*x.N*x.K), 2*x.Bytes+a.Bytes,
		graph.In(x.Value), graph.In(gates.Value), graph.Out(a.Value))
	return a
}

// Float is the builder of the same batch with float32 activations, for parts of
// a model whose results need another step before they are rounded.
func (b *Builder) Float() *Builder {
	f := *b
	f.Act = F32
	return &f
}
