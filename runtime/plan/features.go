package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/spirv"
)

// feature is a word of the kernel list with its condition.
type feature struct {
	word  string
	group string // off switch that covers several words
	has   func(s *Snapshot) bool
	could func(s *Snapshot) bool // when forced, nil: as has
}

var features = []feature{
	{"int8", "", func(s *Snapshot) bool { return s.Int8 }, nil},
	{"f16", "", func(s *Snapshot) bool { return s.Float16 }, nil},
	{"store8", "", func(s *Snapshot) bool { return s.Storage8 }, nil},
	{"store16", "", func(s *Snapshot) bool { return s.Storage16 }, nil},
	{"dot", "", func(s *Snapshot) bool { return s.Dot && s.DotAccelerated }, func(s *Snapshot) bool { return s.Dot }},
	{"coop16", "coopmat", func(s *Snapshot) bool { return s.coop(CoopShape{16, 16, 32, Sint8, Sint8, Sint32, Sint32}) }, nil},
	{"coop8", "coopmat", func(s *Snapshot) bool { return s.coop(CoopShape{8, 8, 8, Sint8, Sint8, Sint32, Sint32}) }, nil},
	{"coop16f16", "coopmat", func(s *Snapshot) bool { return s.coop(CoopShape{16, 16, 16, Float16, Float16, Float32, Float32}) }, nil},
	{"coop8f16", "coopmat", func(s *Snapshot) bool { return s.coop(CoopShape{8, 8, 8, Float16, Float16, Float32, Float32}) }, nil},
	{"sg4", "subgroup", subgroup(4), nil},
	{"sg8", "subgroup", subgroup(8), nil},
	{"sg16", "subgroup", subgroup(16), nil},
	{"sg32", "subgroup", subgroup(32), nil},
	{"sg64", "subgroup", subgroup(64), nil},
	{"sg128", "subgroup", subgroup(128), nil},
	{"local256", "local", local(256), nil},
	{"local512", "local", local(512), nil},
	{"local1024", "local", local(1024), nil},
	{"shared32k", "shared", shared(32 << 10), nil},
	{"shared48k", "shared", shared(48 << 10), nil},
	{"resident", "", func(s *Snapshot) bool { return s.Address && s.Type == Discrete && s.Processors > 0 },
		func(s *Snapshot) bool { return s.Address && s.DriverID != swiftShader }},
	{"sm90", "", func(s *Snapshot) bool { return s.Import && s.Address && s.VendorID == nvidia }, nil}, // the start-up probe tells which cards
}

// forFast are the words that only kernels of the profile fast have a use for.
var forFast = []string{"coop16f16", "coop8f16"}

// nvidia is the PCI vendor of cards whose driver may take kernels in PTX.
const nvidia = 0x10de

// swiftShader is the VkDriverId of a driver whose compiler takes gigabytes for the
// resident kernel.
const swiftShader = 10

// needsEnabling reports whether a device must be created with the feature;
// limits and the default subgroup size are there without asking.
func needsEnabling(group string) bool {
	return group != "local" && group != "shared" && group != "subgroup"
}

func subgroup(n uint32) func(*Snapshot) bool {
	return func(s *Snapshot) bool {
		return s.Subgroup.Size == n || s.Subgroup.Min != 0 && s.Subgroup.Min <= n && n <= s.Subgroup.Max
	}
}

func local(n uint32) func(*Snapshot) bool {
	return func(s *Snapshot) bool { return s.Limits.Invocations >= n && s.Limits.LocalSize[0] >= n }
}

func shared(n uint32) func(*Snapshot) bool {
	return func(s *Snapshot) bool { return s.Limits.SharedBytes >= n }
}

func (s *Snapshot) coop(want CoopShape) bool {
	return s.CoopMatrix && slices.Contains(s.Coop, want)
}

// Off switches that are no feature words: parts of the runtime.
var switches = []string{"budget", "cache", "floatcontrols", "probe", "tuning"}

