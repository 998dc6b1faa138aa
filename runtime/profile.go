package runtime

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/vk"
)

// NodeTime is the measured time of a node. Nodes are measured one after the
// other, so their sum is more than what a run takes.
type NodeTime struct {
	Node   *graph.Node
	Kernel string
	NS     float64
}

// GBPerSecond is the node's bytes in its time, 0 when it took none.
func (t NodeTime) GBPerSecond() float64 {
	if t.NS == 0 {
		return 0
	}
	return float64(t.Node.Bytes) / t.NS
}

// Profile runs a program once with timestamps around every node. Devices whose
// queue has no timestamps give an error that wraps graph.ErrUnsupported.
func (d *Device) Profile(ctx context.Context, gp graph.Program) ([]NodeTime, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.ready(gp)
	if err != nil {
		return nil, err
	}
	bits := d.plan.Limits.TimestampBits
	if bits == 0 || d.plan.Limits.TimestampPeriod == 0 {
		return nil, fmt.Errorf("%s: timestamps: %w", d.Name(), graph.ErrUnsupported)
	}
	if len(p.nodes) == 0 {
		return nil, nil
	}
	count := uint32(2 * len(p.nodes))
	pool, err := d.vk.CreateQueryPool(&vk.QueryPoolCreateInfo{QueryType: vk.QueryTypeTimestamp, QueryCount: count})
	if err != nil {
		return nil, d.failed("query pool", err)
	}
	defer d.vk.DestroyQueryPool(pool)
	list, err := p.recordNodes(0, len(p.nodes), &pool)
	if err != nil {
		return nil, err
	}
	defer p.drop(list)
	if err := d.run(ctx, p, list); err != nil {
		return nil, err
	}
	ticks := make([]uint64, count)
	err = d.vk.GetQueryPoolResults(pool, 0, count, vk.SliceBytes(ticks), vk.DeviceSize(unsafe.Sizeof(ticks[0])), vk.QueryResult64Bit|vk.QueryResultWaitBit)
	if err != nil {
		return nil, d.failed("timestamps", err)
	}
	times := make([]NodeTime, len(p.nodes))
	for i, n := range p.nodes {
		passed := (ticks[2*i+1] - ticks[2*i]) & (^uint64(0) >> (64 - bits))
		times[i] = NodeTime{n.Node, n.kernel.Name, float64(passed) * float64(d.plan.Limits.TimestampPeriod)}
	}
	return times, nil
}
