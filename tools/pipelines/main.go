// Command pipelines compiles every kernel on a device and tabulates what the driver
// tells of each: registers, spills, shared memory, size. Nothing is run, so that
// drivers without hardware behind them will do, such as Mesa's RADV with
// RADV_FORCE_FAMILY. Kernels that the device lacks a feature for are listed with it;
// one that the driver refuses is an error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unsafe"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/vk"
)

// The statistics to tabulate, by RADV's names.
var columns = []string{"VGPRs", "SGPRs", "Spilled VGPRs", "Spilled SGPRs", "Scratch size", "LDS size", "Code size", "Subgroups per SIMD"}

func main() {
	out := flag.String("o", "", "`file` for the table (default: standard output)")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "pipelines:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	d, err := open()
	if err != nil {
		return err
	}
	defer d.close()
	var table strings.Builder
	if err := d.table(&table); err != nil {
		return err
	}
	if path == "" {
		_, err := os.Stdout.WriteString(table.String())
		return err
	}
	return os.WriteFile(path, []byte(table.String()), 0o666)
}

// device is the first Vulkan device with all optional features that kernels may need.
type device struct {
	snapshot   plan.Snapshot
	instance   *vk.Instance
	device     *vk.Device
	statistics bool // VK_KHR_pipeline_executable_properties is there
}

func open() (*device, error) {
	list, err := runtime.Devices()
	if err != nil {
		return nil, err
	}
	d := &device{snapshot: list[0]}
	loader, err := vk.Load()
	if err != nil {
		return nil, err
	}
	version, err := loader.Version()
	if err != nil {
		return nil, err
	}
	info := &vk.InstanceCreateInfo{PApplicationInfo: &vk.ApplicationInfo{ApiVersion: min(version, vk.APIVersion14)}}
	if d.instance, err = loader.CreateInstance(info); err != nil {
		return nil, err
	}
	if err := d.create(); err != nil {
		d.close()
		return nil, fmt.Errorf("%s: %w", d.snapshot.Title(), err)
	}
	return d, nil
}

func (d *device) create() error {
	handles, err := d.instance.EnumeratePhysicalDevices()
	if err != nil {
		return err
	}
	physical := handles[d.snapshot.Index]
	var chain []vk.Extensible
	var extensions []string
	add := func(s vk.Extensible, core plan.Version, extension string) bool {
		switch {
		case d.snapshot.API >= core:
		case slices.Contains(d.snapshot.Extensions, extension):
			extensions = append(extensions, extension)
		default:
			return false
		}
		chain = append(chain, s)
		return true
	}
	v12, v13, never := plan.MakeVersion(1, 2, 0), plan.MakeVersion(1, 3, 0), ^plan.Version(0)
	add(&vk.PhysicalDevice16BitStorageFeatures{}, plan.MakeVersion(1, 1, 0), "")
	add(&vk.PhysicalDevice8BitStorageFeatures{}, v12, vk.KHR8bitStorageExtensionName)
	add(&vk.PhysicalDeviceShaderFloat16Int8Features{}, v12, vk.KHRShaderFloat16Int8ExtensionName)
	add(&vk.PhysicalDeviceVulkanMemoryModelFeatures{}, v12, vk.KHRVulkanMemoryModelExtensionName)
	add(&vk.PhysicalDeviceBufferDeviceAddressFeatures{}, v12, vk.KHRBufferDeviceAddressExtensionName)
	add(&vk.PhysicalDeviceSubgroupSizeControlFeatures{}, v13, vk.EXTSubgroupSizeControlExtensionName)
	add(&vk.PhysicalDeviceShaderIntegerDotProductFeatures{}, v13, vk.KHRShaderIntegerDotProductExtensionName)
	add(&vk.PhysicalDeviceMaintenance4Features{}, v13, vk.KHRMaintenance4ExtensionName)
	add(&vk.PhysicalDeviceCooperativeMatrixFeaturesKHR{}, never, vk.KHRCooperativeMatrixExtensionName)
	d.statistics = add(&vk.PhysicalDevicePipelineExecutablePropertiesFeaturesKHR{}, never, vk.KHRPipelineExecutablePropertiesExtensionName)
	// What the query says is there is what the device is made with.
	d.instance.GetPhysicalDeviceFeatures2(physical, vk.Chain(&vk.PhysicalDeviceFeatures2{}, chain...))
	priority := float32(1)
	d.device, err = d.instance.CreateDevice(physical, vk.Chain(&vk.DeviceCreateInfo{
		QueueCreateInfoCount:    1,
		PQueueCreateInfos:       &vk.DeviceQueueCreateInfo{QueueFamilyIndex: d.snapshot.Family, QueueCount: 1, PQueuePriorities: &priority},
		EnabledExtensionCount:   uint32(len(extensions)),
		PpEnabledExtensionNames: vk.CStrings(extensions),
	}, chain...))
	return err
}

func (d *device) close() {
	if d.device != nil {
		d.device.DestroyDevice()
	}
	d.instance.DestroyInstance()
}

