package gguf_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/testdata/sprig"
)

// resident is how many KiB of a mapped file the process sees without a fault.
func resident(t *testing.T, path string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	_, after, ok := strings.Cut(string(maps), path+"\n")
	rss := regexp.MustCompile(`Rss: +(\d+) kB`).FindStringSubmatch(after)
	if !ok || rss == nil {
		t.Fatalf("%s is not mapped", path)
	}
	n, _ := strconv.Atoi(rss[1])
	return n
}

func TestWarm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sprig.gguf")
	if err := os.WriteFile(path, sprig.Model, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := len(sprig.Model) >> 10
	ended, end := context.WithCancel(t.Context())
	end()
	f.Warm(ended)
	if n := resident(t, path); n >= all {
		t.Errorf("%d of %d KiB are there though nobody waits any more", n, all)
	}
	f.Warm(t.Context())
	if n := resident(t, path); n < all {
		t.Errorf("%d of %d KiB are there", n, all)
	}
	inMemory, err := gguf.Parse("sprig", sprig.Model)
	if err != nil {
		t.Fatal(err)
	}
	inMemory.Warm(t.Context())
}
