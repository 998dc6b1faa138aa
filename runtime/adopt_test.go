package runtime

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/vk"
)

// A program hands over the device it has made, and keeps it.
func TestAdopt(t *testing.T) {
	owner := open(t, Options{Disable: []string{"probe"}}) // stands for the program
	locked, times := 0, 0
	a := &Adopt{
		Instance: owner.instance.Handle, PhysicalDevice: owner.physical, Device: owner.vk.Handle, Queue: owner.queue,
		QueueFamily: owner.family, APIVersion: owner.instance.api,
		Lock:   func() { locked++; times++ },
		Unlock: func() { locked-- },
	}
	guest, err := Open(Options{Adopt: a, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	if guest.Plan().Has("f16") || guest.Plan().Has("dot") {
		t.Errorf("features %v were not said to be enabled", guest.Plan().Features())
	}
	both(t, guest, func(x graph.Executor) []uint32 { return runNorm(t, x, 3, 128) })
	if locked != 0 || times == 0 {
		t.Errorf("the queue was locked %d times, %d are left", times, locked)
	}
	if err := guest.Close(); err != nil {
		t.Error(err)
	}
	both(t, owner, func(x graph.Executor) []uint32 { return runNorm(t, x, 3, 128) })
	a.Queue = 0
	if _, err := Open(Options{Adopt: a}); err == nil {
		t.Error("a device without a queue")
	}
}

// Two devices, found by number and by name, do not share buffers or programs.
func TestForeign(t *testing.T) {
	a, b := open(t, Options{Disable: []string{"probe"}, Device: "0"}), open(t, Options{Disable: []string{"probe"}})
	g, out, free := normGraph(t, a, 3, 128)
	defer free()
	p := must[graph.Program](t)(a.Compile(g))
	if err := b.Run(context.Background(), p); err == nil {
		t.Error("a program of another device ran")
	}
	if _, err := b.Compile(g); err == nil {
		t.Error("a graph with buffers of another device was compiled")
	}
	if err := b.Read(out, 0, make([]byte, 4)); err == nil {
		t.Error("a buffer of another device was read")
	}
	b.Free(out)
	if err := a.Read(out, 0, make([]byte, 4)); err != nil {
		t.Errorf("a foreign device freed it: %v", err)
	}
	if _, err := Open(Options{Device: "no such card"}); !errors.Is(err, graph.ErrNoDevice) {
		t.Errorf("unknown device: %v", err)
	}
	if _, err := Open(Options{Profile: "loose"}); err == nil {
		t.Error("unknown profile")
	}
	t.Setenv(DisableVariable, "warp")
	if _, err := Open(Options{}); err == nil || !strings.Contains(err.Error(), DisableVariable) {
		t.Errorf("unknown word: %v", err)
	}
}

// TERN_DISABLE leaves optional queries out, because drivers exist that crash in
// them.
// BL-19.
func TestQueriesAreLeftOut(t *testing.T) {
	t.Setenv(DisableVariable, "coopmat,budget")
	d := open(t, Options{Disable: []string{"probe"}})
	if p := d.Plan(); p.CoopMatrix || p.Coop != nil || p.HasBudget || p.Heaps[0].Budget != 0 {
		t.Errorf("coop %v %v, budget %v %v", p.CoopMatrix, p.Coop, p.HasBudget, p.Heaps)
	}
	both(t, d, func(x graph.Executor) []uint32 { return runNorm(t, x, 3, 128) })
}

// The pipeline cache and the probe's outcome are kept, and damage is ignored.
// BL-62.
func TestCacheFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "кэш 缓存 ☃")
	use := func() (loaded int, cached bool) {
		d := open(t, Options{CacheDir: dir})
		both(t, d, func(x graph.Executor) []uint32 { return runNorm(t, x, 3, 128) })
		loaded, cached = d.pipes.loaded, d.Probe().Cached
		d.Abandon() // Close saves no more
		if _, err := d.Alloc(graph.Cache, "x", 4); !errors.Is(err, graph.ErrClosed) {
			t.Errorf("memory of an abandoned device: %v", err)
		}
		d.destroy()
		return loaded, cached
	}
	if loaded, cached := use(); loaded != 0 || cached {
		t.Errorf("an empty folder gave %d bytes, probe %v", loaded, cached)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, error %v", files, err)
	}
	if loaded, cached := use(); loaded == 0 || !cached {
		t.Errorf("the second time gave %d bytes, probe %v", loaded, cached)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/2] ^= 0x55
		if err := os.WriteFile(path, data[:len(data)-3], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if loaded, cached := use(); loaded != 0 || cached {
		t.Errorf("damaged files gave %d bytes, probe %v", loaded, cached)
	}
}

// Files of KernelDir replace compiled-in kernels.
func TestKernelDir(t *testing.T) {
	dir := t.TempDir()
	write := func(name, kernel string) {
		k, ok := spirv.Lookup(kernel)
		if !ok {
			t.Fatal(kernel)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".spv"), vk.SliceBytes(k.Words()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("quantize_i8", "quantize_f16") // the same interface, other words
	d := open(t, Options{KernelDir: dir, Disable: []string{"probe"}})
	want := runNorm(t, ref.New(), 3, 128)
	got := runNorm(t, d, 3, 128)
	if got[0] == want[0] && got[1] == want[1] {
		t.Error("the file was not used")
	}
	write("rms_norm_i8", "rms_norm_i8") // where another implementation is the device's choice
	d = open(t, Options{KernelDir: dir, Disable: []string{"probe"}})
	if k, err := d.Plan().Choose("rms_norm_i8", [2]uint32{3, 1}); err != nil || k.Name != "rms_norm_i8" {
		t.Errorf("a kernel of the folder is passed over for %v, error %v", k, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "quantize_i8.spv"), []byte("no SPIR-V here"), 0o644); err != nil {
		t.Fatal(err)
	}
	d = open(t, Options{KernelDir: dir, Disable: []string{"probe"}})
	g, _, free := normGraph(t, d, 3, 128)
	defer free()
	if _, err := d.Compile(g); err == nil || !strings.Contains(err.Error(), "quantize_i8.spv") {
		t.Errorf("a damaged file: %v", err)
	}
}

// hazards asks for a barrier where bytes are shared and one side writes.
func TestHazards(t *testing.T) {
	d := open(t, Options{Disable: []string{"probe"}})
	a, b := must[graph.Buffer](t)(d.Alloc(graph.Cache, "a", 4096)), must[graph.Buffer](t)(d.Alloc(graph.Cache, "b", 4096))
	p := &Program{device: d}
	v := func(b graph.Buffer, from, bytes uint64) *graph.Value { return value("v", b, from, bytes) }
	var h hazards
	for i, c := range []struct {
		args []graph.Arg
		wait bool
	}{
		{[]graph.Arg{graph.In(v(a, 0, 256)), graph.Out(v(b, 0, 256))}, false},
		{[]graph.Arg{graph.In(v(a, 0, 256)), graph.Out(v(b, 256, 256))}, false}, // other bytes
		{[]graph.Arg{graph.In(v(a, 0, 512))}, false},                            // read after read
		{[]graph.Arg{graph.Out(v(a, 512, 256))}, false},
		{[]graph.Arg{graph.Out(v(a, 256, 512))}, true}, // write after read, and after write
		{[]graph.Arg{graph.In(v(b, 0, 512))}, false},   // written before the barrier
		{[]graph.Arg{graph.In(v(a, 700, 4))}, true},    // read after write
		{[]graph.Arg{graph.InOut(v(b, 0, 4))}, false},
		{[]graph.Arg{graph.InOut(v(b, 0, 4))}, true},
	} {
		if got := p.orders(&h, []node{{Node: &graph.Node{Args: c.args}}}); got != c.wait {
			t.Errorf("node %d: waits %v", i, got)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	d, err := Open(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	buf, err := d.Alloc(graph.Batch, "x", 1<<16)
	if err != nil {
		b.Fatal(err)
	}
	for _, nodes := range []int{1, 400} {
		g := graph.New("bench")
		for range nodes {
			g.Add(&graph.Node{Contract: "quantize_i8", Domain: [2]uint32{16, 1}, Push: []uint32{1, 64},
				Args: []graph.Arg{graph.In(value("x", buf, 0, 256)), graph.Out(value("out", buf, 256, 256))}})
		}
		p, err := d.Compile(g)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(map[int]string{1: "one", 400: "400nodes"}[nodes], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Run(context.Background(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFill(b *testing.B) {
	d, err := Open(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	const size = 512 << 20
	buf, err := d.Alloc(graph.Weights, "w", size)
	if err != nil {
		b.Fatal(err)
	}
	src := make([]byte, size)
	b.SetBytes(size)
	for b.Loop() {
		if err := d.Fill(buf, 0, size, func(off uint64, p []byte) error { copy(p, src[off:]); return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
