package frame

import (
	"context"
	"strings"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/testdata/sprig"
	"github.com/ternvk/tern/tools/internal/synth"
)

// Source finds a model: a GGUF file, synth:SHAPE for noise in a published shape, or with ""
// the embedded one. The name is for people.
func Source(file string) (name string, open Open, err error) {
	bytes := func(name string, data []byte) (string, Open, error) {
		return name, func(ctx context.Context, o model.Options) (*model.Model, error) {
			return model.OpenBytes(ctx, name, data, o)
		}, nil
	}
	if shape, synthetic := strings.CutPrefix(file, "synth:"); synthetic {
		s, err := synth.Lookup(shape)
		if err != nil {
			return "", nil, err
		}
		data, err := s.Bytes()
		if err != nil {
			return "", nil, err
		}
		return bytes(file, data)
	}
	if file == "" {
		return bytes("sprig (embedded)", sprig.Model)
	}
	return file, func(ctx context.Context, o model.Options) (*model.Model, error) { return model.Open(ctx, file, o) }, nil
}
