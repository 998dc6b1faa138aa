package model

import (
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/mapped"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/testdata/sprig"
)

// A file that is cut off once its header is read, or later, is an error of whoever needs
// its bytes, and a model that was loaded before goes on.
func TestFileIsCutOff(t *testing.T) {
	if goruntime.GOOS == "windows" || os.Getenv("QEMU_LD_PREFIX") != "" {
		t.Skip("a mapped file cannot be cut off, or an emulator does not tell where a fault is")
	}
	path := filepath.Join(t.TempDir(), "cut.gguf")
	opened := func() (*gguf.File, error) {
		if err := os.WriteFile(path, sprig.Model, 0o644); err != nil {
			return nil, err
		}
		return gguf.Open(path)
	}
	cut := func(f *gguf.File) error { return os.Truncate(path, int64(f.Tensors[0].Offset)) }
	for name, x := range map[string]graph.Executor{"reference": ref.New(), "device": device(t, runtime.Options{})} {
		o := Options{Executor: x, Context: 64}
		_, err := load(t.Context(), o, func() (*gguf.File, error) {
			f, err := opened()
			if err == nil {
				err = cut(f)
			}
			return f, err
		})
		if !errors.Is(err, mapped.ErrLost) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: error %v", name, err)
		}
		m, err := load(t.Context(), o, opened)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := cut(m.File()); err != nil {
			t.Fatal(err)
		}
		evalAll(t, newSession(t, m), noise(5))
		if _, err := m.Fingerprint(); !errors.Is(err, mapped.ErrLost) {
			t.Errorf("%s: fingerprint: %v", name, err)
		}
	}
}
