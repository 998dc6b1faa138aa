package conform

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/spirv"
)

// breakConstant returns the words of a kernel with another value of one constant.
func breakConstant(t *testing.T, kernel string, from, to uint32) []byte {
	k, ok := spirv.Lookup(kernel)
	if !ok {
		t.Fatal("no kernel", kernel)
	}
	words := k.Words()
	module, err := spirv.Parse(words)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, in := range module.Instructions {
		if in.Op == spirv.OpConstant && len(in.Operands) == 3 && in.Operands[2] == from {
			words[in.Offset+3], found = to, true
		}
	}
	if !found {
		t.Fatalf("kernel %s has no constant %#x any more: choose another", kernel, from)
	}
	var data []byte
	for _, w := range words {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	return data
}

// The suite notices small mistakes: kernels broken in one constant fail, and
// only they.
func TestBrokenKernelsAreNamed(t *testing.T) {
	for kernel, c := range map[string]struct {
		what     string
		from, to uint32
	}{
		"mul_mat_q2_0_i8":    {"slices of 4 blocks instead of 8", 7, 3},
		"quantize_i8":        {"the last bit of 1/127", 0x3c010204, 0x3c010205},
		"rms_norm_f32":       {"the start of the Newton steps of rsqrt", 0x5f3759df, 0x5f3759d0},
		"silu_mul_i8":        {"the last bit of a coefficient of exp2", 0x3e75fdf0, 0x3e75fdf1},
		"attention_part_f16": {"the rounding of weights", 0x400, 0x3ff},
		"qkv_rope_cache_f16": {"ties of halves go down", 0xfff, 0xffe},
		// Of a bound, where the device has such matrices.
		"attention_f16__coop8": {"sums so far halved for every step that a row's exponent stays", 0x3f800000, 0x3f000000},
	} {
		t.Run(kernel, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, kernel+".spv"), breakConstant(t, kernel, c.from, c.to), 0o666); err != nil {
				t.Fatal(err)
			}
			report, err := Run(context.Background(), Options{
				Select: func(k *spirv.Kernel) bool { return k.Name == kernel || k.Name == "pick_rows_f32" }, Cases: 40, Work: 1 << 21,
				Open: func(k *spirv.Kernel) (graph.Executor, error) {
					return runtime.Open(runtime.Options{KernelDir: dir, CacheDir: "off"}.Forcing(k))
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			broken, whole := report.Results[0], report.Results[1]
			if broken.Kernel() != kernel {
				broken, whole = whole, broken
			}
			if broken.Failed+broken.Cases == 0 {
				t.Skip(broken.String())
			}
			if broken.Failed == 0 {
				t.Errorf("%s: nothing was noticed in %d cases", c.what, broken.Cases)
			} else {
				t.Log(c.what, "->", broken.String())
			}
			if whole.Failed > 0 {
				t.Error(whole.String())
			}
		})
	}
}
