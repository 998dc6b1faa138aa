package runtime

import (
	"fmt"
	"slices"

	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/vk"
)

// Needs is what a VkDevice is created with so that all of the device's kernels can be
// used: for programs that create it themselves, to share it.
type Needs struct {
	Family     uint32          // of queues
	Extensions []string        // of the device
	Features   []vk.Extensible // structs for the pNext chain of VkDeviceCreateInfo
	Enabled    []string        // what to hand over as Adopt.Enabled
}

// NeedsOf tells what to create the device of a physical device with. Of a only
// GetInstanceProcAddr, Instance, PhysicalDevice and APIVersion are looked at. What the
// start-up probe found of no use, the last time on this driver, is not asked for.
func NeedsOf(a *Adopt) (*Needs, error) {
	in, err := adoptInstance(a)
	if err != nil {
		return nil, err
	}
	s, err := take(in, a.PhysicalDevice, 0, nil)
	if err != nil {
		return nil, err
	}
	p, err := plan.New(s, plan.Config{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Title(), err)
	}
	d := &Device{plan: p}
	if err := d.foresee(); err != nil {
		return nil, err
	}
	return needs(p), nil
}

// needs lists what the plan uses.
func needs(p *plan.Plan) *Needs {
	has := func(name string) bool { return slices.Contains(p.Extensions, name) }
	coop := slices.ContainsFunc([]string{"coop16", "coop8", "coop16f16", "coop8f16"}, p.Has)
	var o optional
	n := &Needs{Family: p.Family, Features: o.chain(uint32(p.API), has, coop), Enabled: p.Features()}
	o.storage16.StorageBuffer16BitAccess = vk.ToBool32(p.Has("store16"))
	o.storage8.StorageBuffer8BitAccess = vk.ToBool32(p.Has("store8"))
	o.small.ShaderFloat16 = vk.ToBool32(p.Has("f16"))
	o.small.ShaderInt8 = vk.ToBool32(p.Has("int8"))
	o.dot.ShaderIntegerDotProduct = vk.ToBool32(p.Has("dot"))
	o.memory.VulkanMemoryModel = vk.ToBool32(coop)
	o.memory.VulkanMemoryModelDeviceScope = vk.ToBool32(coop) // of the atomics of other kernels
	o.address.BufferDeviceAddress = vk.ToBool32(p.Addresses())
	o.coop.CooperativeMatrix = vk.ToBool32(coop)
	o.subgroup.SubgroupSizeControl = vk.ToBool32(p.Subgroup.Min != 0)
	if p.Subgroup.Min != 0 {
		n.Enabled = append(n.Enabled, "subgroup")
	}
	n.Extensions = o.extensions
	for _, e := range []string{vk.KHRPortabilitySubsetExtensionName, vk.EXTMemoryBudgetExtensionName} {
		if has(e) {
			n.Extensions = append(n.Extensions, e)
		}
	}
	if p.Has("sm90") {
		n.Extensions = append(n.Extensions, vk.NVXBinaryImportExtensionName)
	}
	if p.API < plan.MakeVersion(1, 2, 0) && has(vk.KHRShaderFloatControlsExtensionName) {
		n.Extensions = append(n.Extensions, vk.KHRShaderFloatControlsExtensionName)
	}
	return n
}
