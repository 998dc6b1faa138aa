package synth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ternvk/tern/model/gguf"
)

// Shape is the geometry of a synthetic model, and what else its file depends on.
type Shape struct {
	Name                 string
	Arch                 string // general.architecture
	Layers, Hidden, FFN  int
	Heads, KVHeads, Head int // number of heads and their size
	Vocab, Context       int
	Tied                 bool // no output.weight: the embedding is the head
	RopeBase             float32
	YaRNFactor           float32 // 0: no YaRN
	YaRNOriginal         int     // context before YaRN
	Delta                Delta   // of qwen35 and qwen35moe
	MoE                  MoE     // of qwen3moe and qwen35moe
	Seed                 uint64
	Softer               float32 // divides the logits, so that 8-bit activations flip fewer tokens; 0: 1
	Code3                bool    // about 2.5 % of ternary codes are 3 where the type has it, or else none

	Type  gguf.Type // of matrices; those whose rows are no whole blocks of it are Q8_0
	Gates gguf.Type // of the small matrices ssm_alpha and ssm_beta; F32, the zero value: Type
	Join  int       // blocks of 64 that share a scale if the type allows more scales; 0: 1
	// Rotate writes the keys of Hadamard-rotated weights. Float weights are those
	// of the model without it, rotated; others are noise either way.
	Rotate bool
}

// Delta is the sizes of gated delta nets.
type Delta struct{ Keys, Values, Dim int }

// MoE is the sizes of a mixture of experts.
type MoE struct{ Experts, Used, FFN, Shared int }

func (s Shape) recurrent() bool { return s.Arch == "qwen35" || s.Arch == "qwen35moe" }

// attends reports whether layer i has full attention.
func (s Shape) attends(i int) bool { return !s.recurrent() || i%4 == 3 }

// Wide crosses the borders of the arithmetic with few layers: a query width
// that is not the hidden size, grouped heads, a short last slice, YaRN, code 3,
// and a separate head with more rows than a device need have workgroups.
var Wide = Shape{
	Name: "wide", Arch: "qwen3", Layers: 2, Hidden: 2560, FFN: 1088, Heads: 32, KVHeads: 8, Head: 128, Vocab: 70001, Context: 32768,
	RopeBase: 1e6, YaRNFactor: 4, YaRNOriginal: 8192, Seed: 0x7465726e77696465, Code3: true, Type: gguf.Q2_0,
}

// Shapes are the shapes that can be asked for by name.
var Shapes = []Shape{
	tiny("tiny", "qwen3"),
	tiny("tiny-moe", "qwen3moe"),
	tiny("tiny-hybrid", "qwen35"),
	tiny("tiny-hybrid-moe", "qwen35moe"),
	Wide,
	bonsai("ternary-bonsai-1.7b", 28, 2048, 6144, 16, 32768, true),
	bonsai("ternary-bonsai-4b", 36, 2560, 9728, 32, 32768, true),
	bonsai("ternary-bonsai-8b", 36, 4096, 12288, 32, 65536, false),
	hybrid("ternary-bonsai-27b", 64, 5120, 17408, 24, 4, 48, false),
	rotated(hybrid("bonsai-2-2b", 24, 2048, 6144, 8, 2, 16, true)), // inferred: no such file was seen
	rotated(hybrid("bonsai-2-27b", 64, 5120, 17408, 24, 4, 48, false)),
}

// tiny fits every type's blocks.
func tiny(name, arch string) Shape {
	s := Shape{
		Name: name, Arch: arch, Layers: 4, Hidden: 256, FFN: 512, Heads: 4, KVHeads: 2, Head: 64, Vocab: 515, Context: 4096,
		RopeBase: 1e6, Seed: 1, Type: gguf.Q2_0, Softer: 4,
	}
	if s.recurrent() {
		s.Head, s.Heads, s.Delta = 128, 2, Delta{2, 4, 64}
		s.KVHeads = 1
	}
	if strings.HasSuffix(arch, "moe") {
		s.MoE = MoE{Experts: 8, Used: 3, FFN: 256}
		if s.recurrent() {
			s.MoE.Shared = 256
		}
	}
	return s
}

func bonsai(name string, layers, hidden, ffn, heads, context int, tied bool) Shape {
	return Shape{
		Name: name, Arch: "qwen3", Layers: layers, Hidden: hidden, FFN: ffn, Heads: heads, KVHeads: 8, Head: 128, Vocab: 151669, Context: context,
		Tied: tied, RopeBase: 1e6, YaRNFactor: 4, YaRNOriginal: context / 4, Seed: 1, Type: gguf.Q2_0,
	}
}

func hybrid(name string, layers, hidden, ffn, heads, kv, values int, tied bool) Shape {
	return Shape{
		Name: name, Arch: "qwen35", Layers: layers, Hidden: hidden, FFN: ffn, Heads: heads, KVHeads: kv, Head: 256, Vocab: 248320, Context: 262144,
		Tied: tied, RopeBase: 1e7, Delta: Delta{16, values, 128}, Seed: 1, Type: gguf.Q2_0,
	}
}

func rotated(s Shape) Shape {
	s.Rotate, s.Gates = true, gguf.BF16
	return s
}

// types are the types by the names that people use.
var types = map[string]gguf.Type{
	"q2_0": gguf.Q2_0, "q2_0_g128": gguf.Q2_0_G128, "pq2_0": gguf.PQ2_0, "tq2_0": gguf.TQ2_0, "ptq1_0": gguf.PTQ1_0, "tq1_0": gguf.TQ1_0,
	"q1_0": gguf.Q1_0, "q8_0": gguf.Q8_0, "q4_0": gguf.Q4_0, "q4_1": gguf.Q4_1, "q2_k": gguf.Q2_K, "q4_k": gguf.Q4_K, "q6_k": gguf.Q6_K,
	"f16": gguf.F16, "bf16": gguf.BF16, "f32": gguf.F32,
}

// Types lists the names of types.
func Types() []string {
	var names []string
	for name := range types {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Lookup returns the shape of a name, or of a name and a type: "tiny:q4_k".
func Lookup(name string) (Shape, error) {
	name, typ, typed := strings.Cut(name, ":")
	i := slices.IndexFunc(Shapes, func(s Shape) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range Shapes {
			names = append(names, s.Name)
		}
		return Shape{}, fmt.Errorf("no synthetic shape %q; there are %q", name, names)
	}
	s := Shapes[i]
	if !typed {
		return s, nil
	}
	t, ok := types[strings.ToLower(typ)]
	if !ok {
		return Shape{}, fmt.Errorf("no type %q of weights; there are %q", typ, Types())
	}
	s.Type, s.Name = t, name+":"+strings.ToLower(typ)
	return s, nil
}
