package vk

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// TestSynchronization2 uses commands of Vulkan 1.3 by their extension's names,
// on a device of Vulkan 1.2.
func TestSynchronization2(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{}, KHRSynchronization2ExtensionName, &PhysicalDeviceSynchronization2Features{Synchronization2: True})
	d := r.device
	src, srcData := r.hostBuffer(t, 16)
	dst, dstData := r.hostBuffer(t, 16)
	clear(srcData)
	clear(dstData)
	cmd := r.begin(t)
	d.CmdFillBuffer(cmd, src, 0, WholeSize, 42)
	d.CmdPipelineBarrier2(cmd, &DependencyInfo{MemoryBarrierCount: 1, PMemoryBarriers: &MemoryBarrier2{
		SrcStageMask: PipelineStage2CopyBit | PipelineStage2ClearBit, SrcAccessMask: Access2TransferWriteBit,
		DstStageMask: PipelineStage2CopyBit, DstAccessMask: Access2TransferReadBit,
	}})
	d.CmdCopyBuffer(cmd, src, dst, []BufferCopy{{Size: 64}})
	check(t, d.EndCommandBuffer(cmd))
	timeline := must[Semaphore](t)(d.CreateSemaphore(Chain(&SemaphoreCreateInfo{}, &SemaphoreTypeCreateInfo{SemaphoreType: SemaphoreTypeTimeline})))
	defer d.DestroySemaphore(timeline)
	check(t, d.QueueSubmit2(r.queue, []SubmitInfo2{{
		CommandBufferInfoCount: 1, PCommandBufferInfos: &CommandBufferSubmitInfo{CommandBuffer: cmd},
		SignalSemaphoreInfoCount: 1, PSignalSemaphoreInfos: &SemaphoreSubmitInfo{Semaphore: timeline, Value: 3, StageMask: PipelineStage2AllCommandsBit},
	}}, 0))
	three := uint64(3)
	check(t, d.WaitSemaphores(&SemaphoreWaitInfo{SemaphoreCount: 1, PSemaphores: &timeline, PValues: &three}, 10e9))
	for i, got := range dstData {
		if got != 42 {
			t.Fatalf("dst[%d] = %d, want 42", i, got)
		}
	}
}

func TestBufferDeviceAddress(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{}, &PhysicalDeviceBufferDeviceAddressFeatures{BufferDeviceAddress: True})
	d := r.device
	buffer := must[Buffer](t)(d.CreateBuffer(&BufferCreateInfo{Size: 256, Usage: BufferUsageShaderDeviceAddressBit | BufferUsageStorageBufferBit}))
	defer d.DestroyBuffer(buffer)
	need := d.GetBufferMemoryRequirements(buffer)
	kind := uint32(0)
	for need.MemoryTypeBits>>kind&1 == 0 {
		kind++
	}
	memory := must[DeviceMemory](t)(d.AllocateMemory(Chain(&MemoryAllocateInfo{AllocationSize: need.Size, MemoryTypeIndex: kind},
		&MemoryAllocateFlagsInfo{Flags: MemoryAllocateDeviceAddressBit})))
	defer d.FreeMemory(memory)
	check(t, d.BindBufferMemory2([]BindBufferMemoryInfo{{Buffer: buffer, Memory: memory}}))
	if d.GetBufferDeviceAddress(&BufferDeviceAddressInfo{Buffer: buffer}) == 0 {
		t.Error("the buffer has no address")
	}
}

func TestMemoryBudget(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{}, EXTMemoryBudgetExtensionName)
	var budget PhysicalDeviceMemoryBudgetPropertiesEXT
	all := Chain(&PhysicalDeviceMemoryProperties2{}, &budget)
	r.instance.GetPhysicalDeviceMemoryProperties2(r.physical, all)
	for i, heap := range all.MemoryProperties.MemoryHeaps[:all.MemoryProperties.MemoryHeapCount] {
		if budget.HeapBudget[i] == 0 || budget.HeapBudget[i] > heap.Size {
			t.Errorf("heap %d: budget %d of %d bytes", i, budget.HeapBudget[i], heap.Size)
		}
	}
}

