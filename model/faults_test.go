package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/testdata/sprig"
)

// The tests of this file hold the right behaviour where other programs of this
// kind have failed their users; the numbers BL-nn are those of the project's list.

func TestMain(m *testing.M) {
	// Without worker threads lavapipe runs tiny dispatches 20 times faster.
	if os.Getenv("LP_NUM_THREADS") == "" {
		os.Setenv("LP_NUM_THREADS", "0")
	}
	os.Exit(m.Run())
}

// content is a GGUF file to be changed.
type content struct {
	meta  []gguf.KV
	specs []gguf.Spec
	data  [][]byte
}

// first is Sprig cut to its first layer.
func first(t testing.TB) *content {
	t.Helper()
	f, err := gguf.Parse("sprig", sprig.Model)
	if err != nil {
		t.Fatal(err)
	}
	c := &content{meta: slices.Clone(f.Meta)}
	c.set("qwen3.block_count", uint32(1))
	for i := range f.Tensors {
		w := &f.Tensors[i]
		if !strings.HasPrefix(w.Name, "blk.") || strings.HasPrefix(w.Name, "blk.0.") {
			c.add(w.Name, w.Type, bytes.Clone(w.Data()), w.Dims...)
		}
	}
	return c
}

func (c *content) set(key string, value any) {
	i := slices.IndexFunc(c.meta, func(kv gguf.KV) bool { return kv.Key == key })
	if i < 0 {
		i = len(c.meta)
		c.meta = append(c.meta, gguf.KV{Key: key})
	}
	c.meta[i].Value = value
}

func (c *content) add(name string, typ gguf.Type, data []byte, dims ...uint64) {
	c.specs = append(c.specs, gguf.Spec{Name: name, Dims: dims, Type: typ})
	c.data = append(c.data, data)
}

func (c *content) tensor(t testing.TB, name string) []byte {
	t.Helper()
	i := slices.IndexFunc(c.specs, func(s gguf.Spec) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no tensor %s", name)
	}
	return c.data[i]
}

func (c *content) file(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, c.meta, c.specs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(bytes.Join(c.data, nil)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// device opens the machine's device under the validation layer, where that is
// installed, and fails the test on any message.
func device(t *testing.T, o runtime.Options) *runtime.Device {
	t.Helper()
	o.CacheDir, o.Validate = "off", true
	d, err := runtime.Open(o)
	if errors.Is(err, graph.ErrUnsupported) {
		o.Validate = false
		d, err = runtime.Open(o)
	}
	if errors.Is(err, graph.ErrNoDevice) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		for _, m := range d.Messages() {
			t.Error("validation:", m)
		}
	})
	return d
}

func open(t *testing.T, data []byte, o Options) *Model {
	t.Helper()
	if o.Executor == nil {
		o.Executor = ref.New()
	}
	m, err := OpenBytes(t.Context(), "small", data, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// sequential skips a test that shares nothing between goroutines of its own, when
// the race detector is at work: there it takes ten times as long and finds nothing.
func sequential(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short, which the race detector runs with")
	}
}

// noise is n token ids.
func noise(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i*31 + i*7 + 11) % 2000)
	}
	return ids
}

// text generates up to n tokens and returns their ids.
func text(ctx context.Context, s *Session, prompt []int32, sampling Sampling, n int) (ids []int32, err error) {
	for g, err := range s.Generate(ctx, prompt, sampling, n) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, g.ID)
	}
	return ids, nil
}

// BL-07: a separate head is used where there is one, the embedding where there
// is none.
func TestHead(t *testing.T) {
	tied := first(t)
	separate := first(t)
	const row, rowBytes = 5, 4 * 18
	head := make([]byte, 2048*rowBytes)
	for b := range 4 { // row 5: scale 1, every code +1
		block := head[row*rowBytes+18*b:][:18]
		block[1] = 0x3c
		for i := range 16 {
			block[2+i] = 0xaa
		}
	}
	separate.add("output.weight", gguf.Q2_0, head, 256, 2048)
	copied := first(t)
	copied.add("output.weight", gguf.Q2_0, copied.tensor(t, "token_embd.weight"), 256, 2048)
	for name, x := range map[string]graph.Executor{"reference": ref.New(), "device": device(t, runtime.Options{})} {
		logits := evalPieces(t, open(t, separate.file(t), Options{Executor: x}), noise(3), 3)
		for _, l := range logits {
			for j, v := range l {
				if (v != 0) != (j == row) {
					t.Errorf("%s: logit %d is %g", name, j, v)
				}
			}
		}
		want := evalPieces(t, open(t, tied.file(t), Options{Executor: x}), noise(3), 3)
		same(t, name+", the embedding written as head", want, evalPieces(t, open(t, copied.file(t), Options{Executor: x}), noise(3), 3))
		if slices.Max(want[2]) == slices.Min(want[2]) {
			t.Errorf("%s: the tied head gives equal logits", name)
		}
	}
}

