package spirv

import "fmt"

// Op is a SPIR-V opcode.
type Op uint16

// The opcodes that this package reads or names in its messages.
const (
	OpExtension                  Op = 10
	OpExtInstImport              Op = 11
	OpExtInst                    Op = 12
	OpMemoryModel                Op = 14
	OpEntryPoint                 Op = 15
	OpExecutionMode              Op = 16
	OpCapability                 Op = 17
	OpTypeVoid                   Op = 19
	OpTypeInt                    Op = 21
	OpTypeFloat                  Op = 22
	OpTypeVector                 Op = 23
	OpTypeMatrix                 Op = 24
	OpTypeArray                  Op = 28
	OpTypeRuntimeArray           Op = 29
	OpTypeStruct                 Op = 30
	OpTypePointer                Op = 32
	OpTypeFunction               Op = 33
	OpConstant                   Op = 43
	OpConstantComposite          Op = 44
	OpSpecConstantTrue           Op = 48
	OpSpecConstantFalse          Op = 49
	OpSpecConstant               Op = 50
	OpSpecConstantComposite      Op = 51
	OpSpecConstantOp             Op = 52
	OpFunction                   Op = 54
	OpVariable                   Op = 59
	OpDecorate                   Op = 71
	OpMemberDecorate             Op = 72
	OpFConvert                   Op = 115
	OpQuantizeToF16              Op = 116
	OpFAdd                       Op = 129
	OpFSub                       Op = 131
	OpFMul                       Op = 133
	OpFDiv                       Op = 136
	OpFRem                       Op = 140
	OpFMod                       Op = 141
	OpVectorTimesScalar          Op = 142
	OpMatrixTimesScalar          Op = 143
	OpVectorTimesMatrix          Op = 144
	OpMatrixTimesVector          Op = 145
	OpMatrixTimesMatrix          Op = 146
	OpOuterProduct               Op = 147
	OpDot                        Op = 148
	OpIsNan                      Op = 156
	OpIsInf                      Op = 157
	OpGroupFAdd                  Op = 265
	OpGroupFMin                  Op = 266
	OpGroupFMax                  Op = 269
	OpExecutionModeId            Op = 331
	OpGroupNonUniformFAdd        Op = 350
	OpGroupNonUniformFMul        Op = 352
	OpGroupNonUniformFMin        Op = 355
	OpGroupNonUniformFMax        Op = 358
	OpTypeCooperativeMatrixKHR   Op = 4456
	OpCooperativeMatrixMulAddKHR Op = 4459
	OpCooperativeMatrixReduceNV  Op = 5366
	OpAtomicFMinEXT              Op = 5614
	OpAtomicFMaxEXT              Op = 5615
	OpAtomicFAddEXT              Op = 6035
	OpGroupFMulKHR               Op = 6402
)

