package spirv

import (
	"slices"
	"strings"
	"testing"
)

// asm builds modules for tests: a header, then the instructions given.
type asm struct {
	words []uint32
}

func (a *asm) add(op Op, operands ...uint32) *asm {
	a.words = append(a.words, uint32(len(operands)+1)<<16|uint32(op))
	a.words = append(a.words, operands...)
	return a
}

// Ids and types shared by the test modules.
const (
	idMain, idGLSL, idFloat, idHalf, idUint, idVec2        = 1, 2, 3, 4, 5, 6
	idCoopF, idCoopU, idK0, idK1, idK2, idSize, idStruct   = 7, 8, 9, 10, 11, 12, 13
	idPointer, idVar, idArray, idSpec, idResult, idOperand = 14, 15, 16, 17, 18, 19
)

// shader is a module with one compute entry point, the types above, and then
// what body adds. decorate comes where decorations stand.
func shader(version uint32, decorate, body func(*asm)) []uint32 {
	a := &asm{words: []uint32{Magic, version, 0, 100, 0}}
	a.add(OpCapability, 1)
	a.add(OpExtInstImport, appendString([]uint32{idGLSL}, "GLSL.std.450")...)
	a.add(OpMemoryModel, 0, 1)
	a.add(OpEntryPoint, appendString([]uint32{executionModelGLCompute, idMain}, "main")...)
	a.add(OpExecutionMode, idMain, modeLocalSize, 64, 1, 1)
	if decorate != nil {
		decorate(a)
	}
	a.add(OpTypeFloat, idFloat, 32).add(OpTypeFloat, idHalf, 16).add(OpTypeInt, idUint, 32, 0).add(OpTypeVector, idVec2, idFloat, 2)
	a.add(OpTypeCooperativeMatrixKHR, idCoopF, idFloat, 0, 0, 0, 0).add(OpTypeCooperativeMatrixKHR, idCoopU, idUint, 0, 0, 0, 0)
	if body != nil {
		body(a)
	}
	return a.words
}

