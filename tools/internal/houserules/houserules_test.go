package houserules

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"
)

const root = "../../.."

func TestImports(t *testing.T) {
	files, err := Files(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("%d Go files found below %s", len(files), root)
	}
	for _, f := range files {
		for _, line := range Broken(f) {
			t.Error(line)
		}
	}
}

func TestBroken(t *testing.T) {
	for _, c := range []struct {
		path, imports string
		broken        bool
	}{
		{"vk/vk.go", "fmt", false},
		{"vk/vk.go", Module + "/spirv", true},
		{"vk/vk_test.go", Module + "/spirv", false},
		{"vk/vk_test.go", Module + "/tools/internal/synth", true},
		{"runtime/ref/x.go", Module + "/runtime/graph", false},
		{"runtime/ref/x.go", Module + "/vk", true},
		{"runtime/ref/x.go", Module + "/runtime", true},
		{"runtime/graph/x.go", Module + "/runtime/op", true},
		{"runtime/op/x.go", Module + "/runtime", true},
		{"runtime/x.go", Module + "/vk", false},
		{"runtime/x.go", Module + "/runtime/op", true},
		{"runtime/conform/x.go", Module + "/runtime", false},
		{"runtime/conform/x.go", Module + "/runtime/ref", false},
		{"runtime/conform/x.go", Module + "/model", true},
		{"runtime/elsewhere/x.go", Module + "/spirv", true},
		{"model/x.go", Module + "/runtime", true},
		{"model/x.go", Module + "/model/qwen3", false},
		{"model/qwen3/x.go", Module + "/runtime/op", false},
		{"model/qwen3/x.go", Module + "/vk", true},
		{"model/qwen3/x.go", Module + "/model", true},
		{"model/gguf/x.go", Module + "/runtime/graph", true},
		{"model/x.go", Module + "/tools/tern", true},
		{"tools/tern/x.go", Module + "/vk", false},
		{"tools/tern/x.go", "github.com/spf13/cobra", false},
		{"model/x.go", "github.com/spf13/cobra", true},
		{"vk/x.go", "C", true},
		{"tools/libtern/x.go", "C", false},
		{"tools/tern/x.go", "C", true},
	} {
		got := Broken(File{Path: c.path, Imports: []string{c.imports}})
		if (len(got) > 0) != c.broken {
			t.Errorf("%s importing %s: %q, broken should be %v", c.path, c.imports, got, c.broken)
		}
	}
}

// A page can be read in one sitting: what people write stays short.
func TestFilesAreShort(t *testing.T) {
	const limit = 600
	fsys := os.DirFS(root)
	files, err := Files(fsys)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f.Path, "_gen.go") || strings.HasSuffix(f.Path, "_gen_test.go") {
			continue
		}
		data, err := fs.ReadFile(fsys, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(data, []byte{'\n'}); n > limit {
			t.Errorf("%s has %d lines, more than %d", f.Path, n, limit)
		}
	}
}
