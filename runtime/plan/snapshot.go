// Package plan decides, from a description of a device and the user's wishes,
// what the runtime will do: which device, which features, which implementation
// of a contract on which grid, which memory. It is pure: data in, decision out,
// no Vulkan call, so every decision is tested without the hardware.
package plan

import (
	"fmt"
	"strings"
)

// DeviceType is VkPhysicalDeviceType.
type DeviceType uint8

// Values of DeviceType, as Vulkan numbers them.
const (
	Other DeviceType = iota
	Integrated
	Discrete
	Virtual
	CPU
)

func (t DeviceType) String() string {
	if t > CPU {
		t = Other
	}
	return [...]string{"other", "integrated", "discrete", "virtual", "cpu"}[t]
}

// Version is a Vulkan version number as VK_MAKE_API_VERSION packs it.
type Version uint32

// MakeVersion packs a version.
func MakeVersion(major, minor, patch uint32) Version {
	return Version(major<<22 | minor<<12 | patch)
}

func (v Version) String() string {
	return fmt.Sprintf("%d.%d.%d", uint32(v)>>22&0x7f, uint32(v)>>12&0x3ff, uint32(v)&0xfff)
}

// UUID identifies a physical device across drivers and processes.
type UUID [16]byte

func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// Limits are the limits that decisions look at. Sizes are in bytes.
type Limits struct {
	Groups          [3]uint32 // workgroups of one dispatch on x, y, z
	LocalSize       [3]uint32
	Invocations     uint32 // of one workgroup
	SharedBytes     uint32
	PushBytes       uint32
	StorageBuffers  uint32 // bindings of one shader
	Binding         uint64 // maxStorageBufferRange
	Allocation      uint64 // maxMemoryAllocationSize
	Buffer          uint64 // maxBufferSize, or Allocation where the device does not say
	OffsetAlignment uint64 // minStorageBufferOffsetAlignment
	TimestampPeriod float32
	TimestampBits   uint32 // of the compute queue, 0: none
}

// MemoryFlags are VkMemoryPropertyFlags.
type MemoryFlags uint32

// The flags that decisions look at, as Vulkan numbers them.
const (
	DeviceLocal  MemoryFlags = 1
	HostVisible  MemoryFlags = 2
	HostCoherent MemoryFlags = 4
	HostCached   MemoryFlags = 8
	// Mapped is what memory needs to be written and read in place.
	Mapped = HostVisible | HostCoherent
	plain  = DeviceLocal | HostVisible | HostCoherent | HostCached
)

// MemoryType is one row of the device's memory table.
type MemoryType struct {
	Flags MemoryFlags
	Heap  int
}

// Heap is one of the device's memories.
type Heap struct {
	Bytes       uint64
	DeviceLocal bool
	Budget      uint64 // what this process may use in all, 0 when not known
	Usage       uint64 // what this process uses
}

// Subgroup says what the device's subgroups can do in compute shaders.
type Subgroup struct {
	Size     uint32 // the default
	Min, Max uint32 // sizes a pipeline may ask for, 0: it may not ask
}

// Component is the type of the elements of a cooperative matrix, as
// VkComponentTypeKHR numbers it.
type Component uint32

// The component types that decisions look at.
const (
	Float16 Component = 0
	Float32 Component = 1
	Sint8   Component = 3
	Sint32  Component = 5
)

// CoopShape is one row of the device's table of cooperative matrices at
// subgroup scope: A (MxK) times B (KxN) plus C gives a matrix of type Result.
type CoopShape struct {
	M, N, K         uint32
	A, B, C, Result Component
}

// FloatControls is what the device offers of VK_KHR_shader_float_controls.
type FloatControls struct {
	RTE16, RTE32        bool
	PreserveSpecial32   bool
	RoundingIndependent bool // 32 bits may be set apart from the other widths
}

// Snapshot is all that decisions know of a device.
type Snapshot struct {
	Index               int // in the loader's list
	Name                string
	VendorID, DeviceID  uint32
	DriverID            uint32 // VkDriverId, 0 when not known
	DriverName          string
	DriverInfo          string // the driver's version, for people
	DriverVersion       uint32
	Type                DeviceType
	UUID                UUID
	PCI                 string // domain:bus:device.function, "" when not known
	API                 Version
	Family              uint32 // the queue family that runs compute work
	Extensions          []string
	Limits              Limits
	Heaps               []Heap
	Types               []MemoryType
	HasBudget           bool   // the heaps' Budget and Usage were asked for
	Float16, Int8       bool   // shaderFloat16, shaderInt8
	Storage8, Storage16 bool   // storageBuffer8BitAccess, storageBuffer16BitAccess
	Dot, DotAccelerated bool   // integer dot product; packed signed 4x8 in hardware
	CoopMatrix          bool   // VK_KHR_cooperative_matrix, and the memory model it needs
	Address             bool   // bufferDeviceAddress
	Import              bool   // VK_NVX_binary_import, which takes kernels in PTX
	Processors          uint32 // that run workgroups side by side, 0: unknown
	Coop                []CoopShape
	Subgroup            Subgroup
	FloatControls       FloatControls
}

// Title names the device and its driver on one line.
func (s *Snapshot) Title() string {
	driver := strings.TrimSpace(s.DriverName + " " + s.DriverInfo)
	if driver == "" {
		return s.Name
	}
	return s.Name + " (" + driver + ")"
}

// Unified reports whether all memory of the device can be written by the host
// at full speed, so that nothing needs staging: integrated and CPU devices with
// a device-local type that is mapped.
func (s *Snapshot) Unified() bool {
	if s.Type != Integrated && s.Type != CPU {
		return false
	}
	for _, t := range s.Types {
		if t.Flags&(DeviceLocal|Mapped) == DeviceLocal|Mapped {
			return true
		}
	}
	return false
}
