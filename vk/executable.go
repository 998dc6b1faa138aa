package vk

import (
	"fmt"
	"math"
	"unsafe"
)

// Text is the statistic's value, read as its Format says.
func (s *PipelineExecutableStatisticKHR) Text() string {
	bits := s.Value[0]
	switch s.Format {
	case PipelineExecutableStatisticFormatBool32KHR:
		return fmt.Sprint(uint32(bits) != 0)
	case PipelineExecutableStatisticFormatInt64KHR:
		return fmt.Sprint(int64(bits))
	case PipelineExecutableStatisticFormatUint64KHR:
		return fmt.Sprint(bits)
	case PipelineExecutableStatisticFormatFloat64KHR:
		return fmt.Sprint(math.Float64frombits(bits))
	}
	return fmt.Sprintf("%#x", bits)
}

// ExecutableText is an internal representation of a compiled shader, such as
// assembly text.
type ExecutableText struct {
	Name, Description string
	IsText            bool // otherwise Data is binary
	Data              []byte
}

// GetPipelineExecutableInternalRepresentationsKHR is the command of that name:
// the representations with their data.
func (d *Device) GetPipelineExecutableInternalRepresentationsKHR(info *PipelineExecutableInfoKHR) ([]ExecutableText, error) {
	n := new(uint32)
	if err := d.getPipelineExecutableInternalRepresentationsKHR(info, n, nil); err != nil || *n == 0 {
		return nil, err
	}
	raw := make([]PipelineExecutableInternalRepresentationKHR, *n)
	if err := d.getPipelineExecutableInternalRepresentationsKHR(info, n, &raw[0]); err != nil {
		return nil, err
	}
	texts := make([]ExecutableText, *n)
	for i := range texts {
		texts[i].Data = make([]byte, raw[i].DataSize)
		raw[i].PData = unsafe.Pointer(unsafe.SliceData(texts[i].Data))
	}
	if err := d.getPipelineExecutableInternalRepresentationsKHR(info, n, &raw[0]); err != nil {
		return nil, err
	}
	for i := range texts {
		t := &texts[i]
		t.Name, t.Description = String(raw[i].Name[:]), String(raw[i].Description[:])
		t.IsText = raw[i].IsText.Bool()
		t.Data = t.Data[:min(uint64(raw[i].DataSize), uint64(len(t.Data)))]
		if t.IsText {
			t.Data = []byte(String(t.Data))
		}
	}
	return texts, nil
}
