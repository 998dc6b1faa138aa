package runtime

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/vk"
)

// Program is a graph recorded for a device.
type Program struct {
	device   *Device
	g        *graph.Graph
	layout   *graph.Layout
	nodes    []node
	sets     vk.DescriptorPool
	commands vk.CommandPool
	segments []*segment
	parts    map[[2]int][]*segment // of RunNodes
	repeats  map[int]*segment      // of Repeat, by the number of runs
	scratchN uint64                // of the device when it was recorded
	freed    uint64                // of the device when its buffers were last checked
	rate     float64               // Device.rate as this program has it
	resident *resident             // nil when all nodes are dispatches of their own
	stale    bool                  // to be recorded again
	runs     int
	closed   bool
}

// node is a dispatch, resolved.
type node struct {
	*graph.Node
	kernel *spirv.Kernel
	*pipeline
	tail *pipeline // of the grid's tail, if it has one
	grid plan.Grid
	set  vk.DescriptorSet
	ns   float64 // estimated time
}

// firsts are the numbers of the first workgroups of a node's dispatches.
func (n *node) firsts() []uint32 {
	if n.grid.Tail > 0 {
		return []uint32{0, n.grid.First()}
	}
	return []uint32{0}
}

// segment is a range of nodes in one command buffer.
type segment struct {
	from, to int
	cmd      []vk.CommandBuffer
	submit   []vk.SubmitInfo
	fence    []vk.Fence
	ns       float64 // estimated time
	began    time.Time
	took     time.Duration
}

