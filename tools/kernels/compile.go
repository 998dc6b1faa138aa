package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/ternvk/tern/spirv"
)

// compiler turns shaders into words and remembers in a folder of stamps what it
// has already done.
type compiler struct {
	glslDir      string
	glslc        string
	opt          string // spirv-opt, "" to leave the words as glslc writes them
	val          string // spirv-val, "" to skip
	clang        string // of CUDA sources
	version      string // first lines of glslc --version
	clangVersion string // the first line of clang --version, "" where there are no CUDA sources
	stamps       string // folder, "" to compile always
	fallback     string // folder of committed files for sources that the compilers reject, "" for none
	logf         func(format string, args ...any)
}

// versionOf returns what a compiler says of itself, up to a mark.
func versionOf(compiler, mark string) (string, error) {
	out, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", compiler, describe(err))
	}
	text, _, _ := strings.Cut(string(out), mark)
	return strings.TrimSpace(text), nil
}

// identify fills in the version of the compilers that the kernels need.
func (c *compiler) identify(kernels []*spirv.Kernel) (err error) {
	if c.version, err = versionOf(c.glslc, "\n\n"); err != nil || !slices.ContainsFunc(kernels, (*spirv.Kernel).IsPTX) {
		return err
	}
	if c.clangVersion, err = versionOf(c.clang, "\n"); err != nil && c.fallback != "" {
		return nil // the committed files are taken
	}
	return err
}

// versions names the compilers.
func (c *compiler) versions() string { return strings.TrimSpace(c.version + "\n" + c.clangVersion) }

// compileAll compiles every kernel into dir, several at a time, and fills in
// Hash and Info. The errors of all kernels are joined.
func (c *compiler) compileAll(kernels []*spirv.Kernel, dir string, jobs int) error {
	if jobs <= 0 {
		jobs = runtime.NumCPU()
	}
	errs := make([]error, len(kernels))
	slots := make(chan struct{}, jobs)
	var wg sync.WaitGroup
	for i, k := range kernels {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := c.one(k, filepath.Join(dir, k.File())); err != nil {
				errs[i] = fmt.Errorf("kernel %s: %w", k.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// one compiles, validates and reflects a kernel.
func (c *compiler) one(k *spirv.Kernel, out string) error {
	source, args, run := filepath.Join(c.glslDir, k.Source+".comp"), []string{"-O0", "--target-env=" + k.Env, "-fshader-stage=compute"}, c.run
	if k.IsPTX() {
		source, args, run = filepath.Join(c.glslDir, k.Source), cudaArgs, c.runClang
	}
	args = append(slices.Clip(args), "-I", filepath.Join(c.glslDir, "lib"))
	for _, d := range k.Defines {
		args = append(args, "-D"+d)
	}
	key, err := c.key(k, source, args)
	if err != nil {
		return err
	}
	stamp := filepath.Join(c.stamps, k.Name+".stamp")
	if c.stamps != "" {
		if data, err := os.ReadFile(out); err == nil && stampText(key, data) == read(stamp) {
			return c.describe(k, data)
		}
	}
	data, err := run(args, source, k)
	if err != nil {
		return err
	}
	if err := c.describe(k, data); err != nil {
		return err
	}
	if err := writeFile(out, data); err != nil {
		return err
	}
	if c.stamps == "" {
		return nil
	}
	return writeFile(stamp, []byte(stampText(key, data)))
}

func stampText(key string, words []byte) string {
	sum := sha256.Sum256(words)
	return key + " " + hex.EncodeToString(sum[:]) + "\n"
}

// run calls glslc, spirv-opt and spirv-val and returns the bytes of the .spv file.
func (c *compiler) run(args []string, source string, k *spirv.Kernel) ([]byte, error) {
	dir, err := os.MkdirTemp("", "kernel")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, k.Name+".spv")
	if err := command(c.glslc, append(args, "-o", out, source)...); err != nil {
		return c.instead(k, err)
	}
	stages := [][]string{nil}
	if c.opt != "" {
		stages = [][]string{slices.Concat(unrollPasses, unroll), scalarPasses}
		if k.Unroll {
			stages[0] = slices.Concat(unrollPasses, unrollMore)
		}
	}
	for _, passes := range stages {
		if k.Class == spirv.ClassExact {
			if err := rewrite(out, spirv.WithNoContraction); err != nil {
				return nil, err
			}
		}
		if passes == nil {
			continue
		}
		settings := []string{"--target-env=" + k.Env, "--preserve-bindings"}
		if err := command(c.opt, slices.Concat(settings, passes, []string{out, "-o", out})...); err != nil {
			return nil, err
		}
	}
	if c.val != "" {
		if err := command(c.val, "--target-env", k.Env, out); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(out)
}

// cudaArgs compile CUDA sources without NVIDIA's headers: products and sums stay apart.
var cudaArgs = strings.Fields(`-x cuda --cuda-gpu-arch=sm_90a --cuda-device-only -nocudainc -nocudalib -O3 -ffp-contract=off -Werror -S`)

// runClang calls clang and returns the bytes of the .ptx file.
func (c *compiler) runClang(args []string, source string, k *spirv.Kernel) ([]byte, error) {
	dir, err := os.MkdirTemp("", "kernel")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, k.File())
	if err := command(c.clang, append(args, "-o", out, source)...); err != nil {
		return c.instead(k, err)
	}
	return os.ReadFile(out)
}

// instead is the committed file of a kernel that cannot be compiled because of err,
// if there may be one.
func (c *compiler) instead(k *spirv.Kernel, err error) ([]byte, error) {
	if c.fallback == "" {
		return nil, err
	}
	committed := filepath.Join(c.fallback, k.File())
	data, readErr := os.ReadFile(committed)
	if readErr != nil {
		return nil, err
	}
	c.logf("kernel %s: this compiler cannot compile it, taking %s", k.Name, committed)
	return data, nil
}

// The passes of spirv-opt -O, cut behind the one that unrolls loops. Unrolling
// drops NoContraction from the copies it makes, and later passes would then
// reorder their sums: WithNoContraction puts the decorations back in between.
var (
	unrollPasses = strings.Fields(`
		--wrap-opkill --eliminate-dead-branches --merge-return --inline-entry-points-exhaustive
		--eliminate-dead-functions --eliminate-dead-code-aggressive --private-to-local
		--eliminate-local-single-block --eliminate-local-single-store --eliminate-dead-code-aggressive
		--scalar-replacement=100 --convert-local-access-chains --eliminate-local-single-block
		--eliminate-local-single-store --eliminate-dead-code-aggressive --ssa-rewrite
		--eliminate-dead-code-aggressive --ccp --eliminate-dead-code-aggressive`)
	unroll = strings.Fields(`--loop-unroll`)
	// Without the trivial phis that conditions in a loop leave behind, loops with
	// conditions unroll as well (@unroll): more words, which not every kernel gains from.
	unrollMore   = strings.Fields(`--simplify-instructions --eliminate-dead-code-aggressive --loop-unroll`)
	scalarPasses = strings.Fields(`
		--eliminate-dead-branches --redundancy-elimination --combine-access-chains --simplify-instructions
		--scalar-replacement=100 --convert-local-access-chains --eliminate-local-single-block
		--eliminate-local-single-store --eliminate-dead-code-aggressive --ssa-rewrite
		--eliminate-dead-code-aggressive --vector-dce --eliminate-dead-inserts --eliminate-dead-branches
		--simplify-instructions --if-conversion --copy-propagate-arrays --reduce-load-size
		--eliminate-dead-code-aggressive --merge-blocks --redundancy-elimination --eliminate-dead-branches
		--merge-blocks --simplify-instructions --strip-debug`)
)

// command runs a program and returns what it printed with its error.
func command(name string, args ...string) error {
	if text, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, text)
	}
	return nil
}

// rewrite replaces a module by what f makes of it.
func rewrite(path string, f func([]uint32) ([]uint32, error)) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	words, err := spirv.WordsOf(data)
	if err != nil {
		return err
	}
	if words, err = f(words); err != nil {
		return err
	}
	return os.WriteFile(path, bytesOf(words), 0o666)
}

