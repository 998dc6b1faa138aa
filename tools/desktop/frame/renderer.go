package frame

import (
	_ "embed"
	"fmt"
	"unsafe"

	"github.com/ternvk/tern/vk"
)

// The shaders are compiled by "make desktop-shaders".
var (
	//go:embed ui.vert.spv
	vertexCode []byte
	//go:embed ui.frag.spv
	fragmentCode []byte
)

const (
	maxQuads = 32768
	inFlight = 2
)

// Renderer draws scenes on a device.
type Renderer struct {
	d        *Device
	pass     vk.RenderPass
	set      vk.DescriptorSetLayout
	layout   vk.PipelineLayout
	pipeline vk.Pipeline
	pool     vk.DescriptorPool
	commands vk.CommandPool
	frames   [inFlight]frame
	next     int
}

// frame is what one picture in flight uses.
type frame struct {
	command vk.CommandBuffer
	set     vk.DescriptorSet
	done    vk.Fence
	buffer  vk.Buffer // atlas, then quads
	memory  vk.DeviceMemory
	mapped  []byte
	stale   bool // the atlas in the buffer
}

const (
	atlasBytes = atlasSize * atlasSize
	quadsBytes = maxQuads * 32
)

// NewRenderer draws to images of a format, which are in the given layout afterwards.
func NewRenderer(d *Device, format vk.Format, after vk.ImageLayout) (r *Renderer, err error) {
	r = &Renderer{d: d}
	defer func() {
		if err != nil {
			r.Close()
			err = fmt.Errorf("renderer: %w", err)
		}
	}()
	if err = r.makePass(format, after); err != nil {
		return nil, err
	}
	if err = r.makePipeline(); err != nil {
		return nil, err
	}
	return r, r.makeFrames()
}

func (r *Renderer) makePass(format vk.Format, after vk.ImageLayout) (err error) {
	color := vk.AttachmentReference{Layout: vk.ImageLayoutColorAttachmentOptimal}
	dependencies := []vk.SubpassDependency{{
		SrcSubpass: vk.SubpassExternal, SrcStageMask: vk.PipelineStageColorAttachmentOutputBit, DstStageMask: vk.PipelineStageColorAttachmentOutputBit,
		DstAccessMask: vk.AccessColorAttachmentWriteBit,
	}, {
		DstSubpass: vk.SubpassExternal, SrcStageMask: vk.PipelineStageColorAttachmentOutputBit, DstStageMask: vk.PipelineStageTransferBit,
		SrcAccessMask: vk.AccessColorAttachmentWriteBit, DstAccessMask: vk.AccessTransferReadBit,
	}}
	r.pass, err = r.d.CreateRenderPass(&vk.RenderPassCreateInfo{
		AttachmentCount: 1, PAttachments: &vk.AttachmentDescription{
			Format: format, Samples: vk.SampleCount1Bit, LoadOp: vk.AttachmentLoadOpClear, StoreOp: vk.AttachmentStoreOpStore,
			StencilLoadOp: vk.AttachmentLoadOpDontCare, StencilStoreOp: vk.AttachmentStoreOpDontCare, FinalLayout: after,
		},
		SubpassCount: 1, PSubpasses: &vk.SubpassDescription{ColorAttachmentCount: 1, PColorAttachments: &color},
		DependencyCount: uint32(len(dependencies)), PDependencies: &dependencies[0],
	})
	return err
}

