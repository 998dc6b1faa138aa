package quantize

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ternvk/tern/model/gguf"
)

// names are the formats that can be written, as people type them.
var names = map[string]gguf.Type{
	"q2_0": gguf.Q2_0, "q2_0_g128": gguf.Q2_0_G128, "pq2_0": gguf.PQ2_0, "ptq1_0": gguf.PTQ1_0, "tq1_0": gguf.TQ1_0, "tq2_0": gguf.TQ2_0,
	"q1_0": gguf.Q1_0, "q8_0": gguf.Q8_0, "q4_0": gguf.Q4_0, "f16": gguf.F16, "bf16": gguf.BF16, "f32": gguf.F32,
}

// ParseType reads the name of a format that can be written, in any case.
func ParseType(name string) (gguf.Type, error) {
	t, ok := names[strings.ToLower(name)]
	if !ok {
		return 0, fmt.Errorf("type %q: there are %s", name, strings.Join(TypeNames(), ", "))
	}
	return t, nil
}

// TypeNames lists what ParseType reads.
func TypeNames() []string {
	var list []string
	for n := range names {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// fileTypes are the numbers of general.file_type.
var fileTypes = map[gguf.Type]uint32{
	gguf.F32: 0, gguf.F16: 1, gguf.Q4_0: 2, gguf.Q8_0: 7, gguf.BF16: 32, gguf.TQ1_0: 36, gguf.TQ2_0: 37, gguf.Q1_0: 40,
	gguf.Q2_0: 41, gguf.Q2_0_G128: 41, gguf.PQ2_0: 141, gguf.PTQ1_0: 143,
}

// Metadata is meta with the keys that tell of the main format.
func Metadata(meta []gguf.KV, t gguf.Type) []gguf.KV {
	meta = slices.Clone(meta)
	for _, kv := range []gguf.KV{{Key: "general.file_type", Value: fileTypes[t]}, {Key: "general.quantization_version", Value: uint32(2)}} {
		if i := slices.IndexFunc(meta, func(m gguf.KV) bool { return m.Key == kv.Key }); i >= 0 {
			meta[i] = kv
		} else {
			meta = append(meta, kv)
		}
	}
	return meta
}

// Tensor is a tensor to be stored.
type Tensor struct {
	Name string
	Dims []uint64  // in ggml's order
	From gguf.Type // of the numbers so far
	// Row fills dst with the numbers of a row. It is called by several goroutines.
	Row func(dst []float32, row int) error
	// Raw holds the blocks of format From, if the numbers are just those; else nil.
	Raw []byte
}

// FromFile lists the tensors of a file, which must stay open while they are used.
func FromFile(f *gguf.File) []Tensor {
	list := make([]Tensor, len(f.Tensors))
	for i := range f.Tensors {
		t := &f.Tensors[i]
		raw, from := t.Data(), t.Type
		size := len(raw) / int(t.Elements()/t.Dims[0])
		list[i] = Tensor{Name: t.Name, Dims: t.Dims, From: from, Raw: raw, Row: func(dst []float32, row int) error {
			return Decode(from, dst, raw[row*size:][:size])
		}}
	}
	return list
}

// rows is the number of rows.
func (t *Tensor) rows() int {
	n := 1
	for _, d := range t.Dims[1:] {
		n *= int(d)
	}
	return n
}

// Override gives the tensors whose names match a format of their own.
type Override struct {
	Pattern *regexp.Regexp
	Type    gguf.Type
}

// Step says how a tensor is stored.
type Step struct {
	*Tensor
	To   gguf.Type
	Note string // why To is not what was asked for, or empty
}

// Plan chooses the format of each tensor: t for matrices, the first matching
// override before that. Vectors, convolutions and the routers of mixtures keep their
// numbers; so do the gates of delta nets in rotated files, where they are floats and
// no ternary weights. A matrix whose rows t's blocks do not divide falls back to another
// format, and its Step says so; one with an override is an error. So is an override
// that matches nothing.
func Plan(tensors []Tensor, t gguf.Type, overrides []Override, rotated bool) ([]Step, error) {
	steps := make([]Step, len(tensors))
	used := make([]bool, len(overrides))
	for i := range tensors {
		s := &steps[i]
		s.Tensor = &tensors[i]
		s.To, s.Note = choose(s.Tensor, t, rotated)
		k := slices.IndexFunc(overrides, func(o Override) bool { return o.Pattern.MatchString(s.Name) })
		if k < 0 || keepsFloats(s.Tensor) {
			continue
		}
		used[k] = true
		s.To, s.Note = overrides[k].Type, ""
		if e, _ := s.To.Block(); s.Dims[0]%e != 0 {
			return nil, fmt.Errorf("tensor %s: rows of %d weights are not a multiple of %s's block of %d", s.Name, s.Dims[0], s.To, e)
		}
	}
	for i, o := range overrides {
		if !used[i] {
			return nil, fmt.Errorf("no matrix matches %q", o.Pattern)
		}
	}
	if slices.ContainsFunc(steps, stores(gguf.Q2_0)) && slices.ContainsFunc(steps, stores(gguf.Q2_0_G128)) {
		return nil, fmt.Errorf("%s and %s have the same type id and cannot stand in one file", gguf.Q2_0, gguf.Q2_0_G128)
	}
	return steps, nil
}

func stores(t gguf.Type) func(Step) bool { return func(s Step) bool { return s.To == t } }

// keepsFloats reports whether readers want float32 of a tensor.
func keepsFloats(t *Tensor) bool {
	return len(t.Dims) == 1 || !strings.HasSuffix(t.Name, ".weight") || strings.HasSuffix(t.Name, ".ssm_conv1d.weight")
}

func choose(t *Tensor, want gguf.Type, rotated bool) (to gguf.Type, note string) {
	half := t.From == gguf.F16 || t.From == gguf.BF16
	gate := strings.Contains(t.Name, ".ssm_alpha.") || strings.Contains(t.Name, ".ssm_beta.")
	switch {
	case keepsFloats(t) && half:
		return gguf.F32, ""
	case keepsFloats(t), strings.Contains(t.Name, ".ffn_gate_inp."), gate && rotated && (half || t.From == gguf.F32):
		return t.From, ""
	}
	to = fallback(want, t.Dims[0])
	if to != want {
		e, _ := want.Block()
		note = fmt.Sprintf("rows of %d weights are not a multiple of %s's block of %d: %s instead", t.Dims[0], want, e, to)
	}
	return to, note
}

// fallback is the format nearest to t that has rows of k weights. Ternary ones fall
// back to Q2_0, which is the same for ternary weights.
func fallback(t gguf.Type, k uint64) gguf.Type {
	divides := func(t gguf.Type) bool {
		e, _ := t.Block()
		return k%e == 0
	}
	switch {
	case divides(t):
		return t
	case codecs[t].coded != nil && t != gguf.Q2_0_G128 && divides(gguf.Q2_0):
		return gguf.Q2_0
	}
	return gguf.F16
}

// Ternary reports whether a format can hold little else than -d, 0 and d.
func Ternary(t gguf.Type) bool { return codecs[t].coded != nil }
