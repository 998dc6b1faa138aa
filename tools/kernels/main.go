// Command kernels compiles the kernel list. It reads glsl/kernels.txt, compiles
// each line with glslc, decorates, optimises, validates and lints the words, and writes a .spv file
// per kernel, the Go table kernels_gen.go and the compiler's version, COMPILER.
// What has not changed since the last run is not compiled again. With -check it
// compiles everything into a temporary folder and compares.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/ternvk/tern/spirv"
)

const (
	tableFile    = "kernels_gen.go"
	compilerFile = "COMPILER"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("kernels", flag.ContinueOnError)
	var (
		glslDir  = flags.String("glsl", "glsl", "`folder` of the shaders and kernels.txt")
		out      = flags.String("out", "spirv", "`folder` of the .spv files and the table")
		glslc    = flags.String("glslc", "glslc", "shader compiler")
		opt      = flags.String("opt", "", "SPIR-V optimiser (default: none)")
		val      = flags.String("val", "", "SPIR-V validator (default: none)")
		stamps   = flags.String("stamps", "build/kernels", "`folder` that remembers what is up to date (empty: compile all)")
		fallback = flags.String("fallback", "", "`folder` of .spv files for kernels that this glslc cannot compile")
		words    = flags.Bool("words", false, "write the .spv files only, no table")
		check    = flags.Bool("check", false, "compile into a temporary folder and compare with -out")
		jobs     = flags.Int("j", 0, "compilations at a time (default: one per core)")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	c := &compiler{glslDir: *glslDir, glslc: *glslc, opt: *opt, val: *val, stamps: *stamps, fallback: *fallback,
		logf: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	var err error
	if c.version, err = glslcVersion(c.glslc); err != nil {
		return err
	}
	if *check {
		return checkAll(c, *out, *jobs)
	}
	if c.stamps != "" {
		if err := os.MkdirAll(c.stamps, 0o777); err != nil {
			return err
		}
	}
	return generate(c, *out, *jobs, !*words)
}

// generate brings the folder out up to date.
func generate(c *compiler, out string, jobs int, withTable bool) error {
	path := filepath.Join(c.glslDir, "kernels.txt")
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	kernels, err := readList(f, path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	if err := c.compileAll(kernels, out, jobs); err != nil {
		return err
	}
	if withTable {
		source, err := table(kernels, c.version)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, tableFile), source); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, compilerFile), []byte(c.version+"\n")); err != nil {
			return err
		}
	}
	return removeStale(kernels, out)
}

// removeStale deletes the words of kernels that are no longer listed.
func removeStale(kernels []*spirv.Kernel, out string) error {
	names, err := filepath.Glob(filepath.Join(out, "*.spv"))
	if err != nil {
		return err
	}
	for _, name := range names {
		listed := slices.ContainsFunc(kernels, func(k *spirv.Kernel) bool { return k.Name+".spv" == filepath.Base(name) })
		if !listed {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkAll compiles everything anew and reports each generated file that differs.
func checkAll(c *compiler, committed string, jobs int) error {
	if recorded := read(filepath.Join(committed, compilerFile)); recorded != c.version+"\n" {
		return fmt.Errorf("the words were made with\n%s\nand this compiler is\n%s", recorded, c.version)
	}
	dir, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c.stamps = ""
	if err := generate(c, dir, jobs, true); err != nil {
		return err
	}
	want, err := generatedFiles(dir)
	if err != nil {
		return err
	}
	got, err := generatedFiles(committed)
	if err != nil {
		return err
	}
	var errs []error
	for name, data := range want {
		if !bytes.Equal(got[name], data) {
			errs = append(errs, fmt.Errorf("%s is not what the sources give: run make gen", filepath.Join(committed, name)))
		}
		delete(got, name)
	}
	for name := range got {
		errs = append(errs, fmt.Errorf("%s is of no listed kernel: run make gen", filepath.Join(committed, name)))
	}
	if len(errs) == 0 {
		c.logf("%d generated files are up to date", len(want))
	}
	return errors.Join(errs...)
}

// generatedFiles reads the files of a folder that this tool writes.
func generatedFiles(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	entries, err := fs.Glob(os.DirFS(dir), "*.spv")
	if err != nil {
		return nil, err
	}
	for _, name := range append(entries, tableFile, compilerFile) {
		if files[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// writeFile replaces a file in one step; a file that has the content already
// keeps its time.
func writeFile(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
