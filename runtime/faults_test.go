package runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/vk"
)

// runNorm compiles and runs normGraph and returns its output.
func runNorm(t *testing.T, x graph.Executor, n, k uint32) []uint32 {
	t.Helper()
	g, out, free := normGraph(t, x, n, k)
	defer free()
	p := must[graph.Program](t)(x.Compile(g))
	defer p.Close()
	if err := x.Run(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, out.Bytes())
	if err := x.Read(out, 0, data); err != nil {
		t.Fatal(err)
	}
	return words(data)
}

// More workgroups than the device allows on x are folded onto z.
func TestGridFolds(t *testing.T) {
	for _, groups := range []uint32{7, 43, 129, 64} {
		d := open(t, Options{Test: Test{Caps: plan.Caps{GroupsX: groups}}, Disable: []string{"probe"}})
		both(t, d, func(x graph.Executor) []uint32 { return runNorm(t, x, 129, 192) })
	}
}

// A device with memory of its own goes through staging.
func TestStaging(t *testing.T) {
	d := open(t, Options{Test: Test{Caps: plan.Caps{Discrete: true}}})
	both(t, d, func(x graph.Executor) []uint32 { return runNorm(t, x, 5, 1024) })
	size := uint64(2*stageBytes + 12345)
	b := must[graph.Buffer](t)(d.Alloc(graph.Cache, "big", size))
	if b.(*Buffer).mapped() != nil {
		t.Fatal("the memory of a discrete device is mapped")
	}
	data := make([]byte, size)
	if err := d.Read(b, 0, data); err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(data, func(c byte) bool { return c != 0 }); i >= 0 {
		t.Fatalf("byte %d of a new buffer is not zero", i)
	}
	value := func(i uint64) byte { return byte(i*7 + i>>16) }
	var pieces atomic.Int32
	err := d.Fill(b, 5, size-10, func(off uint64, p []byte) error {
		pieces.Add(1)
		for i := range p {
			p[i] = value(off + uint64(i))
		}
		return nil
	})
	if err != nil || pieces.Load() != 3 {
		t.Fatalf("%d pieces, error %v", pieces.Load(), err)
	}
	if err := d.Read(b, 3, data[:size-3]); err != nil {
		t.Fatal(err)
	}
	for i, c := range data[:size-3] {
		want := byte(0)
		if i >= 2 && uint64(i) < 2+size-10 {
			want = value(uint64(i) - 2)
		}
		if c != want {
			t.Fatalf("byte %d is %d, want %d", i+3, c, want)
		}
	}
	stop := errors.New("stop")
	if err := d.Fill(b, 0, size, func(off uint64, p []byte) error { return stop }); err != stop {
		t.Errorf("an error of fill comes back as %v", err)
	}
	if s := d.Stats(); s.Staging.Buffers == 0 {
		t.Error("no staging was used")
	}
}

// Several goroutines fill buffers at once, with less staging than they have pieces; the
// device is closed when they are done, not before.
func TestFillsTogether(t *testing.T) {
	d := open(t, Options{Test: Test{Caps: plan.Caps{Discrete: true}}})
	const size = 5*stageBytes + 4
	want := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, size) }
	var wg sync.WaitGroup
	for i := range 8 {
		b := must[graph.Buffer](t)(d.Alloc(graph.Weights, fmt.Sprint(i), size))
		wg.Go(func() {
			got := make([]byte, size)
			err := errors.Join(d.Fill(b, 0, size, func(off uint64, p []byte) error {
				copy(p, want(i)[off:])
				return nil
			}), d.Read(b, 0, got))
			if err != nil || !bytes.Equal(got, want(i)) {
				t.Errorf("buffer %d: other bytes, error %v", i, err)
			}
		})
	}
	wg.Wait()
	b := must[graph.Buffer](t)(d.Alloc(graph.Weights, "last", size))
	begun, closed := make(chan bool, 6), make(chan error, 1)
	go func() {
		<-begun
		closed <- d.Close()
	}()
	if err := d.Fill(b, 0, size, func(_ uint64, p []byte) error {
		begun <- true
		time.Sleep(20 * time.Millisecond)
		clear(p)
		return nil
	}); err != nil {
		t.Errorf("a fill during which the device is closed: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := d.Write(b, 0, want(0)); !errors.Is(err, graph.ErrClosed) {
		t.Errorf("a write after that: %v", err)
	}
}

