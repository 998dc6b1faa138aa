// Package frame is the user interface of the desktop example without its window: a
// Vulkan device that is shared with Tern, a renderer of quads and text, and a chat
// with a model. The window of tools/desktop and the off-screen measurement of
// tools/desktop/offscreen draw it.
package frame

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/vk"
)

// DeviceOptions say what the user interface needs.
type DeviceOptions struct {
	GetInstanceProcAddr uintptr  // of the program's loader; 0: the system's
	Extensions          []string // of the instance
	// Surface makes the window's surface; nil: pictures are drawn to memory.
	Surface func(vk.InstanceHandle) (vk.SurfaceKHR, error)
}

// Device is a VkInstance and a VkDevice that the user interface owns and lends to
// Tern: with a queue for each where there are two, else with a lock.
type Device struct {
	*vk.Device
	Instance *vk.Instance
	Physical vk.PhysicalDevice
	Surface  vk.SurfaceKHR
	Name     string
	Queue    vk.Queue // of the user interface
	Family   uint32
	OwnQueue bool // Tern has another one

	options DeviceOptions
	needs   *runtime.Needs
	tern    vk.Queue
	mu      sync.Mutex // of the queue, if it is shared
}

// apiVersion is the highest that is used here.
const apiVersion = vk.APIVersion13

// OpenDevice makes an instance and the device on it that suits best. The caller closes it,
// after what uses it.
func OpenDevice(o DeviceOptions) (d *Device, err error) {
	loader, err := vk.Load()
	if o.GetInstanceProcAddr != 0 {
		loader, err = vk.LoadFrom(o.GetInstanceProcAddr)
	}
	if err != nil {
		return nil, err
	}
	d = &Device{options: o}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	d.Instance, err = loader.CreateInstance(&vk.InstanceCreateInfo{
		PApplicationInfo:      &vk.ApplicationInfo{PApplicationName: vk.CString("tern desktop"), ApiVersion: apiVersion},
		EnabledExtensionCount: uint32(len(o.Extensions)), PpEnabledExtensionNames: vk.CStrings(o.Extensions),
	})
	if err != nil {
		return d, fmt.Errorf("creating a Vulkan instance: %w", err)
	}
	if o.Surface != nil {
		if d.Surface, err = o.Surface(d.Instance.Handle); err != nil {
			return d, fmt.Errorf("making the window's surface: %w", err)
		}
	}
	if err := d.pick(); err != nil {
		return d, err
	}
	return d, d.create()
}

// pick chooses a device that can draw, and show if there is a surface: a card before a
// part of the processor before the processor itself.
func (d *Device) pick() error {
	list, err := d.Instance.EnumeratePhysicalDevices()
	if err != nil {
		return fmt.Errorf("listing devices: %w", err)
	}
	order := []vk.PhysicalDeviceType{vk.PhysicalDeviceTypeDiscreteGpu, vk.PhysicalDeviceTypeVirtualGpu, vk.PhysicalDeviceTypeIntegratedGpu, vk.PhysicalDeviceTypeCpu}
	rank := func(pd vk.PhysicalDevice) int {
		at := slices.Index(order, d.Instance.GetPhysicalDeviceProperties(pd).DeviceType)
		return cmp.Or(at+1, len(order)+1)
	}
	slices.SortStableFunc(list, func(a, b vk.PhysicalDevice) int { return cmp.Compare(rank(a), rank(b)) })
	for _, pd := range list {
		for family, f := range d.Instance.GetPhysicalDeviceQueueFamilyProperties(pd) {
			if f.QueueFlags&vk.QueueGraphicsBit == 0 || !d.shows(pd, uint32(family)) {
				continue
			}
			properties := d.Instance.GetPhysicalDeviceProperties(pd)
			d.Physical, d.Family, d.Name = pd, uint32(family), vk.String(properties.DeviceName[:])
			return nil
		}
	}
	return errors.New("no Vulkan device can draw here")
}

func (d *Device) shows(pd vk.PhysicalDevice, family uint32) bool {
	if d.Surface == 0 {
		return true
	}
	ok, err := d.Instance.GetPhysicalDeviceSurfaceSupportKHR(pd, family, d.Surface)
	return err == nil && ok.Bool()
}

