package runtime

import (
	"fmt"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/vk"
)

// maxSegment bounds the estimated time of one submission in nanoseconds:
// drivers reset the GPU after a submission of some seconds, and cancelling takes
// effect between two.
const maxSegment = 100e6

// estimate guesses the time of a node in nanoseconds from a kind of device,
// corrected by what programs on this device took.
func (d *Device) estimate(n *graph.Node) float64 {
	bytesPerNs, workPerNs := 100.0, 1000.0
	switch d.plan.Type {
	case plan.Discrete:
		if d.plan.Has("coop16") { // not a card for displays alone
			workPerNs = 20_000
		}
	case plan.Integrated, plan.Other:
		bytesPerNs, workPerNs = 20, 100
	case plan.CPU:
		bytesPerNs, workPerNs = 4, 2
	}
	return d.rate * (2000 + max(float64(n.Bytes)/bytesPerNs, float64(n.Work)/workPerNs))
}

// split cuts nodes into runs of at most maxSegment.
func split(ns []float64) (ends []int) {
	sum := 0.0
	for i, t := range ns {
		if sum > 0 && sum+t > maxSegment {
			ends = append(ends, i)
			sum = 0
		}
		sum += t
	}
	return append(ends, len(ns))
}

func (p *Program) times() []float64 {
	ns := make([]float64, len(p.nodes))
	for i, n := range p.nodes {
		ns[i] = n.ns
	}
	return ns
}

// record records the whole program, anew when the scratch buffer or the cut has
// changed.
func (p *Program) record() error {
	d := p.device
	if p.commands == 0 {
		var err error
		if p.commands, err = d.commandPool(); err != nil {
			return d.failed("command pool", err)
		}
	}
	p.forget()
	p.writeSets()
	var err error
	if p.resident != nil {
		if err := p.writeTape(); err != nil {
			return err
		}
	}
	if p.segments, err = p.recordNodes(0, len(p.nodes), nil); err != nil {
		return err
	}
	p.scratchN, p.stale = d.scratchN, false
	return nil
}

// recordNodes records a range of nodes in as many segments as it takes.
func (p *Program) recordNodes(from, to int, watch *vk.QueryPool) (list []*segment, err error) {
	defer func() {
		if err != nil {
			p.drop(list)
			list = nil
		}
	}()
	var h hazards
	mirrored := p.mirrored(from, to)
	at := from
	for _, end := range split(p.times()[from:to]) {
		s, err := p.newSegment(at, from+end)
		if err != nil {
			return list, err
		}
		list = append(list, s)
		if err := p.recordSegment(s, &h, mirrored, at == from, from+end == to, watch); err != nil {
			return list, err
		}
		at = from + end
	}
	return list, nil
}

func (p *Program) newSegment(from, to int) (*segment, error) {
	d := p.device
	s := &segment{from: from, to: to}
	for _, n := range p.nodes[from:to] {
		s.ns += n.ns
	}
	var err error
	if s.cmd, err = d.vk.AllocateCommandBuffers(&vk.CommandBufferAllocateInfo{CommandPool: p.commands, CommandBufferCount: 1}); err != nil {
		return nil, d.failed("command buffer", err)
	}
	if s.fence, err = d.fences(1); err != nil {
		d.vk.FreeCommandBuffers(p.commands, s.cmd)
		return nil, d.failed("fence", err)
	}
	s.submit = []vk.SubmitInfo{{CommandBufferCount: 1, PCommandBuffers: &s.cmd[0]}}
	return s, nil
}

// recordSegment records the nodes of a segment. first begins behind all earlier
// work; last ends with a barrier for the host. A pool of timestamps, if there is
// one, gets two around each node i, as queries 2i and 2i+1.
func (p *Program) recordSegment(s *segment, h *hazards, mirrored []*Buffer, first, last bool, watch *vk.QueryPool) error {
	d := p.device
	what := "recording " + p.g.Name
	cmd := s.cmd[0]
	if err := d.vk.BeginCommandBuffer(cmd, &vk.CommandBufferBeginInfo{}); err != nil {
		return d.failed(what, err)
	}
	if first {
		d.afterAll(cmd)
		d.bringIn(cmd, mirrored)
	}
	if watch != nil {
		d.vk.CmdResetQueryPool(cmd, *watch, uint32(2*s.from), uint32(2*(s.to-s.from)))
	}
	p.dispatchAll(cmd, s.from, s.to, h, watch)
	if last {
		d.takeOut(cmd, mirrored)
		d.beforeHost(cmd)
	}
	return d.failed(what, d.vk.EndCommandBuffer(cmd))
}

