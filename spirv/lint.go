package spirv

import (
	"errors"
	"fmt"
	"slices"
)

// Allow lists what a kernel of class exact may use beyond the common rules. The
// kernel list grants each by a pseudo-define.
type Allow struct {
	// Fma allows GLSL.std.450 Fma: all its products are exact in the result's
	// type, so that fusing changes nothing (@fma).
	Fma bool
	// F16Convert allows the hardware's conversion to half floats, which the
	// start-up probe has compared with the integer code (@f16cvt).
	F16Convert bool
	// Integers allows sums of cooperative matrices of floats: all are integers below
	// 2^24, which are exact in any order (@integers).
	Integers bool
}

// LintExact checks that the words of a kernel of class exact have only one
// permitted result: every float sum and product is decorated NoContraction, and
// no instruction is used whose result Vulkan leaves open. The error joins one
// error for each offending instruction, with its index and opcode.
func LintExact(words []uint32, allow Allow) error {
	m, err := Parse(words)
	if err != nil {
		return err
	}
	l := newLinter(allow)
	var errs []error
	for i, in := range m.Instructions {
		if reason := l.check(in); reason != "" {
			errs = append(errs, fmt.Errorf("instruction %d: %s", i, reason))
		}
	}
	return errors.Join(errs...)
}

type linter struct {
	allow         Allow
	types         map[uint32]Instruction // by result id
	noContraction map[uint32]bool
	imports       map[uint32]string
}

func newLinter(allow Allow) *linter {
	return &linter{
		allow:         allow,
		types:         map[uint32]Instruction{},
		noContraction: map[uint32]bool{},
		imports:       map[uint32]string{},
	}
}

// never has the instructions that no exact kernel may use.
var never = map[Op]string{
	OpFDiv: "is not correctly rounded everywhere",
	OpFRem: "is not correctly rounded everywhere",
	OpFMod: "is not correctly rounded everywhere",

	OpVectorTimesMatrix: "sums in an open order",
	OpMatrixTimesVector: "sums in an open order",
	OpMatrixTimesMatrix: "sums in an open order",
	OpDot:               "sums in an open order",
	OpOuterProduct:      "may flush or contract",
	OpQuantizeToF16:     "flushes denormals",

	OpIsNan: "may be folded away: compare the bits",
	OpIsInf: "may be folded away: compare the bits",

	OpGroupFAdd:           "sums in an open order",
	OpGroupFMulKHR:        "multiplies in an open order",
	OpGroupFMin:           "leaves the order of zeros and NaN open",
	OpGroupFMax:           "leaves the order of zeros and NaN open",
	OpGroupNonUniformFAdd: "sums in an open order",
	OpGroupNonUniformFMul: "multiplies in an open order",
	OpGroupNonUniformFMin: "leaves the order of zeros and NaN open",
	OpGroupNonUniformFMax: "leaves the order of zeros and NaN open",
	OpAtomicFAddEXT:       "sums in an open order",
	OpAtomicFMinEXT:       "leaves the order of zeros and NaN open",
	OpAtomicFMaxEXT:       "leaves the order of zeros and NaN open",
}

// check returns what is wrong with an instruction, or "".
func (l *linter) check(in Instruction) string {
	o := in.Operands
	if reason, ok := never[in.Op]; ok {
		return fmt.Sprintf("%v %s", in.Op, reason)
	}
	switch in.Op {
	case OpTypeInt, OpTypeFloat, OpTypeVector, OpTypeMatrix, OpTypeCooperativeMatrixKHR:
		l.types[o[0]] = in
	case OpDecorate:
		if o[1] == decorationNoContraction {
			l.noContraction[o[0]] = true
		}
	case OpExtInstImport:
		l.imports[o[0]], _ = literalString(o[1:])
	case OpSpecConstantOp:
		if reason, ok := never[Op(o[2])]; ok {
			return fmt.Sprintf("%v of %v %s", in.Op, Op(o[2]), reason)
		}
	case OpFAdd, OpFSub, OpFMul, OpVectorTimesScalar, OpMatrixTimesScalar:
		if l.contractible(in) {
			return fmt.Sprintf("%v without NoContraction", in.Op)
		}
	case OpFConvert:
		if l.width(o[0]) < 32 && !l.allow.F16Convert {
			return fmt.Sprintf("%v to %d bits without @f16cvt", in.Op, l.width(o[0]))
		}
	case OpCooperativeMatrixMulAddKHR:
		if l.isFloat(o[0]) && !l.allow.Integers {
			return fmt.Sprintf("%v of floats without @integers sums in an open order", in.Op)
		}
	case OpCooperativeMatrixReduceNV:
		if l.isFloat(o[0]) {
			return fmt.Sprintf("%v of floats combines in an open order", in.Op)
		}
	case OpExtInst:
		return l.extended(l.imports[o[2]], o[3])
	}
	return ""
}

