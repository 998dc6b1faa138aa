package spirv

import (
	"fmt"
	"slices"
)

// Spec is a specialisation constant of a kernel.
type Spec struct {
	ID      uint32
	Default uint32 // the raw word; a bool is 0 or 1
}

// Info is what a kernel's words say about how to run it.
type Info struct {
	EntryPoint   string
	LocalSize    [3]uint32 // invocations of a workgroup on x, y, z before specialisation
	LocalSizeIDs [3]int    // the specialisation constant that sets each of them, -1 where none does
	Specs        []Spec    // by rising ID
	Bindings     int       // one more than the largest binding of descriptor set 0
	PushBytes    int       // size of the push constant block, 0 without one
	Capabilities []uint32
	Extensions   []string
}

// Reflect reads the interface of a compute kernel with one entry point, whose
// resources are all in descriptor set 0.
func Reflect(words []uint32) (*Info, error) {
	m, err := Parse(words)
	if err != nil {
		return nil, err
	}
	r := newReader(m)
	info := &Info{LocalSizeIDs: [3]int{-1, -1, -1}}
	for _, in := range m.Instructions {
		if err := r.read(in, info); err != nil {
			return nil, fmt.Errorf("spirv: word %d: %v: %w", in.Offset, in.Op, err)
		}
	}
	if info.EntryPoint == "" {
		return nil, fmt.Errorf("spirv: no entry point")
	}
	if info.LocalSize == [3]uint32{} {
		return nil, fmt.Errorf("spirv: entry point %q states no local size", info.EntryPoint)
	}
	slices.SortFunc(info.Specs, func(a, b Spec) int { return int(a.ID) - int(b.ID) })
	return info, nil
}

// member names a member of a structure type.
type member struct{ structure, index uint32 }

// reader gathers what decorations and types say; both come before the
// variables that use them.
type reader struct {
	version  uint32
	defs     map[uint32]Instruction // types and constants by result id
	specID   map[uint32]uint32
	stride   map[uint32]uint32 // array stride by type
	offset   map[member]uint32
	mstride  map[member]uint32 // matrix stride
	wgSize   uint32            // id decorated with BuiltIn WorkgroupSize
	localIDs []uint32          // operands of LocalSizeId
}

func newReader(m *Module) *reader {
	return &reader{
		version: m.Version,
		defs:    map[uint32]Instruction{},
		specID:  map[uint32]uint32{},
		stride:  map[uint32]uint32{},
		offset:  map[member]uint32{},
		mstride: map[member]uint32{},
	}
}

func (r *reader) read(in Instruction, info *Info) error {
	o := in.Operands
	switch in.Op {
	case OpCapability:
		info.Capabilities = append(info.Capabilities, o[0])
	case OpExtension:
		name, _ := literalString(o)
		info.Extensions = append(info.Extensions, name)
	case OpEntryPoint:
		if o[0] != executionModelGLCompute {
			return fmt.Errorf("execution model %d, want GLCompute", o[0])
		}
		if info.EntryPoint != "" {
			return fmt.Errorf("a second entry point")
		}
		info.EntryPoint, _ = literalString(o[2:])
	case OpExecutionMode:
		if o[1] == modeLocalSize && len(o) >= 5 {
			info.LocalSize = [3]uint32(o[2:5])
		}
	case OpExecutionModeId:
		if o[1] == modeLocalSizeID && len(o) >= 5 {
			r.localIDs = o[2:5]
		}
	case OpDecorate:
		return r.decorate(o, info)
	case OpMemberDecorate:
		if len(o) < 4 {
			return nil
		}
		switch o[2] {
		case decorationOffset:
			r.offset[member{o[0], o[1]}] = o[3]
		case decorationMatrixStride:
			r.mstride[member{o[0], o[1]}] = o[3]
		}
	case OpTypeInt, OpTypeFloat, OpTypeVector, OpTypeMatrix, OpTypeArray, OpTypeRuntimeArray, OpTypeStruct, OpTypePointer:
		r.defs[o[0]] = in
	case OpConstant, OpSpecConstant, OpSpecConstantTrue, OpSpecConstantFalse, OpConstantComposite, OpSpecConstantComposite:
		r.defs[o[1]] = in
		return r.constant(in, info)
	case OpVariable:
		if o[2] != storagePushConstant {
			return nil
		}
		pointer := r.defs[o[0]]
		if pointer.Op != OpTypePointer {
			return fmt.Errorf("type %d is no pointer", o[0])
		}
		size, err := r.size(pointer.Operands[2], 0, 0)
		info.PushBytes = max(info.PushBytes, int(size))
		return err
	case OpFunction:
		return r.localSizeID(info)
	}
	return nil
}