// shaders are the kernels that pipelines are made of.
func shaders() []*spirv.Kernel {
	return slices.DeleteFunc(slices.Clone(spirv.Kernels), (*spirv.Kernel).IsPTX)
}

// table compiles all kernels and writes a line for each.
func (d *device) table(w io.Writer) error {
	fmt.Fprintf(w, "# %s; made by tools/pipelines\n", d.snapshot.Title())
	if !d.statistics {
		fmt.Fprintln(w, "# the driver tells no statistics")
	}
	lines := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(lines, "kernel\tsubgroup\t%s\n", strings.ToLower(strings.Join(strings.Split(strings.ReplaceAll(strings.Join(columns, "\t"), " ", "-"), "\t"), "\t")))
	var errs []error
	for _, k := range shaders() {
		p, err := plan.New(d.snapshot, plan.Config{Fast: true, Force: []string{"dot", "resident"}, Kernels: map[string]string{k.Contract: k.Impl}})
		if err != nil {
			fmt.Fprintf(lines, "%s\t%v\n", k.Name, err)
			continue
		}
		cells, err := d.compile(k, p)
		if err != nil {
			errs = append(errs, fmt.Errorf("kernel %s: %w", k.Name, err))
			continue
		}
		fmt.Fprintf(lines, "%s\t%s\n", k.Name, strings.Join(cells, "\t"))
	}
	return errors.Join(append(errs, lines.Flush())...)
}

// compile makes a kernel's pipeline, with its default specialisation constants, and
// returns the cells of its line.
func (d *device) compile(k *spirv.Kernel, p *plan.Plan) ([]string, error) {
	words, err := spirv.WithFloatControls(k.Words(), p.Controls())
	if err != nil {
		return nil, err
	}
	module, err := d.device.CreateShaderModule(&vk.ShaderModuleCreateInfo{CodeSize: uintptr(4 * len(words)), PCode: &words[0]})
	if err != nil {
		return nil, err
	}
	defer d.device.DestroyShaderModule(module)
	bindings := make([]vk.DescriptorSetLayoutBinding, k.Bindings)
	for i := range bindings {
		bindings[i] = vk.DescriptorSetLayoutBinding{Binding: uint32(i), DescriptorType: vk.DescriptorTypeStorageBuffer, DescriptorCount: 1, StageFlags: vk.ShaderStageComputeBit}
	}
	set, err := d.device.CreateDescriptorSetLayout(&vk.DescriptorSetLayoutCreateInfo{BindingCount: uint32(len(bindings)), PBindings: unsafe.SliceData(bindings)})
	if err != nil {
		return nil, err
	}
	defer d.device.DestroyDescriptorSetLayout(set)
	info := &vk.PipelineLayoutCreateInfo{SetLayoutCount: 1, PSetLayouts: &set}
	if k.PushBytes > 0 {
		info.PushConstantRangeCount = 1
		info.PPushConstantRanges = &vk.PushConstantRange{StageFlags: vk.ShaderStageComputeBit, Size: uint32(k.PushBytes)}
	}
	layout, err := d.device.CreatePipelineLayout(info)
	if err != nil {
		return nil, err
	}
	defer d.device.DestroyPipelineLayout(layout)
	stage := vk.PipelineShaderStageCreateInfo{Stage: vk.ShaderStageComputeBit, Module: module, PName: vk.CString(k.EntryPoint)}
	if n := p.SubgroupSize(k); n != 0 {
		vk.Chain(&stage, &vk.PipelineShaderStageRequiredSubgroupSizeCreateInfo{RequiredSubgroupSize: n})
	}
	create := vk.ComputePipelineCreateInfo{Stage: stage, Layout: layout}
	if d.statistics {
		create.Flags = vk.PipelineCreateCaptureStatisticsBitKHR
	}
	made, err := d.device.CreateComputePipelines(0, []vk.ComputePipelineCreateInfo{create})
	if err != nil {
		return nil, err
	}
	defer d.device.DestroyPipeline(made[0])
	if !d.statistics {
		return []string{"compiled"}, nil
	}
	return d.describe(made[0])
}

// describe asks for the statistics of a pipeline's only executable.
func (d *device) describe(p vk.Pipeline) ([]string, error) {
	executables, err := d.device.GetPipelineExecutablePropertiesKHR(&vk.PipelineInfoKHR{Pipeline: p})
	if err != nil || len(executables) == 0 {
		return []string{"compiled"}, err
	}
	list, err := d.device.GetPipelineExecutableStatisticsKHR(&vk.PipelineExecutableInfoKHR{Pipeline: p})
	if err != nil {
		return nil, err
	}
	cells := []string{fmt.Sprint(executables[0].SubgroupSize)}
	for _, name := range columns {
		cell := "-"
		for i := range list {
			if vk.String(list[i].Name[:]) == name {
				cell = list[i].Text()
			}
		}
		cells = append(cells, cell)
	}
	return cells, nil
}
