package mapped

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/edsrzf/mmap-go"
)

// A file that is cut off while it is mapped is an error of its readers; other faults
// stay what they are.
func TestRead(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getenv("QEMU_LD_PREFIX") != "" {
		t.Skip("a mapped file cannot be cut off, or an emulator does not tell where a fault is")
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := mmap.Map(file, mmap.RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Unmap()
	copied := make([]byte, len(m))
	all := func() error {
		copy(copied, m)
		return nil
	}
	if err := Read(all); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Read(all); !errors.Is(err, ErrLost) {
			t.Errorf("a file that was cut off: %v", err)
		}
	}
	if debug.SetPanicOnFault(false) {
		t.Error("faults are still panics")
	}
	if err := Read(func() error { return os.ErrExist }); err != os.ErrExist {
		t.Errorf("another error: %v", err)
	}
	for name, f := range map[string]func() error{
		"nil":   func() error { return errors.New(*(*string)(nil)) },
		"panic": func() error { panic("mine") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is swallowed", name)
				}
			}()
			t.Error(Read(f))
		}()
	}
}
