// Command kernels compiles the kernel list. It reads glsl/kernels.txt, compiles
// each line with glslc, decorates, optimises, validates and lints the words, and writes a .spv file
// per kernel, the Go table kernels_gen.go and the compilers' versions, COMPILER.
// Lines whose source is CUDA are compiled with clang to a .ptx file.
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
		out      = flags.String("out", "spirv", "`folder` of the .spv and .ptx files and the table")
		glslc    = flags.String("glslc", "glslc", "shader compiler")
		opt      = flags.String("opt", "", "SPIR-V optimiser (default: none)")
		val      = flags.String("val", "", "SPIR-V validator (default: none)")
		clang    = flags.String("clang", "clang", "compiler of CUDA sources")
		stamps   = flags.String("stamps", "build/kernels", "`folder` that remembers what is up to date (empty: compile all)")
		fallback = flags.String("fallback", "", "`folder` of .spv and .ptx files for kernels that these compilers cannot compile")
		words    = flags.Bool("words", false, "write the .spv and .ptx files only, no table")
		check    = flags.Bool("check", false, "compile into a temporary folder and compare with -out")
		jobs     = flags.Int("j", 0, "compilations at a time (default: one per core)")
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	c := &compiler{glslDir: *glslDir, glslc: *glslc, opt: *opt, val: *val, clang: *clang, stamps: *stamps, fallback: *fallback,
		logf: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	kernels, err := c.list()
	if err != nil {
		return err
	}
	if err := c.identify(kernels); err != nil {
		return err
	}
	if *check {
		return checkAll(c, kernels, *out, *jobs)
	}
	if c.stamps != "" {
		if err := os.MkdirAll(c.stamps, 0o777); err != nil {
			return err
		}
	}
	return generate(c, kernels, *out, *jobs, !*words)
}

// list reads the kernel list.
func (c *compiler) list() ([]*spirv.Kernel, error) {
	path := filepath.Join(c.glslDir, "kernels.txt")
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readList(f, path)
}

// generate brings the folder out up to date.
func generate(c *compiler, kernels []*spirv.Kernel, out string, jobs int, withTable bool) error {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	if err := c.compileAll(kernels, out, jobs); err != nil {
		return err
	}
	if withTable {
		source, err := table(kernels, c.versions())
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, tableFile), source); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(out, compilerFile), []byte(c.versions()+"\n")); err != nil {
			return err
		}
	}
	return removeStale(kernels, out)
}

// removeStale deletes the files of kernels that are no longer listed.
func removeStale(kernels []*spirv.Kernel, out string) error {
	names, err := compiled(out)
	if err != nil {
		return err
	}
	for _, name := range names {
		listed := slices.ContainsFunc(kernels, func(k *spirv.Kernel) bool { return k.File() == name })
		if !listed {
			if err := os.Remove(filepath.Join(out, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// compiled names the files of a folder that a compiler made.
func compiled(dir string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(dir), "*.spv")
	if err != nil {
		return nil, err
	}
	ptx, err := fs.Glob(os.DirFS(dir), "*.ptx")
	return append(names, ptx...), err
}

// checkAll compiles everything anew and reports each generated file that differs.
func checkAll(c *compiler, kernels []*spirv.Kernel, committed string, jobs int) error {
	if recorded := read(filepath.Join(committed, compilerFile)); recorded != c.versions()+"\n" {
		return fmt.Errorf("the words were made with\n%s\nand these compilers are\n%s", recorded, c.versions())
	}
	dir, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c.stamps = ""
	if err := generate(c, kernels, dir, jobs, true); err != nil {
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
	entries, err := compiled(dir)
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