// bytesOf is the content of a .spv file.
func bytesOf(words []uint32) []byte {
	data := make([]byte, 0, 4*len(words))
	for _, w := range words {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	return data
}

// describe fills in what the words or the text say, and checks them.
func (c *compiler) describe(k *spirv.Kernel, data []byte) error {
	info, err := k.Reflect(data)
	if err != nil {
		return err
	}
	k.Info, k.Hash = *info, spirv.Hash(data)
	return k.Lint(data)
}

// key is a hash of everything that the words depend on.
func (c *compiler) key(k *spirv.Kernel, source string, args []string) (string, error) {
	files := []string{source}
	h := sha256.New()
	version := c.version
	if k.IsPTX() {
		version = c.clangVersion
	}
	fmt.Fprintf(h, "%s\n%q\n%q\n%q\n%v %v %v %s\n", version, args, slices.Concat(unrollPasses, unroll, unrollMore), scalarPasses, k.Unroll, c.opt != "", c.val != "", k.Class)
	for i := 0; i < len(files); i++ {
		data, err := os.ReadFile(files[i])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", filepath.Base(files[i]), len(data))
		h.Write(data)
		for _, name := range includes(data) {
			for _, dir := range []string{filepath.Dir(files[i]), filepath.Join(c.glslDir, "lib")} {
				file := filepath.Join(dir, name)
				if _, err := os.Stat(file); err == nil {
					if !slices.Contains(files, file) {
						files = append(files, file)
					}
					break
				}
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

var includeRule = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]`)

func includes(source []byte) []string {
	var names []string
	for _, m := range includeRule.FindAllSubmatch(source, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

// read returns a file's text, "" when it cannot be read.
func read(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

// describe adds what a failed program wrote to its standard error.
func describe(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
