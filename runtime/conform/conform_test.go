package conform

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/testdata/kernels"
)

// The suite against the reference itself: every contract has cases, and they
// are well made.
func TestReference(t *testing.T) {
	for _, opts := range []Options{{Select: mainContracts, Cases: 40, Work: 1 << 22}, {Select: otherFormats, Cases: 6, Work: 1 << 19}} {
		opts.Open = func(*spirv.Kernel) (graph.Executor, error) { return ref.New(), nil }
		opts.Vectors, opts.Seed = kernels.Files, 1
		report, err := Run(context.Background(), opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report.Results {
			t.Log(r.String())
			if r.Failed > 0 || r.Cases == 0 && slices.Contains(Contracts(), r.Contract) {
				t.Error(r.String())
			}
		}
	}
}

// The implementations of a contract share Total; those that cannot run leave their
// part to the ones behind them.
func TestTotalIsShared(t *testing.T) {
	const total = 20000
	some, err := Named("mul_mat_q2_0_i8")
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(context.Background(), Options{
		Select: some, Total: total, Cases: 1000, Work: 1 << 17,
		Open: func(k *spirv.Kernel) (graph.Executor, error) {
			if k.Impl == "dot" {
				return nil, graph.ErrUnsupported
			}
			return ref.New(), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, r := range report.Results {
		sum += r.Products
		if (r.Impl == "dot") != (r.Products == 0) {
			t.Errorf("%s: %d products", r.Kernel(), r.Products)
		}
	}
	if sum < total || sum > 2*total {
		t.Errorf("%d products in all, want %d", sum, total)
	}
}

// A kernel for heads of one dimension is run with no others, which would run another
// implementation; there are cases of both.
func TestOfOneDimension(t *testing.T) {
	for _, contract := range []string{"attention_f16", "qkv_rope_cache_f16"} {
		base, ok := spirv.Lookup(contract)
		if !ok {
			t.Fatal(contract)
		}
		k := *base
		k.Tile = append(slices.Clone(k.Tile), spirv.Param{Key: "dim", Value: 128})
		x := &watched{Executor: ref.New()}
		const cases = 30
		r, _, err := runKernel(context.Background(), Options{
			Vectors: kernels.Files, Seed: 1, Cases: cases, Work: 1 << 24,
			Open: func(*spirv.Kernel) (graph.Executor, error) { return x, nil },
		}, &k)
		if err != nil || r.Failed > 0 {
			t.Fatalf("%v, %v", r, err)
		}
		if r.Cases == 0 || r.Cases >= cases || !strings.Contains(r.Skipped, "cases that other implementations take") {
			t.Errorf("%s: %d cases, %q", contract, r.Cases, r.Skipped)
		}
		for _, n := range x.nodes {
			if !k.Takes(n.Spec) {
				t.Errorf("%s: a node of dimension %d was run", contract, n.Spec[0])
			}
		}
	}
}

// watched keeps the nodes that are compiled.
type watched struct {
	graph.Executor
	nodes []*graph.Node
}

func (w *watched) Compile(g *graph.Graph) (graph.Program, error) {
	w.nodes = append(w.nodes, g.Nodes...)
	return w.Executor.Compile(g)
}

// A kernel with a bound passes while its words are near the reference's, and only then.
func TestBound(t *testing.T) {
	base, ok := spirv.Lookup("attention_f16")
	if !ok {
		t.Fatal("no attention_f16")
	}
	k := *base
	k.Class = "bound:attention"
	for _, c := range []struct {
		name   string
		change func(word uint32) uint32
		want   string // of the first failure
	}{
		{"equal", func(w uint32) uint32 { return w }, ""},
		{"near", func(w uint32) uint32 { return scaledWord(w, 1+0x1p-15) }, ""},
		{"farther in the mean", func(w uint32) uint32 { return scaledWord(w, 1+0x1p-10) }, "in the mean, at most"},
		{"far", func(w uint32) uint32 { return scaledWord(w, 1+0x1p-3) }, "binding 3"},
		{"not finite", func(uint32) uint32 { return 0x7fc0_0000 }, "binding 3"},
		{"not finite where it should be", func(w uint32) uint32 {
			if isNaN(w) {
				return 0
			}
			return w
		}, "binding 3"},
	} {
		r, _, err := runKernel(context.Background(), Options{
			Seed: 1, Cases: 60, Work: 1 << 19,
			Open: func(*spirv.Kernel) (graph.Executor, error) {
				return &changed{watched{Executor: ref.New()}, c.change}, nil
			},
		}, &k)
		if err != nil {
			t.Fatal(err)
		}
		if (c.want == "") != (r.Failed == 0) || c.want != "" && !strings.Contains(r.Failures[0].String(), c.want) {
			t.Errorf("%s: %v", c.name, r.String())
		}
	}
}

func scaledWord(w uint32, by float32) uint32 {
	return math.Float32bits(math.Float32frombits(w) * by)
}

// changed gives other words for the last binding of its last node.
type changed struct {
	watched
	word func(uint32) uint32
}

func (c *changed) Read(b graph.Buffer, at uint64, data []byte) error {
	err := c.Executor.Read(b, at, data)
	args := c.nodes[len(c.nodes)-1].Args
	v := args[len(args)-1].Value
	for i := v.Offset - at; i < v.Offset-at+v.Bytes; i += 4 {
		binary.LittleEndian.PutUint32(data[i:], c.word(binary.LittleEndian.Uint32(data[i:])))
	}
	return err
}

// Implementations are chosen by their own names, of what is selected, and a pattern that
// says nothing is an error.
func TestImplementing(t *testing.T) {
	of, err := Named("silu_mul_i8", "rms_norm_f32")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		patterns []string
		want     []string
	}{
		{[]string{"base"}, []string{"rms_norm_f32", "silu_mul_i8"}},
		{[]string{"s[l-n]*", "gp?"}, []string{"rms_norm_f32__gpu", "silu_mul_i8__gpu", "silu_mul_i8__sm90"}},
		{[]string{"gpu", "dot"}, nil}, // no dot among these
		{[]string{"rms_norm_f32"}, nil},
		{[]string{""}, nil},
	} {
		selected, err := Implementing(of, c.patterns...)
		if err != nil {
			if c.want != nil || !strings.Contains(err.Error(), strconv.Quote(c.patterns[len(c.patterns)-1])) {
				t.Errorf("%q: %v", c.patterns, err)
			}
			continue
		}
		var names []string
		for _, k := range spirv.Kernels {
			if selected(k) {
				names = append(names, k.Name)
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, c.want) {
			t.Errorf("%q: %q, want %q", c.patterns, names, c.want)
		}
	}
}

// Least leaves out small cases of products, and none of other contracts.
func TestLeast(t *testing.T) {
	some, err := Named("mul_mat_q2_0_i8", "dequant_q2_0")
	if err != nil {
		t.Fatal(err)
	}
	const least, cases = 1000, 40
	report, err := Run(context.Background(), Options{
		Select: func(k *spirv.Kernel) bool { return some(k) && k.Impl == "" }, Cases: cases, Least: least, Work: 1 << 22,
		Open: func(*spirv.Kernel) (graph.Executor, error) { return ref.New(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		product := r.Contract != "dequant_q2_0"
		if product && (r.Cases == 0 || r.Cases == cases || r.Products < int64(r.Cases)*least) || !product && strings.Contains(r.Skipped, "products") {
			t.Error(r.String())
		}
	}
}
