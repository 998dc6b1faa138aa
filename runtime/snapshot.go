package runtime

import (
	"fmt"
	"slices"

	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/vk"
)

// optional are the feature structs that the runtime asks for, and enables in
// part. A struct is chained only where the version or an extension has it.
type optional struct {
	storage16  vk.PhysicalDevice16BitStorageFeatures
	storage8   vk.PhysicalDevice8BitStorageFeatures
	small      vk.PhysicalDeviceShaderFloat16Int8Features
	subgroup   vk.PhysicalDeviceSubgroupSizeControlFeatures
	dot        vk.PhysicalDeviceShaderIntegerDotProductFeatures
	memory     vk.PhysicalDeviceVulkanMemoryModelFeatures
	maint4     vk.PhysicalDeviceMaintenance4Features
	coop       vk.PhysicalDeviceCooperativeMatrixFeaturesKHR
	address    vk.PhysicalDeviceBufferDeviceAddressFeatures
	extensions []string // to enable for the structs of the chain
}

// chain lists the structs that a device of this version and these extensions
// knows.
func (o *optional) chain(api uint32, has func(string) bool, coop bool) []vk.Extensible {
	var list []vk.Extensible
	o.extensions = nil
	add := func(s vk.Extensible, core uint32, extension string) {
		if api >= core {
			list = append(list, s)
		} else if has(extension) {
			list = append(list, s)
			o.extensions = append(o.extensions, extension)
		}
	}
	const never = ^uint32(0)
	add(&o.storage16, vk.APIVersion11, vk.KHR16bitStorageExtensionName)
	add(&o.storage8, vk.APIVersion12, vk.KHR8bitStorageExtensionName)
	add(&o.small, vk.APIVersion12, vk.KHRShaderFloat16Int8ExtensionName)
	add(&o.memory, vk.APIVersion12, vk.KHRVulkanMemoryModelExtensionName)
	add(&o.address, vk.APIVersion12, vk.KHRBufferDeviceAddressExtensionName)
	add(&o.subgroup, vk.APIVersion13, vk.EXTSubgroupSizeControlExtensionName)
	add(&o.dot, vk.APIVersion13, vk.KHRShaderIntegerDotProductExtensionName)
	add(&o.maint4, vk.APIVersion13, vk.KHRMaintenance4ExtensionName)
	if coop {
		add(&o.coop, never, vk.KHRCooperativeMatrixExtensionName)
	}
	return list
}

// take describes a physical device. Words in disable name optional queries
// that are left out, because drivers exist that crash in them.
func take(in *instance, pd vk.PhysicalDevice, index int, disable []string) (plan.Snapshot, error) {
	extensions, err := in.EnumerateDeviceExtensionProperties(pd, "")
	if err != nil {
		return plan.Snapshot{}, fmt.Errorf("device %d: its extensions: %w", index, err)
	}
	s := plan.Snapshot{Index: index}
	for _, e := range extensions {
		s.Extensions = append(s.Extensions, vk.String(e.ExtensionName[:]))
	}
	has := func(name string) bool { return slices.Contains(s.Extensions, name) }
	base := in.GetPhysicalDeviceProperties(pd)
	api := min(base.ApiVersion, in.api)
	s.API = plan.Version(api)
	s.Name = vk.String(base.DeviceName[:])
	s.VendorID, s.DeviceID, s.DriverVersion = base.VendorID, base.DeviceID, base.DriverVersion
	s.Type = plan.DeviceType(base.DeviceType)
	if api < vk.APIVersion11 {
		return s, nil // too old to be opened: the name is enough
	}
	takeProperties(in, pd, &s, has)
	takeMemory(in, pd, &s, has(vk.EXTMemoryBudgetExtensionName) && !slices.Contains(disable, "budget"))

	var o optional
	coop := !slices.Contains(disable, "coopmat") && has(vk.KHRCooperativeMatrixExtensionName)
	features := vk.Chain(&vk.PhysicalDeviceFeatures2{}, o.chain(api, has, coop)...)
	in.GetPhysicalDeviceFeatures2(pd, features)
	s.Storage16 = o.storage16.StorageBuffer16BitAccess.Bool()
	s.Storage8 = o.storage8.StorageBuffer8BitAccess.Bool()
	s.Float16, s.Int8 = o.small.ShaderFloat16.Bool(), o.small.ShaderInt8.Bool()
	s.Dot = o.dot.ShaderIntegerDotProduct.Bool()
	s.Address = o.address.BufferDeviceAddress.Bool()
	s.Import = has(vk.NVXBinaryImportExtensionName)
	if !o.subgroup.SubgroupSizeControl.Bool() {
		s.Subgroup.Min, s.Subgroup.Max = 0, 0
	}
	s.CoopMatrix = o.coop.CooperativeMatrix.Bool() && o.memory.VulkanMemoryModel.Bool() && o.memory.VulkanMemoryModelDeviceScope.Bool()
	if s.CoopMatrix {
		shapes, err := in.GetPhysicalDeviceCooperativeMatrixPropertiesKHR(pd)
		if err != nil {
			return s, fmt.Errorf("%s: its cooperative matrices (TERN_DISABLE=coopmat skips this): %w", s.Name, err)
		}
		for _, c := range shapes {
			if c.Scope == vk.ScopeSubgroupKHR {
				s.Coop = append(s.Coop, plan.CoopShape{
					M: c.MSize, N: c.NSize, K: c.KSize,
					A: plan.Component(c.AType), B: plan.Component(c.BType), C: plan.Component(c.CType), Result: plan.Component(c.ResultType),
				})
			}
		}
	}
	return s, nil
}

