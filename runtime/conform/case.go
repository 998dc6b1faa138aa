package conform

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// Case is one made-up run of a contract. It depends on nothing but the
// contract, the seed and the index.
type Case struct {
	Contract string
	Index    int
	Name     string    // index, shape and kinds of values
	Domain   [2]uint32 // of the node
	Work     uint64    // multiply-adds or element operations, about
	Products int64     // output words of rows of at least 64 random weights

	shapes bool // of published models
	rng    *rand.Rand
	act    op.Act
	record func(m *maker)
}

// A space is the shapes and values of a contract: it sets the Domain, Work,
// Products, record and, from shape and kinds, Name of a case.
type space func(c *Case, r *rand.Rand)

// NewCase makes case index of a contract. The first cases are edges. Case
// panics for a contract that Contracts does not list.
func NewCase(contract string, seed uint64, index int) *Case {
	return newCase(contract, seed, index, false)
}

func newCase(contract string, seed uint64, index int, shapes bool) *Case {
	h := fnv.New64a()
	h.Write([]byte(contract))
	c := &Case{Contract: contract, Index: index, shapes: shapes, act: op.F32}
	c.rng = rand.New(rand.NewPCG(seed, h.Sum64()+uint64(index)))
	spaces[contract](c, c.rng)
	c.Name = fmt.Sprintf("case %d (%s)", index, c.Name)
	return c
}

var spaces = withFormats(map[string]space{
	"pick_rows_f32":            pickRowsF32,
	"add_check_f32":            addCheck,
	"quantize_f16":             quantize(op.F16),
	"quantize_i8":              quantize(op.I8),
	"rms_norm_f32":             rmsNorm(op.F32),
	"rms_norm_f16":             rmsNorm(op.F16),
	"rms_norm_i8":              rmsNorm(op.I8),
	"silu_mul_f32":             siluMul(op.F32),
	"silu_mul_f16":             siluMul(op.F16),
	"silu_mul_i8":              siluMul(op.I8),
	"qkv_rope_cache_f16":       qkvRopeCache,
	"attention_f16":            attention,
	"attention_part_f16":       attentionPart(op.F32),
	"qkv_rope_cache_q":         qkvRopeCache,
	"attention_q":              attention,
	"attention_part_q":         attentionPart(op.F32),
	"attention_join_f32":       attentionPart(op.F32),
	"attention_join_f16":       attentionPart(op.F16),
	"attention_join_i8":        attentionPart(op.I8),
	"delta_inputs_f32":         deltaInputs,
	"delta_rule_f32":           deltaRule,
	"delta_norm_f32":           deltaNorm(op.F32),
	"delta_norm_f16":           deltaNorm(op.F16),
	"delta_norm_i8":            deltaNorm(op.I8),
	"sigmoid_mul_f32":          sigmoidMul(op.F32),
	"sigmoid_mul_f16":          sigmoidMul(op.F16),
	"sigmoid_mul_i8":           sigmoidMul(op.I8),
	"experts_route_f32":        expertsRoute,
	"experts_sum_f32":          expertsSum,
	"hadamard_f32":             hadamard(op.F32),
	"hadamard_f16":             hadamard(op.F16),
	"hadamard_i8":              hadamard(op.I8),
	"silu_mul_hadamard_f32":    siluMulHadamard(op.F32),
	"silu_mul_hadamard_f16":    siluMulHadamard(op.F16),
	"silu_mul_hadamard_i8":     siluMulHadamard(op.I8),
	"sigmoid_mul_hadamard_f32": sigmoidMulHadamard(op.F32),
	"sigmoid_mul_hadamard_f16": sigmoidMulHadamard(op.F16),
	"sigmoid_mul_hadamard_i8":  sigmoidMulHadamard(op.I8),
	"delta_norm_hadamard_f32":  deltaNormHadamard(op.F32),
	"delta_norm_hadamard_f16":  deltaNormHadamard(op.F16),
	"delta_norm_hadamard_i8":   deltaNormHadamard(op.I8),
	"hadamard_inverse_f32":     hadamardInverse,
	"argmax_f32":               argmax,
	"penalise_f32":             penalise,
	"top_k_f32":                topK,
	"sample_f32":               sample,
})

// withFormats adds the contracts of the formats of weights.
func withFormats(list map[string]space) map[string]space {
	formats := map[string][]*op.Format{}
	for _, f := range op.Formats() {
		formats[f.Kernel] = append(formats[f.Kernel], f)
	}
	for name, f := range formats {
		list["dequant_"+name] = dequant(f)
		list["get_rows_"+name] = getRows(f)
		for suffix, act := range map[string]op.Act{"_i8": op.I8, "_f16": op.F16, "_f32": op.F32} {
			list["mul_mat_"+name+suffix] = mulMat(act, f)
			list["mul_mat_id_"+name+suffix] = mulMatExperts(act, f)
		}
	}
	return list
}

// from returns entry i of a list, round and round. Lists of one space have
// coprime lengths, so that rising i meets all combinations.
func (c *Case) from(list []int) int { return list[c.Index%len(list)] }

// shape sets what a case is about.
func (c *Case) shape(x, y int, work uint64, format string, args ...any) {
	c.Domain = [2]uint32{uint32(x), uint32(y)}
	c.Work = work
	c.Name = fmt.Sprintf(format, args...)
}

// maker records the graph of a case, with inputs in buffers of an executor.
type maker struct {
	op.Builder
	x      graph.Executor
	r      *rand.Rand
	consts []float32
	err    error
}

func newMaker(x graph.Executor, r *rand.Rand, act op.Act) *maker {
	return &maker{x: x, r: r, Builder: op.Builder{G: graph.New("conform"), Act: act}}
}

// input is a value with words in a buffer of the executor.
func (m *maker) input(name string, kind graph.Kind, words []uint32, shape ...int) *graph.Value {
	buf, err := m.x.Alloc(graph.Cache, name, uint64(len(words))*4)
	if err == nil {
		err = m.x.Write(buf, 0, asBytes(words))
	}
	if err != nil {
		m.err = err
		buf = nil
	}
	return &graph.Value{Name: name, Kind: kind, Bytes: uint64(len(words)) * 4, Buffer: buf, Shape: shape}
}

// rows is n rows of k values.
func (m *maker) rows(name string, n, k int, v values) op.Rows {
	return op.Rows{Value: m.input(name, graph.F32, wordsOf(v.floats(m.r, n*k)), k, n), N: n, K: k}
}

// constant adds to the constants; setConsts ends them.
func (m *maker) constant(data []float32) op.Const {
	c := op.Const{Offset: len(m.consts), Len: len(data)}
	m.consts = append(m.consts, data...)
	return c
}

func (m *maker) setConsts() {
	m.Consts = m.input("consts", graph.F32, wordsOf(m.consts), len(m.consts))
}

func wordsOf(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
