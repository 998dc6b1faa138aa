package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/vk"
)

// Probe is the outcome of the start-up probe, which compares a device's words
// with those of the rules of exact arithmetic.
type Probe struct {
	Rules  []Rule
	Cached bool `json:"-"` // read from the cache of an earlier run
}

// Rule is one rule, and how the device keeps it.
type Rule struct {
	Name    string // or the feature word that it decides about
	Feature bool   // breaking it turns a feature off; other rules are what "exact" means
	Cases   int
	Wrong   int
	First   string // the first wrong word, or why it could not be tried
}

// Exact reports whether all rules hold that no feature stands for.
func (p *Probe) Exact() bool {
	return !slices.ContainsFunc(p.Rules, func(r Rule) bool { return !r.Feature && r.broken() })
}

func (r *Rule) broken() bool { return r.Wrong > 0 || r.First != "" }

func (r *Rule) String() string {
	if !r.broken() {
		return fmt.Sprintf("%s: %d words, all right", r.Name, r.Cases)
	}
	if r.Wrong == 0 {
		return fmt.Sprintf("%s: does not run: %s", r.Name, r.First)
	}
	return fmt.Sprintf("%s: %d of %d words wrong, %s", r.Name, r.Wrong, r.Cases, r.First)
}

// check counts a word. Not-a-number equals itself whatever its bits.
func (r *Rule) check(i int, got, want uint32) {
	nan := func(w uint32) bool { return w&0x7fffffff > 0x7f800000 }
	r.Cases++
	if got == want || nan(got) && nan(want) {
		return
	}
	if r.Wrong++; r.Wrong == 1 {
		r.First = fmt.Sprintf("case %d is %#08x, right is %#08x", i, got, want)
	}
}

// The features that the probe decides about, by implementation of probe_i8.
var probed = []string{"dot", "coop16", "coop8", "coop16f16", "coop8f16", "sm90"}

// probeFile is where the outcome is kept, "" where it is not.
func (d *Device) probeFile() string {
	if d.opts.KernelDir != "" {
		return "" // the probes may be others
	}
	return d.cacheFile("probe")
}

// foresee draws the conclusions from what the probe found the last time on this driver,
// if it is known, before the device is made: with what is no use to it left out.
func (d *Device) foresee() error {
	if d.plan.Disabled("probe") {
		d.plan.Off("sm90", "the probe would tell whether it is such a card")
		return nil
	}
	d.probe = d.recall(d.probeFile())
	return d.conclude()
}

// examine runs the probe unless its outcome is known.
func (d *Device) examine() error {
	if d.plan.Disabled("probe") || d.probe != nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probe = &Probe{}
	if err := d.runProbe(); err != nil {
		return fmt.Errorf("start-up probe: %w", err)
	}
	tried := !slices.ContainsFunc(d.probe.Rules, func(r Rule) bool { return r.Cases == 0 })
	file := d.probeFile()
	if data, err := json.Marshal(d.probe); err == nil && tried && file != "" {
		_ = saveFile(file, data) // it only saves time
	}
	return d.conclude()
}

// conclude turns off features whose rule is broken, and refuses the device if another is.
func (d *Device) conclude() error {
	if d.probe == nil {
		return nil
	}
	for i := range d.probe.Rules {
		r := &d.probe.Rules[i]
		switch {
		case !r.broken():
		case r.Feature:
			d.plan.Off(r.Name, "the start-up probe found "+r.String())
		case d.opts.Profile != "fast":
			return fmt.Errorf("%s breaks the rule %v: %w with exact arithmetic; --profile fast takes it", d.Name(), r, graph.ErrUnsupported)
		}
	}
	return nil
}

// recall reads a cached outcome that covers the features of today.
func (d *Device) recall(file string) *Probe {
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	p := &Probe{Cached: true}
	if json.Unmarshal(data, p) != nil || len(p.Rules) == 0 {
		return nil
	}
	for _, f := range probed {
		if d.plan.Has(f) && !slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Name == f }) {
			return nil
		}
	}
	return p
}

