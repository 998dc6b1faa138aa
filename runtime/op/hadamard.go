package op

import (
	"math"

	"github.com/ternvk/tern/runtime/graph"
)

// Sizes of the blocks of a Walsh-Hadamard transform.
const (
	LeastHadamard = 64
	MostHadamard  = 2048
)

// HeadOrder is a change in the order of heads of Dim elements: from all first heads
// of Keys groups, then all second ones and so on, to the Rep heads of a group
// together. The zero value changes nothing.
type HeadOrder struct {
	Dim, Keys, Rep int
}

// Hadamard is the normalised Walsh-Hadamard transform of signs times x, in blocks,
// as activations. The signs are a vector for the rows' width.
func (b *Builder) Hadamard(label string, x Rows, signs Const, block int, order HeadOrder) Acts {
	if order == (HeadOrder{}) {
		order = HeadOrder{x.K, 1, 1}
	}
	must(order.Dim*order.Keys*order.Rep == x.K, "%s: heads %+v in rows of %d", label, order, x.K)
	b.checkHadamard(label, x.K, signs, block)
	a := b.acts(label, x.N, x.K)
	push := append(u32(x.N, x.K, signs.Offset), f32(rsqrtOf(block)))
	push = append(push, u32(order.Dim, order.Keys, order.Rep)...)
	b.add(label, "hadamard_"+b.Act.suffix(), x.K/block, x.N, u32(block), push, uint64(12*x.N*x.K), x.Bytes+a.Bytes,
		graph.In(x.Value), graph.In(b.Consts), graph.Out(a.Value))
	return a
}

// SiluMulHadamard is SiluMul and then Hadamard, in one.
func (b *Builder) SiluMulHadamard(label string, x Rows, signs Const, block int) Acts {
	k := x.K / 2
	b.checkHadamard(label, k, signs, block)
	a := b.acts(label, x.N, k)
	push := append(u32(x.N, k, signs.Offset), f32(rsqrtOf(block)))
	b.add(label, "silu_mul_hadamard_"+b.Act.suffix(), k/block, x.N, u32(block), push, uint64(44*x.N*k), x.Bytes+a.Bytes,
		graph.In(x.Value), graph.In(b.Consts), graph.Out(a.Value))
	return a
}

// SigmoidMulHadamard is SigmoidMul and then Hadamard, in one.
func (b *Builder) SigmoidMulHadamard(label string, x, gates Rows, first int, signs Const, block int) Acts {
	must(x.N == gates.N && first+x.K <= gates.K, "%s: gates %d.. of %d for rows of %d", label, first, gates.K, x.K)
	b.checkHadamard(label, x.K, signs, block)
	a := b.acts(label, x.N, x.K)
	push := append(u32(x.N, x.K, signs.Offset), f32(rsqrtOf(block)))
	b.add(label, "sigmoid_mul_hadamard_"+b.Act.suffix(), x.K/block, x.N, u32(block), append(push, u32(gates.K, first)...), uint64(44*x.N*x.K), 2*x.Bytes+a.Bytes,
		graph.In(x.Value), graph.In(gates.Value), graph.In(b.Consts), graph.Out(a.Value))
	return a
}

// DeltaNormHadamard is DeltaNorm and then Hadamard, in one, for blocks of whole heads;
// grouped puts the value heads of a key head together first.
func (b *Builder) DeltaNormHadamard(x Rows, d Delta, weight Const, eps float32, signs Const, block int, grouped bool) Acts {
	k := d.Inner()
	must(weight.Len == d.Dim && block%d.Dim == 0, "delta net: norm of %d for heads of %d, in blocks of %d", weight.Len, d.Dim, block)
	b.checkHadamard("delta_norm", k, signs, block)
	a := b.acts("delta_norm", x.N, k)
	order := 0
	if grouped {
		order = 1
	}
	push := append(u32(x.N, weight.Offset, signs.Offset, order), f32(1/float32(d.Dim)), f32(eps), f32(rsqrtOf(block)))
	b.add("delta_norm", "delta_norm_hadamard_"+b.Act.suffix(), k/block, x.N, append(d.spec(), uint32(block)), push, uint64(52*x.N*k), uint64(8*x.N*k)+a.Bytes,
		graph.In(x.Value), graph.In(b.Consts), graph.Out(a.Value))
	return a
}

// HadamardInverse undoes the transform of rows that were stored with it: x becomes
// signs times its transform.
func (b *Builder) HadamardInverse(label string, x Rows, signs Const, block int) {
	b.checkHadamard(label, x.K, signs, block)
	push := append(u32(x.N, x.K, signs.Offset), f32(rsqrtOf(block)))
	b.add(label, "hadamard_inverse_f32", x.K/block, x.N, u32(block), push, uint64(12*x.N*x.K), 2*x.Bytes,
		graph.InOut(x.Value), graph.In(b.Consts))
}

func (b *Builder) checkHadamard(label string, k int, signs Const, block int) {
	must(block >= LeastHadamard && block <= MostHadamard && block&(block-1) == 0 && k%block == 0, "%s: blocks of %d in rows of %d", label, block, k)
	must(signs.Len == k, "%s: %d signs for rows of %d", label, signs.Len, k)
}

func rsqrtOf(n int) float32 { return float32(1 / math.Sqrt(float64(n))) }