func (r *Renderer) makePipeline() (err error) {
	bindings := []vk.DescriptorSetLayoutBinding{
		{Binding: 0, DescriptorType: vk.DescriptorTypeStorageBuffer, DescriptorCount: 1, StageFlags: vk.ShaderStageFragmentBit},
		{Binding: 1, DescriptorType: vk.DescriptorTypeStorageBuffer, DescriptorCount: 1, StageFlags: vk.ShaderStageVertexBit | vk.ShaderStageFragmentBit},
	}
	if r.set, err = r.d.CreateDescriptorSetLayout(&vk.DescriptorSetLayoutCreateInfo{BindingCount: 2, PBindings: &bindings[0]}); err != nil {
		return err
	}
	push := vk.PushConstantRange{StageFlags: vk.ShaderStageVertexBit | vk.ShaderStageFragmentBit, Size: uint32(unsafe.Sizeof(pushed{}))}
	r.layout, err = r.d.CreatePipelineLayout(&vk.PipelineLayoutCreateInfo{SetLayoutCount: 1, PSetLayouts: &r.set, PushConstantRangeCount: 1, PPushConstantRanges: &push})
	if err != nil {
		return err
	}
	stages := make([]vk.PipelineShaderStageCreateInfo, 2)
	for i, code := range [][]byte{vertexCode, fragmentCode} {
		words := make([]uint32, len(code)/4)
		copy(vk.SliceBytes(words), code)
		module, err := r.d.CreateShaderModule(&vk.ShaderModuleCreateInfo{CodeSize: uintptr(len(code)), PCode: &words[0]})
		if err != nil {
			return err
		}
		defer r.d.DestroyShaderModule(module)
		stages[i] = vk.PipelineShaderStageCreateInfo{Stage: vk.ShaderStageVertexBit << (4 * i), Module: module, PName: vk.CString("main")}
	}
	dynamic := []vk.DynamicState{vk.DynamicStateViewport, vk.DynamicStateScissor}
	list, err := r.d.CreateGraphicsPipelines(0, []vk.GraphicsPipelineCreateInfo{{
		StageCount: 2, PStages: &stages[0],
		PVertexInputState:   &vk.PipelineVertexInputStateCreateInfo{},
		PInputAssemblyState: &vk.PipelineInputAssemblyStateCreateInfo{Topology: vk.PrimitiveTopologyTriangleStrip},
		PViewportState:      &vk.PipelineViewportStateCreateInfo{ViewportCount: 1, ScissorCount: 1},
		PRasterizationState: &vk.PipelineRasterizationStateCreateInfo{PolygonMode: vk.PolygonModeFill, LineWidth: 1},
		PMultisampleState:   &vk.PipelineMultisampleStateCreateInfo{RasterizationSamples: vk.SampleCount1Bit},
		PColorBlendState: &vk.PipelineColorBlendStateCreateInfo{AttachmentCount: 1, PAttachments: &vk.PipelineColorBlendAttachmentState{
			BlendEnable: vk.True, SrcColorBlendFactor: vk.BlendFactorSrcAlpha, DstColorBlendFactor: vk.BlendFactorOneMinusSrcAlpha,
			SrcAlphaBlendFactor: vk.BlendFactorOne, DstAlphaBlendFactor: vk.BlendFactorOneMinusSrcAlpha,
			ColorWriteMask: vk.ColorComponentRBit | vk.ColorComponentGBit | vk.ColorComponentBBit | vk.ColorComponentABit,
		}},
		PDynamicState: &vk.PipelineDynamicStateCreateInfo{DynamicStateCount: 2, PDynamicStates: &dynamic[0]},
		Layout:        r.layout, RenderPass: r.pass,
	}})
	if err == nil {
		r.pipeline = list[0]
	}
	return err
}

