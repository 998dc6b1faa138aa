package model

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/runtime/ref"
)

// A saved session goes on with the words that it would have had, also on another
// executor, whatever pages it lies in, and with a recurrent state.
func TestSave(t *testing.T) {
	sequential(t)
	for _, g := range goldenModels(t) {
		if g.name != "qwen3" && g.name != "qwen35-rep2" {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			for _, cache := range []op.CacheType{op.CacheF16, op.CacheQ8_0} {
				ids := g.Prompts[2]
				split := len(ids) - 9
				o := Options{Context: 256, Sequences: 3, CacheKeys: cache, CacheValues: cache}
				m, err := Open(t.Context(), g.path, withExecutor(o, ref.New()))
				if err != nil {
					t.Log(cache, err) // heads that the type cannot store
					continue
				}
				t.Cleanup(func() { m.Close() })
				s := newSession(t, m)
				evalAll(t, s, ids[:split])
				var saved bytes.Buffer
				if err := s.Save(&saved); err != nil {
					t.Fatal(err)
				}
				want := evalAll(t, s, ids[split:])
				d := g.open(t, withExecutor(o, device(t, runtime.Options{})))
				for _, to := range []*Model{m, d} {
					other := newSession(t, to) // so that the pages are others
					evalAll(t, other, ids[:7])
					r, err := to.Restore(bytes.NewReader(saved.Bytes()))
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(r.Tokens(), ids[:split]) {
						t.Errorf("restored tokens %v", r.Tokens())
					}
					same(t, "restored on "+to.x.Name(), want, evalAll(t, r, ids[split:]))
					r.Truncate(5)
					same(t, "and truncated", evalPieces(t, m, ids[:8], 8)[5:], evalAll(t, r, ids[5:8]))
					r.Close()
					other.Close()
				}
			}
		})
	}
}

func withExecutor(o Options, x graph.Executor) Options {
	o.Executor = x
	return o
}

// What was saved is refused when it is torn anywhere, changed anywhere, or another
// model's, and nothing of it stays.
func TestSaveRefused(t *testing.T) {
	data := first(t).file(t)
	m := open(t, data, Options{Context: 128, Sequences: 2})
	s := newSession(t, m)
	if _, err := s.Eval(t.Context(), noise(70), false); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "сессия.tern")
	if err := s.SaveFile(path); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	room := m.Room()
	for _, n := range []int{0, 1, 8, 60, 64, 200, len(saved) / 2, len(saved) - 32, len(saved) - 1} {
		if _, err := m.Restore(bytes.NewReader(saved[:n])); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d of %d bytes: %v", n, len(saved), err)
		}
	}
	for _, at := range []int{0, 64, 100, 200, 5000, len(saved) - 40, len(saved) - 1} {
		bad := bytes.Clone(saved)
		bad[at] ^= 4
		if _, err := m.Restore(bytes.NewReader(bad)); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrMismatch) {
			t.Errorf("byte %d changed: %v", at, err)
		}
	}
	if err := os.WriteFile(path, append(saved, 0), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := m.RestoreFile(path); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte more: %v", err)
	}
	other := first(t)
	other.tensor(t, "blk.0.ffn_up.weight")[9] ^= 1
	for name, to := range map[string]*Model{
		"one weight differs":     open(t, other.file(t), Options{Context: 128}),
		"other activations":      open(t, data, Options{Context: 128, Activations: op.F16}),
		"another type of cache":  open(t, data, Options{Context: 128, CacheKeys: op.CacheQ8_0}),
		"a session of the model": m,
	} {
		r, err := to.Restore(bytes.NewReader(saved))
		if to == m {
			if err != nil {
				t.Error(err)
			} else {
				r.Close()
			}
		} else if !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := open(t, data, Options{Context: 64}).Restore(bytes.NewReader(saved)); !errors.Is(err, ErrContextFull) {
		t.Errorf("70 tokens in a context of 64: %v", err)
	}
	if now := m.Room(); now != room {
		t.Errorf("room before %+v, after %+v", room, now)
	}
}