func (r *reader) decorate(o []uint32, info *Info) error {
	if len(o) < 3 {
		return nil
	}
	switch o[1] {
	case decorationSpecID:
		r.specID[o[0]] = o[2]
	case decorationArrayStride:
		r.stride[o[0]] = o[2]
	case decorationBinding:
		info.Bindings = max(info.Bindings, int(o[2])+1)
	case decorationDescriptorSet:
		if o[2] != 0 {
			return fmt.Errorf("descriptor set %d, want 0", o[2])
		}
	case decorationBuiltIn:
		if o[2] == builtInWorkgroupSize {
			r.wgSize = o[0]
		}
	}
	return nil
}

// constant records a specialisation constant, and the workgroup size when the
// constant is decorated as such.
func (r *reader) constant(in Instruction, info *Info) error {
	o := in.Operands
	if id, ok := r.specID[o[1]]; ok {
		value, err := r.word(o[1])
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(info.Specs, func(s Spec) bool { return s.ID == id }) {
			info.Specs = append(info.Specs, Spec{ID: id, Default: value})
		}
	}
	if o[1] == r.wgSize && len(o) == 5 {
		return r.setLocalSize(o[2:5], info)
	}
	return nil
}

func (r *reader) localSizeID(info *Info) error {
	if r.localIDs == nil {
		return nil
	}
	ids := r.localIDs
	r.localIDs = nil
	return r.setLocalSize(ids, info)
}

func (r *reader) setLocalSize(ids []uint32, info *Info) error {
	for i, id := range ids {
		value, err := r.word(id)
		if err != nil {
			return err
		}
		info.LocalSize[i] = value
		if spec, ok := r.specID[id]; ok {
			info.LocalSizeIDs[i] = int(spec)
		}
	}
	return nil
}

// word is the value of a 32-bit scalar constant.
func (r *reader) word(id uint32) (uint32, error) {
	in, ok := r.defs[id]
	switch {
	case ok && in.Op == OpSpecConstantTrue:
		return 1, nil
	case ok && in.Op == OpSpecConstantFalse:
		return 0, nil
	case ok && (in.Op == OpConstant || in.Op == OpSpecConstant) && len(in.Operands) == 3:
		return in.Operands[2], nil
	}
	return 0, fmt.Errorf("id %d is no 32-bit constant", id)
}

const maxTypeDepth = 16

// size is the number of bytes of a type in memory; a matrix needs the stride
// that decorates its place in the structure around it.
func (r *reader) size(id, matrixStride uint32, depth int) (uint32, error) {
	in, ok := r.defs[id]
	if !ok || depth > maxTypeDepth {
		return 0, fmt.Errorf("type %d has no known size", id)
	}
	o := in.Operands
	switch in.Op {
	case OpTypeInt, OpTypeFloat:
		return o[1] / 8, nil
	case OpTypePointer:
		return 8, nil // a physical address
	case OpTypeVector:
		n, err := r.size(o[1], 0, depth+1)
		return n * o[2], err
	case OpTypeMatrix:
		return matrixStride * o[2], nil
	case OpTypeArray:
		n, err := r.word(o[2])
		return r.stride[id] * n, err
	case OpTypeStruct:
		var end uint32
		for i, t := range o[1:] {
			at := member{id, uint32(i)}
			n, err := r.size(t, r.mstride[at], depth+1)
			if err != nil {
				return 0, err
			}
			end = max(end, r.offset[at]+n)
		}
		return end, nil
	}
	return 0, fmt.Errorf("%v has no size in a push constant block", in.Op)
}
