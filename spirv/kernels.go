// Package spirv holds the compiled kernels, SPIR-V and a few in PTX, and a table of
// what each needs, as written by tools/kernels from the kernel list, and reads, checks
// and extends SPIR-V modules. It knows no devices.
package spirv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Kernel is one line of the kernel list: an implementation of a contract.
type Kernel struct {
	Name     string   // contract, or contract__impl
	Contract string   // what is computed, in which order, rounded where
	Impl     string   // "" for the base implementation
	Source   string   // shader, without directory and .comp, or CUDA source NAME.cu
	Defines  []string // NAME or NAME=VALUE, as given to the compiler
	Env      string   // compiler's target environment, such as vulkan1.1; "" for PTX
	Allow    Allow
	Unroll   bool // all loops with a constant number of rounds are unrolled in the words
	Tile     Tile
	Needs    []string // device features by short name
	Class    string   // ClassExact, or bound:NAME, see Bound
	Hash     string   // of its file, see Hash
	Info
}

// ClassExact is the class of kernels that give their twin's bits everywhere.
const ClassExact = "exact"

// Bound is the name of the rule that says how far the kernel's words may lie from
// its twin's, "" for one of class exact. Kernels with a bound are for the profile fast.
func (k *Kernel) Bound() string {
	_, name, _ := strings.Cut(k.Class, "bound:")
	return name
}

// Tile has the numbers of a kernel's line that describe its shape, in order.
type Tile []Param

// Param is one number of a Tile.
type Param struct {
	Key   string
	Value uint32
}

// Get returns the value of key, or def when the tile does not have it.
func (t Tile) Get(key string, def uint32) uint32 {
	for _, p := range t {
		if p.Key == key {
			return p.Value
		}
	}
	return def
}

// Needing reports whether the kernel needs a feature.
func (k *Kernel) Needing(feature string) bool { return slices.Contains(k.Needs, feature) }

// Takes reports whether the kernel can do nodes with these specialisation constants:
// its tile's dim=N, the dimension of heads, is the first of them.
func (k *Kernel) Takes(spec []uint32) bool {
	dim := k.Tile.Get("dim", 0)
	return dim == 0 || len(spec) > 0 && spec[0] == dim
}

// IsPTX reports whether the kernel is PTX text, which NVIDIA's VK_NVX_binary_import
// takes, instead of SPIR-V.
func (k *Kernel) IsPTX() bool { return strings.HasSuffix(k.Source, ".cu") }

// File is the name of the file with the words or the text.
func (k *Kernel) File() string {
	if k.IsPTX() {
		return k.Name + ".ptx"
	}
	return k.Name + ".spv"
}

// Words returns a copy of the SPIR-V of a kernel that is not PTX.
func (k *Kernel) Words() []uint32 {
	words, err := WordsOf(k.Data())
	if err != nil {
		panic(fmt.Sprintf("spirv: kernel %s: %v", k.Name, err))
	}
	return words
}

// Data returns a copy of the file with the words or the text.
func (k *Kernel) Data() []byte {
	data, err := files.ReadFile(k.File())
	if err != nil {
		panic(fmt.Sprintf("spirv: the table and the embedded files disagree on kernel %s: %v", k.Name, err))
	}
	return data
}

// Reflect reads the interface that a file of the kernel's kind has.
func (k *Kernel) Reflect(data []byte) (*Info, error) {
	if k.IsPTX() {
		return ReflectPTX(data)
	}
	words, err := WordsOf(data)
	if err != nil {
		return nil, err
	}
	return Reflect(words)
}

// Lint holds a file of the kernel's kind to what the kernel's class promises.
func (k *Kernel) Lint(data []byte) error {
	switch {
	case k.Bound() != "":
		return nil
	case k.IsPTX():
		return LintExactPTX(data, k.Allow)
	}
	words, err := WordsOf(data)
	if err != nil {
		return err
	}
	return LintExact(words, k.Allow)
}

// SplitName splits a kernel's name into contract and implementation.
func SplitName(name string) (contract, impl string) {
	contract, impl, _ = strings.Cut(name, "__")
	return contract, impl
}

type index struct {
	byName     map[string]*Kernel
	byContract map[string][]*Kernel
}

var tables = sync.OnceValue(func() index {
	t := index{byName: map[string]*Kernel{}, byContract: map[string][]*Kernel{}}
	for _, k := range Kernels {
		t.byName[k.Name] = k
		t.byContract[k.Contract] = append(t.byContract[k.Contract], k)
	}
	return t
})

// Lookup returns the kernel of a name.
func Lookup(name string) (*Kernel, bool) {
	k, ok := tables().byName[name]
	return k, ok
}

// Contract returns the implementations of a contract in order of preference,
// none for an unknown one.
func Contract(name string) []*Kernel { return slices.Clone(tables().byContract[name]) }

// Hash returns the SHA-256 of a kernel's file, in hex.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// SetHash returns a hash of all kernels, names and words or texts, in hex.
func SetHash() string { return setHash() }

var setHash = sync.OnceValue(func() string {
	h := sha256.New()
	for _, k := range Kernels {
		fmt.Fprintf(h, "%s %s\n", k.Name, k.Hash)
	}
	return hex.EncodeToString(h.Sum(nil))
})
