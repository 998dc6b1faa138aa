package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/spirv"
)

// Fake devices. The figures of h200 and swiftshader are those of real ones.
func h200() Snapshot {
	return Snapshot{
		Name: "NVIDIA H200", DriverName: "NVIDIA", DriverInfo: "580.159.04", DriverID: 4, Type: Discrete,
		UUID: UUID{1, 2, 3}, API: MakeVersion(1, 4, 312),
		Limits: Limits{
			Groups: [3]uint32{0x7fffffff, 65535, 65535}, LocalSize: [3]uint32{1024, 1024, 64}, Invocations: 1024,
			SharedBytes: 48 << 10, PushBytes: 256, StorageBuffers: 1048576,
			Binding: 1<<32 - 1, Allocation: 0xffe00000, Buffer: 1 << 48, OffsetAlignment: 16, TimestampPeriod: 1, TimestampBits: 64,
		},
		Heaps: []Heap{{Bytes: 139 << 30, DeviceLocal: true}, {Bytes: 96 << 30}},
		Types: []MemoryType{{0, 1}, {DeviceLocal, 0}, {Mapped, 1}, {Mapped | HostCached, 1}, {DeviceLocal | Mapped, 0}},
		Int8:  true, Float16: true, Storage8: true, Storage16: true, Dot: true, DotAccelerated: true, CoopMatrix: true,
		Coop:          []CoopShape{{16, 16, 16, Float16, Float16, Float32, Float32}, {16, 16, 32, Sint8, Sint8, Sint32, Sint32}},
		Subgroup:      Subgroup{Size: 32, Min: 32, Max: 32},
		FloatControls: FloatControls{RTE16: true, RTE32: true, PreserveSpecial32: true, RoundingIndependent: true},
	}
}

func swiftshader() Snapshot {
	s := cpu()
	s.Limits.StorageBuffers, s.Limits.Invocations = 4, 128
	s.Subgroup = Subgroup{Size: 4}
	s.Float16, s.Int8, s.Storage8, s.Storage16, s.FloatControls = false, false, false, false, FloatControls{}
	return s
}

func cpu() Snapshot {
	return Snapshot{
		Name: "llvmpipe", DriverName: "llvmpipe", Type: CPU, UUID: UUID{9}, API: MakeVersion(1, 3, 230),
		Limits: Limits{
			Groups: [3]uint32{65535, 65535, 65535}, LocalSize: [3]uint32{1024, 1024, 1024}, Invocations: 1024,
			SharedBytes: 32 << 10, PushBytes: 128, StorageBuffers: 32, Binding: 128 << 20, Allocation: 2 << 30, Buffer: 2 << 30, OffsetAlignment: 16,
		},
		Heaps: []Heap{{Bytes: 8 << 30, DeviceLocal: true}},
		Types: []MemoryType{{DeviceLocal | Mapped | HostCached, 0}},
		Int8:  true, Float16: true, Storage8: true, Storage16: true, Dot: true,
		Subgroup: Subgroup{Size: 8, Min: 8, Max: 8},
	}
}

// uma is an integrated GPU that shares 32 GiB with the host.
func uma() Snapshot {
	s := h200()
	s.Name, s.DriverName, s.DriverID, s.Type, s.UUID = "Radeon 780M", "radv", 3, Integrated, UUID{5}
	s.Heaps = []Heap{{Bytes: 32 << 30, DeviceLocal: true}}
	s.Types = []MemoryType{{DeviceLocal, 0}, {DeviceLocal | Mapped, 0}, {DeviceLocal | Mapped | HostCached, 0}}
	s.Subgroup = Subgroup{Size: 64, Min: 32, Max: 64}
	return s
}