// A page that is not full is saved without what other sessions have left in it.
func TestSaveHidesOthers(t *testing.T) {
	data := first(t).file(t)
	var saved [2]bytes.Buffer
	for i, before := range []int{0, 60} {
		m := open(t, data, Options{Context: 64})
		if before > 0 {
			s := newSession(t, m)
			if _, err := s.Eval(t.Context(), noise(before), false); err != nil {
				t.Fatal(err)
			}
			s.Close()
		}
		s := newSession(t, m)
		if _, err := s.Eval(t.Context(), noise(5), false); err != nil {
			t.Fatal(err)
		}
		if err := s.Save(&saved[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(saved[0].Bytes(), saved[1].Bytes()) {
		t.Error("the file depends on what was in the page before")
	}
}

// An unloaded model holds no memory, refuses to run, and goes on with its sessions
// when it is loaded again, on the same executor or another.
func TestReload(t *testing.T) {
	sequential(t)
	for _, g := range goldenModels(t) {
		if g.name != "qwen35-rep2" {
			continue
		}
		d := device(t, runtime.Options{Disable: []string{"probe"}})
		before := d.Stats()
		ids := g.Prompts[2]
		m := g.open(t, Options{Executor: d, Sequences: 2})
		want := evalPieces(t, m, ids, len(ids))
		s := newSession(t, m)
		evalAll(t, s, ids[:20])
		for _, x := range []graph.Executor{nil, ref.New(), d} {
			m.Unload()
			m.Unload()
			after := d.Stats()
			after.Submits, after.Pipelines, after.Purposes[graph.Scratch] = before.Submits, before.Pipelines, before.Purposes[graph.Scratch]
			if after != before || m.Loaded() {
				t.Errorf("unloaded, the device holds %+v, before %+v", after, before)
			}
			if _, err := s.Eval(t.Context(), ids[20:], true); !errors.Is(err, ErrUnloaded) {
				t.Errorf("a run of an unloaded model: %v", err)
			}
			if err := m.Reload(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			same(t, "after reloading", want[20:], evalAll(t, s, ids[20:]))
			s.Truncate(20)
		}
	}
}

// A lost device is an error; the model goes on with its sessions on the device
// opened again.
func TestReloadAfterLoss(t *testing.T) {
	data := first(t).file(t)
	want := evalPieces(t, open(t, data, Options{Context: 64}), noise(30), 30)
	healthy := device(t, runtime.Options{Disable: []string{"probe"}})
	m := open(t, data, Options{Executor: healthy, Context: 64})
	submits := healthy.Stats().Submits
	m.Close()
	lost := 0
	for n := submits; lost < 2; n++ {
		d := device(t, runtime.Options{Disable: []string{"probe"}, Test: runtime.Test{LoseSubmit: n}})
		m, err := OpenBytes(t.Context(), "small", data, Options{Executor: d, Context: 64})
		if err != nil {
			if !errors.Is(err, graph.ErrDeviceLost) {
				t.Fatal(err)
			}
			continue
		}
		s := newSession(t, m)
		for i, id := range noise(30) {
			if _, err = s.Eval(t.Context(), []int32{id}, false); err != nil {
				if !errors.Is(err, graph.ErrDeviceLost) {
					t.Fatal(err)
				}
				lost++
				if err := m.Reload(t.Context(), healthy); err != nil {
					t.Fatal(err)
				}
				same(t, "after the loss", want[i:], evalAll(t, s, noise(30)[i:]))
				break
			}
		}
		m.Close()
	}
}

// Fit finds a context that opens and runs; a quarter more does not.
func TestFit(t *testing.T) {
	sequential(t)
	data := first(t).file(t)
	f, err := gguf.Parse("small", data)
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := Fit(f, Options{Executor: ref.New()}); err != nil || n != 2048 {
		t.Errorf("where all fits: %d, %v; want the 2048 of the file", n, err)
	}
	if n, _, err := Fit(f, Options{Executor: ref.New(), Context: 100}); err != nil || n != 100 {
		t.Errorf("bounded: %d, %v", n, err)
	}
	full, err := EstimateMemory(f, Options{Context: 2048, Sequences: 16})
	if err != nil {
		t.Fatal(err)
	}
	d := device(t, runtime.Options{Test: testHeap(full.Total() * 8 / 7 * 3 / 4), Disable: []string{"probe", "budget"}})
	n, e, err := Fit(f, Options{Executor: d, Sequences: 16})
	if err != nil || n < 64 || n >= 2048 || n%64 != 0 {
		t.Fatalf("three quarters of the memory: %d, %v", n, err)
	}
	if e.Scratch == 0 || e.Total() >= full.Total() {
		t.Errorf("estimate %+v", e)
	}
	m := open(t, data, Options{Executor: d, Context: n, Sequences: 16})
	if _, err := newSession(t, m).Eval(t.Context(), noise(520), false); err != nil {
		t.Errorf("with a context of %d: %v", n, err)
	}
	m.Close()
	more := n + n/4
	if _, err := OpenBytes(t.Context(), "small", data, Options{Executor: d, Context: more, Sequences: 16}); !errors.Is(err, graph.ErrOutOfMemory) {
		t.Errorf("%d positions: %v", more, err)
	}
	tiny := device(t, runtime.Options{Test: testHeap(1 << 20), Disable: []string{"probe", "budget"}})
	if n, _, err := Fit(f, Options{Executor: tiny}); !errors.Is(err, graph.ErrOutOfMemory) {
		t.Errorf("1 MiB: %d, %v", n, err)
	}
}

func testHeap(bytes uint64) runtime.Test { return runtime.Test{Caps: plan.Caps{Heap: bytes}} }

// Whatever a file says, with a right checksum too, a session comes of it that can be
// used, or an error, and no memory is lost.
func FuzzRestore(f *testing.F) {
	m, err := OpenBytes(context.Background(), "small", first(f).file(f), Options{Executor: ref.New(), Context: 128})
	if err != nil {
		f.Fatal(err)
	}
	defer m.Close()
	for _, n := range []int{0, 3, 64, 70} {
		s, err := m.NewSession()
		if err != nil {
			f.Fatal(err)
		}
		s.Note = []byte("note")
		if n > 0 {
			if _, err := s.Eval(context.Background(), noise(n), false); err != nil {
				f.Fatal(err)
			}
		}
		var b bytes.Buffer
		if err := s.Save(&b); err != nil {
			f.Fatal(err)
		}
		s.Close()
		f.Add(b.Bytes()[:b.Len()-sha256.Size])
	}
	room := m.Room()
	f.Fuzz(func(t *testing.T, data []byte) {
		sum := sha256.Sum256(data)
		s, err := m.Restore(io.MultiReader(bytes.NewReader(data), bytes.NewReader(sum[:])))
		if err == nil {
			// The keys and values may be anything, and make numbers that are not finite.
			if _, err := s.Eval(t.Context(), noise(2), false); err != nil && !errors.Is(err, graph.ErrNonFinite) && !errors.Is(err, ErrContextFull) {
				t.Error(err)
			}
			s.Close()
		}
		if now := m.Room(); now != room {
			t.Errorf("room before %+v, after %+v", room, now)
		}
	})
}