func (r *Renderer) makeFrames() (err error) {
	d := r.d
	if r.commands, err = d.CreateCommandPool(&vk.CommandPoolCreateInfo{Flags: vk.CommandPoolCreateResetCommandBufferBit, QueueFamilyIndex: d.Family}); err != nil {
		return err
	}
	size := vk.DescriptorPoolSize{Type: vk.DescriptorTypeStorageBuffer, DescriptorCount: 2 * inFlight}
	if r.pool, err = d.CreateDescriptorPool(&vk.DescriptorPoolCreateInfo{MaxSets: inFlight, PoolSizeCount: 1, PPoolSizes: &size}); err != nil {
		return err
	}
	for i := range r.frames {
		f := &r.frames[i]
		commands, err := d.AllocateCommandBuffers(&vk.CommandBufferAllocateInfo{CommandPool: r.commands, CommandBufferCount: 1})
		if err != nil {
			return err
		}
		sets, err := d.AllocateDescriptorSets(&vk.DescriptorSetAllocateInfo{DescriptorPool: r.pool, DescriptorSetCount: 1, PSetLayouts: &r.set})
		if err != nil {
			return err
		}
		f.command, f.set, f.stale = commands[0], sets[0], true
		if f.done, err = d.CreateFence(&vk.FenceCreateInfo{Flags: vk.FenceCreateSignaledBit}); err != nil {
			return err
		}
		if f.buffer, f.memory, f.mapped, err = d.mappedBuffer(atlasBytes+quadsBytes, vk.BufferUsageStorageBufferBit, vk.MemoryPropertyDeviceLocalBit); err != nil {
			return err
		}
		infos := []vk.DescriptorBufferInfo{{Buffer: f.buffer, Range: atlasBytes}, {Buffer: f.buffer, Offset: atlasBytes, Range: quadsBytes}}
		writes := make([]vk.WriteDescriptorSet, 2)
		for b := range writes {
			writes[b] = vk.WriteDescriptorSet{DstSet: f.set, DstBinding: uint32(b), DescriptorCount: 1, DescriptorType: vk.DescriptorTypeStorageBuffer, PBufferInfo: &infos[b]}
		}
		d.UpdateDescriptorSets(writes, nil)
	}
	return nil
}

// mappedBuffer is one that the host writes or reads, in memory that has better as well where
// there is some.
func (d *Device) mappedBuffer(bytes int, usage vk.BufferUsageFlags, better vk.MemoryPropertyFlags) (vk.Buffer, vk.DeviceMemory, []byte, error) {
	b, err := d.CreateBuffer(&vk.BufferCreateInfo{Size: uint64(bytes), Usage: usage})
	if err != nil {
		return 0, 0, nil, err
	}
	mapped := vk.MemoryPropertyHostVisibleBit | vk.MemoryPropertyHostCoherentBit
	m, err := d.allocate(d.GetBufferMemoryRequirements(b), mapped|better, mapped)
	if err != nil {
		return b, 0, nil, err
	}
	if err := d.BindBufferMemory(b, m, 0); err != nil {
		return b, m, nil, err
	}
	p, err := d.MapMemory(m, 0, vk.WholeSize, 0)
	if err != nil {
		return b, m, nil, err
	}
	return b, m, unsafe.Slice((*byte)(p), bytes), nil
}

type pushed struct {
	width, height float32
	atlasWidth    uint32
}

// Target is an image to draw on.
type Target struct {
	Framebuffer   vk.Framebuffer
	Width, Height uint32
}

