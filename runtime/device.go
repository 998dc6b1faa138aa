// Package runtime runs graphs on Vulkan devices: it opens them, owns their
// memory, pipelines and submissions, and implements [graph.Executor]. What to do
// on which device is decided in package plan.
package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/vk"
)

// Environment variables that add to Options.
const (
	DisableVariable = "TERN_DISABLE" // feature words and off switches, see plan.Words
	ForceVariable   = "TERN_FORCE"   // feature words to use although the device does not speed them up
	CacheVariable   = "TERN_CACHE"   // folder of the pipeline cache and of tunings, "off" for none
)

// Options choose a device and how it is used. The zero value opens the best
// device.
type Options struct {
	Device    string            // "auto", a number or name of Devices, or a UUID
	Profile   string            // "exact" (default), or "fast", which takes kernels with an error bound, and devices that fail an exactness rule
	Disable   []string          // off switches, beside those of TERN_DISABLE
	Force     []string          // features to use although the device does not speed them up
	Kernels   map[string]string // contract -> implementation to use, "" the base
	KernelDir string            // folder whose NAME.spv and NAME.ptx files replace compiled-in kernels, and come before others of their contracts
	CacheDir  string            // folder of the pipeline cache, "off" for none; default: the user's cache folder
	Validate  bool              // run under the Khronos validation layer, see Device.Messages
	Adopt     *Adopt            // use a device that the program has made
	Trace     func(done string) // if not nil, is told each step of opening, compiling and closing when it is done
	Test      Test              // for tests
}

// Forcing returns the options with one implementation forced, and in the profile fast if
// it has an error bound.
func (o Options) Forcing(k *spirv.Kernel) Options {
	o.Kernels = map[string]string{k.Contract: k.Impl}
	if k.Bound() != "" {
		o.Profile = "fast"
	}
	return o
}

// Test has hooks that make a healthy device look like others.
type Test struct {
	Caps       plan.Caps
	LoseSubmit int  // the number of the submission, from 1, that fails with DEVICE_LOST; 0: none
	Late       bool // the first run of a resident kernel counts as one whose workgroups did not meet
}

// Adopt hands over a Vulkan device that the program has made and goes on to
// own. It must have been created for Vulkan 1.1 or later.
type Adopt struct {
	GetInstanceProcAddr uintptr // of the program's loader, 0: the system's
	Instance            vk.InstanceHandle
	PhysicalDevice      vk.PhysicalDevice
	Device              vk.DeviceHandle
	Queue               vk.Queue
	QueueFamily         uint32
	APIVersion          uint32   // that the instance was created for, 0: 1.1
	Enabled             []string // feature words (plan.Words) that the device was created with
	// Lock and Unlock surround every use of the queue; nil if nobody else uses it.
	Lock, Unlock func()
}

// Device is an open Vulkan device. It implements [graph.Executor]. Its methods
// may be called from several goroutines.
type Device struct {
	opts     Options
	instance *instance
	physical vk.PhysicalDevice
	owned    bool // the VkDevice
	vk       *vk.Device
	queue    vk.Queue
	family   uint32
	plan     *plan.Plan
	probe    *Probe

	filling  sync.RWMutex // held for reading while a buffer is filled without mu, and taken before it
	mu       sync.Mutex   // the queue and everything below
	closed   bool
	lost     error
	submits  int
	memory   memory
	stage    staging
	flying   bool // copies to the device were submitted that may not be over
	pipes    pipelines
	once     transient
	scratch  *Buffer
	scratchN uint64 // grows when scratch is replaced
	freed    uint64 // grows when a buffer is freed
	programs map[*Program]bool
	rate     float64 // measured time of a node / estimate, for this device
}

// Devices describes the Vulkan devices of this machine, one entry for each
// physical device, in the order of the loader's list. Without a driver, or
// without a loader, the error wraps graph.ErrNoDevice.
func Devices() ([]plan.Snapshot, error) {
	disable, err := plan.ParseWords(os.Getenv(DisableVariable))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", DisableVariable, err)
	}
	in, err := newInstance(false)
	if err != nil {
		return nil, err
	}
	defer in.close()
	list, _, err := enumerate(in, disable)
	return list, err
}

