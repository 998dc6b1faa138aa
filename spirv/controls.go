package spirv

import (
	"fmt"
	"slices"
)

// FloatControls chooses the float execution modes to declare in a kernel. Each
// may be set only where the device offers it (shaderRoundingModeRTEFloat32 and
// its like), and RTE for one width alone only where rounding modes of different
// widths are independent.
type FloatControls struct {
	RTE16, RTE32                         bool // RoundingModeRTE: round to nearest even
	PreserveSpecial16, PreserveSpecial32 bool // SignedZeroInfNanPreserve
}

const floatControlsExtension = "SPV_KHR_float_controls"

// WithFloatControls returns the words of a module with the execution modes of fc
// on every entry point, and the capabilities and the extension they need. What
// the module already declares is not declared again. The input is not changed.
func WithFloatControls(words []uint32, fc FloatControls) ([]uint32, error) {
	m, err := Parse(words)
	if err != nil {
		return nil, err
	}
	type mode struct{ mode, width uint32 }
	var modes []mode
	var capabilities []uint32
	add := func(want16, want32 bool, capability, id uint32) {
		if want16 {
			modes = append(modes, mode{id, 16})
		}
		if want32 {
			modes = append(modes, mode{id, 32})
		}
		if want16 || want32 {
			capabilities = append(capabilities, capability)
		}
	}
	add(fc.RTE16, fc.RTE32, capabilityRoundingModeRTE, modeRoundingModeRTE)
	add(fc.PreserveSpecial16, fc.PreserveSpecial32, capabilitySignedZeroInfNanPreserve, modeSignedZeroInfNanPreserve)
	if len(modes) == 0 {
		return slices.Clone(words), nil
	}

	// The sections of a module come in a fixed order; these are the words
	// where each of the three that grow ends.
	capabilityEnd, extensionEnd, modeEnd := headerWords, headerWords, headerWords
	needExtension := m.Version < version14
	var entries []uint32
	declared := map[[3]uint32]bool{}
	for _, in := range m.Instructions {
		end := in.Offset + 1 + len(in.Operands)
		switch in.Op {
		case OpCapability:
			capabilityEnd, extensionEnd = end, end
			capabilities = slices.DeleteFunc(capabilities, func(c uint32) bool { return c == in.Operands[0] })
		case OpExtension:
			extensionEnd = end
			if name, _ := literalString(in.Operands); name == floatControlsExtension {
				needExtension = false
			}
		case OpEntryPoint:
			modeEnd = end
			entries = append(entries, in.Operands[1])
		case OpExecutionMode, OpExecutionModeId:
			modeEnd = end
			if len(in.Operands) == 3 {
				declared[[3]uint32(in.Operands)] = true
			}
		}
	}

	out := make([]uint32, 0, len(words)+16+4*len(modes)*len(entries))
	out = append(out, words[:capabilityEnd]...)
	for _, c := range capabilities {
		out = append(out, 2<<16|uint32(OpCapability), c)
	}
	out = append(out, words[capabilityEnd:extensionEnd]...)
	if needExtension {
		name := appendString(nil, floatControlsExtension)
		out = append(out, uint32(1+len(name))<<16|uint32(OpExtension))
		out = append(out, name...)
	}
	out = append(out, words[extensionEnd:modeEnd]...)
	for _, entry := range entries {
		for _, md := range modes {
			if !declared[[3]uint32{entry, md.mode, md.width}] {
				out = append(out, 4<<16|uint32(OpExecutionMode), entry, md.mode, md.width)
			}
		}
	}
	return append(out, words[modeEnd:]...), nil
}

// WithNoContraction returns the words of a module in which every float sum,
// difference and product is decorated NoContraction. The compiler writes the
// decoration for precise expressions, but its optimiser loses it when it copies
// instructions, in unrolled loops above all. The input is not changed.
func WithNoContraction(words []uint32) ([]uint32, error) {
	m, err := Parse(words)
	if err != nil {
		return nil, err
	}
	l := newLinter(Allow{})
	at := 0 // decorations end where types begin
	var more []uint32
	for _, in := range m.Instructions {
		if at == 0 && in.Op >= OpTypeVoid && in.Op <= OpTypeFunction {
			at = in.Offset
		}
		if l.check(in); l.contractible(in) {
			more = append(more, 3<<16|uint32(OpDecorate), in.Operands[1], decorationNoContraction)
		}
	}
	if at == 0 {
		return nil, fmt.Errorf("spirv: a module without types")
	}
	return slices.Concat(words[:at], more, words[at:]), nil
}