func TestLimitsAreErrors(t *testing.T) {
	d := open(t, Options{Test: Test{Caps: plan.Caps{Binding: 4096, Allocation: 1 << 20, Heap: 4 << 20}}, Disable: []string{"probe", "budget"}})
	before := d.Stats()
	for _, c := range []struct {
		bytes uint64
		want  string
	}{{2 << 20, "1048576"}, {^uint64(0), "1048576"}, {^uint64(0) - 100, "1048576"}} {
		if _, err := d.Alloc(graph.Weights, "embedding", c.bytes); !errors.Is(err, graph.ErrOutOfMemory) || !strings.Contains(err.Error(), "embedding") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("alloc of %d: %v", c.bytes, err)
		}
	}
	var held []graph.Buffer
	var err error
	for range 10 {
		var b graph.Buffer
		if b, err = d.Alloc(graph.Cache, "pages", 1<<20); err != nil {
			break
		}
		held = append(held, b)
	}
	if !errors.Is(err, graph.ErrOutOfMemory) || !strings.Contains(err.Error(), "left of") {
		t.Errorf("a full heap: %v", err)
	}
	if len(held) != 3 {
		t.Errorf("7/8 of 4 MiB hold %d buffers of 1 MiB", len(held))
	}
	var need [graph.NumPurposes]uint64
	need[graph.Weights] = 1 << 20
	if err := d.Check(need); !errors.Is(err, graph.ErrOutOfMemory) {
		t.Errorf("check: %v", err)
	}
	for _, b := range held {
		d.Free(b)
	}
	if err := d.Check(need); err != nil {
		t.Errorf("check after free: %v", err)
	}
	after := d.Stats()
	after.Submits = before.Submits // clearing may take some
	if after != before {
		t.Errorf("counts before %+v, after %+v", before, after)
	}
	g, _, free := normGraph(t, d, 5, 1024)
	defer free()
	if _, err := d.Compile(g); !errors.Is(err, graph.ErrUnsupported) || !strings.Contains(err.Error(), "20480") || !strings.Contains(err.Error(), "4096") {
		t.Errorf("binding larger than the limit: %v", err)
	}
}

