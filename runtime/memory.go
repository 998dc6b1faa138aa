package runtime

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/vk"
)

// Besides the purposes of buffers there is memory of the runtime itself.
const (
	staged      = graph.NumPurposes // staging rings
	numPurposes = staged + 1
)

const placeAlignment = 256 // of buffers and of values: the largest minStorageBufferOffsetAlignment

// memory owns the allocations. Buffers of a purpose share blocks.
type memory struct {
	blocks [numPurposes][]*block
	used   []uint64 // bytes allocated, by heap
	counts [numPurposes]Use
	coming [graph.NumPurposes]uint64 // bytes that were announced and have no block yet
}

// Use counts what a purpose holds.
type Use struct {
	Buffers    int
	Bytes      uint64 // of the buffers
	Blocks     int
	BlockBytes uint64 // of the allocations that hold them
}

// block is one allocation with one VkBuffer over all of it.
type block struct {
	memory  vk.DeviceMemory
	handle  vk.Buffer
	bytes   uint64
	heap    int
	address uint64 // for shaders, 0 when they have no use for it
	mapped  []byte // nil when the host cannot see it
	free    []span // sorted, never adjacent
	buffers int
}

type span struct{ from, to uint64 }

// Buffer is a part of a device's memory.
type Buffer struct {
	device  *Device
	block   *block
	purpose graph.Purpose
	name    string
	offset  uint64 // in the block
	bytes   uint64
	size    uint64 // bytes taken, with padding
	freed   bool
	mirror  *Buffer // what the host sees of a buffer of a batch, see mirror.go
}

// Bytes is the size that was asked for.
func (b *Buffer) Bytes() uint64 { return b.bytes }

func (b *Buffer) mapped() []byte {
	if b.mirror != nil {
		return b.mirror.mapped()
	}
	if b.block.mapped == nil {
		return nil
	}
	return b.block.mapped[b.offset:][:b.bytes:b.bytes]
}

func (m *memory) open(d *Device) { m.used = make([]uint64, len(d.plan.Heaps)) }

func (m *memory) close(d *Device) {
	for _, list := range m.blocks {
		for _, b := range list {
			b.destroy(d)
		}
	}
	m.blocks = [numPurposes][]*block{}
}

// Alloc returns zeroed memory, but for weights, which are filled as a whole. An error that wraps graph.ErrOutOfMemory gives
// what is needed and what there is; nothing is allocated then.
func (d *Device) Alloc(p graph.Purpose, name string, bytes uint64) (graph.Buffer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p >= graph.NumPurposes {
		return nil, fmt.Errorf("alloc %s: purpose %d does not exist", name, p)
	}
	b, err := d.alloc(p, name, bytes, d.plan.WantsOf(p))
	if err != nil {
		return nil, err
	}
	return b, nil
}

// alloc is Alloc with mu held.
func (d *Device) alloc(p graph.Purpose, name string, bytes uint64, wants plan.Wants) (*Buffer, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	size := (max(bytes, 4) + placeAlignment - 1) &^ (placeAlignment - 1)
	if size < bytes || size > d.Limits().MaxBuffer {
		return nil, fmt.Errorf("%s: %s buffer %q of %d bytes, one allocation holds at most %d: %w",
			d.Name(), purposeName(p), name, bytes, d.Limits().MaxBuffer, graph.ErrOutOfMemory)
	}
	b := &Buffer{device: d, purpose: p, name: name, bytes: bytes, size: size}
	for _, blk := range d.memory.blocks[p] {
		if at, ok := blk.take(size); ok {
			b.block, b.offset = blk, at
			break
		}
	}
	if b.block == nil {
		blk, err := d.newBlock(p, name, size, wants)
		if err != nil {
			return nil, err
		}
		b.block = blk
		b.offset, _ = blk.take(size)
	}
	if p == graph.Batch && b.block.mapped == nil {
		var err error
		if b.mirror, err = d.alloc(staged, name, bytes, plan.Staged); err != nil {
			d.release(b)
			return nil, err
		}
	}
	if p != graph.Weights && p != staged {
		if err := d.zero(b); err != nil {
			d.release(b)
			return nil, err
		}
	}
	c := &d.memory.counts[p]
	c.Buffers++
	c.Bytes += bytes
	return b, nil
}

func purposeName(p graph.Purpose) string {
	if p == staged {
		return "staging"
	}
	return p.String()
}

