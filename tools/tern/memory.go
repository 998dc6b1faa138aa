package main

import (
	"fmt"
	"io"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/op"
)

// memoryReport is the device memory that a model takes, in bytes.
type memoryReport struct {
	Context          int    `json:"context"`
	Weights          uint64 `json:"weights"`
	Constants        uint64 `json:"constants"`
	Cache            uint64 `json:"cache"`
	CachePerPosition uint64 `json:"cache_per_position"`
	Batch            uint64 `json:"batch"`
	Total            uint64 `json:"total"`
}

func (a *app) memory(f *gguf.File) (*memoryReport, error) {
	act, err := op.ParseAct(a.activations)
	if err != nil {
		return nil, usageError{err}
	}
	e, err := model.EstimateMemory(f, model.Options{Context: a.context, Activations: act})
	if err != nil {
		return nil, err
	}
	return &memoryReport{int(e.Cache / e.CachePerToken), e.Weights, e.Constants, e.Cache, e.CachePerToken, e.Batch, e.Total()}, nil
}

func (m *memoryReport) print(w io.Writer) {
	fmt.Fprintf(w, "\nmemory with a context of %d\n", m.Context)
	fmt.Fprintf(w, "  weights\t%s\n  constants\t%s\n", sizeText(m.Weights), sizeText(m.Constants))
	fmt.Fprintf(w, "  cache\t%s\t%s a position\n", sizeText(m.Cache), sizeText(m.CachePerPosition))
	fmt.Fprintf(w, "  batch\t%s\n  total\t%s\tand scratch memory, which depends on the device\n", sizeText(m.Batch), sizeText(m.Total))
}
