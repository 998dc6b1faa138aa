package main

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ternvk/tern/spirv"
)

//go:embed device
var device embed.FS

// A compiler makes programs that run a kernel.
type compiler struct {
	clang, cc string // clang knows the kernels' C++, cc links
	sources   string // folder of the kernels' sources
	dir       string // of what is made
}

// Products and sums of floats stay apart, as in tools/kernels. Vectors would change how wide
// accesses are, which are traced: device/memory.c looks at each.
var (
	kernelArgs = strings.Fields("-x c++ -std=c++17 -c -O2 -ffp-contract=off -fno-exceptions -fno-vectorize -fno-slp-vectorize -Wall -Werror -fsanitize-coverage=func,trace-loads,trace-stores")
	deviceArgs = strings.Fields("-std=gnu11 -O3 -Wall -Wno-parentheses -U_FORTIFY_SOURCE")
)

// prepare compiles what all kernels share.
func (c *compiler) prepare() error {
	if err := os.CopyFS(c.dir, device); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "device", "*.c"))
	for _, file := range files {
		err = errors.Join(err, command(c.cc, append(slices.Clip(deviceArgs), "-c", "-o", file+".o", file)...))
	}
	return err
}

// program compiles a kernel and returns the program's path.
func (c *compiler) program(k *spirv.Kernel) (string, error) {
	folder := filepath.Join(c.dir, "device")
	source, err := filepath.Abs(filepath.Join(c.sources, k.Source))
	if err != nil {
		return "", err
	}
	program := filepath.Join(c.dir, k.Name)
	args := append([]string{"-I", folder, "-I", filepath.Join(c.sources, "lib"), fmt.Sprintf("-DSOURCE=%q", source)}, kernelArgs...)
	for _, d := range k.Defines {
		args = append(args, "-D"+d)
	}
	if err := command(c.clang, append(args, "-o", program+".o", filepath.Join(folder, "entry.cpp"))...); err != nil {
		return "", err
	}
	objects, err := filepath.Glob(filepath.Join(folder, "*.o"))
	if err != nil {
		return "", err
	}
	return program, command(c.cc, slices.Concat([]string{"-o", program, program + ".o"}, objects, []string{"-lm"})...)
}

// command runs a program and returns what it printed with its error.
func command(name string, args ...string) error {
	if text, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, text)
	}
	return nil
}
