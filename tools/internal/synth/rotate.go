package synth

import (
	"math"
	"slices"

	"github.com/ternvk/tern/model/gguf"
)

// rotationKeys are the metadata of rotated weights.
func (s Shape) rotationKeys() []gguf.KV {
	var widths []int32
	var folded, inverse []string
	for _, t := range s.tensors() {
		switch t.turn {
		case unturned:
			continue
		case latent:
			inverse = append(inverse, t.Name)
		default:
			folded = append(folded, t.Name)
		}
		if k := int32(t.Dims[0]); !slices.Contains(widths, k) {
			widths = append(widths, k)
		}
	}
	slices.Sort(widths)
	var signs []int32
	for _, k := range widths {
		for i := range int(k) {
			signs = append(signs, int32(s.sign(int(k), i)))
		}
	}
	version := uint32(1)
	if s.Tied {
		version = 2
	}
	kvs := []gguf.KV{
		{Key: "version", Value: version},
		{Key: "block_size", Value: uint32(s.rotationBlock())},
		{Key: "transform", Value: "normalized-sylvester-walsh-hadamard"},
		{Key: "axis", Value: "input-last-dimension"},
		{Key: "sign_mode", Value: "explicit"},
		{Key: "weight_names", Value: folded},
		{Key: "inverse_weight_names", Value: inverse},
		{Key: "sign_widths", Value: widths},
		{Key: "sign_values", Value: signs},
	}
	if s.recurrent() {
		kvs = append(kvs, gguf.KV{Key: "gdn_v_grouped", Value: true})
	}
	if s.Tied {
		kvs = append(kvs, gguf.KV{Key: "tied_output", Value: true})
	}
	for i := range kvs {
		kvs[i].Key = "prism.hadamard." + kvs[i].Key
	}
	return kvs
}

// rotationBlock is the largest power of two up to 1024 that divides all widths.
func (s Shape) rotationBlock() int {
	all := 1024
	for _, t := range s.tensors() {
		if t.turn != unturned {
			all |= int(t.Dims[0])
		}
	}
	return all & -all
}

// sign is +1 or -1 for element i of inputs of k elements.
func (s Shape) sign(k, i int) float32 {
	return 1 - 2*float32(output(s.Seed^uint64(k)<<32, uint64(i))>>63)
}

// rotate turns a row of weights for inputs that are signed and transformed. For rows
// of an embedding, which are outputs, that is the inverse of what undoes it.
func (s Shape) rotate(row []float32, how turn) {
	if how == unturned {
		return
	}
	if d := s.Delta; how == grouped {
		tiled := slices.Clone(row)
		for v := range d.Values { // value head v belongs to key head v mod Keys
			at := v/d.Keys + v%d.Keys*(d.Values/d.Keys)
			copy(row[at*d.Dim:][:d.Dim], tiled[v*d.Dim:][:d.Dim])
		}
	}
	for i := range row {
		row[i] *= s.sign(len(row), i)
	}
	size := s.rotationBlock()
	for at := 0; at < len(row); at += size {
		hadamard(row[at:][:size])
	}
}

// hadamard is the orthonormal transform.
func hadamard(v []float32) {
	for n := 1; n < len(v); n *= 2 {
		for i := range v {
			if i&n == 0 {
				v[i], v[i+n] = v[i]+v[i+n], v[i]-v[i+n]
			}
		}
	}
	for i := range v {
		v[i] *= float32(1 / math.Sqrt(float64(len(v))))
	}
}