// enumerate returns merged snapshots and all handles by Snapshot.Index.
func enumerate(in *instance, disable []string) ([]plan.Snapshot, []vk.PhysicalDevice, error) {
	handles, err := in.EnumeratePhysicalDevices()
	if err != nil {
		return nil, nil, noDevice(fmt.Errorf("listing devices: %w", err))
	}
	var list []plan.Snapshot
	var errs []error
	for i, pd := range handles {
		s, err := take(in, pd, i, disable)
		if err != nil {
			errs = append(errs, err) // the other devices stay usable
			continue
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		if len(errs) == 0 {
			return nil, nil, noDevice("no Vulkan driver offers a device")
		}
		return nil, nil, noDevice(errors.Join(errs...))
	}
	return plan.Merge(list), handles, nil
}

// given are the names of the kernels that KernelDir has.
func (o *Options) given() (names []string) {
	if o.KernelDir == "" {
		return nil
	}
	for _, k := range spirv.Kernels {
		if _, err := os.Stat(filepath.Join(o.KernelDir, k.File())); err == nil {
			names = append(names, k.Name)
		}
	}
	return names
}

// Open opens a device. Errors wrap graph.ErrNoDevice when there is none that
// suits, and graph.ErrUnsupported when the device breaks a rule.
func Open(opts Options) (*Device, error) {
	words, err := plan.ParseWords(os.Getenv(DisableVariable))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", DisableVariable, err)
	}
	opts.Disable = slices.Concat(opts.Disable, words)
	if words, err = plan.ParseWords(os.Getenv(ForceVariable)); err != nil {
		return nil, fmt.Errorf("%s: %w", ForceVariable, err)
	}
	opts.Force = slices.Concat(opts.Force, words)
	switch opts.Profile {
	case "", "exact", "fast":
	default:
		return nil, fmt.Errorf("profile %q: want exact or fast", opts.Profile)
	}
	if opts.Trace == nil {
		opts.Trace = func(string) {}
	}
	d := &Device{opts: opts, programs: map[*Program]bool{}, rate: 1}
	if err := d.open(); err != nil {
		d.destroy()
		return nil, err
	}
	return d, nil
}

func (d *Device) open() error {
	snapshot, err := d.find()
	if err != nil {
		return err
	}
	if snapshot.API < plan.MakeVersion(1, 1, 0) {
		return fmt.Errorf("%s: Vulkan %v, at least 1.1 is needed: %w", snapshot.Title(), snapshot.API, graph.ErrUnsupported)
	}
	config := plan.Config{Given: d.opts.given(), Disable: d.opts.Disable, Force: d.opts.Force, Kernels: d.opts.Kernels, Fast: d.opts.Profile == "fast", Caps: d.opts.Test.Caps}
	if d.opts.Adopt != nil {
		config.Enabled = append([]string{}, d.opts.Adopt.Enabled...)
	}
	d.opts.Trace("devices listed")
	if d.plan, err = plan.New(snapshot, config); err != nil {
		return err
	}
	if err := d.foresee(); err != nil {
		return err
	}
	if a := d.opts.Adopt; a != nil {
		d.vk, err = d.instance.AdoptDevice(a.Device)
		d.queue, d.family = a.Queue, a.QueueFamily
	} else if err = d.create(); err == nil {
		d.queue = d.vk.GetDeviceQueue(d.family, 0)
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", snapshot.Title(), err)
	}
	d.opts.Trace("device created")
	if err := d.once.open(d); err != nil {
		return fmt.Errorf("opening %s: %w", snapshot.Title(), err)
	}
	d.recallTuning()
	d.memory.open(d)
	d.stage.open()
	if err := d.pipes.open(d); err != nil {
		return fmt.Errorf("opening %s: %w", snapshot.Title(), err)
	}
	err = d.examine()
	d.opts.Trace("pipelines read, device probed")
	return err
}

// find fills instance and physical.
func (d *Device) find() (plan.Snapshot, error) {
	var err error
	if a := d.opts.Adopt; a != nil {
		if d.instance, err = adopt(a); err != nil {
			return plan.Snapshot{}, err
		}
		d.physical = a.PhysicalDevice
		return take(d.instance, d.physical, 0, d.opts.Disable)
	}
	if d.instance, err = newInstance(d.opts.Validate); err != nil {
		return plan.Snapshot{}, err
	}
	d.opts.Trace("instance created")
	list, handles, err := enumerate(d.instance, d.opts.Disable)
	if err != nil {
		return plan.Snapshot{}, err
	}
	choice, err := plan.Pick(list, d.opts.Device)
	if err != nil {
		return plan.Snapshot{}, err
	}
	if choice.Reference {
		return plan.Snapshot{}, fmt.Errorf("%w: the reference is not a Vulkan device; use package ref", graph.ErrNoDevice)
	}
	d.physical = handles[list[choice.Device].Index]
	return list[choice.Device], nil
}

// create makes the VkDevice with the planned features.
func (d *Device) create() error {
	n := needs(d.plan)
	d.family = n.Family
	priority := float32(0.5)
	info := vk.Chain(&vk.DeviceCreateInfo{
		QueueCreateInfoCount:    1,
		PQueueCreateInfos:       &vk.DeviceQueueCreateInfo{QueueFamilyIndex: d.family, QueueCount: 1, PQueuePriorities: &priority},
		EnabledExtensionCount:   uint32(len(n.Extensions)),
		PpEnabledExtensionNames: vk.CStrings(n.Extensions),
	}, n.Features...)
	var err error
	d.vk, err = d.instance.CreateDevice(d.physical, info)
	d.owned = err == nil
	return err
}

