package runtime

import (
	"encoding/binary"
	"fmt"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/vk"
)

// resident is a tape made ready: what the resident kernel runs instead of a range of
// a program's nodes. Single nodes, as comparisons and profiles run them, stay
// dispatches of their own.
type resident struct {
	*plan.Tape
	node  node    // the dispatch
	words *Buffer // of the steps
	own   *Buffer // turn, arenas and the rest of what passes from step to step
	late  *Buffer // for the host: not zero when workgroups waited in vain
	batch []byte  // as it was before the run
}

// turnBytes is the room at the begin of the tape's own memory for the count of
// workgroups that are done and the number of the arena in use; behind it are the two
// arenas.
const turnBytes = placeAlignment

// reside looks for a tape in the program and makes its pipeline and memory. mu is held.
func (p *Program) reside() error {
	d := p.device
	tape := d.plan.Tape(p.g)
	if tape == nil {
		return nil
	}
	spec, kernel, groups := tape.Spec(), tape.Kernel, tape.Groups
	r := &resident{Tape: tape}
	p.resident = r
	var err error
	if r.words, err = d.alloc(graph.Scratch, "tape", 2*uint64(len(tape.Steps))*plan.StepWords*4, d.plan.WantsOf(graph.Scratch)); err != nil {
		return err
	}
	if r.own, err = d.alloc(graph.Scratch, "tape's memory", turnBytes+2*tape.Arena+tape.Own, d.plan.WantsOf(graph.Scratch)); err != nil {
		return err
	}
	words := make([]uint32, (turnBytes+2*tape.Arena+tape.Own)/4)
	for i := turnBytes / 4; i < len(words); i++ {
		words[i] = plan.Empty
	}
	if err := d.write(r.own, 0, vk.SliceBytes(words)); err != nil {
		return err
	}
	if r.late, err = d.alloc(staged, "late", 4, plan.Staged); err != nil {
		return err
	}
	clear(r.late.mapped())
	view := func(b *Buffer, bytes uint64) graph.Arg {
		return graph.InOut(&graph.Value{Name: b.name, Bytes: bytes, Buffer: b})
	}
	r.node = node{Node: &graph.Node{
		Label: "token", Contract: tape.Contract(), Domain: [2]uint32{groups, 1}, Spec: spec, Push: []uint32{uint32(len(tape.Steps)), tape.Positions, tape.Tables},
		Args: []graph.Arg{view(r.words, r.words.bytes), view(r.own, 8), graph.In(tape.Consts), graph.InOut(tape.Batch), view(r.late, 4)},
	}, kernel: kernel, grid: plan.Grid{Groups: [3]uint32{groups, 1, 1}}}
	key := pipelineKey{kernel, d.spec(kernel, spec), 0}
	if err := d.pipes.get(d, []pipelineKey{key}, []*graph.Node{r.node.Node}); err != nil {
		return err
	}
	r.node.pipeline = d.pipes.ready[key]
	r.node.users++
	return nil
}

// leave gives back what reside took.
func (p *Program) leave() {
	r := p.resident
	if r == nil {
		return
	}
	p.resident = nil
	for _, b := range []*Buffer{r.words, r.own, r.late} {
		if b != nil {
			p.device.free(b)
		}
	}
	if r.node.pipeline != nil {
		r.node.users--
	}
}

// Resident is the number of nodes that run as one dispatch of the resident kernel.
func (p *Program) Resident() int {
	p.device.mu.Lock()
	defer p.device.mu.Unlock()
	if p.resident == nil {
		return 0
	}
	return p.resident.To - p.resident.From
}

// address is where a reference of a step lies for shaders when the arena of the given
// number is in use.
func (p *Program) address(ref plan.Ref, arena uint64) uint64 {
	own := p.resident.own
	begin := own.block.address + own.offset + turnBytes
	switch ref.In {
	case plan.InValue:
		b, at := p.place(ref.Value)
		return b.block.address + b.offset + at
	case plan.InArena:
		return begin + arena*p.resident.Arena + ref.Offset
	case plan.InNextArena:
		return begin + (1-arena)*p.resident.Arena + ref.Offset
	case plan.InOwn:
		return begin + 2*p.resident.Arena + ref.Offset
	}
	return 0
}

// writeTape puts the words of the steps in their buffer, for each arena.
func (p *Program) writeTape() error {
	r := p.resident
	data := make([]byte, 0, r.words.bytes)
	for arena := range uint64(2) {
		for _, s := range r.Steps {
			for _, w := range s.Words {
				data = binary.LittleEndian.AppendUint32(data, w)
			}
			for _, ref := range s.Refs {
				data = binary.LittleEndian.AppendUint64(data, p.address(ref, arena))
			}
		}
	}
	return p.device.write(r.words, 0, data)
}

// hostBatch is the batch as the host sees it.
func (p *Program) hostBatch() []byte {
	b, at := p.place(p.resident.Batch)
	return b.mapped()[at:][:p.resident.Batch.Bytes]
}

// remember keeps the batch, in which a run that fails leaves its status.
func (p *Program) remember() {
	if r := p.resident; r != nil {
		r.batch = append(r.batch[:0], p.hostBatch()...)
	}
}

// punctual reports whether what workgroups waited for came. If not, the device does
// not hold them all, and runs go on without the resident kernel: the tape is dropped,
// and everything that it wrote is written again by the next run.
func (p *Program) punctual() bool {
	r := p.resident
	if r != nil && p.device.opts.Test.Late {
		r.late.mapped()[0], p.hostBatch()[0] = 1, 1 // as when EMPTY was taken for a number
	}
	if r == nil || binary.LittleEndian.Uint32(r.late.mapped()) == 0 {
		return true
	}
	p.device.plan.Off("resident", fmt.Sprintf("%d workgroups did not meet", r.node.grid.Groups[0]))
	copy(p.hostBatch(), r.batch)
	p.leave()
	p.stale = true
	return false
}