func (d *Device) runProbe() error {
	if err := d.probeFloats(); err != nil {
		return err
	}
	for _, k := range spirv.Contract("probe_i8") {
		feature := k.Impl != ""
		name := k.Impl
		if !feature {
			name = "integer"
		} else if !d.plan.Has(k.Impl) {
			continue
		}
		r := Rule{Name: name, Feature: feature}
		if err := d.probeIntegers(k, &r); err != nil {
			if d.lost != nil || !feature {
				return fmt.Errorf("%s (TERN_DISABLE=%s goes without): %w", name, name, err)
			}
			r.First = err.Error()
			if k.IsPTX() && !errors.Is(err, graph.ErrOutOfMemory) { // a card of another kind, which it will be tomorrow
				r.Cases = 1
			}
		}
		d.probe.Rules = append(d.probe.Rules, r)
	}
	return nil
}

// execute runs one kernel on words: it reads in and returns its outputs.
func (d *Device) execute(k *spirv.Kernel, domain uint32, push []uint32, in [][]uint32, outWords ...int) ([][]uint32, error) {
	n := &graph.Node{Label: "probe", Contract: k.Contract, Domain: [2]uint32{domain, 1}, Push: push}
	var buffers []*Buffer
	defer func() {
		for _, b := range buffers {
			d.free(b)
		}
	}()
	bind := func(words int, access graph.Access) (*Buffer, error) {
		b, err := d.alloc(graph.Batch, "probe", uint64(4*words), d.plan.WantsOf(graph.Batch))
		if err == nil {
			buffers = append(buffers, b)
			n.Args = append(n.Args, graph.Arg{Value: &graph.Value{Name: "probe", Bytes: b.bytes, Buffer: b}, Access: access})
		}
		return b, err
	}
	for _, words := range in {
		b, err := bind(len(words), graph.Read)
		if err != nil {
			return nil, err
		}
		copy(b.mapped(), vk.SliceBytes(words))
	}
	for _, words := range outWords {
		if _, err := bind(words, graph.Write); err != nil {
			return nil, err
		}
	}
	g := graph.New("probe " + k.Name)
	g.Add(n)
	p, err := d.compile(g, func(string, [2]uint32, ...uint32) (*spirv.Kernel, error) { return k, nil })
	if err != nil {
		return nil, err
	}
	defer func() {
		delete(d.programs, p)
		p.destroy()
	}()
	if err := d.run(context.Background(), p, p.segments); err != nil {
		return nil, err
	}
	var out [][]uint32
	for i, words := range outWords {
		w := make([]uint32, words)
		copy(vk.SliceBytes(w), buffers[len(in)+i].mapped())
		out = append(out, w)
	}
	return out, nil
}

const (
	probeCases = 1 << 15 // of floats: two halves each are all of them
	probeWords = 10      // results of a case
)

// probeNumbers are a, b, c of each case: sizes from 2^-30 to 2^30 and now and
// then near overflow, half of them with few bits so that ties occur, sums that
// cancel, and zeros of both signs. None is denormal.
func probeNumbers() []float32 {
	r := rand.New(rand.NewPCG(7, 11))
	list := make([]float32, 3*probeCases)
	for i := range list {
		exponent := 127 - 30 + r.Uint32N(61)
		switch r.Uint32N(64) {
		case 0:
			if i >= 3*128 { // the first cases multiply a by a denormal
				exponent = 127 + 126
			}
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16:
			exponent = 127
		}
		word := r.Uint32()&0x807fffff | exponent<<23
		if r.Uint32N(2) == 0 {
			word &= 0xfffff800
		}
		list[i] = math.Float32frombits(word)
		switch r.Uint32N(64) {
		case 0:
			list[i] = math.Float32frombits(r.Uint32() & 0x80000000)
		case 1:
			list[i] = -list[max(i-1, 0)]
		}
	}
	return list
}

