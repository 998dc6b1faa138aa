package spirv

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// PTXEntry is the name of the one entry of a kernel in PTX. Its parameters are the
// 64-bit address of each binding, then the push constants as one structure, then, if
// it has any, the specialisation constants from id 1 on as another.
const PTXEntry = "kernel"

// maxParameter bounds a structure: all parameters of a launch have so many bytes.
const maxParameter = 4096

var (
	ptxTarget = regexp.MustCompile(`(?m)^\s*\.target\s+sm_\w+`)
	ptxEntry  = regexp.MustCompile(`\.entry\s+(\w+)\s*\(([^)]*)\)`)
	ptxStruct = regexp.MustCompile(`^\.param \.align \d+ \.b8 \w+\[(\d+)\]$`)
	ptxLocal  = regexp.MustCompile(`\.maxntid\s+([1-9]\d*)\s*(?:,\s*1\s*){0,2}\s`)
)

// ReflectPTX reads the interface of a kernel in PTX. Its workgroups are as large as its
// launch bounds allow.
func ReflectPTX(text []byte) (*Info, error) {
	code := ptxCode(text)
	if !ptxTarget.MatchString(code) {
		return nil, errors.New("no PTX: it names no .target")
	}
	entries := ptxEntry.FindAllStringSubmatch(code, -1)
	if len(entries) != 1 || entries[0][1] != PTXEntry {
		return nil, fmt.Errorf("%d entries: want one, of the name %s", len(entries), PTXEntry)
	}
	info := &Info{EntryPoint: PTXEntry, LocalSizeIDs: [3]int{-1, -1, -1}}
	structs := 0
	for param := range strings.SplitSeq(entries[0][2], ",") {
		param = strings.Join(strings.Fields(param), " ")
		m := ptxStruct.FindStringSubmatch(param)
		switch {
		case m == nil && structs == 0 && strings.HasPrefix(param, ".param .u64 "):
			info.Bindings++
			continue
		case m == nil || structs == 2:
			return nil, fmt.Errorf("parameter %q: want the addresses of bindings, then one or two structures", param)
		}
		bytes, err := strconv.Atoi(m[1])
		if err != nil || bytes%4 != 0 || bytes > maxParameter {
			return nil, fmt.Errorf("parameter %q: a structure is whole words, of at most %d bytes", param, maxParameter)
		}
		if structs++; structs == 1 {
			info.PushBytes = bytes
			continue
		}
		for id := 1; id <= bytes/4; id++ {
			info.Specs = append(info.Specs, Spec{ID: uint32(id)})
		}
	}
	m := ptxLocal.FindStringSubmatch(code)
	if m == nil {
		return nil, errors.New("no .maxntid with one dimension: the size of a workgroup is its launch bound")
	}
	local, err := strconv.ParseUint(m[1], 10, 32)
	info.LocalSize = [3]uint32{uint32(local), 1, 1}
	return info, err
}

var ptxComment = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/`)

// ptxCode is the text without comments.
func ptxCode(text []byte) string { return ptxComment.ReplaceAllString(string(text), " ") }

// ptxInstruction is an instruction with its types, wherever it stands.
var ptxInstruction = regexp.MustCompile(`(?:^|[^\w.%$])([a-z]\w*(?:(?:\.|::)\w+)+)`)

// LintExactPTX checks that a kernel of class exact, in PTX, has only one permitted
// result: every float sum and product names its rounding, which keeps the assembler
// from fusing them, and no instruction is used that approximates, flushes denormals or
// sums in an open order. The error joins one error for each kind of offending
// instruction.
func LintExactPTX(text []byte, allow Allow) error {
	var errs []error
	var seen []string
	for _, m := range ptxInstruction.FindAllStringSubmatch(ptxCode(text), -1) {
		if slices.Contains(seen, m[1]) {
			continue
		}
		seen = append(seen, m[1])
		if reason := ptxInexact(m[1], allow); reason != "" {
			errs = append(errs, fmt.Errorf("%s %s", m[1], reason))
		}
	}
	return errors.Join(errs...)
}

// ptxFloats are the types of floats, ptxNarrow those with fewer bits than float32.
var (
	ptxFloats = append([]string{"f32", "f32x2", "f64"}, ptxNarrow...)
	ptxNarrow = []string{"f16", "f16x2", "bf16", "bf16x2", "tf32", "e4m3x2", "e5m2x2", "e4m3", "e5m2"}
)

// ptxInexact says what is wrong with an instruction such as add.rn.f32, "" when nothing.
func ptxInexact(instruction string, allow Allow) string {
	parts := strings.FieldsFunc(instruction, func(r rune) bool { return r == '.' || r == ':' })
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(parts[1:], n) })
	}
	float := has(ptxFloats...)
	switch {
	case has("ftz"):
		return "flushes denormals"
	case has("approx", "full"):
		return "approximates"
	case !float:
		return ""
	}
	switch parts[0] {
	case "add", "sub", "mul":
		if !has("rn") {
			return "without .rn may be fused"
		}
	case "fma", "mad":
		if !has("rn") {
			return "does not round to nearest even"
		}
		if !allow.Fma {
			return "without @fma rounds once what is rounded twice elsewhere"
		}
	case "div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh":
		return "is not a function of the rules"
	case "cvt":
		if slices.Contains(ptxNarrow, parts[len(parts)-2]) && !allow.F16Convert {
			return "without @f16cvt"
		}
	case "atom", "red", "redux", "multimem":
		return "combines in an open order"
	case "mma", "wmma", "wgmma", "tcgen05":
		return "of floats sums in an open order"
	}
	return ""
}
