package plan

import (
	"errors"
	"slices"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/spirv"
)

func TestParseMask(t *testing.T) {
	caps, disable, err := ParseMask("f16, int8,subgroup=8,workgroups=65535,binding=128M,shared=16k,push=128,heap=6G")
	want := Caps{Subgroup: 8, GroupsX: 65535, Binding: 128 << 20, SharedBytes: 16 << 10, PushBytes: 128, Heap: 6 << 30}
	if err != nil || caps != want || !slices.Equal(disable, []string{"f16", "int8"}) {
		t.Errorf("%+v, %q, %v", caps, disable, err)
	}
	if caps, disable, err := ParseMask(""); err != nil || caps != (Caps{}) || disable != nil {
		t.Errorf("the empty mask: %+v, %q, %v", caps, disable, err)
	}
	for _, bad := range []string{"nothing", "push", "push=", "push=0", "push=-1", "push=1T", "push=1KM", "push=5G", "width=3", "binding=99999999999"} {
		if _, _, err := ParseMask(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// A pinned subgroup size is asked for by every pipeline, and decides which kernels run.
func TestPinnedSubgroup(t *testing.T) {
	s := Snapshot{Name: "wide", API: MakeVersion(1, 3, 0), Subgroup: Subgroup{32, 8, 64}}
	base, shuffled := &spirv.Kernel{Name: "a"}, &spirv.Kernel{Name: "a__gpu", Needs: []string{"sg32"}}
	for _, c := range []struct {
		size       uint32
		asks, sg32 uint32
	}{{0, 0, 32}, {8, 8, 8}, {32, 32, 32}, {64, 64, 64}} {
		p, err := New(s, Config{Caps: Caps{Subgroup: c.size}})
		if err != nil {
			t.Fatal(err)
		}
		if got, got32 := p.SubgroupSize(base), p.SubgroupSize(shuffled); got != c.asks || got32 != c.sg32 {
			t.Errorf("size %d: pipelines ask for %d and %d, want %d and %d", c.size, got, got32, c.asks, c.sg32)
		}
		if want := c.size == 0 || c.size == 32; p.Has("sg32") != want {
			t.Errorf("size %d: sg32 is %v", c.size, !want)
		}
	}
	for _, size := range []uint32{4, 24, 128} {
		if _, err := New(s, Config{Caps: Caps{Subgroup: size}}); !errors.Is(err, graph.ErrUnsupported) {
			t.Errorf("size %d: %v", size, err)
		}
	}
	s.Subgroup = Subgroup{Size: 4}
	p, err := New(s, Config{Caps: Caps{Subgroup: 4}})
	if err != nil || p.SubgroupSize(base) != 0 {
		t.Errorf("the only size of a device: %v, %v", p, err)
	}
}