// Devices of other limits and features give the reference's logits:
// BL-13 (workgroups on x; 65,535 and more are those of plan.TestGrid), BL-14
// (bytes of a binding: embedding, head and logits are split), BL-21 (no optional
// feature), BL-23 (no subgroups), BL-28 (alignment of offsets).
func TestOtherDevices(t *testing.T) {
	sequential(t)
	data := first(t).file(t)
	ids := noise(150)
	want := evalPieces(t, open(t, data, Options{Context: 192}), ids, 150)
	for name, o := range map[string]runtime.Options{
		"7 workgroups on x":       {Test: runtime.Test{Caps: plan.Caps{GroupsX: 7}}},
		"96 KiB a binding":        {Test: runtime.Test{Caps: plan.Caps{Binding: 96 << 10}}, Disable: []string{"probe"}},
		"offsets of 256":          {Test: runtime.Test{Caps: plan.Caps{OffsetAlignment: 256}}},
		"memory of its own":       {Test: runtime.Test{Caps: plan.Caps{Discrete: true}}},
		"no features":             {Disable: []string{"int8", "f16", "store8", "store16", "dot", "coopmat", "subgroup", "local", "shared"}},
		"no subgroups":            {Disable: []string{"subgroup"}},
		"no rounding from driver": {Disable: []string{"floatcontrols"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, m := 150, Options{Executor: device(t, o), Context: 192}
			if o.Test.Caps.Binding != 0 {
				n, m.Context, m.Chunk = 60, 64, 16 // cache and activations must fit a binding
			}
			small := open(t, data, m)
			same(t, "whole", want[:n], evalPieces(t, small, ids[:n], n))
			same(t, "token by token", want[:20], evalPieces(t, small, ids[:20], 1))
		})
	}
}

// BL-14: what cannot be split is refused before anything is uploaded, with need
// and limit; what does not fit the memory likewise. Nothing stays allocated.
func TestTooLarge(t *testing.T) {
	data := first(t).file(t)
	for name, c := range map[string]struct {
		caps  plan.Caps
		parts []string
	}{
		"cache":  {plan.Caps{Binding: 1 << 20}, []string{"cache.0 takes 2097152 bytes", "at most 1048576", "smaller context"}},
		"memory": {plan.Caps{Heap: 1 << 20}, []string{"small: 1 MiB of weights and 2 MiB of cache for 1 sequences of 2048 positions", "MiB are needed", "MiB are left"}},
	} {
		d := device(t, runtime.Options{Test: runtime.Test{Caps: c.caps}, Disable: []string{"probe", "budget"}})
		before := d.Stats()
		_, err := OpenBytes(t.Context(), "small", data, Options{Executor: d, Context: 2048, Progress: func(done, _ uint64) {
			t.Errorf("%s: %d bytes were uploaded", name, done)
		}})
		if !errors.Is(err, graph.ErrOutOfMemory) {
			t.Errorf("%s: error %v", name, err)
		}
		for _, p := range c.parts {
			if !strings.Contains(fmt.Sprint(err), p) {
				t.Errorf("%s: error %q does not tell %q", name, err, p)
			}
		}
		after := d.Stats()
		if after.Submits = before.Submits; after != before {
			t.Errorf("%s: counts before %+v, after %+v", name, before, after)
		}
	}
	big := first(t)
	big.set("qwen3.context_length", uint32(1<<20))
	if _, err := OpenBytes(t.Context(), "big", big.file(t), Options{Executor: ref.New(), Context: 1 << 20, Sequences: 4096}); !errors.Is(err, graph.ErrOutOfMemory) {
		t.Errorf("reference: %v", err)
	}
}