// Words returns every word that TERN_DISABLE understands.
func Words() []string {
	set := map[string]bool{}
	for _, f := range features {
		set[f.word] = true
		if f.group != "" {
			set[f.group] = true
		}
	}
	for _, w := range switches {
		set[w] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// ParseWords splits a comma list of feature words and off switches; an unknown
// word is an error that lists the known ones.
func ParseWords(list string) ([]string, error) {
	var out []string
	for w := range strings.SplitSeq(list, ",") {
		w = strings.TrimSpace(w)
		if w == "" {
			continue
		}
		if !slices.Contains(Words(), w) {
			return nil, fmt.Errorf("unknown feature %q; known are %s", w, strings.Join(Words(), ", "))
		}
		out = append(out, w)
	}
	return out, nil
}

// Caps lower a device's limits; 0 leaves a limit as it is. Tests use them to
// meet on one machine what users meet on others.
type Caps struct {
	GroupsX         uint32 // workgroups on x
	Invocations     uint32
	SharedBytes     uint32
	PushBytes       uint32
	StorageBuffers  uint32
	Subgroup        uint32 // the one size of all subgroups
	Binding         uint64
	Allocation      uint64
	OffsetAlignment uint64 // raises the alignment
	Heap            uint64 // bytes of every heap; budgets are capped too
	Discrete        bool   // a card with memory of its own
}

func (c Caps) apply(s Snapshot) Snapshot {
	cap32 := func(v *uint32, limit uint32) {
		if limit != 0 {
			*v = min(*v, limit)
		}
	}
	cap64 := func(v *uint64, limit uint64) {
		if limit != 0 {
			*v = min(*v, limit)
		}
	}
	cap32(&s.Limits.Groups[0], c.GroupsX)
	cap32(&s.Limits.Invocations, c.Invocations)
	cap32(&s.Limits.SharedBytes, c.SharedBytes)
	cap32(&s.Limits.PushBytes, c.PushBytes)
	cap32(&s.Limits.StorageBuffers, c.StorageBuffers)
	cap64(&s.Limits.Binding, c.Binding)
	cap64(&s.Limits.Allocation, c.Allocation)
	cap64(&s.Limits.Buffer, c.Allocation)
	s.Limits.OffsetAlignment = max(s.Limits.OffsetAlignment, c.OffsetAlignment)
	if c.Discrete {
		s.Type = Discrete
	}
	if c.Subgroup != 0 {
		s.Subgroup.Size = c.Subgroup
		cap32(&s.Subgroup.Max, c.Subgroup)
		s.Subgroup.Min = s.Subgroup.Max
	}
	s.Heaps = slices.Clone(s.Heaps)
	for i := range s.Heaps {
		cap64(&s.Heaps[i].Bytes, c.Heap)
		cap64(&s.Heaps[i].Budget, c.Heap)
	}
	return s
}

// Config is what people wish of a device.
type Config struct {
	Disable []string          // words of Words that are not used even where offered
	Force   []string          // feature words used although they are not worth it (dot without hardware)
	Enabled []string          // when not nil, the only words an adopted device was created with; "subgroup" is subgroupSizeControl
	Kernels map[string]string // contract -> implementation, "" the base
	Given   []string          // kernels that come before others of their contract
	Fast    bool              // kernels with an error bound may replace exact ones
	Caps    Caps
}

// Plan is the decision for one device.
type Plan struct {
	Snapshot // with Caps applied
	// Notes say, for people, which features are off and why.
	Notes    []string
	features map[string]bool
	disabled []string
	kernels  map[string]string
	given    []string
	tuning   atomic.Pointer[Tuning]
	fast     bool
	pinned   bool // every pipeline asks for the one subgroup size
}

// New decides the features of a device.
func New(s Snapshot, c Config) (*Plan, error) {
	p := &Plan{Snapshot: c.Caps.apply(s), features: map[string]bool{}, disabled: c.Disable, kernels: c.Kernels, given: c.Given, fast: c.Fast}
	for _, list := range [][]string{c.Disable, c.Force, c.Enabled} {
		if _, err := ParseWords(strings.Join(list, ",")); err != nil {
			return nil, err
		}
	}
	if n, o := c.Caps.Subgroup, s.Subgroup; n != 0 && n != o.Size && (n&(n-1) != 0 || n < o.Min || n > o.Max) {
		return nil, fmt.Errorf("%s: subgroups of %d: %w: it has %d, and of its choice %d to %d", s.Name, n, graph.ErrUnsupported, o.Size, o.Min, o.Max)
	}
	p.pinned = p.Subgroup.Min != 0 && c.Caps.Subgroup != 0
	if c.Enabled != nil { // an adopted device
		if !slices.Contains(c.Enabled, "subgroup") {
			p.Subgroup.Min, p.Subgroup.Max = 0, 0
		}
		if p.API < MakeVersion(1, 2, 0) {
			p.FloatControls = FloatControls{}
		}
	}
	for _, f := range features {
		has := f.has(&p.Snapshot) || f.could != nil && f.could(&p.Snapshot) && slices.Contains(c.Force, f.word)
		switch {
		case !has || !c.Fast && slices.Contains(forFast, f.word):
		case slices.Contains(c.Disable, f.word) || f.group != "" && slices.Contains(c.Disable, f.group):
			p.Notes = append(p.Notes, f.word+" is off: disabled by the user")
		case needsEnabling(f.group) && c.Enabled != nil && !slices.Contains(c.Enabled, f.word) && !slices.Contains(c.Enabled, f.group):
			p.Notes = append(p.Notes, f.word+" is off: the adopted device was created without it")
		default:
			p.features[f.word] = true
		}
	}
	for _, of := range [][2]string{{"coop16", "int8"}, {"coop8", "int8"}, {"coop16f16", "f16"}, {"coop8f16", "f16"}} {
		if !p.features[of[1]] {
			p.off(of[0], "it needs "+of[1])
		}
	}
	for contract, impl := range c.Kernels {
		if err := p.checkOverride(contract, impl); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Plan) off(word, why string) {
	if p.features[word] {
		delete(p.features, word)
		p.Notes = append(p.Notes, word+" is off: "+why)
	}
}

// Off turns a feature off after the plan is made, as the start-up probe does
// when a device computes wrong words with it.
func (p *Plan) Off(word, why string) { p.off(word, why) }

// Has reports whether a feature word is on.
func (p *Plan) Has(word string) bool { return p.features[word] }

// Addresses reports whether kernels are given addresses of buffers.
func (p *Plan) Addresses() bool { return p.Has("resident") || p.Has("sm90") }

// Disabled reports whether the user switched off a word of Words.
func (p *Plan) Disabled(word string) bool { return slices.Contains(p.disabled, word) }

// Features returns the words that are on, sorted.
func (p *Plan) Features() []string { return slices.Sorted(maps.Keys(p.features)) }

// Controls returns the float execution modes to declare in kernels.
func (p *Plan) Controls() spirv.FloatControls {
	if p.Disabled("floatcontrols") {
		return spirv.FloatControls{}
	}
	f := p.FloatControls
	out := spirv.FloatControls{RTE32: f.RTE32, PreserveSpecial32: f.PreserveSpecial32}
	if !f.RoundingIndependent { // all widths or none
		out.RTE32 = f.RTE16 && f.RTE32
		out.RTE16 = out.RTE32
	}
	return out
}
