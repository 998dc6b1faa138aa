package vk

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// LoaderVariable names the environment variable that replaces the system's
// loader library by a file.
const LoaderVariable = "TERN_VULKAN_LOADER"

// ErrNoLoader says that no Vulkan loader library could be opened.
var ErrNoLoader = errors.New("no Vulkan loader")

// Loader is an opened Vulkan library and its global commands. It is safe for
// use by several goroutines, and stays open as long as the program runs.
type Loader struct {
	getInstanceProcAddr uintptr
	procs               procs
}

// Load opens the system's Vulkan loader, or the file that the environment
// variable TERN_VULKAN_LOADER names. The error wraps ErrNoLoader and lists
// what was tried.
func Load() (*Loader, error) {
	names := loaderNames()
	if path := os.Getenv(LoaderVariable); path != "" {
		names = []string{path}
	}
	var tried []string
	for _, name := range names {
		addr, err := openLibrary(name, "vkGetInstanceProcAddr")
		if err == nil {
			return LoadFrom(addr)
		}
		text := strings.TrimSpace(err.Error())
		if !strings.Contains(text, name) {
			text = strings.TrimSuffix(name+": "+text, ": ")
		}
		tried = append(tried, text)
	}
	return nil, fmt.Errorf("vk: %w (tried %s)", ErrNoLoader, strings.Join(tried, "; "))
}

// LoadFrom uses the vkGetInstanceProcAddr of a library that the program has
// opened already, such as the result of glfwGetInstanceProcAddress(NULL,
// "vkGetInstanceProcAddr") or SDL_Vulkan_GetVkGetInstanceProcAddr().
func LoadFrom(getInstanceProcAddr uintptr) (*Loader, error) {
	if getInstanceProcAddr == 0 {
		return nil, fmt.Errorf("vk: %w (vkGetInstanceProcAddr is null)", ErrNoLoader)
	}
	l := &Loader{getInstanceProcAddr: getInstanceProcAddr}
	l.procs.lookup(levelLoader, func(name string) uintptr { return getProc(getInstanceProcAddr, 0, name) })
	if l.procs[cmdCreateInstance] == 0 {
		return nil, fmt.Errorf("vk: %w (the library has no vkCreateInstance)", ErrNoLoader)
	}
	return l, nil
}

// Has tells whether a global command (its C name) was found.
func (l *Loader) Has(name string) bool { return l.procs.has(name) }

// Version is the highest version of instances, VK_API_VERSION_1_0 where the
// loader predates vkEnumerateInstanceVersion.
func (l *Loader) Version() (uint32, error) {
	if !l.Has("vkEnumerateInstanceVersion") {
		return APIVersion10, nil
	}
	return l.EnumerateInstanceVersion()
}

// Instance is a VkInstance and the commands of it and its physical devices.
type Instance struct {
	Handle            InstanceHandle
	loader            *Loader
	getDeviceProcAddr uintptr
	procs             procs
}

// CreateInstance is vkCreateInstance. End with DestroyInstance.
func (l *Loader) CreateInstance(info *InstanceCreateInfo) (*Instance, error) {
	handle, err := l.createInstance(info)
	if err != nil {
		return nil, err
	}
	return l.AdoptInstance(handle)
}

// AdoptInstance uses an instance that another part of the program has made,
// with this loader, and goes on to own.
func (l *Loader) AdoptInstance(handle InstanceHandle) (*Instance, error) {
	if handle == 0 {
		return nil, errors.New("vk: adopting a null instance")
	}
	i := &Instance{Handle: handle, loader: l}
	i.procs.lookup(levelInstance, i.ProcAddr)
	i.getDeviceProcAddr = i.ProcAddr("vkGetDeviceProcAddr")
	if i.getDeviceProcAddr == 0 {
		return nil, errors.New("vk: the instance has no vkGetDeviceProcAddr")
	}
	return i, nil
}

// ProcAddr is vkGetInstanceProcAddr, for commands that this package lacks: the
// address of a C function, or 0.
func (i *Instance) ProcAddr(name string) uintptr {
	return getProc(i.loader.getInstanceProcAddr, uintptr(i.Handle), name)
}

// Has tells whether a command of instances or physical devices (its C name)
// was found.
func (i *Instance) Has(name string) bool { return i.procs.has(name) }

// Device is a VkDevice and the commands of it, its queues and command buffers.
// Like Vulkan itself it leaves the synchronisation of externally synchronised
// handles to the caller.
type Device struct {
	Handle   DeviceHandle
	instance *Instance
	procs    procs
}

// CreateDevice is vkCreateDevice. End with DestroyDevice.
func (i *Instance) CreateDevice(physicalDevice PhysicalDevice, info *DeviceCreateInfo) (*Device, error) {
	handle, err := i.createDevice(physicalDevice, info)
	if err != nil {
		return nil, err
	}
	return i.AdoptDevice(handle)
}

// AdoptDevice uses a device of this instance that another part of the program
// has made and goes on to own.
func (i *Instance) AdoptDevice(handle DeviceHandle) (*Device, error) {
	if handle == 0 {
		return nil, errors.New("vk: adopting a null device")
	}
	d := &Device{Handle: handle, instance: i}
	d.procs.lookup(levelDevice, d.ProcAddr)
	if d.procs[cmdGetDeviceQueue] == 0 {
		return nil, errors.New("vk: the device has no vkGetDeviceQueue")
	}
	return d, nil
}

// ProcAddr is vkGetDeviceProcAddr, for commands that this package lacks: the
// address of a C function, or 0.
func (d *Device) ProcAddr(name string) uintptr {
	return getProc(d.instance.getDeviceProcAddr, uintptr(d.Handle), name)
}

// Has tells whether a command of devices, queues or command buffers (its C
// name) was found.
func (d *Device) Has(name string) bool { return d.procs.has(name) }