// Draw submits a picture of the scene. It waits for the semaphore ready, if that is not 0, and
// signals drawn. The fence that it returns is signalled when the picture is done; more, if not nil,
// records commands behind it.
func (r *Renderer) Draw(t Target, s *Scene, background Color, ready, drawn vk.Semaphore, more func(vk.CommandBuffer)) (vk.Fence, error) {
	d, f := r.d, &r.frames[r.next]
	r.next = (r.next + 1) % inFlight
	fence := []vk.Fence{f.done}
	if err := d.WaitForFences(fence, true, ^uint64(0)); err != nil {
		return 0, err
	}
	if s.Atlas.Changed {
		for i := range r.frames {
			r.frames[i].stale = true
		}
		s.Atlas.Changed = false
	}
	if f.stale {
		copy(f.mapped, s.Atlas.Pixels)
		f.stale = false
	}
	quads := s.Quads[:min(len(s.Quads), maxQuads)]
	copy(f.mapped[atlasBytes:], vk.SliceBytes(quads))
	if err := d.ResetFences(fence); err != nil {
		return 0, err
	}
	if err := d.BeginCommandBuffer(f.command, &vk.CommandBufferBeginInfo{Flags: vk.CommandBufferUsageOneTimeSubmitBit}); err != nil {
		return 0, err
	}
	area := vk.Rect2D{Extent: vk.Extent2D{Width: t.Width, Height: t.Height}}
	clear := clearValue(background)
	d.CmdBeginRenderPass(f.command, &vk.RenderPassBeginInfo{RenderPass: r.pass, Framebuffer: t.Framebuffer, RenderArea: area, ClearValueCount: 1, PClearValues: &clear}, vk.SubpassContentsInline)
	d.CmdBindPipeline(f.command, vk.PipelineBindPointGraphics, r.pipeline)
	d.CmdBindDescriptorSets(f.command, vk.PipelineBindPointGraphics, r.layout, 0, []vk.DescriptorSet{f.set}, nil)
	d.CmdSetViewport(f.command, 0, []vk.Viewport{{Width: float32(t.Width), Height: float32(t.Height), MaxDepth: 1}})
	d.CmdSetScissor(f.command, 0, []vk.Rect2D{area})
	push := []pushed{{float32(t.Width), float32(t.Height), atlasSize}}
	d.CmdPushConstants(f.command, r.layout, vk.ShaderStageVertexBit|vk.ShaderStageFragmentBit, 0, vk.SliceBytes(push))
	d.CmdDraw(f.command, 4, uint32(len(quads)), 0, 0)
	d.CmdEndRenderPass(f.command)
	if more != nil {
		more(f.command)
	}
	if err := d.EndCommandBuffer(f.command); err != nil {
		return 0, err
	}
	submit := vk.SubmitInfo{CommandBufferCount: 1, PCommandBuffers: &f.command}
	stage := vk.PipelineStageColorAttachmentOutputBit
	if ready != 0 {
		submit.WaitSemaphoreCount, submit.PWaitSemaphores, submit.PWaitDstStageMask = 1, &ready, &stage
	}
	if drawn != 0 {
		submit.SignalSemaphoreCount, submit.PSignalSemaphores = 1, &drawn
	}
	return f.done, d.Submit(submit, f.done)
}

func clearValue(c Color) (v vk.ClearValue) {
	*(*[4]float32)(unsafe.Pointer(&v)) = [4]float32{float32(c&0xff) / 255, float32(c>>8&0xff) / 255, float32(c>>16&0xff) / 255, 1}
	return v
}

// Framebuffer makes a target of an image view.
func (r *Renderer) Framebuffer(view vk.ImageView, width, height uint32) (Target, error) {
	f, err := r.d.CreateFramebuffer(&vk.FramebufferCreateInfo{RenderPass: r.pass, AttachmentCount: 1, PAttachments: &view, Width: width, Height: height, Layers: 1})
	return Target{f, width, height}, err
}

// Wait waits for all pictures.
func (r *Renderer) Wait() {
	for _, f := range r.frames {
		if f.done != 0 {
			r.d.WaitForFences([]vk.Fence{f.done}, true, ^uint64(0))
		}
	}
}

// Close waits for all pictures and frees what the renderer has.
func (r *Renderer) Close() {
	r.Wait()
	for _, f := range r.frames {
		r.d.DestroyFence(f.done)
		r.d.DestroyBuffer(f.buffer)
		r.d.FreeMemory(f.memory)
	}
	r.d.DestroyCommandPool(r.commands)
	r.d.DestroyDescriptorPool(r.pool)
	r.d.DestroyPipeline(r.pipeline)
	r.d.DestroyPipelineLayout(r.layout)
	r.d.DestroyDescriptorSetLayout(r.set)
	r.d.DestroyRenderPass(r.pass)
}
