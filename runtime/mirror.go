package runtime

import (
	"slices"

	"github.com/ternvk/tern/vk"
)

// What the host writes before a run and reads after it lies in the device's
// memory, because every dispatch reads it, and crossing the bus takes microseconds
// each time. The host works on a mirror of it, which is copied at the beginning
// and at the end of a run.

// mirrored lists the buffers of a range of nodes that have a mirror.
func (p *Program) mirrored(from, to int) (list []*Buffer) {
	for _, n := range p.nodes[from:to] {
		for _, a := range n.Args {
			if b, ok := a.Buffer.(*Buffer); ok && b.mirror != nil && !slices.Contains(list, b) {
				list = append(list, b)
			}
		}
	}
	return list
}

// bringIn records the copies to the device, behind all earlier work.
func (d *Device) bringIn(cmd vk.CommandBuffer, list []*Buffer) {
	for _, b := range list {
		d.vk.CmdCopyBuffer(cmd, b.mirror.block.handle, b.block.handle, []vk.BufferCopy{{SrcOffset: b.mirror.offset, DstOffset: b.offset, Size: b.size}})
	}
	if len(list) > 0 {
		d.afterAll(cmd)
	}
}

// takeOut records the copies back, behind all nodes.
func (d *Device) takeOut(cmd vk.CommandBuffer, list []*Buffer) {
	if len(list) > 0 {
		d.afterAll(cmd)
	}
	for _, b := range list {
		d.vk.CmdCopyBuffer(cmd, b.block.handle, b.mirror.block.handle, []vk.BufferCopy{{SrcOffset: b.offset, DstOffset: b.mirror.offset, Size: b.size}})
	}
}