// contractible reports whether an instruction is a float sum or product that is
// not decorated NoContraction.
func (l *linter) contractible(in Instruction) bool {
	switch in.Op {
	case OpFAdd, OpFSub, OpFMul, OpVectorTimesScalar, OpMatrixTimesScalar:
		return !l.noContraction[in.Operands[1]] && l.isFloat(in.Operands[0])
	}
	return false
}

// component is the scalar type of a scalar, vector or matrix type.
func (l *linter) component(id uint32) Instruction {
	in := l.types[id]
	for in.Op == OpTypeVector || in.Op == OpTypeMatrix || in.Op == OpTypeCooperativeMatrixKHR {
		next, ok := l.types[in.Operands[1]]
		if !ok {
			break
		}
		in = next
	}
	return in
}

// isFloat treats an unknown type as float, so that the lint fails on what it
// cannot see through.
func (l *linter) isFloat(id uint32) bool { return l.component(id).Op != OpTypeInt }

// width is the number of bits of a type's components, 0 when unknown.
func (l *linter) width(id uint32) uint32 {
	in := l.component(id)
	if in.Op != OpTypeFloat && in.Op != OpTypeInt {
		return 0
	}
	return in.Operands[1]
}

// The instructions of GLSL.std.450 whose results are exact, and the two that
// a kernel may be allowed.
var glslExact = []uint32{
	2,                // RoundEven
	3, 4, 5, 7, 8, 9, // Trunc, FAbs, SAbs, SSign, Floor, Ceil
	38, 39, 41, 42, 44, 45, // UMin, SMin, UMax, SMax, UClamp, SClamp
	62,         // UnpackHalf2x16
	73, 74, 75, // FindILsb, FindSMsb, FindUMsb
}

const (
	glslFma          = 50
	glslPackHalf2x16 = 58
)

var glslNames = map[uint32]string{
	1: "Round", 6: "FSign", 10: "Fract", 13: "Sin", 14: "Cos", 15: "Tan", 21: "Tanh", 26: "Pow", 27: "Exp", 28: "Log",
	29: "Exp2", 30: "Log2", 31: "Sqrt", 32: "InverseSqrt", 37: "FMin", 40: "FMax", 43: "FClamp", 46: "FMix", 48: "Step",
	49: "SmoothStep", glslFma: "Fma", 51: "Frexp", 52: "FrexpStruct", 53: "Ldexp", glslPackHalf2x16: "PackHalf2x16",
	66: "Length", 67: "Distance", 69: "Normalize", 79: "NMin", 80: "NMax", 81: "NClamp",
}

// extended checks an instruction of an extended set.
func (l *linter) extended(set string, number uint32) string {
	if set != "GLSL.std.450" {
		if len(set) >= len("NonSemantic.") && set[:len("NonSemantic.")] == "NonSemantic." {
			return ""
		}
		return fmt.Sprintf("%v of the set %q", OpExtInst, set)
	}
	if slices.Contains(glslExact, number) {
		return ""
	}
	name, ok := glslNames[number]
	if !ok {
		name = fmt.Sprint(number)
	}
	switch {
	case number == glslFma && l.allow.Fma, number == glslPackHalf2x16 && l.allow.F16Convert:
		return ""
	case number == glslFma:
		return fmt.Sprintf("%v %s without @fma: drivers fuse it or not", OpExtInst, name)
	case number == glslPackHalf2x16:
		return fmt.Sprintf("%v %s without @f16cvt", OpExtInst, name)
	}
	return fmt.Sprintf("%v %s is not exact everywhere", OpExtInst, name)
}
