// Package spirv holds the compiled kernels and a table of what each needs, as
// written by tools/kernels from the kernel list, and reads, checks and extends
// SPIR-V modules. It knows no devices.
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
	Source   string   // shader, without directory and .comp
	Defines  []string // NAME or NAME=VALUE, as given to the compiler
	Env      string   // compiler's target environment, such as vulkan1.1
	Allow    Allow
	Unroll   bool // all loops with a constant number of rounds are unrolled in the words
	Tile     Tile
	Needs    []string // device features by short name
	Class    string   // ClassExact, or bound:REASON
	Hash     string   // SHA-256 of the words, in hex
	Info

	file string
}

// ClassExact is the class of kernels that give their twin's bits everywhere.
const ClassExact = "exact"

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

// Words returns a copy of the kernel's SPIR-V.
func (k *Kernel) Words() []uint32 {
	data, err := files.ReadFile(k.file)
	if err == nil {
		var words []uint32
		if words, err = WordsOf(data); err == nil {
			return words
		}
	}
	panic(fmt.Sprintf("spirv: the table and the embedded words disagree on kernel %s: %v", k.Name, err))
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

// HashWords returns the SHA-256 of the words in file order, in hex.
func HashWords(words []uint32) string {
	h := sha256.New()
	for _, w := range words {
		h.Write([]byte{byte(w), byte(w >> 8), byte(w >> 16), byte(w >> 24)})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// SetHash returns a hash of all kernels, names and words, in hex.
func SetHash() string { return setHash() }

var setHash = sync.OnceValue(func() string {
	h := sha256.New()
	for _, k := range Kernels {
		fmt.Fprintf(h, "%s %s\n", k.Name, k.Hash)
	}
	return hex.EncodeToString(h.Sum(nil))
})
