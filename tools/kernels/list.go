package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/spirv"
)

const (
	defaultEnv = "vulkan1.1"
	maxShared  = 48 << 10 // bytes of a workgroup in PTX: Vulkan has no way to ask for more
)

// readList reads the kernel list: a line per kernel with the columns name,
// source, defines, tile, needs, class; # starts a comment, - is an empty column.
// Of the defines, @env=TARGET, @fma, @f16cvt and @integers are settings of this tool. A source
// NAME.cu is CUDA, whose tile says with shared=N how many bytes of dynamic shared memory
// a workgroup has.
func readList(r io.Reader, path string) ([]*spirv.Kernel, error) {
	var kernels []*spirv.Kernel
	seen := map[string]bool{}
	scan := bufio.NewScanner(r)
	for n := 1; scan.Scan(); n++ {
		text, _, _ := strings.Cut(scan.Text(), "#")
		columns := strings.Fields(text)
		if len(columns) == 0 {
			continue
		}
		k, err := readLine(columns)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if seen[k.Name] {
			return nil, fmt.Errorf("%s:%d: kernel %s is listed twice", path, n, k.Name)
		}
		seen[k.Name] = true
		kernels = append(kernels, k)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return kernels, nil
}

var (
	nameRule   = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*(__[a-z0-9]+(_[a-z0-9]+)*)?$`)
	sourceRule = regexp.MustCompile(`^[a-z0-9_/]+(\.cu)?$`)
)

func readLine(columns []string) (*spirv.Kernel, error) {
	if len(columns) != 6 {
		return nil, fmt.Errorf("%d columns, want 6: name source defines tile needs class", len(columns))
	}
	k := &spirv.Kernel{Name: columns[0], Source: columns[1], Env: defaultEnv, Class: columns[5]}
	if !nameRule.MatchString(k.Name) {
		return nil, fmt.Errorf("kernel name %q is not <contract>[__<impl>] of a-z, 0-9 and _", k.Name)
	}
	k.Contract, k.Impl = spirv.SplitName(k.Name)
	if !sourceRule.MatchString(k.Source) {
		return nil, fmt.Errorf("source %q: name the shader without .comp, or a CUDA source NAME.cu", k.Source)
	}
	if k.Class != spirv.ClassExact && ref.BoundOf(k.Bound()) == nil {
		return nil, fmt.Errorf("class %q is neither exact nor bound:NAME with a NAME of runtime/ref", k.Class)
	}
	if k.IsPTX() {
		k.Env = ""
	}
	for _, d := range list(columns[2]) {
		switch {
		case k.IsPTX() && (strings.HasPrefix(d, "@env=") || d == "@unroll"):
			return nil, fmt.Errorf("setting %s is for shaders", d)
		case strings.HasPrefix(d, "@env="):
			k.Env = strings.TrimPrefix(d, "@env=")
		case d == "@fma":
			k.Allow.Fma = true
		case d == "@unroll":
			k.Unroll = true
		case d == "@f16cvt":
			k.Allow.F16Convert = true
		case d == "@integers":
			k.Allow.Integers = true
		case strings.HasPrefix(d, "@"):
			return nil, fmt.Errorf("unknown setting %s", d)
		default:
			k.Defines = append(k.Defines, d)
		}
	}
	for _, t := range list(columns[3]) {
		key, text, _ := strings.Cut(t, "=")
		value, err := strconv.ParseUint(text, 0, 32)
		if key == "" || err != nil {
			return nil, fmt.Errorf("tile %q is not KEY=NUMBER", t)
		}
		k.Tile = append(k.Tile, spirv.Param{Key: key, Value: uint32(value)})
	}
	k.Needs = list(columns[4])
	switch shared := k.Tile.Get("shared", 0); {
	case k.IsPTX() && !k.Needing("sm90"):
		return nil, fmt.Errorf("a CUDA source needs sm90")
	case k.IsPTX() && shared > maxShared:
		return nil, fmt.Errorf("tile shared=%d: a launch has at most %d bytes", shared, maxShared)
	}
	return k, nil
}

// list splits a comma list; - is the empty one.
func list(column string) []string {
	if column == "-" {
		return nil
	}
	return strings.Split(column, ",")
}