func TestAuthorsMistakes(t *testing.T) {
	d := open(t, Options{Disable: []string{"probe"}})
	b := must[graph.Buffer](t)(d.Alloc(graph.Cache, "x", 4096))
	foreign := must[graph.Buffer](t)(ref.New().Alloc(graph.Cache, "x", 4096))
	node := func(contract string, push int, values ...*graph.Value) *graph.Graph {
		g := graph.New("bad")
		n := &graph.Node{Contract: contract, Domain: [2]uint32{16, 1}, Push: make([]uint32, push)}
		for _, v := range values {
			n.Args = append(n.Args, graph.In(v))
		}
		g.Add(n)
		return g
	}
	good := value("x", b, 0, 256)
	for name, g := range map[string]*graph.Graph{
		"no such contract":  node("no_such_contract", 2, good, good),
		"bindings":          node("quantize_i8", 2, good),
		"push constants":    node("quantize_i8", 3, good, good),
		"another executor":  node("quantize_i8", 2, good, value("x", foreign, 0, 256)),
		"which has 4096":    node("quantize_i8", 2, good, value("x", b, 3840+256, 256)),
		"multiples of 256 ": node("quantize_i8", 2, good, value("x", b, 64, 256)),
	} {
		if _, err := d.Compile(g); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if s := d.Stats(); s.Programs != 0 {
		t.Errorf("%d programs are left of failed compilations", s.Programs)
	}
	if err := d.Write(b, 4000, make([]byte, 97)); err == nil {
		t.Error("a write past the end")
	}
	if err := d.Read(foreign, 0, make([]byte, 4)); err == nil {
		t.Error("a read of a foreign buffer")
	}
	d.Free(foreign)
	d.Free(nil)
}

func TestFreedAndClosed(t *testing.T) {
	d := open(t, Options{Disable: []string{"probe"}})
	g, out, free := normGraph(t, d, 3, 128)
	p := must[graph.Program](t)(d.Compile(g))
	closedProgram := must[graph.Program](t)(d.Compile(g))
	closedProgram.Close()
	closedProgram.Close()
	ctx := context.Background()
	if err := d.Run(ctx, closedProgram); !errors.Is(err, graph.ErrClosed) {
		t.Errorf("run of a closed program: %v", err)
	}
	free()
	free() // twice does nothing
	if err := d.Run(ctx, p); !errors.Is(err, graph.ErrClosed) || !strings.Contains(err.Error(), "freed") {
		t.Errorf("run with freed buffers: %v", err)
	}
	if err := d.Read(out, 0, make([]byte, 4)); !errors.Is(err, graph.ErrClosed) {
		t.Errorf("read of a freed buffer: %v", err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	p.Close()
	d.Free(out)
	_, allocErr := d.Alloc(graph.Cache, "x", 4)
	_, compileErr := d.Compile(g)
	_, profileErr := d.Profile(ctx, p)
	for i, err := range []error{allocErr, compileErr, profileErr, d.Run(ctx, p), d.RunNodes(ctx, p, 0, 1), d.Write(out, 0, nil), d.Read(out, 0, nil)} {
		if !errors.Is(err, graph.ErrClosed) {
			t.Errorf("call %d after Close: %v", i, err)
		}
	}
}

// BL-27.
func TestDeviceLost(t *testing.T) {
	for lose := 1; lose < 12; lose++ {
		d := open(t, Options{Test: Test{LoseSubmit: lose, Caps: plan.Caps{Discrete: true}}, Disable: []string{"probe"}})
		err := func() error {
			b, err := d.Alloc(graph.Weights, "x", 64*4)
			if err != nil {
				return err
			}
			if err := d.Write(b, 0, randoms(64, 1)); err != nil {
				return err
			}
			out, err := d.Alloc(graph.Batch, "out", 256)
			if err != nil {
				return err
			}
			g := graph.New("one")
			g.Add(&graph.Node{Contract: "quantize_i8", Domain: [2]uint32{16, 1}, Push: []uint32{1, 64}, Args: []graph.Arg{graph.In(value("x", b, 0, 256)), graph.Out(value("out", out, 0, 256))}})
			p, err := d.Compile(g)
			if err != nil {
				return err
			}
			for range 12 {
				if err := d.Run(context.Background(), p); err != nil {
					return err
				}
			}
			return nil
		}()
		if !errors.Is(err, graph.ErrDeviceLost) {
			t.Fatalf("submission %d is lost: %v", lose, err)
		}
		if _, err := d.Alloc(graph.Weights, "y", 4); !errors.Is(err, graph.ErrDeviceLost) {
			t.Errorf("alloc on a lost device: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// countdown ends after it was asked n times.
type countdown struct {
	context.Context
	n int
}

func (c *countdown) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// Programs are cut by estimated time, give the same words then, and stop
// between two submissions when the context ends.
// BL-27.
func TestSegments(t *testing.T) {
	d := open(t, Options{Disable: []string{"probe"}})
	want := runNorm(t, ref.New(), 3, 128)
	g, out, free := normGraph(t, d, 3, 128)
	defer free()
	p := must[*Program](t)(d.compile(g, d.plan.Choose))
	for i := range p.nodes {
		p.nodes[i].ns = maxSegment
	}
	if err := p.record(); err != nil {
		t.Fatal(err)
	}
	if len(p.segments) != 2 {
		t.Fatalf("%d segments", len(p.segments))
	}
	before := d.Stats().Submits
	if err := d.Run(&countdown{context.Background(), 1}, p); err != context.Canceled {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if n := d.Stats().Submits - before; n != 1 {
		t.Errorf("%d submissions before the context was looked at a second time", n)
	}
	// The norm adds y to x in place, so x is written anew.
	if err := d.Write(g.Nodes[0].Args[0].Buffer, 0, randoms(3*128, 0)); err != nil {
		t.Fatal(err)
	}
	// Not Run, which learns from how long it took: too long on a busy machine.
	if err := d.run(context.Background(), p, p.segments); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, out.Bytes())
	if err := d.Read(out, 0, data); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(words(data), want) {
		t.Error("the words of a program in segments differ")
	}
	p.segments[0].took, p.segments[1].took = 300*time.Millisecond, 10*time.Millisecond
	p.learn()
	if p.nodes[0].ns != 3*maxSegment || p.nodes[1].ns != maxSegment/10 {
		t.Errorf("learned %v and %v", p.nodes[0].ns, p.nodes[1].ns)
	}
	if p.stale {
		t.Error("recorded again for the same number of segments")
	}
	p.segments[0].took = 3 * time.Millisecond
	for p.runs < joinAfter-1 {
		p.learn()
	}
	if p.stale {
		t.Error("joined before it pays")
	}
	p.learn()
	if !p.stale {
		t.Error("two short segments are not joined")
	}
	if err := d.Run(context.Background(), p); err != nil || len(p.segments) != 1 {
		t.Errorf("%d segments, error %v", len(p.segments), err)
	}
}

func TestRunNodes(t *testing.T) {
	d := open(t, Options{Disable: []string{"probe"}})
	want := runNorm(t, ref.New(), 5, 192)
	g, out, free := normGraph(t, d, 5, 192)
	defer free()
	p := must[graph.Program](t)(d.Compile(g))
	ctx := context.Background()
	for i := range g.Nodes {
		if err := d.RunNodes(ctx, p, i, i+1); err != nil {
			t.Fatal(err)
		}
		b, at := p.Place(g.Nodes[i].Args[len(g.Nodes[i].Args)-1].Value)
		if err := d.Read(b, at, make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
	}
	data := make([]byte, out.Bytes())
	if err := d.Read(out, 0, data); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(words(data), want) {
		t.Error("node by node the words differ")
	}
	if err := d.RunNodes(ctx, p, 1, 3); err == nil {
		t.Error("nodes beyond the end")
	}
	times, err := d.Profile(ctx, p)
	if errors.Is(err, graph.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil || len(times) != 2 || times[0].Kernel != "rms_norm_f32" || times[0].NS < 0 {
		t.Errorf("profile %+v, error %v", times, err)
	}
}

// A larger program moves the temporaries of all; older programs go on.
func TestScratchGrows(t *testing.T) {
	d := open(t, Options{Disable: []string{"probe"}})
	g, out, free := normGraph(t, d, 1, 64)
	defer free()
	p := must[graph.Program](t)(d.Compile(g))
	want := runNorm(t, ref.New(), 1, 64)
	both(t, d, func(x graph.Executor) []uint32 { return runNorm(t, x, 64, 1024) })
	if err := d.Run(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, out.Bytes())
	if err := d.Read(out, 0, data); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(words(data), want) {
		t.Error("the words differ after the temporaries moved")
	}
}

// Everything is returned, over many cycles.
func TestNothingLeaks(t *testing.T) {
	d := open(t, Options{Disable: []string{"probe"}})
	want := runNorm(t, d, 5, 192)
	before := d.Stats()
	for range 50 {
		if !slices.Equal(runNorm(t, d, 5, 192), want) {
			t.Fatal("the words changed")
		}
	}
	after := d.Stats()
	after.Submits = before.Submits
	if before != after {
		t.Errorf("counts before %+v, after %+v", before, after)
	}
	for p, use := range after.Purposes {
		if graph.Purpose(p) != graph.Scratch && use != (Use{}) {
			t.Errorf("%v: %+v is left", graph.Purpose(p), use)
		}
	}
}

// Pipelines of many shapes do not pile up.
func TestPipelinesAreTrimmed(t *testing.T) {
	d := open(t, Options{Disable: []string{"probe"}})
	g, _, free := normGraph(t, d, 1, 64)
	defer free()
	kept := must[graph.Program](t)(d.Compile(g))
	d.pipes.many = 8
	for i := range 20 {
		g, _, free := normGraph(t, d, 1, 64)
		g.Nodes = g.Nodes[:1]
		g.Nodes[0].Spec = []uint32{uint32(i)} // makes another pipeline
		must[graph.Program](t)(d.Compile(g)).Close()
		free()
	}
	if n := d.Stats().Pipelines; n > 9 {
		t.Errorf("%d pipelines", n)
	}
	if err := d.Run(context.Background(), kept); err != nil {
		t.Error(err)
	}
}

// BL-31.
func TestTwoGoroutinesAndTwoDevices(t *testing.T) {
	want := runNorm(t, ref.New(), 5, 192)
	a, b := open(t, Options{Disable: []string{"probe"}}), open(t, Options{Disable: []string{"probe"}})
	var wg sync.WaitGroup
	for i := range 4 {
		d := []*Device{a, b}[i%2]
		wg.Go(func() {
			for range 20 {
				if !slices.Equal(runNorm(t, d, 5, 192), want) {
					t.Error("the words differ")
					return
				}
			}
		})
	}
	wg.Wait()
}

// The test suite's silence means something: the layer does report mistakes.
func TestValidationSpeaks(t *testing.T) {
	d, err := Open(Options{Validate: true, CacheDir: "off", Disable: []string{"probe"}})
	if errors.Is(err, graph.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if b, err := d.vk.CreateBuffer(&vk.BufferCreateInfo{Size: 0, Usage: vk.BufferUsageStorageBufferBit}); err == nil {
		d.vk.DestroyBuffer(b)
	}
	if !slices.ContainsFunc(d.Messages(), func(m string) bool { return strings.Contains(m, "VkBufferCreateInfo-size") }) {
		t.Errorf("messages: %q", d.Messages())
	}
}

// Some drivers cannot be loaded and unloaded often.
func TestOpenOften(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds on some drivers")
	}
	for i := range 40 {
		d, err := Open(Options{CacheDir: "off", Disable: []string{"probe"}})
		if err != nil {
			t.Fatalf("open %d: %v", i, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// BL-18.
func TestNoDriver(t *testing.T) {
	for name, value := range map[string]string{"VK_ICD_FILENAMES": "/nonexistent", vk.LoaderVariable: "/nonexistent.so"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			t.Setenv("VK_DRIVER_FILES", "/nonexistent")
			_, listErr := Devices()
			_, openErr := Open(Options{})
			for _, err := range []error{listErr, openErr} {
				if !errors.Is(err, graph.ErrNoDevice) || !strings.Contains(fmt.Sprint(err), "--device reference") {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}