func made(t *testing.T, s Snapshot, c Config) *Plan {
	t.Helper()
	p, err := New(s, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// importing is a card whose driver takes kernels in PTX.
func importing() Snapshot {
	s := h200()
	s.VendorID, s.Address, s.Import, s.Processors = nvidia, true, true, 132
	return s
}

func TestFeatures(t *testing.T) {
	off := []string{"local", "shared", "coopmat", "store8", "store16", "int8", "f16", "dot"}
	blind, other := importing(), importing()
	blind.Address, other.VendorID = false, 0x1002
	for _, c := range []struct {
		name string
		s    Snapshot
		c    Config
		want string
	}{
		{"h200", h200(), Config{}, "coop16 dot f16 int8 local1024 local256 local512 sg32 shared32k shared48k store16 store8"},
		{"h200 without", h200(), Config{Disable: []string{"coopmat", "f16", "local", "shared", "store8", "store16"}}, "dot int8 sg32"},
		{"coop needs int8", h200(), Config{Disable: []string{"int8", "local", "shared", "subgroup"}}, "dot f16 store16 store8"},
		{"fast", h200(), Config{Fast: true, Disable: []string{"local", "shared", "subgroup"}}, "coop16 coop16f16 dot f16 int8 store16 store8"},
		{"fast without int8", h200(), Config{Fast: true, Disable: []string{"int8", "local", "shared", "subgroup"}}, "coop16f16 dot f16 store16 store8"},
		{"coop needs f16", h200(), Config{Fast: true, Disable: []string{"f16", "local", "shared", "subgroup"}}, "coop16 dot int8 store16 store8"},
		{"unaccelerated dot", cpu(), Config{Disable: []string{"local", "shared"}}, "f16 int8 sg8 store16 store8"},
		{"forced dot", cpu(), Config{Disable: []string{"local", "shared"}, Force: []string{"dot"}}, "dot f16 int8 sg8 store16 store8"},
		{"forced and disabled dot", cpu(), Config{Disable: []string{"local", "shared", "dot"}, Force: []string{"dot"}}, "f16 int8 sg8 store16 store8"},
		{"weakest", swiftshader(), Config{}, "sg4 shared32k"},
		{"force cannot invent", swiftshader(), Config{Force: []string{"f16"}}, "sg4 shared32k"},
		{"two subgroup sizes", uma(), Config{Disable: []string{"local", "shared", "coopmat", "int8", "f16"}}, "dot sg32 sg64 store16 store8"},
		{"adopted without features", h200(), Config{Enabled: []string{}}, "local1024 local256 local512 sg32 shared32k shared48k"},
		{"adopted with some", h200(), Config{Enabled: []string{"int8", "coopmat"}}, "coop16 int8 local1024 local256 local512 sg32 shared32k shared48k"},
		{"adopted without subgroup sizes", uma(), Config{Enabled: []string{}, Disable: []string{"local", "shared"}}, "sg64"},
		{"adopted with subgroup sizes", uma(), Config{Enabled: []string{"subgroup"}, Disable: []string{"local", "shared"}}, "sg32 sg64"},
		{"kernels in PTX", importing(), Config{Disable: off}, "resident sg32 sm90"},
		{"no kernels in PTX", importing(), Config{Disable: append([]string{"sm90"}, off...)}, "resident sg32"},
		{"kernels in PTX without addresses", blind, Config{Disable: off}, "sg32"},
		{"kernels in PTX of another vendor", other, Config{Disable: off}, "resident sg32"},
		{"adopted without kernels in PTX", importing(), Config{Enabled: []string{"resident"}, Disable: off}, "resident sg32"},
		{"capped", h200(), Config{Caps: Caps{Invocations: 128, SharedBytes: 16 << 10}}, "coop16 dot f16 int8 sg32 store16 store8"},
	} {
		if got := strings.Join(made(t, c.s, c.c).Features(), " "); got != c.want {
			t.Errorf("%s: features %s, want %s", c.name, got, c.want)
		}
	}
	p := made(t, h200(), Config{Disable: []string{"coopmat"}})
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "coop16 is off") {
		t.Errorf("notes %q", p.Notes)
	}
	p.Off("dot", "the start-up probe found wrong words")
	if p.Has("dot") || len(p.Notes) != 2 {
		t.Errorf("dot is on, notes %q", p.Notes)
	}
}

func TestWords(t *testing.T) {
	if _, err := ParseWords("coopmat, int8,,dot"); err != nil {
		t.Error(err)
	}
	_, err := ParseWords("int8,warp")
	if err == nil || !strings.Contains(err.Error(), `"warp"`) || !strings.Contains(err.Error(), "coop8, coop8f16, coopmat") {
		t.Errorf("unknown word: %v", err)
	}
	if _, err := New(h200(), Config{Disable: []string{"nothing"}}); err == nil {
		t.Error("New takes an unknown word")
	}
	// Every need of the kernel list is a word, or its kernel would never run.
	for _, k := range spirv.Kernels {
		for _, need := range k.Needs {
			if !slices.ContainsFunc(features, func(f feature) bool { return f.word == need }) {
				t.Errorf("kernel %s needs %q, which is no feature word", k.Name, need)
			}
		}
	}
}

func TestControls(t *testing.T) {
	s := h200()
	if c := made(t, s, Config{}).Controls(); c != (spirv.FloatControls{RTE32: true, PreserveSpecial32: true}) {
		t.Errorf("independent widths: %+v", c)
	}
	s.FloatControls.RoundingIndependent = false
	if c := made(t, s, Config{}).Controls(); c != (spirv.FloatControls{RTE16: true, RTE32: true, PreserveSpecial32: true}) {
		t.Errorf("all widths together: %+v", c)
	}
	s.FloatControls.RTE16 = false
	if c := made(t, s, Config{}).Controls(); c != (spirv.FloatControls{PreserveSpecial32: true}) {
		t.Errorf("one width is missing: %+v", c)
	}
	if c := made(t, h200(), Config{Disable: []string{"floatcontrols"}}).Controls(); c != (spirv.FloatControls{}) {
		t.Errorf("switched off: %+v", c)
	}
}

func kernel(name string, tile spirv.Tile, needs ...string) *spirv.Kernel {
	contract, impl := spirv.SplitName(name)
	return &spirv.Kernel{Name: name, Contract: contract, Impl: impl, Class: spirv.ClassExact, Env: "vulkan1.1", Tile: tile, Needs: needs,
		Info: spirv.Info{LocalSize: [3]uint32{64, 1, 1}, Bindings: 4, PushBytes: 16}}
}

func TestChoose(t *testing.T) {
	list := []*spirv.Kernel{
		kernel("mm__coop", spirv.Tile{{Key: "x", Value: 128}, {Key: "y", Value: 64}, {Key: "miny", Value: 33}}, "coop16"),
		kernel("mm__vec", spirv.Tile{{Key: "x", Value: 4}, {Key: "maxy", Value: 8}, {Key: "minx", Value: 100}}, "dot"),
		kernel("mm__wide", spirv.Tile{{Key: "x", Value: 64}}),
		kernel("mm", spirv.Tile{{Key: "x", Value: 64}}),
	}
	list[2].LocalSize = [3]uint32{256, 1, 1}
	modern := kernel("mm__modern", nil)
	modern.Env = "vulkan1.3"
	bound := kernel("mm__half", nil)
	bound.Class = "bound:attention"
	old := h200()
	old.API = MakeVersion(1, 2, 0)
	many := kernel("mm__many", nil)
	many.Bindings = 5
	filling := kernel("mm__filling", spirv.Tile{{Key: "x", Value: 64}, {Key: "fill", Value: 1}})
	twice := kernel("mm__twice", spirv.Tile{{Key: "x", Value: 64}, {Key: "fill", Value: 2}})
	processor := kernel("mm__cpu", spirv.Tile{{Key: "cpu", Value: 1}})
	counted := h200()
	counted.Processors = 132
	pushy := kernel("mm__pushy", nil)
	pushy.PushBytes = 256
	for _, c := range []struct {
		name   string
		s      Snapshot
		c      Config
		list   []*spirv.Kernel
		domain [2]uint32
		want   string
	}{
		{"long prompt", h200(), Config{}, list, [2]uint32{4096, 512}, "mm__coop"},
		{"smallest for coop", h200(), Config{}, list, [2]uint32{4096, 33}, "mm__coop"},
		{"between", h200(), Config{}, list, [2]uint32{4096, 32}, "mm__wide"},
		{"decode", h200(), Config{}, list, [2]uint32{4096, 1}, "mm__vec"},
		{"largest for vec", h200(), Config{}, list, [2]uint32{100, 8}, "mm__vec"},
		{"few rows", h200(), Config{}, list, [2]uint32{99, 1}, "mm__wide"},
		{"coop off", h200(), Config{Disable: []string{"coopmat"}}, list, [2]uint32{4096, 512}, "mm__wide"},
		{"small workgroups", swiftshader(), Config{}, list, [2]uint32{4096, 512}, "mm"},
		{"new SPIR-V", h200(), Config{}, []*spirv.Kernel{modern, list[3]}, [2]uint32{1, 1}, "mm__modern"},
		{"old Vulkan", old, Config{}, []*spirv.Kernel{modern, list[3]}, [2]uint32{1, 1}, "mm"},
		{"not exact", h200(), Config{}, []*spirv.Kernel{bound, list[3]}, [2]uint32{1, 1}, "mm"},
		{"fast", h200(), Config{Fast: true}, []*spirv.Kernel{bound, list[3]}, [2]uint32{1, 1}, "mm__half"},
		{"a processor's", cpu(), Config{}, []*spirv.Kernel{processor, list[3]}, [2]uint32{1, 1}, "mm__cpu"},
		{"no processor", h200(), Config{}, []*spirv.Kernel{processor, list[3]}, [2]uint32{1, 1}, "mm"},
		{"given", h200(), Config{Given: []string{"mm", "mm__vec"}}, list, [2]uint32{4096, 512}, "mm"},
		{"too few to fill", counted, Config{}, []*spirv.Kernel{filling, list[3]}, [2]uint32{87 * 64, 1}, "mm"},
		{"enough to fill", counted, Config{}, []*spirv.Kernel{filling, list[3]}, [2]uint32{44 * 64, 2}, "mm__filling"},
		{"too few to fill twice", counted, Config{}, []*spirv.Kernel{twice, list[3]}, [2]uint32{175 * 64, 1}, "mm"},
		{"enough to fill twice", counted, Config{}, []*spirv.Kernel{twice, list[3]}, [2]uint32{88 * 64, 2}, "mm__twice"},
		{"fill who knows what", h200(), Config{}, []*spirv.Kernel{filling, list[3]}, [2]uint32{1, 1}, "mm__filling"},
		{"many buffers", swiftshader(), Config{}, []*spirv.Kernel{many, list[3]}, [2]uint32{1, 1}, "mm"},
		{"many constants", cpu(), Config{}, []*spirv.Kernel{pushy, list[3]}, [2]uint32{1, 1}, "mm"},
	} {
		k, err := made(t, c.s, c.c).choose("mm", c.list, c.domain)
		if err != nil || k.Name != c.want {
			t.Errorf("%s: %v, error %v; want %s", c.name, k, err, c.want)
		}
	}
	// An override goes beyond the bounds of the tile, not of the device.
	p := made(t, h200(), Config{})
	p.kernels = map[string]string{"mm": "coop"}
	if k, err := p.choose("mm", list, [2]uint32{1, 1}); err != nil || k.Impl != "coop" {
		t.Errorf("override: %v, %v", k, err)
	}
	// A kernel for heads of one dimension is passed over by others, forced or not.
	heads := []*spirv.Kernel{kernel("mm__heads", spirv.Tile{{Key: "x", Value: 64}, {Key: "dim", Value: 128}}), list[3]}
	for _, kernels := range []map[string]string{nil, {"mm": "heads"}} {
		p.kernels = kernels
		for _, spec := range [][]uint32{{128, 8}, {64, 8}, nil} {
			k, err := p.choose("mm", heads, [2]uint32{1, 1}, spec...)
			if taken := len(spec) > 0 && spec[0] == 128; err != nil || taken != (k.Impl == "heads") {
				t.Errorf("heads of %d, kernels %v: %v, %v", spec, kernels, k, err)
			}
		}
	}
	p = made(t, cpu(), Config{})
	p.kernels = map[string]string{"mm": "coop"}
	if _, err := p.choose("mm", list, [2]uint32{1, 64}); !errors.Is(err, graph.ErrUnsupported) || !strings.Contains(err.Error(), "coop16") {
		t.Errorf("override without the feature: %v", err)
	}
	if _, err := p.choose("mm", nil, [2]uint32{1, 1}); !errors.Is(err, graph.ErrUnsupported) {
		t.Errorf("no such contract: %v", err)
	}
}

func TestOverrides(t *testing.T) {
	k, err := ParseKernels("probe_i8=dot, probe_f32=")
	if err != nil || k["probe_i8"] != "dot" || len(k) != 2 {
		t.Errorf("%v, %v", k, err)
	}
	if _, err := ParseKernels("probe_i8"); err == nil {
		t.Error("an override without =")
	}
	for _, c := range []struct {
		s              Snapshot
		contract, impl string
		want           string // "" is no error
	}{
		{h200(), "probe_i8", "dot", ""},
		{h200(), "probe_i8", "", ""},
		{cpu(), "probe_i8", "dot", "needs dot"},
		{h200(), "probe_i8", "fast", "no implementation"},
		{h200(), "no_such", "", "no contract"},
	} {
		_, err := New(c.s, Config{Kernels: map[string]string{c.contract: c.impl}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: error %v, want %q", c.contract, c.impl, err, c.want)
		}
	}
}

// Every workgroup of a domain runs once: the folded grid covers 0..n-1 exactly.
// BL-13.
func TestGrid(t *testing.T) {
	k := kernel("k", spirv.Tile{{Key: "x", Value: 64}, {Key: "y", Value: 4}})
	for _, limit := range []uint32{1, 7, 65535, 0x7fffffff, 0xffffffff} {
		p := made(t, h200(), Config{})
		p.Limits.Groups[0] = limit
		fold := min(limit, 0x7fffffff)
		for _, x := range []uint32{1, 63, 64, 65, 448, 449, 64 * 65535, 64*65535 + 1, 151669 * 64, 248320 * 64, 0xffffffff} {
			groups := (uint64(x) + 63) / 64
			g, err := p.Grid(k, [2]uint32{x, 9})
			if layers := (groups + uint64(fold) - 1) / uint64(fold); layers > 65535 {
				if !errors.Is(err, graph.ErrUnsupported) {
					t.Errorf("limit %d, x %d: %d layers give error %v", limit, x, layers, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("limit %d, x %d: %v", limit, x, err)
				continue
			}
			if n := uint64(g.Groups[0])*uint64(g.Groups[2]) + uint64(g.Tail); n != groups || g.Groups[0] > fold || g.Groups[1] != 3 || g.Groups[2] > 1 && g.Groups[0] != fold || g.Tail > 0 && g.Groups[0] != fold {
				t.Errorf("limit %d, x %d: grid %+v has %d groups, want %d", limit, x, g, n, groups)
			}
		}
	}
	ptx := kernel("k__sm90", spirv.Tile{{Key: "x", Value: 64}})
	ptx.Source = "k.cu"
	p := made(t, importing(), Config{Caps: Caps{GroupsX: 7}})
	if g, err := p.Grid(ptx, [2]uint32{64 * 65537, 9}); err != nil || g != (Grid{Groups: [3]uint32{65537, 9, 1}}) {
		t.Errorf("a kernel in PTX has the grid %+v, %v", g, err)
	}
	if _, err := p.Grid(ptx, [2]uint32{1, 65536}); !errors.Is(err, graph.ErrUnsupported) {
		t.Errorf("too many groups of PTX on y: %v", err)
	}
	ptx.Tile = spirv.Tile{{Key: "x", Value: 128}, {Key: "y", Value: 128}, {Key: "places", Value: 132}}
	for _, processors := range []uint32{0, 114} {
		p.Processors = processors
		most := map[uint32]uint32{0: 132, 114: 114}[processors]
		for _, c := range []struct {
			domain [2]uint32
			groups uint32
		}{{[2]uint32{1, 1}, 1}, {[2]uint32{3 * 128, 129}, 6}, {[2]uint32{24576, 512}, most}, {[2]uint32{0xffffffff, 0xffffffff}, most}} {
			if g, err := p.Grid(ptx, c.domain); err != nil || g != (Grid{Groups: [3]uint32{c.groups, 1, 1}}) {
				t.Errorf("workgroups that take tiles of %v in turn on %d multiprocessors have the grid %+v, %v", c.domain, processors, g, err)
			}
		}
	}
	if _, err := made(t, cpu(), Config{}).Grid(k, [2]uint32{1, 4*65535 + 1}); !errors.Is(err, graph.ErrUnsupported) {
		t.Errorf("too many groups on y: %v", err)
	}
}

func TestSubgroupSize(t *testing.T) {
	k := kernel("k", nil, "sg32")
	if n := made(t, uma(), Config{}).SubgroupSize(k); n != 32 {
		t.Errorf("a device with sizes 32 and 64 is asked for %d", n)
	}
	if n := made(t, h200(), Config{}).SubgroupSize(k); n != 0 {
		t.Errorf("a device with one size is asked for %d", n)
	}
	if n := made(t, uma(), Config{}).SubgroupSize(kernel("k", nil, "dot")); n != 0 {
		t.Errorf("a kernel without a wish asks for %d", n)
	}
}

// Which products a Hopper card makes with kernels in CUDA, in either profile.
func TestProductsOfHopper(t *testing.T) {
	s := h200()
	s.VendorID, s.Import, s.Address, s.Processors = nvidia, true, true, 132
	for _, c := range []struct {
		domain      [2]uint32
		exact, fast string
	}{
		{[2]uint32{24576, 512}, "sm90", "sm90_fast"},
		{[2]uint32{4096, 512}, "sm90", "sm90_fast"},
		{[2]uint32{2048, 512}, "sm90_small", "sm90_fast_small"},
		{[2]uint32{24576, 129}, "sm90", "sm90_fast"},
		{[2]uint32{24576, 128}, "sm90_few", "sm90_few"},
		{[2]uint32{4096, 9}, "sm90_few", "sm90_few"},
		{[2]uint32{4096, 8}, "vec4", "vec4"},
		{[2]uint32{24576, 1}, "vec", "vec"},
	} {
		for _, fast := range []bool{false, true} {
			p, err := New(s, Config{Fast: fast})
			if err != nil {
				t.Fatal(err)
			}
			want := c.exact
			if fast {
				want = c.fast
			}
			if k, err := p.Choose("mul_mat_q2_0_i8", c.domain); err != nil || k.Impl != want {
				t.Errorf("%v, fast %v: %+v, %v, want %s", c.domain, fast, k, err, want)
			}
		}
	}
}
