package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/spirv"
)

// tuningFile is where a tuning of this device, driver, set of kernels and profile is
// kept, "" where nothing is.
func (d *Device) tuningFile() string {
	if d.opts.KernelDir != "" || d.plan.Disabled("tuning") {
		return "" // other kernels have other speeds
	}
	if !d.Exact() { // fast chooses among more kernels
		return d.cacheFile("tuning-fast")
	}
	return d.cacheFile("tuning")
}

// recallTuning reads what an earlier Tune has kept. A file that cannot be read is as none.
func (d *Device) recallTuning() {
	file := d.tuningFile()
	if file == "" {
		return
	}
	data, err := os.ReadFile(file)
	t := &plan.Tuning{}
	if err == nil && json.Unmarshal(data, t) == nil && t.Chunk >= 0 && t.Chunk <= maxTunedChunk {
		d.plan.SetTuning(t)
	}
}

// maxTunedChunk is the longest piece of a prompt that a tuning may ask for.
const maxTunedChunk = 16384

// Tune has the device go by a tuning from now on, also in later processes; nil takes
// the tuning back. Programs that are compiled stay as they are. It is an error when
// there is no folder to keep it in.
func (d *Device) Tune(t *plan.Tuning) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return err
	}
	file := d.tuningFile()
	if file == "" {
		return fmt.Errorf("%s: a tuning is kept in the folder of the pipeline cache, which is off, and not for replaced kernels: %w", d.Name(), graph.ErrUnsupported)
	}
	if t == nil {
		d.plan.SetTuning(nil)
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	data, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	if err := saveFile(file, append(data, '\n')); err != nil {
		return err
	}
	d.plan.SetTuning(t)
	return nil
}

// CompileWith is Compile with implementations (contract -> implementation, "" the base)
// instead of those that the plan chooses, and without resident kernels: for
// measuring. A kernel that the device cannot run, or not for a node, is an error that
// wraps graph.ErrUnsupported.
func (d *Device) CompileWith(g *graph.Graph, kernels map[string]string) (graph.Program, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.compile(g, func(contract string, domain [2]uint32, spec ...uint32) (*spirv.Kernel, error) {
		impl, ok := kernels[contract]
		if !ok {
			return d.plan.Choose(contract, domain, spec...)
		}
		for _, k := range d.plan.Runnable(contract) {
			if k.Impl == impl && k.Takes(spec) {
				return k, nil
			}
		}
		return nil, fmt.Errorf("kernel %s__%s on %s: %w", contract, impl, d.Name(), graph.ErrUnsupported)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}
