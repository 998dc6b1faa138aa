package gguf

import (
	"errors"
	"fmt"
)

// place settles where each tensor lies. ggml's writer puts tensors one after
// another, each padded to the alignment, and its reader insists on that; so does
// this one, which rules out overlaps and tells the two layouts of type id 42
// apart: only the right block size reproduces the offsets of a real model. If
// both do (all tensors of the type are tiny), the caller has to say which.
func (f *File) place(data []byte, header uint64, q2Group int) error {
	if q, _, _ := f.String("general.quantization_version"); q == "TQ2_0_G128" && f.uses(Q2_0) {
		return errors.New("type id 42 stands for TQ2_0_G128 here, one converter's own format; use the model's official Q2_0 file")
	}
	start := pad(header, f.Alignment)
	if len(f.Tensors) == 0 {
		return nil
	}
	if start > uint64(len(data)) {
		return fmt.Errorf("truncated: tensor data should begin at offset %d, the file ends at %d", start, len(data))
	}
	space := uint64(len(data)) - start

	group, sizes, err := f.settle(q2Group, space)
	if err != nil {
		return err
	}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if t.Type == Q2_0 {
			t.Type = group
		}
		t.Size = sizes[i]
		t.Offset += start
		t.data = data[t.Offset : t.Offset+t.Size : t.Offset+t.Size]
	}
	return nil
}

// settle finds out what type id 42 means, and the tensors' sizes.
func (f *File) settle(q2Group int, space uint64) (group Type, sizes []uint64, err error) {
	sizes, exact, err := f.replay(Q2_0, space)
	if !f.uses(Q2_0) {
		return Q2_0, sizes, err
	}
	legacy, legacyExact, legacyErr := f.replay(Q2_0_G128, space)
	switch {
	case q2Group == 64:
		return Q2_0, sizes, err
	case q2Group == 128:
		return Q2_0_G128, legacy, legacyErr
	case q2Group != 0:
		return 0, nil, fmt.Errorf("groups of %d weights for type id 42: there are 64 and 128", q2Group)
	case err == nil && legacyErr == nil && exact == legacyExact:
		return 0, nil, errors.New("type id 42 fits two layouts, Q2_0 in groups of 64 weights (18 bytes) and the older one in groups of 128 (34 bytes): " +
			"say which with --q2-group 64 or 128, or take the model's Q2_0_g64 or PQ2_0 file")
	case err == nil && (exact || legacyErr != nil):
		return Q2_0, sizes, nil
	case legacyErr == nil:
		return Q2_0_G128, legacy, nil
	}
	return 0, nil, fmt.Errorf("type id 42 fits neither layout: as Q2_0 in groups of 64: %w; as the older Q2_0 in groups of 128: %w; "+
		"the file is damaged or not a llama.cpp file: download the model's Q2_0_g64 file again", err, legacyErr)
}

func (f *File) uses(typ Type) bool {
	for i := range f.Tensors {
		if f.Tensors[i].Type == typ {
			return true
		}
	}
	return false
}

// replay checks the tensors' offsets against those a writer would have chosen
// if id 42 meant group. It returns the tensors' sizes, and whether the data ends
// where the file does.
func (f *File) replay(group Type, space uint64) (sizes []uint64, exact bool, err error) {
	var next, end uint64
	for i := range f.Tensors {
		t := &f.Tensors[i]
		typ := t.Type
		if typ == Q2_0 {
			typ = group
		}
		size, err := byteSize(typ, t.Dims)
		if err != nil {
			return nil, false, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if t.Offset%f.Alignment != 0 {
			return nil, false, fmt.Errorf("tensor %q has offset %d, not a multiple of the alignment %d", t.Name, t.Offset, f.Alignment)
		}
		if t.Offset != next {
			return nil, false, fmt.Errorf("tensor %q has offset %d, expected %d", t.Name, t.Offset, next)
		}
		if size > space || next > space-size {
			return nil, false, fmt.Errorf("truncated: tensor %q needs %d bytes at offset %d of the tensor data, the file holds %d", t.Name, size, next, space)
		}
		sizes = append(sizes, size)
		end = next + size
		next = pad(end, f.Alignment)
	}
	return sizes, space == end || space == next, nil
}

func pad(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }
