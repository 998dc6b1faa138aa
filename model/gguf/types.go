package gguf

import "fmt"

// Type is the storage format of a tensor's elements: the id in the file, or,
// for [Q2_0_G128], an id of our own.
type Type uint32

// The formats this reader knows. Ids below 142 are ggml's; 142 and 143 are
// Prism's.
const (
	F32    Type = 0
	F16    Type = 1
	Q4_0   Type = 2
	Q4_1   Type = 3
	Q8_0   Type = 8
	Q2_K   Type = 10
	Q4_K   Type = 12
	Q6_K   Type = 14
	BF16   Type = 30
	TQ1_0  Type = 34
	TQ2_0  Type = 35
	Q1_0   Type = 41
	Q2_0   Type = 42
	PQ2_0  Type = 142
	PTQ1_0 Type = 143

	// Q2_0_G128 is the older meaning of id 42: groups of 128 instead of 64.
	// It never stands in a file; Parse tells the two apart by the offsets.
	Q2_0_G128 Type = 1<<16 | 42
)

type typeInfo struct {
	name  string
	block uint64 // elements in a block
	bytes uint64 // bytes of a block
}

var types = map[Type]typeInfo{
	F32:       {"F32", 1, 4},
	F16:       {"F16", 1, 2},
	Q4_0:      {"Q4_0", 32, 18},
	Q4_1:      {"Q4_1", 32, 20},
	Q8_0:      {"Q8_0", 32, 34},
	Q2_K:      {"Q2_K", 256, 84},
	Q4_K:      {"Q4_K", 256, 144},
	Q6_K:      {"Q6_K", 256, 210},
	BF16:      {"BF16", 1, 2},
	TQ1_0:     {"TQ1_0", 256, 54},
	TQ2_0:     {"TQ2_0", 256, 66},
	Q1_0:      {"Q1_0", 128, 18},
	Q2_0:      {"Q2_0", 64, 18},
	PQ2_0:     {"PQ2_0", 128, 34},
	PTQ1_0:    {"PTQ1_0", 128, 28},
	Q2_0_G128: {"Q2_0 (group 128)", 128, 34},
}

// foreign names formats that exist but are not read, for better messages.
var foreign = map[Type]string{
	6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 11: "Q3_K", 13: "Q5_K", 15: "Q8_K",
	16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
	24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 39: "MXFP4", 40: "NVFP4",
}

// String returns the format's usual name, or "type N" for an unknown id.
func (t Type) String() string {
	if info, ok := types[t]; ok {
		return info.name
	}
	if name, ok := foreign[t]; ok {
		return name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block returns the number of elements in a block of the format and the bytes
// it takes; both are 0 for an unknown format.
func (t Type) Block() (elements, bytes uint64) {
	info := types[t]
	return info.block, info.bytes
}

// id returns the number that stands for the format in a file.
func (t Type) id() uint32 { return uint32(t) & 0xffff }

// unsupported explains what to do about a tensor whose format is not known.
func unsupported(t Type) error {
	name := "unknown to this version"
	if n, ok := foreign[t]; ok {
		name = n + ", which is not supported"
	}
	return fmt.Errorf("has type id %d (%s); use a Q2_0, F16 or F32 file of the model, or a newer tern", uint32(t), name)
}
