// Package houserules holds the rules on how the rooms of the project may depend
// on each other. They are applied to the source by this package's tests.
package houserules

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Module is the import path of the project's root.
const Module = "github.com/ternvk/tern"

// allowed has the rooms and what of ours each may import in its non-test files.
// A pattern that ends in /... means a folder and all below it. The first room
// that matches a package counts.
var allowed = []struct {
	room    string
	imports []string
}{
	{"vk", nil},
	{"spirv", nil},
	{"runtime/graph", nil},
	{"runtime/parallel", nil},
	{"runtime/mapped", nil},
	{"model/gguf", []string{"runtime/mapped"}},
	{"model/token", nil},
	{"model/chat", nil},
	{"model/rope", []string{"runtime/parallel"}},
	{"model/safetensors", []string{"runtime/mapped"}},
	{"model/quantize", []string{"model/gguf", "runtime/mapped"}},
	{"model/convert", []string{"model/gguf", "model/quantize", "model/safetensors", "model/token"}},
	{"runtime/ref", []string{"runtime/graph", "runtime/parallel"}},
	{"runtime/op", []string{"runtime/graph", "runtime/mapped", "spirv"}},
	{"runtime/plan", []string{"runtime/graph", "spirv"}},
	{"runtime/conform", []string{"runtime/...", "spirv"}},
	{"runtime", []string{"vk", "spirv", "runtime/graph", "runtime/parallel", "runtime/plan"}},
	{"model", []string{"model/...", "runtime/graph", "runtime/mapped", "runtime/op", "runtime/parallel", "runtime/ref"}},                     // never runtime: no Vulkan
	{"model/...", []string{"runtime/op", "runtime/graph", "runtime/mapped", "runtime/parallel", "model/gguf", "model/rope", "model/family"}}, // the families
	{"tools/...", []string{"..."}},
}

// forPeople has the modules that talk to a terminal: only tools may use them.
var forPeople = []string{
	"github.com/spf13/cobra", "github.com/schollz/progressbar/v3", "github.com/chzyer/readline",
	"golang.org/x/term",
}

// withC has the packages that may use cgo: what is called by C cannot do without.
var withC = []string{"tools/libtern"}

// File is a Go file of the project and what it imports.
type File struct {
	Path    string // below the root, with slashes
	Imports []string
}

// Test reports whether the file is a test's.
func (f File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Files reads the imports of every Go file below root, but for folders that the
// go command does not look into and the build folders.
func Files(root fs.FS) ([]File, error) {
	var files []File
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || slices.Contains([]string{"testdata", "build", "bin"}, d.Name())):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
		if err != nil {
			return err
		}
		f := File{Path: name}
		for _, spec := range parsed.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.Imports = append(f.Imports, p)
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// Broken returns a line for each import of the file that the rules do not allow.
func Broken(f File) []string {
	room := path.Dir(f.Path)
	var out []string
	for _, imported := range f.Imports {
		own, isOwn := strings.CutPrefix(imported, Module+"/")
		inTools := matches("tools/...", room)
		switch {
		case isOwn && matches("tools/...", own) && !inTools:
			out = append(out, f.Path+": imports "+own+", nothing imports tools")
		case isOwn && !f.Test() && !mayImport(room, own):
			out = append(out, f.Path+": "+room+" may not import "+own)
		case slices.Contains(forPeople, imported) && !inTools:
			out = append(out, f.Path+": imports "+imported+", which is for tools only")
		case imported == "C" && !slices.Contains(withC, room):
			out = append(out, f.Path+": uses cgo")
		}
	}
	return out
}

func mayImport(room, own string) bool {
	for _, rule := range allowed {
		if matches(rule.room, room) {
			return slices.ContainsFunc(rule.imports, func(pattern string) bool { return matches(pattern, own) })
		}
	}
	return false
}

func matches(pattern, name string) bool {
	prefix, tree := strings.CutSuffix(pattern, "...")
	if !tree {
		return pattern == name
	}
	return strings.HasPrefix(name+"/", prefix)
}