func takeProperties(in *instance, pd vk.PhysicalDevice, s *plan.Snapshot, has func(string) bool) {
	var (
		id       vk.PhysicalDeviceIDProperties
		subgroup vk.PhysicalDeviceSubgroupProperties
		maint3   vk.PhysicalDeviceMaintenance3Properties
		driver   vk.PhysicalDeviceDriverProperties
		controls vk.PhysicalDeviceFloatControlsProperties
		sizes    vk.PhysicalDeviceSubgroupSizeControlProperties
		dot      vk.PhysicalDeviceShaderIntegerDotProductProperties
		maint4   vk.PhysicalDeviceMaintenance4Properties
		pci      vk.PhysicalDevicePCIBusInfoPropertiesEXT
		nvidia   vk.PhysicalDeviceShaderSMBuiltinsPropertiesNV
	)
	api := uint32(s.API)
	chain := []vk.Extensible{&id, &subgroup, &maint3}
	add := func(p vk.Extensible, core uint32, extension string) bool {
		if api >= core || has(extension) {
			chain = append(chain, p)
			return true
		}
		return false
	}
	add(&driver, vk.APIVersion12, vk.KHRDriverPropertiesExtensionName)
	hasControls := add(&controls, vk.APIVersion12, vk.KHRShaderFloatControlsExtensionName)
	add(&sizes, vk.APIVersion13, vk.EXTSubgroupSizeControlExtensionName)
	add(&dot, vk.APIVersion13, vk.KHRShaderIntegerDotProductExtensionName)
	hasMaint4 := add(&maint4, vk.APIVersion13, vk.KHRMaintenance4ExtensionName)
	hasPCI := has(vk.EXTPciBusInfoExtensionName)
	if hasPCI {
		chain = append(chain, &pci)
	}
	if has(vk.NVShaderSmBuiltinsExtensionName) {
		chain = append(chain, &nvidia)
	}
	p := vk.Chain(&vk.PhysicalDeviceProperties2{}, chain...)
	in.GetPhysicalDeviceProperties2(pd, p)

	l := &p.Properties.Limits
	s.Limits = plan.Limits{
		Groups:          l.MaxComputeWorkGroupCount,
		LocalSize:       l.MaxComputeWorkGroupSize,
		Invocations:     l.MaxComputeWorkGroupInvocations,
		SharedBytes:     l.MaxComputeSharedMemorySize,
		PushBytes:       l.MaxPushConstantsSize,
		StorageBuffers:  min(l.MaxPerStageDescriptorStorageBuffers, l.MaxDescriptorSetStorageBuffers, l.MaxPerStageResources),
		Binding:         uint64(l.MaxStorageBufferRange),
		Allocation:      maint3.MaxMemoryAllocationSize,
		Buffer:          maint3.MaxMemoryAllocationSize,
		OffsetAlignment: l.MinStorageBufferOffsetAlignment,
		TimestampPeriod: l.TimestampPeriod,
	}
	if hasMaint4 {
		s.Limits.Buffer = min(s.Limits.Buffer, maint4.MaxBufferSize)
	}
	if family, bits, ok := computeFamily(in, pd); ok {
		s.Family, s.Limits.TimestampBits = family, bits
	}
	s.UUID, s.Processors = id.DeviceUUID, nvidia.ShaderSMCount
	s.DriverID = uint32(driver.DriverID)
	s.DriverName, s.DriverInfo = vk.String(driver.DriverName[:]), vk.String(driver.DriverInfo[:])
	s.Subgroup = plan.Subgroup{Size: subgroup.SubgroupSize}
	if sizes.RequiredSubgroupSizeStages&vk.ShaderStageComputeBit != 0 {
		s.Subgroup.Min, s.Subgroup.Max = sizes.MinSubgroupSize, sizes.MaxSubgroupSize
	}
	s.DotAccelerated = dot.IntegerDotProduct4x8BitPackedSignedAccelerated.Bool()
	if hasControls {
		s.FloatControls = plan.FloatControls{
			RTE16: controls.ShaderRoundingModeRTEFloat16.Bool(), RTE32: controls.ShaderRoundingModeRTEFloat32.Bool(),
			PreserveSpecial32:   controls.ShaderSignedZeroInfNanPreserveFloat32.Bool(),
			RoundingIndependent: controls.RoundingModeIndependence != vk.ShaderFloatControlsIndependenceNone,
		}
	}
	if hasPCI {
		s.PCI = fmt.Sprintf("%04x:%02x:%02x.%x", pci.PciDomain, pci.PciBus, pci.PciDevice, pci.PciFunction)
	}
}

