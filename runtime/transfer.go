package runtime

import (
	"fmt"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/vk"
)

// stageBytes is the size of a staging buffer, and of the pieces of Fill, where
// the device allows allocations so large.
const stageBytes = 16 << 20

func (d *Device) piece() uint64 { return min(stageBytes, d.Limits().MaxBuffer&^(placeAlignment-1)) }

// staging moves bytes to and from memory that the host cannot see: while one
// piece is copied by the device, the next is filled.
type staging struct {
	pool  vk.CommandPool
	cmd   []vk.CommandBuffer
	fence []vk.Fence
	up    [2]*Buffer
	down  *Buffer
	busy  [2]bool
	slot  int // the next
}

// open makes the command buffers and one staging buffer, at its first use.
func (s *staging) open(d *Device) (err error) {
	if s.pool != 0 {
		return nil
	}
	if s.pool, err = d.commandPool(); err != nil {
		return err
	}
	if s.cmd, err = d.vk.AllocateCommandBuffers(&vk.CommandBufferAllocateInfo{CommandPool: s.pool, CommandBufferCount: uint32(len(s.up))}); err != nil {
		return err
	}
	s.fence, err = d.fences(len(s.up))
	return err
}

func (s *staging) close(d *Device) {
	d.destroyFences(s.fence)
	if s.pool != 0 {
		d.vk.DestroyCommandPool(s.pool)
	}
}

// settle waits for the copies in flight.
func (s *staging) settle(d *Device) error {
	for i := range s.busy {
		if s.busy[i] {
			s.busy[i] = false
			if err := d.wait("upload", s.fence[i:i+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// upload is one piece: fill sets p, and the copy is submitted. mu is held.
func (s *staging) upload(d *Device, b *Buffer, offset, n uint64, fill func(p []byte) error) error {
	if err := s.open(d); err != nil {
		return d.failed("staging", err)
	}
	slot := s.slot
	s.slot ^= 1
	if s.up[slot] == nil {
		buf, err := d.alloc(staged, "upload", d.piece(), plan.Staged)
		if err != nil {
			return err
		}
		s.up[slot] = buf
	}
	if s.busy[slot] {
		s.busy[slot] = false
		if err := d.wait("upload", s.fence[slot:slot+1]); err != nil {
			return err
		}
	}
	if err := fill(s.up[slot].mapped()[:n]); err != nil {
		return err
	}
	what := "upload of " + b.name
	cmd := s.cmd[slot]
	if err := d.vk.BeginCommandBuffer(cmd, &vk.CommandBufferBeginInfo{Flags: vk.CommandBufferUsageOneTimeSubmitBit}); err != nil {
		return d.failed(what, err)
	}
	d.afterAll(cmd)
	d.vk.CmdCopyBuffer(cmd, s.up[slot].block.handle, b.block.handle, []vk.BufferCopy{{SrcOffset: s.up[slot].offset, DstOffset: b.offset + offset, Size: n}})
	if err := d.vk.EndCommandBuffer(cmd); err != nil {
		return d.failed(what, err)
	}
	if err := d.submit(what, []vk.SubmitInfo{{CommandBufferCount: 1, PCommandBuffers: &s.cmd[slot]}}, s.fence[slot]); err != nil {
		return err
	}
	s.busy[slot] = true
	return nil
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
	return d.Fill(gb, offset, uint64(len(data)), func(off uint64, p []byte) error {
		copy(p, data[off:])
		return nil
	})
}

// Fill writes a range piece by piece: fill(off, p) sets all of p, the bytes at
// offset + off. Pieces come in order. fill must not use the device; an error of
// fill ends the upload and is returned.
func (d *Device) Fill(gb graph.Buffer, offset, bytes uint64, fill func(off uint64, p []byte) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := d.window(gb, offset, bytes)
	if err != nil {
		return err
	}
	return d.fill(b, offset, bytes, fill)
}

// put writes a whole buffer. mu is held.
func (d *Device) put(b *Buffer, data []byte) error {
	return d.fill(b, 0, uint64(len(data)), func(off uint64, p []byte) error {
		copy(p, data[off:])
		return nil
	})
}

// fill is Fill with mu held. The device may still be copying when it returns; what is
// submitted later comes behind.
func (d *Device) fill(b *Buffer, offset, bytes uint64, fill func(off uint64, p []byte) error) (err error) {
	piece := d.piece()
	for off := uint64(0); off < bytes; off += piece {
		n := min(bytes-off, piece)
		if m := b.mapped(); m != nil {
			err = fill(off, m[offset+off:][:n:n])
		} else {
			err = d.stage.upload(d, b, offset+off, n, func(p []byte) error { return fill(off, p) })
		}
		if err != nil {
			return err
		}
	}
	return nil
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
