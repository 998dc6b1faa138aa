package model

import (
	"context"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
)

// held counts what a process holds: goroutines, open files, and mappings of the
// model file.
type held struct{ goroutines, files, mappings int }

func holds(t *testing.T, path string) (h held) {
	t.Helper()
	h.goroutines = goruntime.NumGoroutine()
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.files = len(list)
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		h.mappings = strings.Count(string(maps), path)
	}
	return h
}

// Many sessions of one model, in goroutines of their own, some cancelled and some
// never closed: after Close nothing is left of them, but for the device's own
// pipelines and temporaries.
func TestNothingIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "small.gguf")
	if err := os.WriteFile(path, first(t).file(t), 0o644); err != nil {
		t.Fatal(err)
	}
	d := device(t, runtime.Options{Disable: []string{"probe"}})
	var before, after held
	var stats [2]runtime.Stats
	for round := range 3 { // the first one is for what a process holds for good
		if round == 1 {
			before, stats[0] = holds(t, path), d.Stats()
		}
		m, err := Open(t.Context(), path, Options{Executor: d, Context: 128, Sequences: 6})
		if err != nil {
			t.Fatal(err)
		}
		if round == 1 && goruntime.GOOS == "linux" && holds(t, path).mappings <= before.mappings {
			t.Error("the file is not mapped")
		}
		var wg sync.WaitGroup
		for i := range 6 {
			s, err := m.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				n := 0
				for _, err := range s.Generate(ctx, noise(10+i), Sampling{}, 8) {
					if err != nil && ctx.Err() == nil {
						t.Error(err)
					}
					if n++; n == 3 && i%2 == 0 {
						cancel()
					}
				}
				if err := s.Save(io.Discard); err != nil {
					t.Error(err)
				}
				if i%3 == 0 {
					s.Close()
				}
			})
		}
		wg.Wait()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	more := func() bool { // goroutines take a moment to end, those before the second round, too
		after = holds(t, path)
		return after.goroutines > before.goroutines || after.files != before.files || after.mappings != before.mappings
	}
	for range 1000 {
		if !more() {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if more() {
		t.Errorf("held before %+v, after %+v", before, after)
	}
	stats[1] = d.Stats()
	for p := range graph.NumPurposes {
		if a, b := stats[0].Purposes[p], stats[1].Purposes[p]; p != graph.Scratch && a != b {
			t.Errorf("%v before %+v, after %+v", p, a, b)
		}
	}
	if stats[0].Programs != stats[1].Programs || stats[0].Staging != stats[1].Staging {
		t.Errorf("before %+v, after %+v", stats[0], stats[1])
	}
}