var opNames = map[Op]string{
	OpExtension: "OpExtension", OpExtInstImport: "OpExtInstImport", OpExtInst: "OpExtInst",
	OpMemoryModel: "OpMemoryModel", OpEntryPoint: "OpEntryPoint", OpExecutionMode: "OpExecutionMode",
	OpCapability: "OpCapability", OpTypeInt: "OpTypeInt", OpTypeFloat: "OpTypeFloat",
	OpTypeVector: "OpTypeVector", OpTypeMatrix: "OpTypeMatrix", OpTypeArray: "OpTypeArray",
	OpTypeVoid: "OpTypeVoid", OpTypeFunction: "OpTypeFunction",
	OpTypeRuntimeArray: "OpTypeRuntimeArray", OpTypeStruct: "OpTypeStruct", OpTypePointer: "OpTypePointer",
	OpConstant: "OpConstant", OpConstantComposite: "OpConstantComposite",
	OpSpecConstantTrue: "OpSpecConstantTrue", OpSpecConstantFalse: "OpSpecConstantFalse",
	OpSpecConstant: "OpSpecConstant", OpSpecConstantComposite: "OpSpecConstantComposite",
	OpSpecConstantOp: "OpSpecConstantOp", OpFunction: "OpFunction", OpVariable: "OpVariable",
	OpDecorate: "OpDecorate", OpMemberDecorate: "OpMemberDecorate",
	OpFConvert: "OpFConvert", OpQuantizeToF16: "OpQuantizeToF16",
	OpFAdd: "OpFAdd", OpFSub: "OpFSub", OpFMul: "OpFMul", OpFDiv: "OpFDiv", OpFRem: "OpFRem", OpFMod: "OpFMod",
	OpVectorTimesScalar: "OpVectorTimesScalar", OpMatrixTimesScalar: "OpMatrixTimesScalar",
	OpVectorTimesMatrix: "OpVectorTimesMatrix", OpMatrixTimesVector: "OpMatrixTimesVector",
	OpMatrixTimesMatrix: "OpMatrixTimesMatrix", OpOuterProduct: "OpOuterProduct", OpDot: "OpDot",
	OpIsNan: "OpIsNan", OpIsInf: "OpIsInf",
	OpGroupFAdd: "OpGroupFAdd", OpGroupFMin: "OpGroupFMin", OpGroupFMax: "OpGroupFMax",
	OpExecutionModeId:     "OpExecutionModeId",
	OpGroupNonUniformFAdd: "OpGroupNonUniformFAdd", OpGroupNonUniformFMul: "OpGroupNonUniformFMul",
	OpGroupNonUniformFMin: "OpGroupNonUniformFMin", OpGroupNonUniformFMax: "OpGroupNonUniformFMax",
	OpTypeCooperativeMatrixKHR: "OpTypeCooperativeMatrixKHR", OpCooperativeMatrixMulAddKHR: "OpCooperativeMatrixMulAddKHR",
	OpCooperativeMatrixReduceNV: "OpCooperativeMatrixReduceNV",
	OpAtomicFMinEXT:             "OpAtomicFMinEXT", OpAtomicFMaxEXT: "OpAtomicFMaxEXT", OpAtomicFAddEXT: "OpAtomicFAddEXT",
	OpGroupFMulKHR: "OpGroupFMulKHR",
}

// String returns the specification's name of the opcode, or its number.
func (op Op) String() string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return fmt.Sprintf("Op%d", uint16(op))
}

// minOperands has the operand counts that the readers of this package rely on.
var minOperands = map[Op]int{
	OpExtension: 1, OpExtInstImport: 2, OpExtInst: 4, OpEntryPoint: 3, OpExecutionMode: 2, OpExecutionModeId: 2,
	OpCapability: 1, OpTypeInt: 3, OpTypeFloat: 2, OpTypeVector: 3, OpTypeMatrix: 3, OpTypeArray: 3,
	OpTypeRuntimeArray: 2, OpTypeStruct: 1, OpTypePointer: 3, OpConstant: 3, OpConstantComposite: 2,
	OpSpecConstantTrue: 2, OpSpecConstantFalse: 2, OpSpecConstant: 3, OpSpecConstantComposite: 2, OpSpecConstantOp: 3,
	OpVariable: 3, OpDecorate: 2, OpMemberDecorate: 3, OpFConvert: 3, OpFAdd: 4, OpFSub: 4, OpFMul: 4,
	OpVectorTimesScalar: 4, OpMatrixTimesScalar: 4,
	OpTypeCooperativeMatrixKHR:   6,
	OpCooperativeMatrixMulAddKHR: 5, OpCooperativeMatrixReduceNV: 3,
}

// Decorations, capabilities, execution modes and storage classes read or
// written here, as the SPIR-V specification numbers them.
const (
	decorationSpecID        = 1
	decorationArrayStride   = 6
	decorationMatrixStride  = 7
	decorationBuiltIn       = 11
	decorationBinding       = 33
	decorationDescriptorSet = 34
	decorationOffset        = 35
	decorationNoContraction = 42

	builtInWorkgroupSize = 25

	capabilitySignedZeroInfNanPreserve = 4466
	capabilityRoundingModeRTE          = 4467

	modeLocalSize                = 17
	modeLocalSizeID              = 38
	modeSignedZeroInfNanPreserve = 4461
	modeRoundingModeRTE          = 4462

	executionModelGLCompute = 5
	storagePushConstant     = 9

	version14 = 0x00010400
)
