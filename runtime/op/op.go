// Package op is the typed operations of Tern's graphs. An operation checks
// shapes, packs push constants, names a contract (the law is the twin in
// runtime/ref) and appends a node. A wrong shape here is its author's mistake
// and panics: weights and configurations read from files are checked before.
package op

import (
	"fmt"
	"math"

	"github.com/ternvk/tern/runtime/graph"
)

// Act is the activation contract of matrix products.
type Act int

const (
	I8  Act = iota // int8 per block of 64 (default)
	F16            // rounded to halves
	F32            // as they are
)

func (a Act) String() string { return [...]string{"int8", "f16", "f32"}[a] }

// suffix of contract names.
func (a Act) suffix() string { return [...]string{"i8", "f16", "f32"}[a] }

// ParseAct reads int8, f16 or f32.
func ParseAct(s string) (Act, error) {
	for _, a := range []Act{I8, F16, F32} {
		if a.String() == s {
			return a, nil
		}
	}
	return 0, fmt.Errorf("activations %q: want int8, f16 or f32", s)
}

// bytes of n rows of k elements.
func (a Act) bytes(n, k int) uint64 {
	switch a {
	case I8:
		return uint64(n) * uint64(k/64) * (64 + 8)
	case F16:
		return uint64(n) * uint64(k) * 2
	}
	return uint64(n) * uint64(k) * 4
}

// perWord is the number of elements in a word.
func (a Act) perWord() int { return [...]int{4, 2, 1}[a] }

// Rows is a float32 matrix [N][K] in the graph.
type Rows struct {
	*graph.Value
	N, K int
}

// Acts is N rows of K activations, ready for a matrix product.
type Acts struct {
	*graph.Value
	N, K int
}

// Const is a float32 vector in the model's constants.
type Const struct {
	Offset int // in floats
	Len    int
}

// Builder appends operations for one batch to a graph.
type Builder struct {
	G      *graph.Graph
	Act    Act
	Batch  *graph.Value // words laid out by Layout
	Layout Layout
	Consts *graph.Value // all constants of the model
	Chunks int          // bound on the attention chunks of any token of the batch
	Spread bool         // the tokens are of many sequences: attention is split over chunks, as for a few tokens
	// Headless asks for the normed hidden states in place of the logits.
	Headless bool
	prefix   string
}

// Layer sets the layer that labels of following nodes name; negative for none.
func (b *Builder) Layer(i int) {
	b.prefix = ""
	if i >= 0 {
		b.prefix = fmt.Sprintf("blk.%d.", i)
	}
}

func (b *Builder) add(label, contract string, x, y int, spec, push []uint32, work, bytes uint64, args ...graph.Arg) {
	b.G.Add(&graph.Node{
		Label: b.prefix + label, Contract: contract, Domain: [2]uint32{uint32(x), uint32(y)},
		Spec: spec, Push: push, Args: args, Work: work, Bytes: bytes,
	})
}

func (b *Builder) rows(name string, n, k int) Rows {
	return Rows{b.G.Temp(b.prefix+name, graph.F32, uint64(n)*uint64(k)*4, k, n), n, k}
}

func (b *Builder) acts(name string, n, k int) Acts {
	kind := graph.Raw
	if b.Act == F32 {
		kind = graph.F32
	}
	must(k%64 == 0, "activations of %d elements: want a multiple of 64", k)
	return Acts{b.G.Temp(b.prefix+name, kind, b.Act.bytes(n, k), k, n), n, k}
}

func f32(x float32) uint32 { return math.Float32bits(x) }

func u32(xs ...int) []uint32 {
	words := make([]uint32, len(xs))
	for i, x := range xs {
		words[i] = uint32(x)
	}
	return words
}

func must(ok bool, format string, args ...any) {
	if !ok {
		panic("op: " + fmt.Sprintf(format, args...))
	}
}
