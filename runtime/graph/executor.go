package graph

import (
	"context"
	"errors"
)

// The world's errors. Executors wrap them with the kernel, the purpose and the
// sizes; callers test with errors.Is.
var (
	ErrNoDevice    = errors.New("no usable device")
	ErrOutOfMemory = errors.New("out of device memory")
	ErrDeviceLost  = errors.New("device lost")
	ErrUnsupported = errors.New("not supported by this device")
	ErrClosed      = errors.New("closed")
	ErrNonFinite   = errors.New("non-finite value")
)

// Purpose groups allocations for budgets, reports and leak counts.
type Purpose uint8

const (
	Weights   Purpose = iota // matrices, written once
	Constants                // norm weights and rope tables, written once
	Cache                    // keys and values, recurrent state
	Scratch                  // temporaries of programs
	Batch                    // what the host writes before and reads after each run
	NumPurposes
)

func (p Purpose) String() string {
	return [...]string{"weights", "constants", "cache", "scratch", "batch"}[p]
}

// Buffer is a piece of an executor's memory.
type Buffer interface {
	Bytes() uint64
}

// Program is a graph made ready for one executor.
type Program interface {
	Graph() *Graph
	// Place returns the buffer and offset where a value lies, temporaries
	// included; used to read a node's results between nodes.
	Place(v *Value) (Buffer, uint64)
	Close()
}

// Limits are the numbers a graph's author must respect on an executor.
type Limits struct {
	MaxBinding uint64 // bytes that one binding may span
	MaxBuffer  uint64 // bytes of one allocation
	Chunk      int    // tokens of a prompt that had best run at once, 0: not known
}

// Checker is implemented by executors that know how much memory they have.
type Checker interface {
	// Check tells, before anything is allocated, whether buffers of the given
	// sizes fit beside what is there; the error wraps ErrOutOfMemory and gives
	// need and room.
	Check(need [NumPurposes]uint64) error
	// Reserve tells how many bytes the next buffers of each purpose will take in all,
	// so that they can lie together. It allocates nothing; 0 withdraws it.
	Reserve(need [NumPurposes]uint64)
}

// Approximate is implemented by executors that may give other words than the reference.
type Approximate interface {
	// Exact reports whether all words are the reference's nevertheless.
	Exact() bool
}

// Repeater is implemented by executors on which a program can go on from what it chose.
type Repeater interface {
	// Repeat runs a program so many times in one submission, each run but the first with
	// the token that the one before it chose, at the next position, if the batch asks for
	// that. The error wraps ErrUnsupported, and nothing has changed, for a program that is
	// not run like that.
	Repeat(ctx context.Context, p Program, times int) error
}

// Executor runs graphs. Methods may be called from several goroutines; runs on
// one executor are serialised by it.
type Executor interface {
	// Name says what runs, for people: device and driver, or "reference".
	Name() string
	Limits() Limits
	// Alloc returns zeroed memory of at least the given size, or an error
	// that wraps ErrOutOfMemory. Memory for Weights need not be zeroed.
	Alloc(p Purpose, name string, bytes uint64) (Buffer, error)
	Free(Buffer)
	// Write copies data into a buffer; Read copies out. Both are ordered
	// with runs as they are called.
	Write(b Buffer, offset uint64, data []byte) error
	Read(b Buffer, offset uint64, data []byte) error
	// Fill writes data produced piece by piece: fill(off, p) must set every byte of
	// p, the bytes at offset + off. Pieces are made in no order, and several at once.
	// Used for large uploads. The buffer must not be freed or used meanwhile.
	Fill(b Buffer, offset, bytes uint64, fill func(off uint64, p []byte) error) error
	Compile(g *Graph) (Program, error)
	// Run executes the whole program. It returns ctx.Err() at the next border
	// between submissions after ctx ends.
	Run(ctx context.Context, p Program) error
	// RunNodes executes nodes [from, to), for comparisons node by node.
	RunNodes(ctx context.Context, p Program, from, to int) error
	Close() error
}
