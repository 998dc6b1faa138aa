// Package graph is the recording of a computation: values, the dispatches
// that read and write them, and the interface of whoever executes them.
//
// A model appends nodes to a [Graph] once per shape; runtime executes the graph
// on a Vulkan device and runtime/ref executes the same graph in plain Go. The
// package knows neither devices nor models.
package graph

import (
	"fmt"
	"strings"
)

// Access says what a node does to one of its arguments.
type Access uint8

const (
	Read Access = 1 << iota
	Write
	ReadWrite = Read | Write
)

func (a Access) String() string { return [...]string{"-", "r", "w", "rw"}[a&3] }

// Value is a range of bytes that nodes read and write: a window of an
// executor's buffer, or (Buffer == nil) a temporary that lives only while the
// graph runs and gets its place from [Graph.Plan].
type Value struct {
	Name   string
	Bytes  uint64
	Buffer Buffer // nil for a temporary
	Offset uint64 // into Buffer

	Keep bool // a temporary that outlives the last node that names it, until the next run

	index int // among the temporaries of its graph
	// Shape is for people: dumps and comparisons print it. Innermost first.
	Shape []int
	// Kind tells how to print and compare the words.
	Kind Kind
}

// Kind is the type of the words of a value, for dumps and comparisons.
type Kind uint8

const (
	F32 Kind = iota // IEEE binary32
	U32             // 32-bit integers
	Raw             // packed or mixed words (quantised activations, weights, cache pages)
)

func (k Kind) String() string { return [...]string{"f32", "u32", "raw"}[k] }

// Arg is a value bound to one binding of a node.
type Arg struct {
	*Value
	Access Access
}

// In binds v for reading.
func In(v *Value) Arg { return Arg{v, Read} }

// Out binds v for writing every word that the contract defines.
func Out(v *Value) Arg { return Arg{v, Write} }

// InOut binds v for reading and writing in place.
func InOut(v *Value) Arg { return Arg{v, ReadWrite} }

// Node is one dispatch. Contract names what is computed; which implementation
// runs, and the size of its workgroups, is the executor's choice.
type Node struct {
	Label    string    // where in the model: "blk.0.attn_norm"
	Contract string    // "mul_mat_q2_0_i8"
	Domain   [2]uint32 // elements along x and y that the contract defines; an implementation's tile divides them
	Spec     []uint32  // specialisation constants 1.. (numbers fixed per model)
	Push     []uint32  // push constants (numbers that change per dispatch), at most 32 words
	Args     []Arg     // bindings 0..
	Work     uint64    // multiply-adds or element operations, for bounding submissions
	Bytes    uint64    // bytes that must move at least once, for GB/s
}

// Graph is a list of nodes in execution order.
type Graph struct {
	Name  string
	Nodes []*Node
	temps []*Value
}

// New returns an empty graph.
func New(name string) *Graph { return &Graph{Name: name} }

// Temp adds a temporary of the given size in bytes.
func (g *Graph) Temp(name string, kind Kind, bytes uint64, shape ...int) *Value {
	if bytes == 0 || bytes%4 != 0 {
		panic(fmt.Sprintf("graph %s: temporary %s has %d bytes", g.Name, name, bytes))
	}
	v := &Value{Name: name, Kind: kind, Bytes: bytes, Shape: shape, index: len(g.temps)}
	g.temps = append(g.temps, v)
	return v
}

// Add appends a node. A node that breaks the limits of push constants or names
// no contract is its author's mistake and panics.
func (g *Graph) Add(n *Node) {
	switch {
	case n.Contract == "":
		panic("graph: node without a contract")
	case len(n.Push) > 32:
		panic(fmt.Sprintf("graph: %s has %d push constants, at most 32", n.Contract, len(n.Push)))
	case n.Domain[0] == 0 || n.Domain[1] == 0:
		panic(fmt.Sprintf("graph: %s (%s) has an empty domain %v", n.Contract, n.Label, n.Domain))
	}
	for i, a := range n.Args {
		if a.Value == nil {
			panic(fmt.Sprintf("graph: %s (%s) binding %d is nil", n.Contract, n.Label, i))
		}
	}
	g.Nodes = append(g.Nodes, n)
}

// IsTemp reports whether v gets its place from [Graph.Plan].
func (v *Value) IsTemp() bool { return v.Buffer == nil }

// Layout is where the temporaries of a graph lie in one scratch buffer.
type Layout struct {
	Bytes   uint64   // size of the scratch buffer
	offsets []uint64 // by index of the temporary
}

// Offset returns the place of temporary v in the scratch buffer.
func (l *Layout) Offset(v *Value) uint64 { return l.offsets[v.index] }

// Plan places the temporaries: two share bytes only if their lives, counted in
// nodes, do not meet. align is a power of two.
func (g *Graph) Plan(align uint64) *Layout {
	first := make([]int, len(g.temps))
	last := make([]int, len(g.temps))
	for i := range first {
		first[i] = -1
	}
	for at, n := range g.Nodes {
		for _, a := range n.Args {
			if a.IsTemp() {
				if first[a.index] < 0 {
					first[a.index] = at
				}
				if last[a.index] = at; a.Keep {
					last[a.index] = len(g.Nodes)
				}
			}
		}
	}
	l := &Layout{offsets: make([]uint64, len(g.temps))}
	type span struct{ from, to uint64 } // bytes taken
	type live struct {
		span
		last int
	}
	var busy []live // sorted by from
	// Temporaries are met in order of their first use, because nodes are.
	order := make([]int, 0, len(g.temps))
	for _, n := range g.Nodes {
		for _, a := range n.Args {
			if a.IsTemp() && first[a.index] >= 0 {
				order = append(order, a.index)
				first[a.index] = -1 - first[a.index] // visited; keeps the number
			}
		}
	}
	for _, t := range order {
		born := -1 - first[t]
		kept := busy[:0]
		for _, b := range busy {
			if b.last >= born {
				kept = append(kept, b)
			}
		}
		busy = kept
		size := (g.temps[t].Bytes + align - 1) &^ (align - 1)
		at, i := uint64(0), 0
		for ; i < len(busy); i++ {
			if at+size <= busy[i].from {
				break
			}
			at = busy[i].to
		}
		busy = append(busy, live{})
		copy(busy[i+1:], busy[i:])
		busy[i] = live{span{at, at + size}, last[t]}
		l.offsets[t] = at
		l.Bytes = max(l.Bytes, at+size)
	}
	return l
}

// String dumps the graph, one node a line.
func (g *Graph) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "graph %s: %d nodes, %d temporaries\n", g.Name, len(g.Nodes), len(g.temps))
	for i, n := range g.Nodes {
		fmt.Fprintf(&b, "%4d %-24s %-28s domain %dx%d", i, n.Label, n.Contract, n.Domain[0], n.Domain[1])
		for _, a := range n.Args {
			fmt.Fprintf(&b, " %s:%s%v", a.Access, a.Name, a.Shape)
		}
		fmt.Fprintf(&b, " spec %v push %v\n", n.Spec, n.Push)
	}
	return b.String()
}