func (d *Device) zero(b *Buffer) error {
	if m := b.mapped(); m != nil {
		const piece = 2 << 20
		parallel.For((len(m)+piece-1)/piece, func(i int) { clear(m[i*piece : min((i+1)*piece, len(m))]) })
		return nil
	}
	return d.once.start(d, "clearing "+b.name, func(cmd vk.CommandBuffer) {
		d.afterAll(cmd)
		d.vk.CmdFillBuffer(cmd, b.block.handle, b.offset, b.size, 0)
	})
}

// newBlock allocates a block for a buffer of the given size: what was announced of the
// purpose, or its usual size, if there is room for it, at least the buffer's.
func (d *Device) newBlock(p graph.Purpose, name string, size uint64, wants plan.Wants) (*block, error) {
	sizes := []uint64{size}
	if p < graph.NumPurposes {
		sizes = []uint64{min(d.memory.coming[p], d.Limits().MaxBuffer) &^ (placeAlignment - 1), d.plan.BlockBytes(p) &^ (placeAlignment - 1), size}
	}
	var blk *block
	var err error
	for _, n := range sizes {
		if n < size {
			continue
		}
		if blk, err = d.tryBlock(p, name, n, wants); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if p < graph.NumPurposes {
		d.memory.coming[p] -= min(d.memory.coming[p], blk.size())
	}
	d.memory.blocks[p] = append(d.memory.blocks[p], blk)
	return blk, nil
}

// tryBlock allocates a block; after an error nothing is left of it.
func (d *Device) tryBlock(p graph.Purpose, name string, size uint64, wants plan.Wants) (*block, error) {
	blk := &block{free: []span{{0, size}}}
	if err := blk.allocate(d, size, wants); err != nil {
		blk.destroy(d)
		return nil, d.failed(fmt.Sprintf("%d bytes for %s buffer %q", size, purposeName(p), name), err)
	}
	d.memory.used[blk.heap] += blk.bytes
	c := &d.memory.counts[p]
	c.Blocks++
	c.BlockBytes += blk.bytes
	return blk, nil
}

func (blk *block) allocate(d *Device, size uint64, wants plan.Wants) (err error) {
	var address struct {
		usage vk.BufferUsageFlags
		flags vk.MemoryAllocateFlags
	}
	if d.plan.Addresses() {
		address.usage, address.flags = vk.BufferUsageShaderDeviceAddressBit, vk.MemoryAllocateDeviceAddressBit
	}
	blk.handle, err = d.vk.CreateBuffer(&vk.BufferCreateInfo{
		Size:  size,
		Usage: vk.BufferUsageStorageBufferBit | vk.BufferUsageTransferSrcBit | vk.BufferUsageTransferDstBit | address.usage,
	})
	if err != nil {
		return err
	}
	req := d.vk.GetBufferMemoryRequirements(blk.handle)
	kind, err := d.plan.MemoryType(req.MemoryTypeBits, wants)
	if err != nil {
		return err
	}
	blk.heap, blk.bytes = d.plan.Types[kind].Heap, req.Size
	if room := d.room(blk.heap); req.Size > room.Bytes {
		return fmt.Errorf("%w: %d MiB are left of %s", graph.ErrOutOfMemory, room.Bytes>>20, room.Why)
	}
	info := &vk.MemoryAllocateInfo{AllocationSize: req.Size, MemoryTypeIndex: uint32(kind)}
	if address.flags != 0 {
		vk.Chain(info, &vk.MemoryAllocateFlagsInfo{Flags: address.flags})
	}
	blk.memory, err = d.vk.AllocateMemory(info)
	if err != nil {
		return err
	}
	if err = d.vk.BindBufferMemory(blk.handle, blk.memory, 0); err != nil {
		return err
	}
	if address.flags != 0 {
		blk.address = uint64(d.vk.GetBufferDeviceAddress(&vk.BufferDeviceAddressInfo{Buffer: blk.handle}))
	}
	if wants[0]&d.plan.Types[kind].Flags&plan.Mapped == plan.Mapped {
		at, err := d.vk.MapMemory(blk.memory, 0, vk.WholeSize, 0)
		if err != nil {
			return err
		}
		blk.mapped = unsafe.Slice((*byte)(at), size)
	}
	return nil
}

// size is the room for buffers.
func (blk *block) size() (n uint64) {
	for _, f := range blk.free {
		n += f.to - f.from
	}
	return n
}

func (m *memory) forget(p graph.Purpose, blk *block) {
	m.used[blk.heap] -= blk.bytes
	m.counts[p].Blocks--
	m.counts[p].BlockBytes -= blk.bytes
}

func (blk *block) destroy(d *Device) {
	if blk.handle != 0 {
		d.vk.DestroyBuffer(blk.handle)
	}
	if blk.memory != 0 {
		d.vk.FreeMemory(blk.memory) // unmaps it
	}
}

// room asks the driver for the budgets of the moment.
func (d *Device) room(heap int) plan.Room {
	if d.plan.HasBudget {
		var now plan.Snapshot
		takeMemory(d.instance, d.physical, &now, true)
		caps := d.opts.Test.Caps
		for i := range d.plan.Heaps {
			d.plan.Heaps[i].Budget, d.plan.Heaps[i].Usage = now.Heaps[i].Budget, now.Heaps[i].Usage
			if caps.Heap != 0 {
				d.plan.Heaps[i].Budget = min(now.Heaps[i].Budget, caps.Heap)
			}
		}
	}
	return d.plan.Room(heap, d.memory.used[heap])
}

// Check tells whether buffers of the given sizes fit beside what is allocated,
// before anything is allocated.
func (d *Device) Check(need [graph.NumPurposes]uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return err
	}
	d.room(0) // refreshes the budgets
	if err := d.plan.Check(need, d.memory.used); err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	return nil
}

