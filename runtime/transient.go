package runtime

import (
	"github.com/ternvk/tern/vk"
)

// transient runs short command buffers that are used once.
type transient struct {
	pool  vk.CommandPool
	cmd   []vk.CommandBuffer
	fence []vk.Fence
}

func (t *transient) open(d *Device) (err error) {
	if t.pool, err = d.commandPool(); err != nil {
		return err
	}
	if t.cmd, err = d.vk.AllocateCommandBuffers(&vk.CommandBufferAllocateInfo{CommandPool: t.pool, CommandBufferCount: 1}); err != nil {
		return err
	}
	t.fence, err = d.fences(1)
	return err
}

func (t *transient) close(d *Device) {
	d.destroyFences(t.fence)
	d.vk.DestroyCommandPool(t.pool)
}

// run records, submits and waits. mu is held.
func (t *transient) run(d *Device, what string, record func(cmd vk.CommandBuffer)) error {
	cmd := t.cmd[0]
	if err := d.vk.BeginCommandBuffer(cmd, &vk.CommandBufferBeginInfo{Flags: vk.CommandBufferUsageOneTimeSubmitBit}); err != nil {
		return d.failed(what, err)
	}
	record(cmd)
	if err := d.vk.EndCommandBuffer(cmd); err != nil {
		return d.failed(what, err)
	}
	info := []vk.SubmitInfo{{CommandBufferCount: 1, PCommandBuffers: &t.cmd[0]}}
	if err := d.submit(what, info, t.fence[0]); err != nil {
		return err
	}
	return d.wait(what, t.fence)
}

func (d *Device) commandPool() (vk.CommandPool, error) {
	return d.vk.CreateCommandPool(&vk.CommandPoolCreateInfo{Flags: vk.CommandPoolCreateResetCommandBufferBit, QueueFamilyIndex: d.family})
}

func (d *Device) fences(n int) ([]vk.Fence, error) {
	var list []vk.Fence
	for range n {
		f, err := d.vk.CreateFence(&vk.FenceCreateInfo{})
		if err != nil {
			d.destroyFences(list)
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

func (d *Device) destroyFences(list []vk.Fence) {
	for _, f := range list {
		d.vk.DestroyFence(f)
	}
}

// The two sides of a dependency on everything that shaders, copies and the host
// do with memory.
const (
	deviceStages = vk.PipelineStageComputeShaderBit | vk.PipelineStageTransferBit
	deviceWrites = vk.AccessShaderWriteBit | vk.AccessTransferWriteBit
	deviceReads  = vk.AccessShaderReadBit | vk.AccessTransferReadBit
)

var (
	barrierCompute = []vk.MemoryBarrier{{SrcAccessMask: vk.AccessShaderWriteBit, DstAccessMask: vk.AccessShaderReadBit | vk.AccessShaderWriteBit}}
	barrierDevice  = []vk.MemoryBarrier{{SrcAccessMask: deviceWrites, DstAccessMask: deviceReads | deviceWrites}}
	barrierHost    = []vk.MemoryBarrier{{SrcAccessMask: deviceWrites, DstAccessMask: vk.AccessHostReadBit | vk.AccessHostWriteBit}}
)

// afterAll orders what follows behind all earlier submissions.
func (d *Device) afterAll(cmd vk.CommandBuffer) {
	d.vk.CmdPipelineBarrier(cmd, deviceStages, deviceStages, 0, barrierDevice, nil, nil)
}

// beforeHost makes what went before visible to the host.
func (d *Device) beforeHost(cmd vk.CommandBuffer) {
	d.vk.CmdPipelineBarrier(cmd, deviceStages, vk.PipelineStageHostBit, 0, barrierHost, nil, nil)
}
