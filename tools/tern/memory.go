package main

import (
	"fmt"
	"io"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
)

const (
	defaultContext = 4096 // positions, where the model has as many
)

// memoryReport is the device memory that a model takes, in bytes.
type memoryReport struct {
	Context          int    `json:"context"`
	Weights          uint64 `json:"weights"`
	Constants        uint64 `json:"constants"`
	Cache            uint64 `json:"cache"`
	CachePerPosition uint64 `json:"cache_per_position"`
	State            uint64 `json:"state"`
	Chunk            int    `json:"chunk"`   // tokens of a prompt that run at once
	Scratch          uint64 `json:"scratch"` // of such a run
	Batch            uint64 `json:"batch"`
	Total            uint64 `json:"total"`
}

// memory tells what the model takes with a context; 0 is the usual one.
func (a *app) memory(f *gguf.File, positions, sequences int) (*memoryReport, error) {
	info, err := model.Describe(f)
	if err != nil {
		return nil, err
	}
	switch positions {
	case 0:
		positions = min(info.TrainedContext, defaultContext)
	case mostThatFit:
		x, err := a.executor(a.device)
		if err != nil {
			return nil, err
		}
		defer x.Close()
		if positions, err = a.fit(f, model.Options{Executor: x}); err != nil {
			return nil, err
		}
	}
	o, err := a.options(model.Options{Context: positions, Sequences: sequences})
	if err != nil {
		return nil, err
	}
	e, err := model.EstimateMemory(f, o)
	if err != nil {
		return nil, err
	}
	return &memoryReport{
		Context: positions, Weights: e.Weights, Constants: e.Constants, Cache: e.Cache, CachePerPosition: e.CachePerToken,
		State: e.State, Chunk: min(positions, model.DefaultChunk), Scratch: e.Scratch, Batch: e.Batch, Total: e.Total(),
	}, nil
}

func (r *memoryReport) print(w io.Writer) {
	fmt.Fprintf(w, "\nmemory with a context of %d\n", r.Context)
	fmt.Fprintf(w, "  weights\t%s\n  constants\t%s\n", sizeText(r.Weights), sizeText(r.Constants))
	fmt.Fprintf(w, "  cache\t%s\t%s a position\n", sizeText(r.Cache), sizeText(r.CachePerPosition))
	if r.State > 0 {
		fmt.Fprintf(w, "  state\t%s\n", sizeText(r.State))
	}
	fmt.Fprintf(w, "  scratch\t%s\tfor %d tokens of a prompt at once\n  batch\t%s\n", sizeText(r.Scratch), r.Chunk, sizeText(r.Batch))
	fmt.Fprintf(w, "  total\t%s\n", sizeText(r.Total))
}
