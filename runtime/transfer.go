package runtime

import (
	"fmt"
	"sync"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/vk"
)

// stageBytes is the size of a staging buffer, and of the pieces of Fill, where
// the device allows allocations so large.
const stageBytes = 2 << 20

// stageSlots is how many pieces can be made and copied at once.
const stageSlots = 16

func (d *Device) piece() uint64 { return min(stageBytes, d.Limits().MaxBuffer&^(placeAlignment-1)) }

// staging moves bytes to and from memory that the host cannot see. Pieces are made by
// several goroutines, each in a slot of its own, while the device copies others.
type staging struct {
	slots []slot
	free  chan *slot // those that nobody uses, the one whose copy began first coming first
	held  *slot      // for who holds mu, and so must not wait for others
	down  *Buffer
}

// slot is a staging buffer and the commands that copy it.
type slot struct {
	buf   *Buffer // nil before its first use
	cmd   []vk.CommandBuffer
	fence []vk.Fence
	busy  bool // the copy may not be over
}

func (s *staging) open() {
	s.slots, s.free = make([]slot, stageSlots+1), make(chan *slot, stageSlots)
	s.held = &s.slots[stageSlots]
	for i := range stageSlots {
		s.free <- &s.slots[i]
	}
}

func (s *staging) close(d *Device) {
	for i := range s.slots {
		d.destroyFences(s.slots[i].fence)
	}
}

// upload has the first n bytes of the slot made by fill, and submits their copy. lock is
// held wherever the device is used.
func (s *slot) upload(d *Device, lock sync.Locker, b *Buffer, offset, n uint64, fill func(p []byte) error) error {
	what := "upload of " + b.name
	var err error
	if s.busy {
		s.busy = false
		err = d.sleep(s.fence)
	}
	lock.Lock()
	if err = d.failed(what, err); err == nil {
		err = s.prepare(d)
	}
	lock.Unlock()
	if err == nil {
		err = fill(s.buf.mapped()[:n])
	}
	if err != nil {
		return err
	}
	lock.Lock()
	defer lock.Unlock()
	if err := d.usable(); err != nil {
		return err
	}
	cmd := s.cmd[0]
	if err := d.vk.BeginCommandBuffer(cmd, &vk.CommandBufferBeginInfo{Flags: vk.CommandBufferUsageOneTimeSubmitBit}); err != nil {
		return d.failed(what, err)
	}
	d.afterAll(cmd)
	d.vk.CmdCopyBuffer(cmd, s.buf.block.handle, b.block.handle, []vk.BufferCopy{{SrcOffset: s.buf.offset, DstOffset: b.offset + offset, Size: n}})
	if err := d.vk.EndCommandBuffer(cmd); err != nil {
		return d.failed(what, err)
	}
	if err := d.submit(what, []vk.SubmitInfo{{CommandBufferCount: 1, PCommandBuffers: &s.cmd[0]}}, s.fence[0]); err != nil {
		return err
	}
	s.busy, d.flying = true, true
	return nil
}

// prepare gives the slot what it needs. mu is held.
func (s *slot) prepare(d *Device) (err error) {
	if err = d.usable(); err != nil || s.buf != nil {
		return err
	}
	if s.cmd == nil {
		if s.cmd, err = d.once.buffer(d); err != nil {
			return d.failed("staging", err)
		}
	}
	if s.fence == nil {
		if s.fence, err = d.fences(1); err != nil {
			return d.failed("staging", err)
		}
	}
	s.buf, err = d.alloc(staged, "upload", d.piece(), plan.Staged)
	return err
}

// window checks a range of a buffer. mu is held.
func (d *Device) window(gb graph.Buffer, offset, n uint64) (*Buffer, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	b, ok := gb.(*Buffer)
	switch {
	case !ok || b == nil || b.device != d:
		return nil, fmt.Errorf("%s: the buffer belongs to another executor", d.Name())
	case b.freed:
		return nil, fmt.Errorf("%s: buffer %q was freed: %w", d.Name(), b.name, graph.ErrClosed)
	case offset > b.bytes || n > b.bytes-offset:
		return nil, fmt.Errorf("%s: bytes %d..%d of buffer %q, which has %d", d.Name(), offset, offset+n, b.name, b.bytes)
	}
	return b, nil
}

// Write copies data into a buffer.
func (d *Device) Write(gb graph.Buffer, offset uint64, data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := d.window(gb, offset, uint64(len(data)))
	if err != nil {
		return err
	}
	return d.write(b, offset, data)
}

// write is Write with mu held. The device may still be copying when it returns; what is
// submitted later comes behind.
func (d *Device) write(b *Buffer, offset uint64, data []byte) error {
	if m := b.mapped(); m != nil {
		copy(m[offset:], data)
		return nil
	}
	for len(data) > 0 {
		n := min(uint64(len(data)), d.piece())
		if err := d.stage.held.upload(d, held{}, b, offset, n, func(p []byte) error { copy(p, data); return nil }); err != nil {
			return err
		}
		offset, data = offset+n, data[n:]
	}
	return nil
}

// held is the lock of who holds mu.
type held struct{}

func (held) Lock()   {}
func (held) Unlock() {}

// Fill writes a range piece by piece: fill(off, p) sets all of p, the bytes at
// offset + off. Several pieces are made at once, while the device can be used for other
// things, but not by fill, whose error ends the upload and is returned. The device may
// still be copying when Fill returns; what is submitted later comes behind.
func (d *Device) Fill(gb graph.Buffer, offset, bytes uint64, fill func(off uint64, p []byte) error) error {
	d.filling.RLock() // keeps the buffer
	defer d.filling.RUnlock()
	d.mu.Lock()
	b, err := d.window(gb, offset, bytes)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	piece := d.piece()
	return parallel.Try(int((bytes+piece-1)/piece), func(i int) error {
		off := uint64(i) * piece
		n := min(bytes-off, piece)
		if m := b.mapped(); m != nil {
			return fill(off, m[offset+off:][:n:n])
		}
		s := <-d.stage.free
		defer func() { d.stage.free <- s }()
		return s.upload(d, &d.mu, b, offset+off, n, func(p []byte) error { return fill(off, p) })
	})
}

// Read copies a range of a buffer out.
func (d *Device) Read(gb graph.Buffer, offset uint64, data []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := d.window(gb, offset, uint64(len(data)))
	if err != nil {
		return err
	}
	if m := b.mapped(); m != nil {
		copy(data, m[offset:])
		return nil
	}
	if d.stage.down == nil {
		if d.stage.down, err = d.alloc(staged, "readback", d.piece(), plan.Staged); err != nil {
			return err
		}
	}
	down := d.stage.down
	for off := 0; off < len(data); off += int(down.bytes) {
		n := min(len(data)-off, int(down.bytes))
		err := d.once.run(d, "read of "+b.name, func(cmd vk.CommandBuffer) {
			d.afterAll(cmd)
			d.vk.CmdCopyBuffer(cmd, b.block.handle, down.block.handle, []vk.BufferCopy{{SrcOffset: b.offset + offset + uint64(off), DstOffset: down.offset, Size: uint64(n)}})
			d.beforeHost(cmd)
		})
		if err != nil {
			return err
		}
		copy(data[off:], down.mapped()[:n])
	}
	return nil
}