// takeMemory reads the heaps and types, and the budgets of the moment.
func takeMemory(in *instance, pd vk.PhysicalDevice, s *plan.Snapshot, budget bool) {
	var b vk.PhysicalDeviceMemoryBudgetPropertiesEXT
	var m *vk.PhysicalDeviceMemoryProperties2
	if budget {
		m = vk.Chain(&vk.PhysicalDeviceMemoryProperties2{}, &b)
	} else {
		m = &vk.PhysicalDeviceMemoryProperties2{}
	}
	in.GetPhysicalDeviceMemoryProperties2(pd, m)
	p := &m.MemoryProperties
	s.Heaps, s.Types, s.HasBudget = nil, nil, budget
	for i, h := range p.MemoryHeaps[:p.MemoryHeapCount] {
		s.Heaps = append(s.Heaps, plan.Heap{
			Bytes: h.Size, DeviceLocal: h.Flags&vk.MemoryHeapDeviceLocalBit != 0,
			Budget: b.HeapBudget[i], Usage: b.HeapUsage[i],
		})
	}
	for _, t := range p.MemoryTypes[:p.MemoryTypeCount] {
		s.Types = append(s.Types, plan.MemoryType{Flags: plan.MemoryFlags(t.PropertyFlags), Heap: int(t.HeapIndex)})
	}
}

// computeFamily finds the queue family to use: the first one with compute and
// graphics, whose compute work no driver treats as secondary, or else the first
// with compute.
func computeFamily(in *instance, pd vk.PhysicalDevice) (family, timestampBits uint32, ok bool) {
	list := in.GetPhysicalDeviceQueueFamilyProperties(pd)
	for _, want := range []vk.QueueFlags{vk.QueueComputeBit | vk.QueueGraphicsBit, vk.QueueComputeBit} {
		for i, f := range list {
			if f.QueueFlags&want == want && f.QueueCount > 0 {
				return uint32(i), f.TimestampValidBits, true
			}
		}
	}
	return 0, 0, false
}