func TestHostPointerProperties(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{}, EXTExternalMemoryHostExtensionName)
	var host PhysicalDeviceExternalMemoryHostPropertiesEXT
	r.instance.GetPhysicalDeviceProperties2(r.physical, Chain(&PhysicalDeviceProperties2{}, &host))
	align := uintptr(host.MinImportedHostPointerAlignment)
	memory := make([]byte, 2*align)
	p := unsafe.Pointer(&memory[-uintptr(unsafe.Pointer(&memory[0]))&(align-1)])
	var properties MemoryHostPointerPropertiesEXT
	check(t, r.device.GetMemoryHostPointerPropertiesEXT(ExternalMemoryHandleTypeHostAllocationBitEXT, p, &properties))
	if properties.MemoryTypeBits == 0 {
		t.Error("no memory type can import host memory")
	}
}

func TestCalibratedTimestamps(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{}, EXTCalibratedTimestampsExtensionName)
	domains := must[[]TimeDomainKHR](t)(r.instance.GetPhysicalDeviceCalibrateableTimeDomainsKHR(r.physical))
	infos := make([]CalibratedTimestampInfoKHR, len(domains))
	for i, domain := range domains {
		infos[i].TimeDomain = domain
	}
	times, _, err := r.device.GetCalibratedTimestampsKHR(infos)
	check(t, err)
	if len(times) == 0 || len(times) != len(domains) || times[0] == 0 {
		t.Errorf("times %v in the domains %v", times, domains)
	}
}

func TestCooperativeMatrix(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{}, KHRCooperativeMatrixExtensionName, &PhysicalDeviceCooperativeMatrixFeaturesKHR{CooperativeMatrix: True},
		&PhysicalDeviceVulkanMemoryModelFeatures{VulkanMemoryModel: True})
	list := must[[]CooperativeMatrixPropertiesKHR](t)(r.instance.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(r.physical))
	if len(list) == 0 {
		t.Fatal("the device has cooperative matrices of no shape")
	}
	for _, p := range list {
		text := fmt.Sprintf("%dx%dx%d %v %v %v %v %v", p.MSize, p.NSize, p.KSize, p.AType, p.BType, p.CType, p.ResultType, p.Scope)
		if p.MSize == 0 || p.NSize == 0 || p.KSize == 0 || p.SType != StructureTypeCooperativeMatrixPropertiesKHR || strings.Contains(text, "Vk") {
			t.Errorf("strange shape: %s", text)
		}
		t.Log(text)
	}
}

func TestCooperativeMatrix2(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{}, NVCooperativeMatrix2ExtensionName, KHRCooperativeMatrixExtensionName)
	list := must[[]CooperativeMatrixFlexibleDimensionsPropertiesNV](t)(r.instance.GetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV(r.physical))
	for _, p := range list {
		if p.MGranularity == 0 || p.NGranularity == 0 || p.KGranularity == 0 {
			t.Errorf("strange granularity: %+v", p)
		}
	}
	t.Logf("%d flexible shapes", len(list))
}

func TestPipelineExecutables(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{}, KHRPipelineExecutablePropertiesExtensionName,
		&PhysicalDevicePipelineExecutablePropertiesFeaturesKHR{PipelineExecutableInfo: True})
	d := r.device
	s := newScale(t, d, 0, 0, PipelineCreateCaptureStatisticsBitKHR|PipelineCreateCaptureInternalRepresentationsBitKHR)
	executables := must[[]PipelineExecutablePropertiesKHR](t)(d.GetPipelineExecutablePropertiesKHR(&PipelineInfoKHR{Pipeline: s.pipeline}))
	if len(executables) == 0 {
		t.Fatal("the pipeline has no executables")
	}
	for i, e := range executables {
		t.Logf("%s (%s), subgroups of %d", String(e.Name[:]), String(e.Description[:]), e.SubgroupSize)
		info := &PipelineExecutableInfoKHR{Pipeline: s.pipeline, ExecutableIndex: uint32(i)}
		for _, st := range must[[]PipelineExecutableStatisticKHR](t)(d.GetPipelineExecutableStatisticsKHR(info)) {
			t.Logf("  %s: %s", String(st.Name[:]), st.Text())
		}
		for _, text := range must[[]ExecutableText](t)(d.GetPipelineExecutableInternalRepresentationsKHR(info)) {
			t.Logf("  %s: %d bytes", text.Name, len(text.Data))
			if len(text.Data) == 0 {
				t.Errorf("%s is empty", text.Name)
			}
		}
	}
}
