// Package ref is the specification of Tern's arithmetic: one plain Go twin for
// every kernel contract, and an executor that runs a graph with the twins. A
// twin's doc comment is the law; kernels must give its words.
//
// All buffers are words of 32 bits. Rows are contiguous, innermost dimension
// first. Sums start at +0.
package ref

import (
	"fmt"
	"maps"
	"strings"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
)

// Twin computes one node. args are the words of the node's bindings.
type Twin func(n *graph.Node, args [][]uint32)

// twins has one line per contract, but for those of the formats of weights.
var twins = withFormats(map[string]Twin{
	"dequant_q2_0":             dequantQ2_0,
	"get_rows_q2_0":            getRowsQ2_0,
	"pick_rows_f32":            pickRowsF32,
	"add_check_f32":            addCheckF32,
	"quantize_f16":             quantize(actF16),
	"quantize_i8":              quantize(actI8),
	"rms_norm_f32":             rmsNorm(actF32),
	"rms_norm_f16":             rmsNorm(actF16),
	"rms_norm_i8":              rmsNorm(actI8),
	"silu_mul_f32":             siluMul(actF32),
	"silu_mul_f16":             siluMul(actF16),
	"silu_mul_i8":              siluMul(actI8),
	"mul_mat_q2_0_i8":          mulMatQ2_0I8,
	"mul_mat_q2_0_f16":         mulMatQ2_0F16,
	"mul_mat_q2_0_f32":         mulMatQ2_0F32,
	"qkv_rope_cache_f16":       qkvRopeCacheF16,
	"attention_f16":            attentionF16,
	"attention_part_f16":       attentionPartF16,
	"qkv_rope_cache_q":         qkvRopeCacheQ,
	"attention_q":              attentionQ(attentionF16),
	"attention_part_q":         attentionQ(attentionPartF16),
	"attention_join_f32":       attentionJoin(actF32),
	"attention_join_f16":       attentionJoin(actF16),
	"attention_join_i8":        attentionJoin(actI8),
	"delta_inputs_f32":         deltaInputs,
	"delta_rule_f32":           deltaRule,
	"delta_norm_f32":           deltaNorm(actF32),
	"delta_norm_f16":           deltaNorm(actF16),
	"delta_norm_i8":            deltaNorm(actI8),
	"sigmoid_mul_f32":          sigmoidMul(actF32),
	"sigmoid_mul_f16":          sigmoidMul(actF16),
	"sigmoid_mul_i8":           sigmoidMul(actI8),
	"experts_route_f32":        expertsRoute,
	"experts_sum_f32":          expertsSum,
	"hadamard_f32":             hadamard(actF32),
	"hadamard_f16":             hadamard(actF16),
	"hadamard_i8":              hadamard(actI8),
	"silu_mul_hadamard_f32":    siluMulHadamard(actF32),
	"silu_mul_hadamard_f16":    siluMulHadamard(actF16),
	"silu_mul_hadamard_i8":     siluMulHadamard(actI8),
	"sigmoid_mul_hadamard_f32": sigmoidMulHadamard(actF32),
	"sigmoid_mul_hadamard_f16": sigmoidMulHadamard(actF16),
	"sigmoid_mul_hadamard_i8":  sigmoidMulHadamard(actI8),
	"delta_norm_hadamard_f32":  deltaNormHadamard(actF32),
	"delta_norm_hadamard_f16":  deltaNormHadamard(actF16),
	"delta_norm_hadamard_i8":   deltaNormHadamard(actI8),
	"hadamard_inverse_f32":     hadamardInverse,
	"argmax_f32":               argmaxF32,
	"penalise_f32":             penaliseF32,
	"top_k_f32":                topKF32,
	"sample_f32":               sampleF32,
})

// withFormats adds the contracts of each format: rows, whole tensors, and products,
// ordinary ones and by experts.
func withFormats(list map[string]Twin) map[string]Twin {
	for name, f := range blockFormats {
		list["dequant_"+name], list["get_rows_"+name] = f.dequant, f.getRows
		list["mul_mat_"+name+"_i8"], list["mul_mat_"+name+"_f16"], list["mul_mat_"+name+"_f32"] = f.mulMatI8, f.mulMatF16, f.mulMatF32
	}
	for name, f := range floatFormats {
		list["dequant_"+name], list["get_rows_"+name] = f.dequant, f.getRows
		list["mul_mat_"+name+"_i8"], list["mul_mat_"+name+"_f16"], list["mul_mat_"+name+"_f32"] = f.mulMat(actI8), f.mulMat(actF16), f.mulMat(actF32)
	}
	acts := map[string]act{"_i8": actI8, "_f16": actF16, "_f32": actF32}
	byExperts := map[string]Twin{}
	for name, twin := range list {
		if product, ok := strings.CutPrefix(name, "mul_mat_"); ok {
			byExperts["mul_mat_id_"+product] = byExpert(twin, acts[product[strings.LastIndex(product, "_"):]])
		}
	}
	maps.Copy(list, byExperts)
	return list
}

// Lookup returns the twin of a contract.
func Lookup(contract string) (Twin, error) {
	t, ok := twins[contract]
	if !ok {
		return nil, fmt.Errorf("reference: no twin for contract %q: %w", contract, graph.ErrUnsupported)
	}
	return t, nil
}

// Contracts lists the contracts that have twins, in no order.
func Contracts() []string {
	var names []string
	for name := range twins {
		names = append(names, name)
	}
	return names
}

// Floats views words as float32.
func Floats(words []uint32) []float32 {
	if len(words) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&words[0])), len(words))
}
