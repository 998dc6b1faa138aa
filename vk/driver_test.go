package vk

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

func TestMain(m *testing.M) {
	// lavapipe's worker threads cost more than the tiny work of these tests.
	if os.Getenv("LP_NUM_THREADS") == "" {
		os.Setenv("LP_NUM_THREADS", "0")
	}
	os.Exit(m.Run())
}

// rig is a device of the machine's first driver.
type rig struct {
	instance *Instance
	physical PhysicalDevice
	device   *Device
	queue    Queue
	family   uint32
	pool     CommandPool
}

func load(t testing.TB) *Loader {
	t.Helper()
	l, err := Load()
	if errors.Is(err, ErrNoLoader) {
		t.Skip("no Vulkan loader on this machine: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func hasExtension(list []ExtensionProperties, name string) bool {
	return slices.ContainsFunc(list, func(e ExtensionProperties) bool { return String(e.ExtensionName[:]) == name })
}

// newRig opens a device with Vulkan 1.2 timeline semaphores and host query
// reset. extensions are names of device extensions, and structs with features
// of them; a test is skipped where the device lacks one of the extensions.
func newRig(t testing.TB, instanceInfo *InstanceCreateInfo, extensions ...any) *rig {
	t.Helper()
	l := load(t)
	instanceInfo.PApplicationInfo = &ApplicationInfo{PApplicationName: CString("vk test"), ApiVersion: APIVersion12}
	r := &rig{instance: must[*Instance](t)(l.CreateInstance(instanceInfo))}
	t.Cleanup(r.instance.DestroyInstance)
	all, err := r.instance.EnumeratePhysicalDevices()
	if err != nil || len(all) == 0 {
		t.Skipf("no Vulkan device on this machine (%v)", err)
	}
	r.physical = all[0]
	for i, f := range r.instance.GetPhysicalDeviceQueueFamilyProperties(r.physical) {
		if f.QueueFlags&QueueComputeBit != 0 {
			r.family = uint32(i)
			break
		}
	}
	offered := must[[]ExtensionProperties](t)(r.instance.EnumerateDeviceExtensionProperties(r.physical, ""))
	var names []string
	features := []Extensible{&PhysicalDeviceTimelineSemaphoreFeatures{TimelineSemaphore: True}, &PhysicalDeviceHostQueryResetFeatures{HostQueryReset: True}}
	for _, e := range extensions {
		if f, ok := e.(Extensible); ok {
			features = append(features, f)
			continue
		}
		if !hasExtension(offered, e.(string)) {
			t.Skipf("no %s on this device", e)
		}
		names = append(names, e.(string))
	}
	priority := float32(1)
	info := Chain(&DeviceCreateInfo{
		QueueCreateInfoCount:    1,
		PQueueCreateInfos:       &DeviceQueueCreateInfo{QueueFamilyIndex: r.family, QueueCount: 1, PQueuePriorities: &priority},
		EnabledExtensionCount:   uint32(len(names)),
		PpEnabledExtensionNames: CStrings(names),
	}, features...)
	r.device = must[*Device](t)(r.instance.CreateDevice(r.physical, info))
	t.Cleanup(r.device.DestroyDevice)
	r.queue = r.device.GetDeviceQueue(r.family, 0)
	r.pool = must[CommandPool](t)(r.device.CreateCommandPool(&CommandPoolCreateInfo{QueueFamilyIndex: r.family}))
	t.Cleanup(func() { r.device.DestroyCommandPool(r.pool) })
	return r
}

// hostBuffer makes a mapped buffer of n words.
func (r *rig) hostBuffer(t testing.TB, n int) (Buffer, []uint32) {
	t.Helper()
	d := r.device
	buffer := must[Buffer](t)(d.CreateBuffer(&BufferCreateInfo{
		Size:  DeviceSize(4 * n),
		Usage: BufferUsageTransferSrcBit | BufferUsageTransferDstBit | BufferUsageStorageBufferBit,
	}))
	t.Cleanup(func() { d.DestroyBuffer(buffer) })
	need := d.GetBufferMemoryRequirements(buffer)
	var need2 MemoryRequirements2
	d.GetBufferMemoryRequirements2(&BufferMemoryRequirementsInfo2{Buffer: buffer}, &need2)
	if need2.MemoryRequirements != need {
		t.Errorf("requirements differ: %+v and %+v", need, need2.MemoryRequirements)
	}
	types := r.instance.GetPhysicalDeviceMemoryProperties(r.physical)
	const want = MemoryPropertyHostVisibleBit | MemoryPropertyHostCoherentBit
	for i, kind := range types.MemoryTypes[:types.MemoryTypeCount] {
		if need.MemoryTypeBits>>i&1 == 0 || kind.PropertyFlags&want != want {
			continue
		}
		memory := must[DeviceMemory](t)(d.AllocateMemory(Chain(
			&MemoryAllocateInfo{AllocationSize: need.Size, MemoryTypeIndex: uint32(i)},
			&MemoryDedicatedAllocateInfo{Buffer: buffer})))
		t.Cleanup(func() { d.FreeMemory(memory) })
		check(t, d.BindBufferMemory(buffer, memory, 0))
		data := must[unsafe.Pointer](t)(d.MapMemory(memory, 0, WholeSize, 0))
		return buffer, unsafe.Slice((*uint32)(data), n)
	}
	t.Fatal("no host-visible memory type fits the buffer")
	return 0, nil
}

func (r *rig) begin(t testing.TB) CommandBuffer {
	t.Helper()
	list := must[[]CommandBuffer](t)(r.device.AllocateCommandBuffers(&CommandBufferAllocateInfo{CommandPool: r.pool, CommandBufferCount: 1}))
	check(t, r.device.BeginCommandBuffer(list[0], &CommandBufferBeginInfo{}))
	return list[0]
}

// TestTransfer fills, updates and copies buffers, and waits by fence, timeline
// semaphore and timestamp query.
func TestTransfer(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{})
	d := r.device
	const n = 1024
	src, srcData := r.hostBuffer(t, n)
	dst, dstData := r.hostBuffer(t, n)
	queries := must[QueryPool](t)(d.CreateQueryPool(&QueryPoolCreateInfo{QueryType: QueryTypeTimestamp, QueryCount: 2}))
	defer d.DestroyQueryPool(queries)
	d.ResetQueryPool(queries, 0, 2)

	clear(dstData) // fresh memory holds anything
	cmd := r.begin(t)
	d.CmdWriteTimestamp(cmd, PipelineStageTopOfPipeBit, queries, 0)
	d.CmdFillBuffer(cmd, src, 0, WholeSize, 0xdeadbeef)
	barrier := []MemoryBarrier{{SrcAccessMask: AccessTransferWriteBit, DstAccessMask: AccessTransferReadBit | AccessTransferWriteBit}}
	d.CmdPipelineBarrier(cmd, PipelineStageTransferBit, PipelineStageTransferBit, 0, barrier, nil, nil)
	d.CmdUpdateBuffer(cmd, src, 8, SliceBytes([]uint32{1, 2, 3}))
	d.CmdPipelineBarrier(cmd, PipelineStageTransferBit, PipelineStageTransferBit, 0, barrier, nil, nil)
	d.CmdCopyBuffer(cmd, src, dst, []BufferCopy{{Size: 64}, {SrcOffset: 64, DstOffset: 128, Size: 4}})
	d.CmdWriteTimestamp(cmd, PipelineStageBottomOfPipeBit, queries, 1)
	check(t, d.EndCommandBuffer(cmd))

	fence := must[Fence](t)(d.CreateFence(&FenceCreateInfo{}))
	defer d.DestroyFence(fence)
	if err := d.GetFenceStatus(fence); err != NotReady {
		t.Errorf("status of a new fence: %v, want VK_NOT_READY", err)
	}
	if err := d.WaitForFences([]Fence{fence}, true, 0); !errors.Is(err, Timeout) {
		t.Errorf("waiting for a new fence: %v, want VK_TIMEOUT", err)
	}
	timeline := must[Semaphore](t)(d.CreateSemaphore(Chain(&SemaphoreCreateInfo{},
		&SemaphoreTypeCreateInfo{SemaphoreType: SemaphoreTypeTimeline, InitialValue: 5})))
	defer d.DestroySemaphore(timeline)
	done := uint64(7)
	submit := Chain(&SubmitInfo{CommandBufferCount: 1, PCommandBuffers: &cmd, SignalSemaphoreCount: 1, PSignalSemaphores: &timeline},
		&TimelineSemaphoreSubmitInfo{SignalSemaphoreValueCount: 1, PSignalSemaphoreValues: &done})
	check(t, d.QueueSubmit(r.queue, []SubmitInfo{*submit}, fence))
	check(t, d.WaitForFences([]Fence{fence}, true, 10e9))
	check(t, d.GetFenceStatus(fence))
	check(t, d.WaitSemaphores(&SemaphoreWaitInfo{SemaphoreCount: 1, PSemaphores: &timeline, PValues: &done}, 10e9))
	if v := must[uint64](t)(d.GetSemaphoreCounterValue(timeline)); v != 7 {
		t.Errorf("timeline is at %d, want 7", v)
	}

	for i, got := range srcData {
		want := uint32(0xdeadbeef)
		if i >= 2 && i < 5 {
			want = uint32(i - 1)
		}
		if got != want {
			t.Fatalf("src[%d] = %#x, want %#x", i, got, want)
		}
	}
	if !slices.Equal(dstData[:16], srcData[:16]) || dstData[16] != 0 || dstData[32] != 0xdeadbeef {
		t.Errorf("copied %#x", dstData[:33])
	}
	times := make([]byte, 16)
	check(t, d.GetQueryPoolResults(queries, 0, 2, times, 8, QueryResult64Bit|QueryResultWaitBit))
	if a, b := binary.LittleEndian.Uint64(times), binary.LittleEndian.Uint64(times[8:]); a > b {
		t.Errorf("timestamps go backwards: %d, %d", a, b)
	}
}

// TestProperties reads a chain of properties and compares what is said twice.
func TestProperties(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{})
	plain := r.instance.GetPhysicalDeviceProperties(r.physical)
	var driver PhysicalDeviceDriverProperties
	var v11 PhysicalDeviceVulkan11Properties
	var id PhysicalDeviceIDProperties
	var subgroup PhysicalDeviceSubgroupProperties
	all := Chain(&PhysicalDeviceProperties2{}, &driver, &v11, nil, &id, (*PhysicalDeviceFloatControlsProperties)(nil), &subgroup)
	r.instance.GetPhysicalDeviceProperties2(r.physical, all)
	if all.Properties.DeviceID != plain.DeviceID || all.Properties.Limits != plain.Limits {
		t.Error("properties and properties2 differ")
	}
	if plain.Limits.MaxComputeSharedMemorySize < 16384 || plain.Limits.MaxStorageBufferRange < 1<<27 {
		t.Errorf("limits below what Vulkan guarantees: %+v", plain.Limits)
	}
	if v11.SubgroupSize == 0 || v11.SubgroupSize != subgroup.SubgroupSize || v11.DeviceUUID != id.DeviceUUID {
		t.Errorf("subgroup size %d and %d, UUID %x and %x", v11.SubgroupSize, subgroup.SubgroupSize, v11.DeviceUUID, id.DeviceUUID)
	}
	if String(driver.DriverName[:]) == "" || strings.HasPrefix(driver.DriverID.String(), "VkDriverId(") {
		t.Errorf("driver %q, %v", String(driver.DriverName[:]), driver.DriverID)
	}
	queues := r.instance.GetPhysicalDeviceQueueFamilyProperties2(r.physical)
	if len(queues) == 0 || queues[r.family].QueueFamilyProperties.QueueFlags&QueueComputeBit == 0 {
		t.Errorf("queue families %+v", queues)
	}
	t.Logf("%s, %v: %s", String(plain.DeviceName[:]), driver.DriverID, String(driver.DriverInfo[:]))
}

