package runtime

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/vk"
)

func TestMain(m *testing.M) {
	// Without worker threads lavapipe runs tiny dispatches 20 times faster.
	if os.Getenv("LP_NUM_THREADS") == "" {
		os.Setenv("LP_NUM_THREADS", "0")
	}
	os.Exit(m.Run())
}

// open opens the machine's device under the validation layer where it is
// installed, and fails the test on any message.
func open(t *testing.T, opts Options) *Device {
	t.Helper()
	opts.Validate = true
	if opts.CacheDir == "" {
		opts.CacheDir = "off"
	}
	d, err := Open(opts)
	if errors.Is(err, graph.ErrUnsupported) && d == nil {
		opts.Validate = false
		d, err = Open(opts)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		for _, m := range d.Messages() {
			t.Error("validation: ", m)
		}
	})
	return d
}

// both runs a test's body on the reference and on the device.
func both(t *testing.T, d *Device, body func(x graph.Executor) []uint32) {
	t.Helper()
	want, got := body(ref.New()), body(d)
	if len(want) != len(got) {
		t.Fatalf("%d words, want %d", len(got), len(want))
	}
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("word %d of %d is %#08x, the reference has %#08x", i, len(want), got[i], want[i])
		}
	}
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func randoms(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	words := make([]uint32, n)
	for i := range words {
		words[i] = math.Float32bits(r.Float32()*4 - 2)
	}
	return vk.SliceBytes(words)
}

func value(name string, b graph.Buffer, offset, bytes uint64) *graph.Value {
	return &graph.Value{Name: name, Buffer: b, Offset: offset, Bytes: bytes}
}

// normGraph is x (n rows of k) -> norm -> int8 activations.
func normGraph(t *testing.T, x graph.Executor, n, k uint32) (g *graph.Graph, out graph.Buffer, free func()) {
	t.Helper()
	bytes := uint64(4 * n * k)
	alloc := func(p graph.Purpose, name string, size uint64) graph.Buffer {
		return must[graph.Buffer](t)(x.Alloc(p, name, size))
	}
	in, y, consts := alloc(graph.Cache, "x", bytes), alloc(graph.Cache, "y", bytes), alloc(graph.Constants, "w", uint64(4*k))
	out = alloc(graph.Batch, "out", uint64(n*k+8*n*(k/64)+12)&^15)
	for i, b := range []graph.Buffer{in, y, consts} {
		if err := x.Write(b, 0, randoms(int(b.Bytes()/4), uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
	g = graph.New("norm")
	normed := g.Temp("normed", graph.F32, bytes, int(k), int(n))
	g.Add(&graph.Node{Label: "norm", Contract: "rms_norm_f32", Domain: [2]uint32{n, 1},
		Push: []uint32{n, k, 0, 1, math.Float32bits(1 / float32(k)), math.Float32bits(1e-6)},
		Args: []graph.Arg{graph.InOut(value("x", in, 0, bytes)), graph.In(value("y", y, 0, bytes)), graph.In(value("w", consts, 0, uint64(4*k))), graph.Out(normed)},
		Work: uint64(n * k), Bytes: 4 * bytes})
	g.Add(&graph.Node{Label: "quant", Contract: "quantize_i8", Domain: [2]uint32{k / 4, n},
		Push: []uint32{n, k}, Args: []graph.Arg{graph.In(normed), graph.Out(value("out", out, 0, out.Bytes()))},
		Work: uint64(n * k), Bytes: 2 * bytes})
	return g, out, func() {
		for _, b := range []graph.Buffer{in, y, consts, out} {
			x.Free(b)
		}
	}
}

func TestRunEqualsReference(t *testing.T) {
	d := open(t, Options{})
	t.Log(d.Name(), d.Plan().Features())
	for _, shape := range [][2]uint32{{1, 64}, {3, 128}, {5, 1024}, {129, 192}} {
		both(t, d, func(x graph.Executor) []uint32 {
			g, out, free := normGraph(t, x, shape[0], shape[1])
			defer free()
			p := must[graph.Program](t)(x.Compile(g))
			defer p.Close()
			for range 3 {
				if err := x.Run(context.Background(), p); err != nil {
					t.Fatal(err)
				}
			}
			data := make([]byte, out.Bytes())
			if err := x.Read(out, 0, data); err != nil {
				t.Fatal(err)
			}
			return words(data)
		})
	}
}

func words(b []byte) []uint32 {
	out := make([]uint32, len(b)/4)
	copy(vk.SliceBytes(out), b)
	return out
}
