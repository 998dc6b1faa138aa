// Package vk is Vulkan spelled in Go: handles, structs, enums and commands,
// called without cgo. The loader library is opened when the program runs, so a
// binary that uses vk builds with CGO_ENABLED=0 and starts on machines that
// have no Vulkan.
//
// Names are the C names without vk, Vk and VK_: vkCreateBuffer is
// Device.CreateBuffer, VkBufferCreateInfo is BufferCreateInfo and
// VK_FORMAT_R8_UNORM is FormatR8Unorm. Fields keep their C names with a
// capital, and structs have the C layout. Only 64-bit platforms are supported.
//
// # Commands
//
// A command is a method of the table it is looked up in: Loader before there is
// an instance, Instance for instances and physical devices, Device for devices,
// queues and command buffers. The handle of the table itself is not repeated as
// an argument. Other parameters follow one rule:
//
//   - an array with its count is one slice, and untyped memory is []byte;
//   - what the command writes is returned, unless it can carry a pNext chain:
//     then the caller passes a pointer to it;
//   - a VkResult is returned as an error, always last: nil for VK_SUCCESS, and a
//     [Result] otherwise. Success codes such as [NotReady], [Timeout] or
//     [Incomplete] are Results too, so compare with err == vk.Timeout or
//     errors.Is;
//   - VkBool32 is bool, and a C string is string ("" is NULL);
//   - allocation callbacks do not exist: NULL is passed.
//
// Commands set the sType of every struct that is handed to them, also of those
// inside and behind it; [Chain] does the same for a pNext chain. Hence nobody
// writes sType. Flags and enums of structs are typed, lengths and pointers inside
// structs are as in C; [CString], [CStrings] and [String] convert.
//
// A command that the driver or loader does not have returns
// [ErrorExtensionNotPresent], or panics with its name when it cannot return an
// error; Has asks before. A command promoted to core is found under its
// extension's name too. That a command is found does not mean that its feature
// was enabled: this package does not replace the validation layers.
//
// Pointers inside structs must point to memory that Go's garbage collector
// sees through a Go pointer, or that it does not manage. Memory that the driver keeps after the
// call returns (imported host memory, user data) must be pinned by the caller.
package vk

// The registry must be at least the version at the head of vk_gen.go; VK_XML names
// one that is not in its usual place.
//
//go:generate go run ../tools/genvk -registry=$VK_XML -names names.txt -out vk_gen.go -test layout_gen_test.go

import "unsafe"

// The structs are laid out for 64-bit pointers: this fails to compile elsewhere.
const _ = uint(unsafe.Sizeof(uintptr(0)) - 8)

type (
	// DeviceSize is VkDeviceSize, in bytes.
	DeviceSize = uint64
	// DeviceAddress is VkDeviceAddress.
	DeviceAddress = uint64
	// Flags is VkFlags, for reserved flags that have no type of their own.
	Flags = uint32
	// Flags64 is VkFlags64.
	Flags64 = uint64
	// SampleMask is VkSampleMask.
	SampleMask = uint32
	// Bool32 is VkBool32: 0 is false, anything else is true.
	Bool32 uint32
)

// Values of Bool32.
const (
	False Bool32 = 0
	True  Bool32 = 1
)

// ToBool32 converts a Go bool.
func ToBool32(b bool) Bool32 {
	if b {
		return True
	}
	return False
}

// Bool converts to a Go bool.
func (b Bool32) Bool() bool { return b != False }

// Versions of the API, as apiVersion wants them.
const (
	APIVersion10 uint32 = 1 << 22
	APIVersion11 uint32 = 1<<22 | 1<<12
	APIVersion12 uint32 = 1<<22 | 2<<12
	APIVersion13 uint32 = 1<<22 | 3<<12
	APIVersion14 uint32 = 1<<22 | 4<<12
)

// MakeVersion packs a version: VK_MAKE_API_VERSION with variant 0.
func MakeVersion(major, minor, patch uint32) uint32 { return major<<22 | minor<<12 | patch }

// SplitVersion is the reverse of MakeVersion. The variant is dropped.
func SplitVersion(v uint32) (major, minor, patch uint32) {
	return v >> 22 & 0x7f, v >> 12 & 0x3ff, v & 0xfff
}