// TestAdopt uses handles that another table has made.
func TestAdopt(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{})
	other := must[*Loader](t)(LoadFrom(r.instance.loader.getInstanceProcAddr))
	instance := must[*Instance](t)(other.AdoptInstance(r.instance.Handle))
	device := must[*Device](t)(instance.AdoptDevice(r.device.Handle))
	if q := device.GetDeviceQueue(r.family, 0); q != r.queue {
		t.Errorf("queue %#x, want %#x", q, r.queue)
	}
	check(t, device.DeviceWaitIdle())
	if _, err := other.AdoptInstance(0); err == nil {
		t.Error("a null instance was adopted")
	}
	if _, err := instance.AdoptDevice(0); err == nil {
		t.Error("a null device was adopted")
	}
	if _, err := LoadFrom(0); !errors.Is(err, ErrNoLoader) {
		t.Errorf("LoadFrom(0): %v", err)
	}
}

// TestMissing asks for what is not there.
func TestMissing(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{})
	if !r.device.Has("vkCmdDispatch") || r.device.Has("vkNoSuchCommand") || r.device.ProcAddr("vkNoSuchCommand") != 0 {
		t.Error("Has or ProcAddr is wrong about vkCmdDispatch or vkNoSuchCommand")
	}
	bare := *r.device
	bare.procs = procs{}
	if err := bare.DeviceWaitIdle(); err != ErrorExtensionNotPresent {
		t.Errorf("a missing command returned %v", err)
	}
	if _, err := bare.CreateFence(&FenceCreateInfo{}); err != ErrorExtensionNotPresent {
		t.Errorf("a missing command returned %v", err)
	}
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "vkCmdDispatch ") {
			t.Errorf("panicked with %q", text)
		}
	}()
	bare.CmdDispatch(0, 1, 1, 1)
}