func TestParseRefusesBrokenModules(t *testing.T) {
	good := shader(0x10300, nil, nil)
	if _, err := Parse(good); err != nil {
		t.Fatalf("a sound module: %v", err)
	}
	for _, c := range []struct {
		name  string
		words []uint32
		want  string
	}{
		{"empty", nil, "shorter than a module header"},
		{"magic", append([]uint32{1}, good[1:]...), "magic number"},
		{"cut", good[:len(good)-1], "are left"},
		{"zero length", append(slices.Clone(good), 0), "are left"},
		{"no operands", append(slices.Clone(good), 1<<16|uint32(OpFAdd)), "OpFAdd with 0 operands"},
	} {
		if _, err := Parse(c.words); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	if _, err := WordsOf(make([]byte, 5)); err == nil {
		t.Error("5 bytes are no words")
	}
}

func TestLiteralStringsRoundTrip(t *testing.T) {
	for _, s := range []string{"", "a", "abc", "abcd", "GLSL.std.450"} {
		words := appendString(nil, s)
		if got, n := literalString(words); got != s || n != len(words) {
			t.Errorf("%q: read back %q and %d of %d words", s, got, n, len(words))
		}
	}
}

func TestReflect(t *testing.T) {
	words := shader(0x10300, func(a *asm) {
		a.add(OpDecorate, idK0, decorationSpecID, 7)
		a.add(OpDecorate, idSpec, decorationSpecID, 2)
		a.add(OpDecorate, idSize, decorationBuiltIn, builtInWorkgroupSize)
		a.add(OpDecorate, idVar, decorationBinding, 3)
		a.add(OpDecorate, idArray, decorationArrayStride, 8)
		a.add(OpMemberDecorate, idStruct, 0, decorationOffset, 0)
		a.add(OpMemberDecorate, idStruct, 1, decorationOffset, 16)
	}, func(a *asm) {
		a.add(OpSpecConstant, idUint, idK0, 128).add(OpConstant, idUint, idK1, 2).add(OpConstant, idUint, idK2, 3)
		a.add(OpSpecConstantTrue, idUint, idSpec)
		a.add(OpSpecConstantComposite, idVec2, idSize, idK0, idK1, idK2)
		a.add(OpTypeArray, idArray, idVec2, idK2)
		a.add(OpTypeStruct, idStruct, idFloat, idArray)
		a.add(OpTypePointer, idPointer, storagePushConstant, idStruct)
		a.add(OpVariable, idPointer, idVar, storagePushConstant)
	})
	info, err := Reflect(words)
	if err != nil {
		t.Fatal(err)
	}
	if info.EntryPoint != "main" || info.LocalSize != [3]uint32{128, 2, 3} || info.LocalSizeIDs != [3]int{7, -1, -1} {
		t.Errorf("entry %q, local size %v set by %v", info.EntryPoint, info.LocalSize, info.LocalSizeIDs)
	}
	if want := []Spec{{2, 1}, {7, 128}}; !slices.Equal(info.Specs, want) {
		t.Errorf("specialisation constants %v, want %v", info.Specs, want)
	}
	if info.Bindings != 4 || info.PushBytes != 16+3*8 {
		t.Errorf("%d bindings and %d push bytes, want 4 and 40", info.Bindings, info.PushBytes)
	}
}

func TestReflectRefuses(t *testing.T) {
	header := []uint32{Magic, 0x10300, 0, 100, 0}
	for _, c := range []struct {
		name  string
		words []uint32
		want  string
	}{
		{"no entry point", header, "no entry point"},
		{"a second set", shader(0x10300, func(a *asm) { a.add(OpDecorate, idVar, decorationDescriptorSet, 1) }, nil), "descriptor set 1"},
		{"a fragment shader", (&asm{slices.Clone(header)}).add(OpEntryPoint, 4, 1, 0).words, "want GLCompute"},
		{"no local size", (&asm{slices.Clone(header)}).add(OpEntryPoint, append([]uint32{5, 1}, appendString(nil, "main")...)...).words, "no local size"},
	} {
		if _, err := Reflect(c.words); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func TestWithFloatControls(t *testing.T) {
	all := FloatControls{RTE16: true, RTE32: true, PreserveSpecial16: true, PreserveSpecial32: true}
	for _, version := range []uint32{0x10300, 0x10500} {
		words := shader(version, nil, nil)
		out, err := WithFloatControls(words, all)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(out)
		if err != nil {
			t.Fatal(err)
		}
		var modes [][2]uint32
		var order []Op
		extension := false
		for _, in := range m.Instructions {
			if len(order) == 0 || order[len(order)-1] != in.Op {
				order = append(order, in.Op)
			}
			switch {
			case in.Op == OpExtension:
				name, _ := literalString(in.Operands)
				extension = extension || name == floatControlsExtension
			case in.Op == OpExecutionMode && len(in.Operands) == 3:
				modes = append(modes, [2]uint32(in.Operands[1:]))
			}
		}
		want := [][2]uint32{{modeRoundingModeRTE, 16}, {modeRoundingModeRTE, 32}, {modeSignedZeroInfNanPreserve, 16}, {modeSignedZeroInfNanPreserve, 32}}
		if !slices.Equal(modes, want) {
			t.Errorf("version %#x: modes %v, want %v", version, modes, want)
		}
		if extension != (version < version14) {
			t.Errorf("version %#x: extension declared: %v", version, extension)
		}
		sections := []Op{OpCapability, OpExtInstImport, OpMemoryModel, OpEntryPoint, OpExecutionMode}
		if extension {
			sections = slices.Insert(sections, 1, OpExtension)
		}
		if !slices.Equal(order[:len(sections)], sections) {
			t.Errorf("version %#x: sections come as %v, want %v", version, order, sections)
		}
		again, err := WithFloatControls(out, all)
		if err != nil || !slices.Equal(again, out) {
			t.Errorf("version %#x: declaring twice changes the words (%v)", version, err)
		}
		same, err := WithFloatControls(words, FloatControls{})
		if err != nil || !slices.Equal(same, words) {
			t.Errorf("version %#x: no control changes the words (%v)", version, err)
		}
	}
}

func TestWithNoContraction(t *testing.T) {
	body := func(a *asm) {
		a.add(OpFAdd, idFloat, 20, idOperand, idOperand)
		a.add(OpFMul, idCoopF, 21, idOperand, idOperand)
		a.add(OpMatrixTimesScalar, idCoopU, 22, idOperand, idOperand)
		a.add(OpVectorTimesScalar, idVec2, 23, idOperand, idOperand)
	}
	words := shader(0x10300, func(a *asm) { a.add(OpDecorate, 20, decorationNoContraction) }, body)
	if err := LintExact(words, Allow{}); err == nil {
		t.Fatal("the lint passes what is to be mended")
	}
	out, err := WithNoContraction(words)
	if err != nil {
		t.Fatal(err)
	}
	if err := LintExact(out, Allow{}); err != nil {
		t.Error(err)
	}
	if got := len(out) - len(words); got != 2*3 {
		t.Errorf("%d words were added, want two decorations of 3", got)
	}
	if again, err := WithNoContraction(out); err != nil || !slices.Equal(again, out) {
		t.Errorf("decorating twice changes the words (%v)", err)
	}
}
