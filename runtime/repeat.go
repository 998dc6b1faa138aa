package runtime

import (
	"context"
	"fmt"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/vk"
)

var _ graph.Repeater = (*Device)(nil)

// Repeat runs a program that is a dispatch of the resident kernel several times in one
// submission. Others are refused: with them it is not the host that takes the time.
func (d *Device) Repeat(ctx context.Context, gp graph.Program, times int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.ready(gp)
	if err != nil {
		return err
	}
	if p.resident == nil || p.resident.From > 0 || p.resident.To < len(p.nodes) || times < 1 {
		return fmt.Errorf("%s: program %s, %d times: %w", d.Name(), p.g.Name, times, graph.ErrUnsupported)
	}
	s := p.repeats[times]
	if s == nil {
		if s, err = p.recordRepeated(times); err != nil {
			return err
		}
		p.repeats[times] = s
	}
	p.remember()
	if err := d.run(ctx, p, []*segment{s}); err != nil {
		return err
	}
	if !p.punctual() {
		return fmt.Errorf("%s: program %s: workgroups did not meet: %w", d.Name(), p.g.Name, graph.ErrUnsupported)
	}
	return nil
}

// recordRepeated records the program so many times in a row.
func (p *Program) recordRepeated(times int) (*segment, error) {
	d, all := p.device, len(p.nodes)
	s, err := p.newSegment(0, all)
	if err != nil {
		return nil, err
	}
	what, cmd, mirrored := "recording "+p.g.Name, s.cmd[0], p.mirrored(0, all)
	if err = d.failed(what, d.vk.BeginCommandBuffer(cmd, &vk.CommandBufferBeginInfo{})); err == nil {
		d.afterAll(cmd)
		d.bringIn(cmd, mirrored)
		var h hazards
		for range times {
			p.dispatchAll(cmd, 0, all, &h, nil)
		}
		d.takeOut(cmd, mirrored)
		d.beforeHost(cmd)
		err = d.failed(what, d.vk.EndCommandBuffer(cmd))
	}
	if err != nil {
		p.drop([]*segment{s})
		return nil, err
	}
	return s, nil
}