// Compile makes a graph ready to run: kernels and grids are chosen, pipelines
// made and command buffers recorded.
func (d *Device) Compile(g *graph.Graph) (graph.Program, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.compile(g, nil)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// chooser picks the kernel of a node.
type chooser func(contract string, domain [2]uint32, spec ...uint32) (*spirv.Kernel, error)

// compile is Compile with mu held. Without a chooser the plan chooses, and tapes may
// replace nodes.
func (d *Device) compile(g *graph.Graph, choose chooser) (*Program, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	p := &Program{device: d, g: g, layout: g.Plan(placeAlignment), freed: d.freed, rate: d.rate}
	err := p.resolve(choose)
	if err == nil && choose == nil {
		err = p.reside()
	}
	if err == nil {
		err = p.bindings()
	}
	if err == nil {
		err = d.growScratch(p.layout.Bytes)
	}
	if err == nil {
		err = p.record()
	}
	if err != nil {
		p.destroy()
		return nil, fmt.Errorf("graph %s: %w", g.Name, err)
	}
	d.programs[p] = true
	d.opts.Trace("compiled " + g.Name)
	return p, nil
}

// resolve chooses kernels, checks arguments and makes the pipelines.
func (p *Program) resolve(choose chooser) error {
	d := p.device
	if choose == nil {
		choose = d.plan.Choose
	}
	p.nodes = make([]node, len(p.g.Nodes))
	var keys []pipelineKey
	var users []*graph.Node
	for i, gn := range p.g.Nodes {
		n := &p.nodes[i]
		n.Node = gn
		var err error
		if n.kernel, err = choose(gn.Contract, gn.Domain, gn.Spec...); err != nil {
			return fmt.Errorf("node %d %s: %w", i, gn.Label, err)
		}
		if n.grid, err = d.plan.Grid(n.kernel, gn.Domain); err != nil {
			return fmt.Errorf("node %d %s: %w", i, gn.Label, err)
		}
		for j, a := range gn.Args {
			if err := p.checkArg(a); err != nil {
				return fmt.Errorf("node %d %s (%s), binding %d, %s: %w", i, gn.Label, n.kernel.Name, j, a.Name, err)
			}
		}
		for _, first := range n.firsts() {
			keys, users = append(keys, pipelineKey{n.kernel, d.spec(n.kernel, gn.Spec), first}), append(users, gn)
		}
		n.ns = d.estimate(gn)
	}
	if err := d.pipes.get(d, keys, users); err != nil {
		return err
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		n.pipeline, keys = d.pipes.ready[keys[0]], keys[1:]
		n.pipeline.users++
		if n.grid.Tail > 0 {
			n.tail, keys = d.pipes.ready[keys[0]], keys[1:]
			n.tail.users++
		}
	}
	return nil
}

func (p *Program) checkArg(a graph.Arg) error {
	d := p.device
	if a.Bytes > d.plan.Limits.Binding {
		return fmt.Errorf("%d bytes in one binding, the device allows %d: %w", a.Bytes, d.plan.Limits.Binding, graph.ErrUnsupported)
	}
	if a.IsTemp() {
		return nil
	}
	if _, err := d.window(a.Buffer, a.Offset, a.Bytes); err != nil {
		return err
	}
	if a.Offset%placeAlignment != 0 || a.Bytes%4 != 0 {
		return fmt.Errorf("offset %d and %d bytes: values start at multiples of %d bytes and are whole words", a.Offset, a.Bytes, placeAlignment)
	}
	return nil
}

// bindings makes a descriptor set for each node that is given its buffers by one.
func (p *Program) bindings() error {
	d := p.device
	all := p.described()
	if len(all) == 0 {
		return nil
	}
	layouts := make([]vk.DescriptorSetLayout, len(all))
	var buffers uint32
	for i, n := range all {
		layouts[i] = n.pipeline.set
		buffers += uint32(len(n.Args))
	}
	size := vk.DescriptorPoolSize{Type: vk.DescriptorTypeStorageBuffer, DescriptorCount: max(buffers, 1)}
	var err error
	p.sets, err = d.vk.CreateDescriptorPool(&vk.DescriptorPoolCreateInfo{MaxSets: uint32(len(all)), PoolSizeCount: 1, PPoolSizes: &size})
	if err != nil {
		return d.failed("descriptor pool", err)
	}
	sets, err := d.vk.AllocateDescriptorSets(&vk.DescriptorSetAllocateInfo{DescriptorPool: p.sets, DescriptorSetCount: uint32(len(layouts)), PSetLayouts: &layouts[0]})
	if err != nil {
		return d.failed("descriptor sets", err)
	}
	for i, n := range all {
		n.set = sets[i]
	}
	return nil
}

// described lists the nodes that have a descriptor set, and the tape's if it has one.
func (p *Program) described() []*node {
	var all []*node
	for i := range p.nodes {
		all = append(all, &p.nodes[i])
	}
	if p.resident != nil {
		all = append(all, &p.resident.node)
	}
	return slices.DeleteFunc(all, func(n *node) bool { return n.pipeline.ptx != nil })
}

// place is where a value lies now.
func (p *Program) place(v *graph.Value) (*Buffer, uint64) {
	if v.IsTemp() {
		return p.device.scratch, p.layout.Offset(v)
	}
	return v.Buffer.(*Buffer), v.Offset
}

// Graph is what was compiled.
func (p *Program) Graph() *graph.Graph { return p.g }

// Place returns where a value lies. Temporaries lie in a buffer that the
// programs of a device share and that grows with them, so the answer holds
// until the next Compile.
func (p *Program) Place(v *graph.Value) (graph.Buffer, uint64) {
	p.device.mu.Lock()
	defer p.device.mu.Unlock()
	return p.place(v)
}

// Kernels names the implementation that was chosen for each node.
func (p *Program) Kernels() []string {
	names := make([]string, len(p.nodes))
	for i, n := range p.nodes {
		names[i] = n.kernel.Name
	}
	return names
}

// Close releases what the program holds, not the buffers it uses.
func (p *Program) Close() {
	d := p.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.closed || d.closed {
		return
	}
	delete(d.programs, p)
	p.destroy()
}

func (p *Program) destroy() {
	d := p.device
	p.closed = true
	p.forget()
	p.leave()
	for _, n := range p.nodes {
		for _, used := range []*pipeline{n.pipeline, n.tail} {
			if used != nil {
				used.users--
			}
		}
	}
	d.pipes.trim(d)
	if p.commands != 0 {
		d.vk.DestroyCommandPool(p.commands)
	}
	if p.sets != 0 {
		d.vk.DestroyDescriptorPool(p.sets)
	}
}

// forget drops the recorded command buffers.
func (p *Program) forget() {
	p.drop(p.segments)
	for _, part := range p.parts {
		p.drop(part)
	}
	for _, s := range p.repeats {
		p.drop([]*segment{s})
	}
	p.segments, p.parts, p.repeats = nil, map[[2]int][]*segment{}, map[int]*segment{}
}

func (p *Program) drop(list []*segment) {
	for _, s := range list {
		p.device.destroyFences(s.fence)
		p.device.vk.FreeCommandBuffers(p.commands, s.cmd)
	}
}

// growScratch makes the buffer of temporaries at least so large. Programs that
// were recorded with the old one are recorded again when they run.
func (d *Device) growScratch(bytes uint64) error {
	if d.scratch != nil && d.scratch.bytes >= bytes || bytes == 0 {
		return nil
	}
	old := d.scratch
	if old != nil { // first, so that both need not fit
		d.free(old)
		d.scratch = nil
	}
	d.scratchN++
	b, err := d.alloc(graph.Scratch, "temporaries", bytes, d.plan.WantsOf(graph.Scratch))
	if err != nil {
		if old != nil && d.lost == nil {
			if again, e := d.alloc(graph.Scratch, "temporaries", old.bytes, d.plan.WantsOf(graph.Scratch)); e == nil {
				d.scratch = again
			}
		}
		return err
	}
	d.scratch = b
	return nil
}

// writeSets points the descriptor sets at the values' places.
func (p *Program) writeSets() {
	var writes []vk.WriteDescriptorSet
	for _, n := range p.described() {
		if len(n.Args) == 0 {
			continue
		}
		infos := make([]vk.DescriptorBufferInfo, len(n.Args))
		for j, a := range n.Args {
			b, at := p.place(a.Value)
			// Values start at multiples of 256 bytes, so what follows one up to
			// 16 bytes is padding; kernels may read whole vectors of 4 words.
			infos[j] = vk.DescriptorBufferInfo{Buffer: b.block.handle, Offset: b.offset + at, Range: min((a.Bytes+15)&^15, p.device.plan.Limits.Binding)}
		}
		writes = append(writes, vk.WriteDescriptorSet{
			DstSet: n.set, DescriptorCount: uint32(len(infos)), DescriptorType: vk.DescriptorTypeStorageBuffer, PBufferInfo: unsafe.SliceData(infos),
		})
	}
	if len(writes) > 0 {
		p.device.vk.UpdateDescriptorSets(writes, nil)
	}
}