// Reserve has the next buffers of each purpose share allocations of the given sizes, as
// far as the device allows them.
func (d *Device) Reserve(need [graph.NumPurposes]uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory.coming = need
}

// take finds room for size bytes.
func (blk *block) take(size uint64) (uint64, bool) {
	for i, f := range blk.free {
		if f.to-f.from < size {
			continue
		}
		if blk.free[i].from += size; blk.free[i].from == f.to {
			blk.free = slices.Delete(blk.free, i, i+1)
		}
		blk.buffers++
		return f.from, true
	}
	return 0, false
}

func (blk *block) give(s span) {
	i, _ := slices.BinarySearchFunc(blk.free, s, func(a, b span) int { return int(int64(a.from) - int64(b.from)) })
	blk.free = slices.Insert(blk.free, i, s)
	if i+1 < len(blk.free) && blk.free[i].to == blk.free[i+1].from {
		blk.free[i].to = blk.free[i+1].to
		blk.free = slices.Delete(blk.free, i+1, i+2)
	}
	if i > 0 && blk.free[i-1].to == blk.free[i].from {
		blk.free[i-1].to = blk.free[i].to
		blk.free = slices.Delete(blk.free, i, i+1)
	}
	blk.buffers--
}

// Free returns a buffer's memory. Programs that use it can no longer run.
// Freeing nil, twice, or after Close does nothing.
func (d *Device) Free(gb graph.Buffer) {
	b, ok := gb.(*Buffer)
	if !ok || b == nil || b.device != d {
		return
	}
	d.filling.Lock()
	defer d.filling.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || b.freed {
		return
	}
	d.free(b)
}

// free is Free with mu held. Runs wait for the device, so it is idle but for uploads.
func (d *Device) free(b *Buffer) {
	c := &d.memory.counts[b.purpose]
	c.Buffers--
	c.Bytes -= b.bytes
	d.freed++
	d.release(b)
}

// release gives the bytes back, and the block when it is empty.
func (d *Device) release(b *Buffer) {
	b.freed = true
	if b.mirror != nil {
		d.free(b.mirror)
	}
	b.block.give(span{b.offset, b.offset + b.size})
	if b.block.buffers == 0 {
		_ = d.settle() // a device that is lost uses no memory, and says so at its next use
		list := &d.memory.blocks[b.purpose]
		*list = slices.DeleteFunc(*list, func(blk *block) bool { return blk == b.block })
		d.memory.forget(b.purpose, b.block)
		b.block.destroy(d)
	}
}

// Stats counts what the device holds.
type Stats struct {
	Purposes  [graph.NumPurposes]Use
	Staging   Use
	Programs  int
	Pipelines int
	Submits   int
}

// Stats returns the counts of the moment.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Stats{Staging: d.memory.counts[staged], Programs: len(d.programs), Pipelines: len(d.pipes.ready), Submits: d.submits}
	copy(s.Purposes[:], d.memory.counts[:])
	return s
}
