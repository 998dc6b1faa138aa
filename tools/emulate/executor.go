package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/spirv"
)

// orders are the orders of device/workgroup.h.
var orders = [...]string{"threads forwards, copies and matrices late", "threads backwards, copies and matrices at once", "at random"}

// executor runs the nodes of one contract by an emulated kernel. Buffers are the
// reference's.
type executor struct {
	*ref.Executor
	kernel  *spirv.Kernel
	program string
	child   *exec.Cmd // nil: none runs
	to      io.WriteCloser
	from    io.Reader
}

// open compiles a kernel in CUDA.
func open(c *compiler, k *spirv.Kernel) (*executor, error) {
	program, err := c.program(k)
	return &executor{Executor: ref.New(), kernel: k, program: program}, err
}

func (x *executor) Name() string { return "emulation" }

func (x *executor) Run(ctx context.Context, p graph.Program) error {
	return x.RunNodes(ctx, p, 0, len(p.Graph().Nodes))
}

func (x *executor) RunNodes(ctx context.Context, p graph.Program, from, to int) error {
	for _, n := range p.Graph().Nodes[from:to] {
		if n.Contract != x.kernel.Contract {
			return fmt.Errorf("%s is emulated, not %s: %w", x.kernel.Name, n.Contract, graph.ErrUnsupported)
		}
		if err := x.node(ctx, p, n); err != nil {
			return err
		}
	}
	return nil
}

// node runs one node in every order, each on the same words, which have to agree.
func (x *executor) node(ctx context.Context, p graph.Program, n *graph.Node) error {
	l, err := x.launch(p, n)
	if err != nil {
		return err
	}
	var first []byte
	for order, name := range orders {
		words, err := x.send(ctx, l, uint32(order))
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case order == 0:
			first = words
		case !bytes.Equal(words, first):
			return fmt.Errorf("%s gives other words than %s", name, orders[0])
		}
	}
	for _, b := range l.buffers {
		if err := x.Write(b.in, b.at, first[:len(b.data)]); err != nil {
			return err
		}
		first = first[len(b.data):]
	}
	return nil
}

// A launch is what device/main.c reads.
type launch struct {
	local, shared uint32
	grid          [2]uint32
	buffers       []buffer
	bindings      []uint32 // numbers of buffers
	structures    [][]byte // push constants and specialisation constants, of kernels that have any
}

// A buffer is what bindings of the same memory share.
type buffer struct {
	in   graph.Buffer
	at   uint64
	data []byte
}

func (x *executor) launch(p graph.Program, n *graph.Node) (*launch, error) {
	k := x.kernel
	const most = 1 << 16 // workgroups: conform's cases are small
	limits := plan.Snapshot{Limits: plan.Limits{Groups: [3]uint32{most, most, 1}}}
	grid, err := (&plan.Plan{Snapshot: limits}).Grid(k, n.Domain)
	if err != nil {
		return nil, err
	}
	if k.Tile.Get("places", 0) > 0 {
		grid.Groups[0] = min(grid.Groups[0], 2) // so that tiles are taken in turn
	}
	l := &launch{local: k.LocalSize[0], shared: k.Tile.Get("shared", 0), grid: [2]uint32(grid.Groups[:2])}
	for _, a := range n.Args {
		in, at := p.Place(a.Value)
		i := slices.IndexFunc(l.buffers, func(b buffer) bool { return b.in == in && b.at == at })
		if i < 0 {
			i = len(l.buffers)
			data := make([]byte, a.Bytes)
			if err := x.Read(in, at, data); err != nil {
				return nil, err
			}
			l.buffers = append(l.buffers, buffer{in, at, data})
		}
		l.bindings = append(l.bindings, uint32(i))
	}
	if k.PushBytes > 0 {
		l.structures = append(l.structures, bytesOf(n.Push, k.PushBytes))
	}
	if len(k.Specs) > 0 {
		l.structures = append(l.structures, bytesOf(n.Spec, 4*len(k.Specs)))
	}
	return l, nil
}

// bytesOf is so many bytes of words, zeros beyond the last.
func bytesOf(words []uint32, n int) []byte {
	b := make([]byte, n)
	for i := 0; i < len(words) && 4*i < n; i++ {
		binary.NativeEndian.PutUint32(b[4*i:], words[i])
	}
	return b
}

// send has a launch run and returns what is in the buffers then.
func (x *executor) send(ctx context.Context, l *launch, order uint32) ([]byte, error) {
	head := []uint32{l.local, l.shared, order, l.grid[0], l.grid[1], uint32(len(l.buffers)), uint32(len(l.bindings)), uint32(len(l.structures))}
	var content []byte
	for _, b := range l.buffers {
		head = append(head, uint32(len(b.data)))
		content = append(content, b.data...)
	}
	head = append(head, l.bindings...)
	for _, s := range l.structures {
		head = append(head, uint32(len(s)))
		content = append(content, s...)
	}
	if err := x.start(ctx); err != nil {
		return nil, err
	}
	_, err := x.to.Write(append(bytesOf(head, 4*len(head)), content...))
	var answer struct{ Wrong, Bytes uint64 }
	if err == nil {
		err = binary.Read(x.from, binary.NativeEndian, &answer)
	}
	if err != nil {
		return nil, x.broken(err)
	}
	words := make([]byte, answer.Bytes)
	if _, err := io.ReadFull(x.from, words); err != nil {
		return nil, x.broken(err)
	}
	if answer.Wrong != 0 {
		_ = x.stop() // it has said what is wrong
		return nil, errors.New(string(words))
	}
	return words, nil
}

// broken is the error of a program that ended when it should not: how it ended, if that is known.
func (x *executor) broken(err error) error {
	if ended := x.stop(); ended != nil {
		err = ended
	}
	return fmt.Errorf("the kernel's program: %w", err)
}

// start starts the kernel's program, unless it runs.
func (x *executor) start(ctx context.Context) (err error) {
	if x.child != nil {
		return nil
	}
	child := exec.CommandContext(ctx, x.program)
	child.Stderr = os.Stderr
	if x.to, err = child.StdinPipe(); err != nil {
		return err
	}
	if x.from, err = child.StdoutPipe(); err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	x.child = child
	return nil
}

// stop ends the program, and returns how it ended if it did not end well.
func (x *executor) stop() error {
	if x.child == nil {
		return nil
	}
	x.to.Close()
	err := x.child.Wait()
	x.child = nil
	return err
}

func (x *executor) Close() error { return errors.Join(x.stop(), x.Executor.Close()) }