// create makes the device with what Tern needs.
func (d *Device) create() (err error) {
	if d.needs, err = runtime.NeedsOf(d.adopt()); err != nil {
		return err
	}
	// The picture's queue goes first where the device looks at priorities.
	priorities := []float32{1, 0.25}
	families := d.Instance.GetPhysicalDeviceQueueFamilyProperties(d.Physical)
	queues := []vk.DeviceQueueCreateInfo{{QueueFamilyIndex: d.Family, QueueCount: 1, PQueuePriorities: &priorities[0]}}
	ternIndex := uint32(0)
	switch {
	case d.needs.Family != d.Family:
		queues = append(queues, vk.DeviceQueueCreateInfo{QueueFamilyIndex: d.needs.Family, QueueCount: 1, PQueuePriorities: &priorities[1]})
		d.OwnQueue = true
	case families[d.Family].QueueCount > 1:
		queues[0].QueueCount, ternIndex, d.OwnQueue = 2, 1, true
	}
	extensions := d.needs.Extensions
	if d.Surface != 0 {
		extensions = append(extensions, vk.KHRSwapchainExtensionName)
	}
	d.Device, err = d.Instance.CreateDevice(d.Physical, vk.Chain(&vk.DeviceCreateInfo{
		QueueCreateInfoCount: uint32(len(queues)), PQueueCreateInfos: &queues[0],
		EnabledExtensionCount: uint32(len(extensions)), PpEnabledExtensionNames: vk.CStrings(extensions),
	}, d.needs.Features...))
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	d.Queue, d.tern = d.GetDeviceQueue(d.Family, 0), d.GetDeviceQueue(d.needs.Family, ternIndex)
	return nil
}

func (d *Device) adopt() *runtime.Adopt {
	return &runtime.Adopt{
		GetInstanceProcAddr: d.options.GetInstanceProcAddr, Instance: d.Instance.Handle, PhysicalDevice: d.Physical, APIVersion: apiVersion,
	}
}

// Tern opens Tern on the device. It is closed before the device.
func (d *Device) Tern() (*runtime.Device, error) {
	a := d.adopt()
	a.Device, a.Queue, a.QueueFamily, a.Enabled = d.Handle, d.tern, d.needs.Family, d.needs.Enabled
	if !d.OwnQueue {
		a.Lock, a.Unlock = d.mu.Lock, d.mu.Unlock
	}
	return runtime.Open(runtime.Options{Adopt: a})
}

// Submit hands work to the user interface's queue.
func (d *Device) Submit(info vk.SubmitInfo, fence vk.Fence) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.QueueSubmit(d.Queue, []vk.SubmitInfo{info}, fence)
}

// Present shows a picture.
func (d *Device) Present(info *vk.PresentInfoKHR) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.QueuePresentKHR(d.Queue, info)
}

// Idle waits until the user interface's queue has nothing to do.
func (d *Device) Idle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.QueueWaitIdle(d.Queue)
}

// Close destroys the device, the surface and the instance.
func (d *Device) Close() {
	if d.Device != nil {
		d.DestroyDevice()
	}
	if d.Surface != 0 {
		d.Instance.DestroySurfaceKHR(d.Surface)
	}
	if d.Instance != nil {
		d.Instance.DestroyInstance()
	}
}

// allocate makes memory for a resource, of a type with all of the first flags that some
// type has.
func (d *Device) allocate(need vk.MemoryRequirements, wants ...vk.MemoryPropertyFlags) (vk.DeviceMemory, error) {
	types := d.Instance.GetPhysicalDeviceMemoryProperties(d.Physical)
	for _, want := range wants {
		for i := range types.MemoryTypeCount {
			if need.MemoryTypeBits&(1<<i) != 0 && types.MemoryTypes[i].PropertyFlags&want == want {
				return d.AllocateMemory(&vk.MemoryAllocateInfo{AllocationSize: need.Size, MemoryTypeIndex: i})
			}
		}
	}
	return 0, errors.New("no memory type suits")
}