// BL-31: sessions in goroutines of their own, on one device, give the texts that
// they give alone.
func TestTwoGoroutines(t *testing.T) {
	data := first(t).file(t)
	for name, x := range map[string]graph.Executor{"reference": ref.New(), "device": device(t, runtime.Options{})} {
		runs := 100
		if testing.Short() && name == "reference" {
			runs = 20
		}
		m := open(t, data, Options{Executor: x, Context: 128, Sequences: 2})
		prompts := [][]int32{noise(9), noise(30)[20:]}
		sampling := Sampling{Temperature: 1, TopK: 40, Seed: 3}
		var want [2][]int32
		for i := range prompts {
			var err error
			if want[i], err = text(t.Context(), newSession(t, m), prompts[i], sampling, 2); err != nil {
				t.Fatal(err)
			}
		}
		for s := range m.sessions {
			s.Close()
		}
		var wg sync.WaitGroup
		for i := range prompts {
			s := newSession(t, m)
			wg.Go(func() {
				for n := range runs {
					got, err := text(t.Context(), s, prompts[i], sampling, 2)
					if err != nil || !slices.Equal(got, want[i]) {
						t.Errorf("%s, session %d, text %d: %v, %v; want %v", name, i, n, got, err, want[i])
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// BL-35: an infinite scale is refused at load, naming the tensor. A value that is
// not finite in the cache fails its request; the next one is normal, in the same
// memory.
func TestNonFinite(t *testing.T) {
	bad := first(t)
	copy(bad.tensor(t, "blk.0.ffn_down.weight")[18*7:], []byte{0, 0x7c})
	for name, x := range map[string]graph.Executor{"reference": ref.New(), "device": device(t, runtime.Options{})} {
		_, err := OpenBytes(t.Context(), "bad", bad.file(t), Options{Executor: x})
		if !errors.Is(err, graph.ErrNonFinite) || !strings.Contains(err.Error(), "blk.0.ffn_down.weight") {
			t.Errorf("%s: an infinite scale: %v", name, err)
		}
		m := open(t, first(t).file(t), Options{Executor: x, Context: 64})
		want := evalPieces(t, m, noise(20), 20)
		for _, half := range []byte{0x7c, 0x7e, 0xfc} { // +Inf, NaN, -Inf
			s := newSession(t, m)
			if _, err := s.Eval(t.Context(), noise(4), false); err != nil {
				t.Fatal(err)
			}
			cache := m.remembered[0]
			if err := x.Write(cache, 0, bytes.Repeat([]byte{0, half}, int(cache.Bytes()/2))); err != nil {
				t.Fatal(err)
			}
			if _, err := text(t.Context(), s, noise(6), Sampling{}, 3); !errors.Is(err, graph.ErrNonFinite) {
				t.Errorf("%s: halves %#x00 in the cache: %v", name, half, err)
			}
			s.Truncate(0)
			rows, err := s.Eval(t.Context(), noise(20), true)
			if err != nil {
				t.Fatal(err)
			}
			same(t, name+", the same session after it", want, rows)
			s.Close()
			same(t, name+", the next session", want, evalPieces(t, m, noise(20), 20))
		}
	}
}

// BL-39: prompts cut anywhere give the same words at every position.
func TestSplits(t *testing.T) {
	sequential(t)
	data := first(t).file(t)
	for _, c := range []struct {
		n             int
		chunk, pieces []int
	}{
		{200, []int{100}, []int{200, 127, 128, 129, 99, 101, 7}},
		{520, []int{512}, []int{520, 511, 513}},
	} {
		ids := noise(c.n)
		want := evalPieces(t, open(t, data, Options{Context: c.n, Chunk: c.n}), ids, c.n)
		for _, chunk := range c.chunk {
			m := open(t, data, Options{Executor: device(t, runtime.Options{}), Context: c.n, Chunk: chunk})
			for _, piece := range c.pieces {
				same(t, fmt.Sprintf("pieces of %d, chunks of %d", piece, chunk), want, evalPieces(t, m, ids, piece))
			}
		}
	}
}

// BL-44: greedy or with a seed, the text is the same every time: alone or beside
// three others, cold or with its prompt in the cache.
func TestRepeats(t *testing.T) {
	data := first(t).file(t)
	for name, x := range map[string]graph.Executor{"reference": ref.New(), "device": device(t, runtime.Options{})} {
		m := open(t, data, Options{Executor: x, Context: 128, Sequences: 5})
		prompt := noise(12)
		for _, sampling := range []Sampling{{}, {Temperature: 0.8, TopP: 0.9, Seed: 7}} {
			want, err := text(t.Context(), newSession(t, m), prompt, sampling, 6)
			if err != nil || len(want) == 0 {
				t.Fatalf("%s: %v, %v", name, want, err)
			}
			warm := newSession(t, m)
			for range 5 {
				cold := newSession(t, m)
				for _, s := range []*Session{cold, warm} {
					if got, err := text(t.Context(), s, prompt, sampling, 6); err != nil || !slices.Equal(got, want) {
						t.Errorf("%s: %v, %v; want %v", name, got, err, want)
					}
				}
				cold.Close()
			}
			for s := range m.sessions {
				s.Close()
			}
			for range 5 {
				var wg sync.WaitGroup
				for range 4 {
					s := newSession(t, m)
					wg.Go(func() {
						defer s.Close()
						if got, err := text(t.Context(), s, prompt, sampling, 6); err != nil || !slices.Equal(got, want) {
							t.Errorf("%s, beside others: %v, %v; want %v", name, got, err, want)
						}
					})
				}
				wg.Wait()
			}
		}
	}
}

// BL-58: a prompt that fills the context, one that is too long for it, and a text
// that reaches its end; the next request is normal.
func TestContextFull(t *testing.T) {
	m := open(t, first(t).file(t), Options{Context: 64})
	s := newSession(t, m)
	normal, err := text(t.Context(), s, noise(10), Sampling{}, 3)
	if err != nil || s.Finish() != Length && s.Finish() != Stop {
		t.Fatalf("%v, %v, %v", normal, s.Finish(), err)
	}
	for _, c := range []struct {
		prompt, limit, want int
		finish              Finish
	}{{63, 0, 2, ContextEnd}, {64, 0, 1, ContextEnd}, {63, 1, 1, Length}, {64, 1, 1, Length}, {60, 4, 4, Length}, {60, 0, 5, ContextEnd}} {
		got, err := text(t.Context(), s, noise(c.prompt), Sampling{}, c.limit)
		if s.Finish() == Stop {
			t.Logf("prompt of %d, limit %d: the model ends its turn after %d tokens", c.prompt, c.limit, len(got))
			continue
		}
		if err != nil || len(got) != c.want || s.Finish() != c.finish {
			t.Errorf("prompt of %d, limit %d: %d tokens, %v, %v; want %d, %v", c.prompt, c.limit, len(got), s.Finish(), err, c.want, c.finish)
		}
	}
	_, err = text(t.Context(), s, noise(65), Sampling{}, 0)
	if !errors.Is(err, ErrContextFull) || !strings.Contains(err.Error(), "65 tokens in a context of 64") {
		t.Errorf("a prompt of 65: %v", err)
	}
	again, err := text(t.Context(), s, noise(10), Sampling{}, 3)
	if err != nil || !slices.Equal(again, normal) {
		t.Errorf("after it: %v, %v; want %v", again, err, normal)
	}
}

// BL-61: what was loaded, and what failed to load, leaves nothing behind.
func TestLoadOften(t *testing.T) {
	data := first(t).file(t)
	broken := first(t)
	copy(broken.tensor(t, "blk.0.ffn_down.weight"), []byte{0, 0x7c}) // found after most is uploaded
	bad := broken.file(t)
	d := device(t, runtime.Options{Disable: []string{"probe"}})
	var second runtime.Stats
	for i := range 50 {
		m, err := OpenBytes(t.Context(), "small", data, Options{Executor: d, Context: 64})
		if err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			evalPieces(t, m, noise(3), 3)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{bad, data[:len(data)/2]} {
			if m, err := OpenBytes(t.Context(), "bad", data, Options{Executor: d, Context: 64}); err == nil {
				m.Close()
				t.Fatal("a broken file loads")
			}
		}
		stats := d.Stats()
		stats.Submits = 0
		if i == 1 {
			second = stats
		}
		if i > 1 && stats != second {
			t.Fatalf("counts after load %d: %+v, after the second %+v", i, stats, second)
		}
	}
}

// Cancelling ends the upload at the next tensor and frees what was uploaded.
func TestLoadCancelled(t *testing.T) {
	d := device(t, runtime.Options{Disable: []string{"probe"}})
	before := d.Stats()
	ctx, cancel := context.WithCancel(t.Context())
	steps := 0
	_, err := OpenBytes(ctx, "sprig", sprig.Model, Options{Executor: d, Progress: func(_, _ uint64) { steps++; cancel() }})
	if !errors.Is(err, context.Canceled) || steps != 1 {
		t.Errorf("%d steps, error %v", steps, err)
	}
	after := d.Stats()
	if after.Submits = before.Submits; after != before {
		t.Errorf("counts before %+v, after %+v", before, after)
	}
}

// BL-62: paths of any letters and of more than 260 bytes.
func TestPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "модель 模型 ☃", strings.Repeat("long folder name ", 14))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "Größe.gguf")
	if err := os.WriteFile(path, first(t).file(t), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), path, Options{Executor: ref.New(), Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	evalPieces(t, m, noise(2), 2)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := m.NewSession(); !errors.Is(err, graph.ErrClosed) {
		t.Errorf("a session of a closed model: %v", err)
	}
}