func TestErrors(t *testing.T) {
	l := load(t)
	_, err := l.CreateInstance(&InstanceCreateInfo{EnabledLayerCount: 1, PpEnabledLayerNames: CStrings([]string{"VK_LAYER_none"})})
	if err != ErrorLayerNotPresent || !strings.HasPrefix(err.Error(), "VK_ERROR_LAYER_NOT_PRESENT: ") {
		t.Errorf("an unknown layer: %v", err)
	}
	if text := Result(-12345).Error(); text != "VkResult(-12345)" {
		t.Errorf("unknown result: %q", text)
	}
	t.Setenv(LoaderVariable, "/nonexistent/libvulkan.so")
	if _, err := Load(); !errors.Is(err, ErrNoLoader) || !strings.Contains(err.Error(), "/nonexistent/libvulkan.so") {
		t.Errorf("a loader that is not there: %v", err)
	}
	// dlerror says nothing to a thread other than the one that failed.
	var threads sync.WaitGroup
	for range 8 {
		threads.Go(func() {
			for range 200 {
				if _, err := openLibrary("/nonexistent/libvulkan.so", "vkGetInstanceProcAddr"); err == nil || !strings.Contains(err.Error(), "/nonexistent/libvulkan.so") {
					t.Errorf("a library that is not there: %v", err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	threads.Wait()
}