// probeFloats compares rounding, contraction, small numbers and conversions.
func (d *Device) probeFloats() error {
	abc := probeNumbers()
	in := make([]uint32, len(abc))
	for i, v := range abc {
		in[i] = math.Float32bits(v)
	}
	k, ok := spirv.Lookup("probe_f32")
	if !ok {
		return fmt.Errorf("kernel probe_f32 is missing")
	}
	out, err := d.execute(k, probeCases, []uint32{probeCases}, [][]uint32{in}, probeWords*probeCases)
	if err != nil {
		return err
	}
	names := [probeWords]string{"rounding", "rounding", "rounding", "contraction", "contraction", "tidy", "roundEven", "int to float", "half to float", "half to float"}
	rules := map[string]*Rule{}
	for i := range probeCases {
		want := probeWant(i, abc[3*i], abc[3*i+1], abc[3*i+2])
		for j, w := range want {
			r := rules[names[j]]
			if r == nil {
				r = &Rule{Name: names[j]}
				rules[names[j]] = r
			}
			r.check(i, out[0][probeWords*i+j], w)
		}
	}
	for j, name := range names {
		if j == 0 || names[j-1] != name {
			d.probe.Rules = append(d.probe.Rules, *rules[name])
		}
	}
	return nil
}

// probeWant is what probe_f32 must compute.
func probeWant(i int, a, b, c float32) [probeWords]uint32 {
	bits := math.Float32bits
	tidy := float32(a * math.Float32frombits(uint32(i)<<16))
	if bits(tidy)&0x7fffffff < 0x21800000 {
		tidy = 0
	}
	product := float32(a * b)
	return [probeWords]uint32{
		bits(a + b), bits(a - b), bits(product), bits(product + c), bits(c - product), bits(tidy),
		bits(float32(math.RoundToEven(float64(float32(a * 64))))), bits(float32(int32(bits(b)))),
		bits(halfToFloat(uint32(2 * i))), bits(halfToFloat(uint32(2*i + 1))),
	}
}

// halfToFloat widens a half from its definition.
func halfToFloat(h uint32) float32 {
	e, m := h>>10&31, float64(h&1023)
	v := math.Ldexp(1024+m, int(e)-25)
	switch e {
	case 0:
		v = math.Ldexp(m, -24)
	case 31:
		v = math.Inf(1)
		if m != 0 {
			v = math.NaN()
		}
	}
	if h&0x8000 != 0 {
		v = -v
	}
	return float32(v)
}

const probeN = 64 // rows, columns and depth of the integer product

// probeIntegers compares a product of matrices of bytes, and its conversion to
// floats and two operations in place.
func (d *Device) probeIntegers(k *spirv.Kernel, r *Rule) error {
	rnd := rand.New(rand.NewPCG(3, 5))
	ab := make([]uint32, 2*probeN*probeN/4)
	for i := range ab {
		ab[i] = rnd.Uint32()
	}
	s := make([]uint32, probeN*probeN)
	for i := range s {
		s[i] = math.Float32bits(rnd.Float32() - 0.5)
	}
	out, err := d.execute(k, probeN*probeN, nil, [][]uint32{ab, s}, probeN*probeN, probeN*probeN)
	if err != nil {
		return err
	}
	bytes := vk.SliceBytes(ab)
	for m := range probeN {
		for n := range probeN {
			var c int32
			for i := range probeN {
				c += int32(int8(bytes[m*probeN+i])) * int32(int8(bytes[(probeN+n)*probeN+i]))
			}
			cell := m*probeN + n
			scale := math.Float32frombits(s[cell])
			r.check(cell, out[0][cell], uint32(c))
			r.check(cell, out[1][cell], math.Float32bits(float32(float32(c)*scale)+scale))
		}
	}
	return nil
}