// Name is the device and its driver.
func (d *Device) Name() string { return d.plan.Title() }

// Plan is what was decided for the device.
func (d *Device) Plan() *plan.Plan { return d.plan }

// Probe is what the start-up probe found, nil when it is switched off.
func (d *Device) Probe() *Probe { return d.probe }

// Exact reports whether the device gives the reference's words, as it does but in the profile fast.
func (d *Device) Exact() bool { return d.opts.Profile != "fast" }

// Limits gives the sizes that buffers and bindings may have, and a tuning's chunk.
func (d *Device) Limits() graph.Limits {
	l := graph.Limits{MaxBinding: d.plan.Limits.Binding, MaxBuffer: min(d.plan.Limits.Buffer, d.plan.Limits.Allocation)}
	if t := d.plan.Tuning(); t != nil {
		l.Chunk = t.Chunk
	}
	return l
}

// Messages returns what the validation layer has reported so far.
func (d *Device) Messages() []string {
	d.instance.mu.Lock()
	defer d.instance.mu.Unlock()
	return slices.Clone(d.instance.messages)
}

// usable is the error of a device that is closed or lost. mu is held.
func (d *Device) usable() error {
	if d.closed {
		return fmt.Errorf("%s: %w", d.Name(), graph.ErrClosed)
	}
	return d.lost
}

// failed wraps an error of a Vulkan command, and marks the device when it is
// lost. mu is held.
func (d *Device) failed(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, vk.ErrorDeviceLost):
		d.lost = fmt.Errorf("%s: %s: %w: %w; open the device again", d.Name(), what, graph.ErrDeviceLost, err)
		return d.lost
	case errors.Is(err, vk.ErrorOutOfDeviceMemory), errors.Is(err, vk.ErrorOutOfHostMemory):
		return fmt.Errorf("%s: %s: %w: %w", d.Name(), what, graph.ErrOutOfMemory, err)
	}
	return fmt.Errorf("%s: %s: %w", d.Name(), what, err)
}

// submit hands command buffers to the queue. mu is held.
func (d *Device) submit(what string, info []vk.SubmitInfo, fence vk.Fence) error {
	d.submits++
	if d.submits == d.opts.Test.LoseSubmit {
		return d.failed(what, vk.ErrorDeviceLost)
	}
	if a := d.opts.Adopt; a != nil && a.Lock != nil {
		a.Lock()
		defer a.Unlock()
	}
	return d.failed(what, d.vk.QueueSubmit(d.queue, info, fence))
}

// spinTime is how long a fence of a card is polled before the thread sleeps:
// waking up takes 25 us more, which counts when a token takes 500.
const spinTime = 3 * time.Millisecond

// wait waits for a fence and resets it. mu is held.
func (d *Device) wait(what string, fence []vk.Fence) error {
	if d.plan.Type == plan.Discrete || d.plan.Type == plan.Virtual {
		for began := time.Now(); d.vk.GetFenceStatus(fence[0]) == vk.NotReady && time.Since(began) < spinTime; {
			goruntime.Gosched()
		}
	}
	return d.failed(what, d.sleep(fence))
}

// sleep is wait for who has time, and does not hold mu.
func (d *Device) sleep(fence []vk.Fence) error {
	err := d.vk.WaitForFences(fence, true, ^uint64(0))
	if err == nil {
		err = d.vk.ResetFences(fence)
	}
	return err
}

// Close ends the device, its programs and buffers. It may be called more than
// once; other methods return graph.ErrClosed afterwards.
func (d *Device) Close() error {
	d.filling.Lock()
	defer d.filling.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.pipes.save(d)
	d.opts.Trace("pipelines saved")
	d.destroy()
	d.opts.Trace("device closed")
	return nil
}

// Abandon is Close for a process that ends at once: it saves what is kept between runs,
// and leaves memory and objects to the system.
func (d *Device) Abandon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		d.pipes.save(d)
		d.opts.Trace("pipelines saved")
	}
}

// destroy releases what open made, all or in part.
func (d *Device) destroy() {
	if d.vk != nil {
		_ = d.settle() // nobody waits for what it tells any more
		for p := range d.programs {
			p.destroy()
		}
		d.stage.close(d)
		d.once.close(d)
		d.pipes.close(d)
		d.memory.close(d)
		if d.owned {
			d.vk.DestroyDevice()
		}
	}
	if d.instance != nil {
		d.instance.close()
	}
}
