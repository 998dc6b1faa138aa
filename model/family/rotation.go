package family

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// Rotation is the rotation of activations that Bonsai 2 files ask for. Their folded
// weights are W diag(s) H, with H the normalised Walsh-Hadamard matrix on blocks of
// the input and s signs that belong to its width, so that W x is the stored matrix
// times H (s x). Rows of the embedding are stored likewise: a row is s (H z).
type Rotation struct {
	block     int
	signs     map[int]*signs  // by width of the input
	folded    map[string]bool // tensors whose input is rotated; true once a matrix took it
	embedding bool            // its rows are rotated
	grouped   bool            // the columns of ssm_out have their value heads grouped by key head
}

type signs struct {
	values []float32
	at     op.Const // once they are loaded
}

const prism = "prism.hadamard."

// readRotation reads and checks the keys prism.hadamard.*; nil if there are none.
func readRotation(r *Reader, tied bool) *Rotation {
	f := r.f
	if !slices.ContainsFunc(f.Meta, func(kv gguf.KV) bool { return strings.HasPrefix(kv.Key, prism) }) {
		return nil
	}
	refuse := func(key, format string, args ...any) {
		r.keep(fmt.Errorf("%s: %s%s: %s: %w", f.Name, prism, key, fmt.Sprintf(format, args...), graph.ErrUnsupported))
	}
	version := need(r, f.U32, "version")
	block := need(r, f.U32, "block_size")
	for _, rule := range []struct{ key, want string }{{"transform", "normalized-sylvester-walsh-hadamard"}, {"axis", "input-last-dimension"}} {
		if v := need(r, f.String, rule.key); v != rule.want {
			refuse(rule.key, "%q: only %q is known", v, rule.want)
		}
	}
	names, inverse := need(r, f.Strings, "weight_names"), need(r, f.Strings, "inverse_weight_names")
	tiedOutput, _, err := f.Bool(prism + "tied_output")
	r.keep(err)
	grouped, _, err := f.Bool(prism + "gdn_v_grouped")
	r.keep(err)
	c := &Rotation{block: int(block), signs: map[int]*signs{}, folded: map[string]bool{}, grouped: grouped}
	for _, name := range names {
		c.folded[name] = false
	}
	c.embedding = slices.Equal(inverse, []string{embedding})
	switch {
	case version != 1 && version != 2:
		refuse("version", "%d: 1 and 2 are known", version)
	case block < op.LeastHadamard || block > op.MostHadamard || block&(block-1) != 0:
		refuse("block_size", "%d: want a power of two from %d to %d", block, op.LeastHadamard, op.MostHadamard)
	case !c.embedding && len(inverse) > 0:
		refuse("inverse_weight_names", "%q: only %s is known", inverse, embedding)
	case version == 1 && (tiedOutput || tied && c.embedding):
		refuse("version", "1 is for models with an output.weight of their own and no tied_output")
	case version == 2 && !(tiedOutput && tied && c.embedding):
		refuse("tied_output", "version 2 wants it true, %s in inverse_weight_names and no output.weight", embedding)
	}
	c.readSigns(r, refuse)
	return c
}

const embedding = "token_embd.weight"

// readSigns reads the sign vectors of the widths.
func (c *Rotation) readSigns(r *Reader, refuse func(key, format string, args ...any)) {
	widths := need(r, r.f.I32s, "sign_widths")
	mode := need(r, r.f.String, "sign_mode")
	var values []int32
	switch mode {
	case "explicit":
		values = need(r, r.f.I32s, "sign_values")
	case "identity":
	default:
		refuse("sign_mode", "%q: explicit and identity are known", mode)
		return
	}
	for _, width := range widths {
		if width < 1 || width > 1<<20 || c.block < 1 || int(width)%c.block != 0 {
			refuse("sign_widths", "%d: want a multiple of block_size %d", width, c.block)
			return
		}
		s := make([]float32, width)
		for i := range s {
			s[i] = 1
			if mode == "identity" {
				continue
			}
			if len(values) == 0 || values[0] != 1 && values[0] != -1 {
				refuse("sign_values", "want 1 or -1 for every element of sign_widths %v", widths)
				return
			}
			s[i], values = float32(values[0]), values[1:]
		}
		c.signs[int(width)] = &signs{values: s}
	}
	if len(values) > 0 {
		refuse("sign_values", "%d more than sign_widths %v tell", len(values), widths)
	}
}

// need reads a key that must be there.
func need[T any](r *Reader, get func(key string) (T, bool, error), key string) T {
	v, ok, err := get(prism + key)
	r.keep(err)
	if !ok && err == nil {
		r.keep(fmt.Errorf("%s: metadata lacks %s%s", r.f.Name, prism, key))
	}
	return v
}

// takes reports whether the input of a matrix of k columns is rotated: that of all
// its tensors or of none.
func (c *Rotation) takes(name string, k int, parts ...Part) (bool, error) {
	if c == nil {
		return false, nil
	}
	n := 0
	for _, p := range parts {
		if _, ok := c.folded[p.Name+".weight"]; ok {
			c.folded[p.Name+".weight"] = true
			n++
		}
	}
	switch {
	case n == 0:
		return false, nil
	case n < len(parts):
		return false, fmt.Errorf("%sweight_names: some of the tensors of %s, but not all: %w", prism, name, graph.ErrUnsupported)
	case c.signs[k] == nil:
		return false, noSigns(k, name)
	}
	return true, nil
}

func noSigns(width int, name string) error {
	return fmt.Errorf("%ssign_widths: no %d, the width of %s: %w", prism, width, name, graph.ErrUnsupported)
}

// left returns an error that names a folded tensor which no matrix has taken.
func (c *Rotation) left() error {
	if c == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.folded)) {
		if !c.folded[name] {
			return fmt.Errorf("%sweight_names: %q is not read through a rotation here: %w", prism, name, graph.ErrUnsupported)
		}
	}
	return nil
}
