package runtime

import "github.com/ternvk/tern/vk"

// transient runs short command buffers that are used once.
type transient struct {
	pool  vk.CommandPool
	cmd   []vk.CommandBuffer
	fence []vk.Fence
	busy  bool
}

func (t *transient) open(d *Device) (err error) {
	if t.pool, err = d.commandPool(); err != nil {
		return err
	}
	if t.cmd, err = t.buffer(d); err != nil {
		return err
	}
	t.fence, err = d.fences(1)
	return err
}

// buffer is one command buffer of the pool, which goes with it.
func (t *transient) buffer(d *Device) ([]vk.CommandBuffer, error) {
	return d.vk.AllocateCommandBuffers(&vk.CommandBufferAllocateInfo{CommandPool: t.pool, CommandBufferCount: 1})
}

func (t *transient) close(d *Device) {
	d.destroyFences(t.fence)
	d.vk.DestroyCommandPool(t.pool)
}

// start records and submits. mu is held.
func (t *transient) start(d *Device, what string, record func(cmd vk.CommandBuffer)) error {
	if err := t.settle(d); err != nil {
		return err
	}
	cmd := t.cmd[0]
	if err := d.vk.BeginCommandBuffer(cmd, &vk.CommandBufferBeginInfo{Flags: vk.CommandBufferUsageOneTimeSubmitBit}); err != nil {
		return d.failed(what, err)
	}
	record(cmd)
	if err := d.vk.EndCommandBuffer(cmd); err != nil {
		return d.failed(what, err)
	}
	if err := d.submit(what, []vk.SubmitInfo{{CommandBufferCount: 1, PCommandBuffers: &t.cmd[0]}}, t.fence[0]); err != nil {
		return err
	}
	t.busy = true
	return nil
}

// settle waits for what was started.
func (t *transient) settle(d *Device) error {
	if !t.busy {
		return nil
	}
	t.busy = false
	return d.wait("clearing", t.fence)
}

// run is start, and waits.
func (t *transient) run(d *Device, what string, record func(cmd vk.CommandBuffer)) error {
	if err := t.start(d, what, record); err != nil {
		return err
	}
	t.busy = false
	return d.wait(what, t.fence)
}

// settle waits for copies and clearings in flight: what comes after them in the queue
// need not, but memory is not given back before. mu is held.
func (d *Device) settle() error {
	if !d.flying {
		return d.once.settle(d)
	}
	d.flying = false
	return d.once.run(d, "settling", func(vk.CommandBuffer) {}) // a fence waits for all that was submitted before
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
