package spirv

import (
	"strings"
	"testing"
)

// Every rule of the lint fires on the instruction it is about, and each
// permitted neighbour passes.
func TestLintExactRules(t *testing.T) {
	glsl := func(number uint32) func(*asm) {
		return func(a *asm) { a.add(OpExtInst, idFloat, idResult, idGLSL, number, idOperand) }
	}
	op := func(op Op, kind uint32) func(*asm) {
		return func(a *asm) { a.add(op, kind, idResult, idOperand, idOperand, idOperand) }
	}
	for _, c := range []struct {
		name     string
		decorate bool // NoContraction on the result
		allow    Allow
		body     func(*asm)
		want     string // "" passes
	}{
		{name: "sum", body: op(OpFAdd, idFloat), want: "OpFAdd without NoContraction"},
		{name: "precise sum", decorate: true, body: op(OpFAdd, idFloat)},
		{name: "difference", body: op(OpFSub, idFloat), want: "OpFSub without NoContraction"},
		{name: "product", body: op(OpFMul, idFloat), want: "OpFMul without NoContraction"},
		{name: "half product", body: op(OpFMul, idHalf), want: "OpFMul without NoContraction"},
		{name: "vector sum", body: op(OpFAdd, idVec2), want: "OpFAdd without NoContraction"},
		{name: "precise vector sum", decorate: true, body: op(OpFAdd, idVec2)},
		{name: "matrix sum", body: op(OpFAdd, idCoopF), want: "OpFAdd without NoContraction"},
		{name: "precise matrix sum", decorate: true, body: op(OpFAdd, idCoopF)},
		{name: "scaled vector", body: op(OpVectorTimesScalar, idVec2), want: "OpVectorTimesScalar without NoContraction"},
		{name: "scaled float matrix", body: op(OpMatrixTimesScalar, idCoopF), want: "OpMatrixTimesScalar without NoContraction"},
		{name: "scaled integer matrix", body: op(OpMatrixTimesScalar, idCoopU)},

		{name: "division", decorate: true, body: op(OpFDiv, idFloat), want: "OpFDiv"},
		{name: "rem", body: op(OpFRem, idFloat), want: "OpFRem"},
		{name: "mod", body: op(OpFMod, idFloat), want: "OpFMod"},
		{name: "dot", body: op(OpDot, idFloat), want: "OpDot"},
		{name: "outer product", body: op(OpOuterProduct, idFloat), want: "OpOuterProduct"},
		{name: "vector by matrix", body: op(OpVectorTimesMatrix, idVec2), want: "OpVectorTimesMatrix"},
		{name: "matrix by vector", body: op(OpMatrixTimesVector, idVec2), want: "OpMatrixTimesVector"},
		{name: "matrix by matrix", body: op(OpMatrixTimesMatrix, idVec2), want: "OpMatrixTimesMatrix"},
		{name: "quantize", body: op(OpQuantizeToF16, idFloat), want: "OpQuantizeToF16"},
		{name: "isnan", body: op(OpIsNan, idFloat), want: "OpIsNan"},
		{name: "isinf", body: op(OpIsInf, idFloat), want: "OpIsInf"},

		{name: "subgroup sum", body: op(OpGroupNonUniformFAdd, idFloat), want: "OpGroupNonUniformFAdd"},
		{name: "subgroup product", body: op(OpGroupNonUniformFMul, idFloat), want: "OpGroupNonUniformFMul"},
		{name: "subgroup min", body: op(OpGroupNonUniformFMin, idFloat), want: "OpGroupNonUniformFMin"},
		{name: "subgroup max", body: op(OpGroupNonUniformFMax, idFloat), want: "OpGroupNonUniformFMax"},
		{name: "group sum", body: op(OpGroupFAdd, idFloat), want: "OpGroupFAdd"},
		{name: "group product", body: op(OpGroupFMulKHR, idFloat), want: "OpGroupFMulKHR"},
		{name: "group min", body: op(OpGroupFMin, idFloat), want: "OpGroupFMin"},
		{name: "group max", body: op(OpGroupFMax, idFloat), want: "OpGroupFMax"},
		{name: "atomic sum", body: op(OpAtomicFAddEXT, idFloat), want: "OpAtomicFAddEXT"},
		{name: "atomic min", body: op(OpAtomicFMinEXT, idFloat), want: "OpAtomicFMinEXT"},
		{name: "atomic max", body: op(OpAtomicFMaxEXT, idFloat), want: "OpAtomicFMaxEXT"},

		{name: "float matrix product", body: op(OpCooperativeMatrixMulAddKHR, idCoopF), want: "OpCooperativeMatrixMulAddKHR of floats without @integers"},
		{name: "float matrix product of integers", allow: Allow{Integers: true}, body: op(OpCooperativeMatrixMulAddKHR, idCoopF)},
		{name: "integer matrix product", body: op(OpCooperativeMatrixMulAddKHR, idCoopU)},
		{name: "float matrix reduction", body: op(OpCooperativeMatrixReduceNV, idCoopF), want: "OpCooperativeMatrixReduceNV of floats"},
		{name: "integer matrix reduction", body: op(OpCooperativeMatrixReduceNV, idCoopU)},
		{name: "unknown type", body: op(OpFAdd, 99), want: "OpFAdd without NoContraction"},

		{name: "narrowing", body: op(OpFConvert, idHalf), want: "OpFConvert to 16 bits"},
		{name: "probed narrowing", allow: Allow{F16Convert: true}, body: op(OpFConvert, idHalf)},
		{name: "widening", body: op(OpFConvert, idFloat)},
		{name: "constant division", body: func(a *asm) { a.add(OpSpecConstantOp, idFloat, idResult, uint32(OpFDiv), 1, 2) }, want: "OpSpecConstantOp of OpFDiv"},
		{name: "a set of unknown functions", body: func(a *asm) {
			a.add(OpExtInstImport, appendString([]uint32{50}, "OpenCL.std")...)
			a.add(OpExtInst, idFloat, idResult, 50, 2, idOperand)
		}, want: `the set "OpenCL.std"`},
		{name: "debug information", body: func(a *asm) {
			a.add(OpExtInstImport, appendString([]uint32{50}, "NonSemantic.DebugPrintf")...)
			a.add(OpExtInst, idFloat, idResult, 50, 1, idOperand)
		}},

		{name: "fma", body: glsl(glslFma), want: "Fma without @fma"},
		{name: "granted fma", allow: Allow{Fma: true}, body: glsl(glslFma)},
		{name: "pack", body: glsl(glslPackHalf2x16), want: "PackHalf2x16 without @f16cvt"},
		{name: "granted pack", allow: Allow{F16Convert: true}, body: glsl(glslPackHalf2x16)},
		{name: "unpack", body: glsl(62)},
		{name: "roundEven", body: glsl(2)},
		{name: "round", body: glsl(1), want: "Round is not exact"},
		{name: "sin", body: glsl(13), want: "Sin is not exact"},
		{name: "cos", body: glsl(14), want: "Cos is not exact"},
		{name: "pow", body: glsl(26), want: "Pow is not exact"},
		{name: "exp", body: glsl(27), want: "Exp is not exact"},
		{name: "log", body: glsl(28), want: "Log is not exact"},
		{name: "exp2", body: glsl(29), want: "Exp2 is not exact"},
		{name: "log2", body: glsl(30), want: "Log2 is not exact"},
		{name: "sqrt", body: glsl(31), want: "Sqrt is not exact"},
		{name: "inversesqrt", body: glsl(32), want: "InverseSqrt is not exact"},
		{name: "min", body: glsl(37), want: "FMin is not exact"},
		{name: "max", body: glsl(40), want: "FMax is not exact"},
		{name: "clamp", body: glsl(43), want: "FClamp is not exact"},
		{name: "nmin", body: glsl(79), want: "NMin is not exact"},
		{name: "nmax", body: glsl(80), want: "NMax is not exact"},
		{name: "ldexp", body: glsl(53), want: "Ldexp is not exact"},
		{name: "a function without a name here", body: glsl(19), want: "19 is not exact"},
	} {
		words := shader(0x10300, func(a *asm) {
			if c.decorate {
				a.add(OpDecorate, idResult, decorationNoContraction)
			}
		}, c.body)
		err := LintExact(words, c.allow)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "instruction ")):
			t.Errorf("%s: error %v, want one with an instruction's index and %q", c.name, err, c.want)
		}
	}
	for op := range never {
		if strings.HasPrefix(op.String(), "Op") && opNames[op] == "" {
			t.Errorf("%v has no name for messages", op)
		}
	}
}