// dispatchAll records nodes [from, to), and the tape instead of those that it stands for.
func (p *Program) dispatchAll(cmd vk.CommandBuffer, from, to int, h *hazards, watch *vk.QueryPool) {
	d := p.device
	var bound vk.Pipeline
	for i := from; i < to; i++ {
		n, end := &p.nodes[i], i+1
		if r := p.resident; r != nil && watch == nil && i == r.From && r.To <= to {
			n, end = &r.node, r.To
		}
		if p.orders(h, p.nodes[i:end]) || watch != nil {
			d.vk.CmdPipelineBarrier(cmd, vk.PipelineStageComputeShaderBit, vk.PipelineStageComputeShaderBit, 0, barrierCompute, nil, nil)
		}
		if watch != nil {
			d.vk.CmdWriteTimestamp(cmd, vk.PipelineStageBottomOfPipeBit, *watch, uint32(2*i))
		}
		bound = p.dispatch(cmd, i, n, bound)
		if watch != nil {
			d.vk.CmdWriteTimestamp(cmd, vk.PipelineStageBottomOfPipeBit, *watch, uint32(2*i+1))
		}
		i = end - 1
	}
}

// dispatch records node i and returns the pipeline that is bound now, 0 when that is
// not known.
func (p *Program) dispatch(cmd vk.CommandBuffer, i int, n *node, bound vk.Pipeline) vk.Pipeline {
	d := p.device
	if d.instance.debugUtils {
		d.vk.CmdBeginDebugUtilsLabelEXT(cmd, &vk.DebugUtilsLabelEXT{PLabelName: vk.CString(fmt.Sprintf("%d %s %s", i, n.Label, n.kernel.Name))})
		defer d.vk.CmdEndDebugUtilsLabelEXT(cmd)
	}
	if n.pipeline.ptx != nil {
		p.launch(cmd, n)
		return 0
	}
	bind := func(p *pipeline) {
		if p.handle != bound {
			bound = p.handle
			d.vk.CmdBindPipeline(cmd, vk.PipelineBindPointCompute, bound)
		}
	}
	bind(n.pipeline)
	d.vk.CmdBindDescriptorSets(cmd, vk.PipelineBindPointCompute, n.pipeline.layout, 0, []vk.DescriptorSet{n.set}, nil)
	if len(n.Push) > 0 {
		d.vk.CmdPushConstants(cmd, n.pipeline.layout, vk.ShaderStageComputeBit, 0, vk.SliceBytes(n.Push))
	}
	g := n.grid
	d.vk.CmdDispatch(cmd, g.Groups[0], g.Groups[1], g.Groups[2])
	if g.Tail > 0 {
		// It touches words of its own, but the validation layer looks at whole bindings.
		d.vk.CmdPipelineBarrier(cmd, vk.PipelineStageComputeShaderBit, vk.PipelineStageComputeShaderBit, 0, barrierCompute, nil, nil)
		bind(n.tail)
		d.vk.CmdDispatch(cmd, g.Tail, g.Groups[1], 1)
	}
	return bound
}

// hazards knows what the dispatches since the last barrier have touched.
type hazards struct{ reads, writes []touched }

type touched struct {
	buffer   vk.Buffer
	from, to uint64
}

func meets(list []touched, t touched) bool {
	for _, o := range list {
		if o.buffer == t.buffer && o.from < t.to && t.from < o.to {
			return true
		}
	}
	return false
}

// orders reports whether nodes that run together must wait for those before them, and
// takes note of what they touch: a read after a write, a write after a read or a write,
// of bytes in common; temporaries that share bytes one after the other count too.
func (p *Program) orders(h *hazards, nodes []node) bool {
	var reads, writes []touched
	wait := false
	for _, n := range nodes {
		for _, a := range n.Args {
			b, at := p.place(a.Value)
			t := touched{b.block.handle, b.offset + at, b.offset + at + a.Bytes}
			wait = wait || meets(h.writes, t) || a.Access&graph.Write != 0 && meets(h.reads, t)
			if a.Access&graph.Write != 0 {
				writes = append(writes, t)
			} else {
				reads = append(reads, t)
			}
		}
	}
	if wait {
		h.reads, h.writes = h.reads[:0], h.writes[:0]
	}
	h.reads, h.writes = append(h.reads, reads...), append(h.writes, writes...)
	return wait
}
