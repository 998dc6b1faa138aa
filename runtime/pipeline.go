package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/parallel"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/vk"
)

// pipelines makes compute pipelines when they are first needed and keeps them.
type pipelines struct {
	sets    map[int]vk.DescriptorSetLayout // by number of bindings
	layouts map[layoutKey]vk.PipelineLayout
	shaders map[*spirv.Kernel]*shader
	ready   map[pipelineKey]*pipeline
	cache   vk.PipelineCache
	file    string // of the cache, "" for none
	loaded  int    // bytes read from it
	many    int    // pipelines above which those without users go
}

type layoutKey struct{ bindings, push int }

// shader is a kernel's module as this device gets it: with float controls, and
// replaced by a file of KernelDir if there is one.
type shader struct {
	module vk.ShaderModule
	ptx    *ptx // instead of module
	info   spirv.Info
}

type pipelineKey struct {
	kernel *spirv.Kernel
	spec   string // the words of the specialisation constants from id 1
	first  uint32 // the number of its first workgroup, see plan.Grid
}

// firstID is the specialisation constant FIRST of lib/tern.glsl.
const firstID = 31

type pipeline struct {
	handle vk.Pipeline
	layout vk.PipelineLayout
	set    vk.DescriptorSetLayout
	ptx    *ptx // instead of the three
	local  [3]uint32
	spec   []byte // what ptx gets of specialisation constants
	users  int    // nodes of open programs
}

// trim destroys pipelines without users when there are many. mu is held.
func (ps *pipelines) trim(d *Device) {
	if len(ps.ready) <= ps.many {
		return
	}
	for key, p := range ps.ready {
		if p.users == 0 {
			d.vk.DestroyPipeline(p.handle)
			delete(ps.ready, key)
		}
	}
}

func (ps *pipelines) open(d *Device) error {
	ps.sets = map[int]vk.DescriptorSetLayout{}
	ps.layouts = map[layoutKey]vk.PipelineLayout{}
	ps.shaders = map[*spirv.Kernel]*shader{}
	ps.ready = map[pipelineKey]*pipeline{}
	ps.many = 512
	return ps.load(d)
}

func (ps *pipelines) close(d *Device) {
	for _, p := range ps.ready {
		d.vk.DestroyPipeline(p.handle)
	}
	for _, s := range ps.shaders {
		d.vk.DestroyShaderModule(s.module)
		s.ptx.destroy(d)
	}
	for _, l := range ps.layouts {
		d.vk.DestroyPipelineLayout(l)
	}
	for _, s := range ps.sets {
		d.vk.DestroyDescriptorSetLayout(s)
	}
	if ps.cache != 0 {
		d.vk.DestroyPipelineCache(ps.cache)
	}
}

// shader returns the module of a kernel.
func (ps *pipelines) shader(d *Device, k *spirv.Kernel) (*shader, error) {
	if s := ps.shaders[k]; s != nil {
		return s, nil
	}
	s, err := d.replacement(k)
	if err == nil && s == nil {
		s, err = d.module(k, k.Data(), k.Info)
	}
	if err != nil {
		return nil, err
	}
	ps.shaders[k] = s
	return s, nil
}

// replacement is a kernel of KernelDir, nil if it has none of the name.
func (d *Device) replacement(k *spirv.Kernel) (*shader, error) {
	if d.opts.KernelDir == "" {
		return nil, nil
	}
	path := filepath.Join(d.opts.KernelDir, k.File())
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	info, err := k.Reflect(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d.module(k, data, *info)
}

// module makes a shader of what is in a file of the kernel's kind.
func (d *Device) module(k *spirv.Kernel, data []byte, info spirv.Info) (*shader, error) {
	if k.IsPTX() {
		return &shader{ptx: &ptx{text: data}, info: info}, nil
	}
	words, err := spirv.WordsOf(data)
	if err == nil {
		words, err = spirv.WithFloatControls(words, d.plan.Controls())
	}
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	module, err := d.vk.CreateShaderModule(&vk.ShaderModuleCreateInfo{CodeSize: uintptr(4 * len(words)), PCode: &words[0]})
	if err != nil {
		return nil, d.failed("shader module of "+k.Name, err)
	}
	return &shader{module: module, info: info}, nil
}

// layout returns the layouts for a number of storage buffers and bytes of push
// constants.
func (ps *pipelines) layout(d *Device, bindings, push int) (vk.PipelineLayout, vk.DescriptorSetLayout, error) {
	key := layoutKey{bindings, push}
	set := ps.sets[bindings]
	if set == 0 {
		list := make([]vk.DescriptorSetLayoutBinding, bindings)
		for i := range list {
			list[i] = vk.DescriptorSetLayoutBinding{Binding: uint32(i), DescriptorType: vk.DescriptorTypeStorageBuffer, DescriptorCount: 1, StageFlags: vk.ShaderStageComputeBit}
		}
		var err error
		set, err = d.vk.CreateDescriptorSetLayout(&vk.DescriptorSetLayoutCreateInfo{BindingCount: uint32(bindings), PBindings: unsafe.SliceData(list)})
		if err != nil {
			return 0, 0, d.failed("descriptor set layout", err)
		}
		ps.sets[bindings] = set
	}
	if l := ps.layouts[key]; l != 0 {
		return l, set, nil
	}
	info := &vk.PipelineLayoutCreateInfo{SetLayoutCount: 1, PSetLayouts: &set}
	if push > 0 {
		info.PushConstantRangeCount = 1
		info.PPushConstantRanges = &vk.PushConstantRange{StageFlags: vk.ShaderStageComputeBit, Size: uint32(push)}
	}
	l, err := d.vk.CreatePipelineLayout(info)
	if err != nil {
		return 0, 0, d.failed("pipeline layout", err)
	}
	ps.layouts[key] = l
	return l, set, nil
}

// job is a pipeline to be made.
type job struct {
	key    pipelineKey
	shader *shader
	made   *pipeline
	err    error
}

// spec is a node's specialisation constants as words from id 1 on, with 0 for those
// that the kernel does not have: nodes that differ only in these share a pipeline.
func (d *Device) spec(k *spirv.Kernel, words []uint32) string {
	used := make([]uint32, len(words))
	if d.opts.KernelDir != "" { // a replacement may have others
		copy(used, words)
	}
	for _, s := range k.Specs {
		if s.ID >= 1 && int(s.ID) <= len(words) {
			used[s.ID-1] = words[s.ID-1]
		}
	}
	return string(vk.SliceBytes(used))
}

// get makes the pipelines of several keys, in parallel, unless they exist. The
// kernel's interface must suit nodes, one for each key. mu is held.
func (ps *pipelines) get(d *Device, keys []pipelineKey, nodes []*graph.Node) error {
	var jobs []*job
	asked := map[pipelineKey]bool{}
	for i, key := range keys {
		s, err := ps.shader(d, key.kernel)
		if err != nil {
			return err
		}
		if n := nodes[i]; len(n.Args) != s.info.Bindings || 4*len(n.Push) != s.info.PushBytes {
			return fmt.Errorf("node %s: %d bindings and %d bytes of push constants, kernel %s has %d and %d",
				n.Label, len(n.Args), 4*len(n.Push), key.kernel.Name, s.info.Bindings, s.info.PushBytes)
		}
		if ps.ready[key] != nil || asked[key] {
			continue
		}
		asked[key] = true
		made := &pipeline{ptx: s.ptx}
		if s.ptx == nil {
			if made.layout, made.set, err = ps.layout(d, s.info.Bindings, s.info.PushBytes); err != nil {
				return err
			}
		}
		jobs = append(jobs, &job{key: key, shader: s, made: made})
	}
	parallel.For(len(jobs), func(i int) { jobs[i].err = ps.build(d, jobs[i]) })
	var err error
	for _, j := range jobs {
		if j.err != nil {
			err = d.failed("pipeline of kernel "+j.key.kernel.Name, j.err)
			continue
		}
		ps.ready[j.key] = j.made
	}
	return err
}

// build makes one pipeline. It only reads from d.
func (ps *pipelines) build(d *Device, j *job) error {
	if j.shader.ptx != nil {
		j.made.local, j.made.spec = j.shader.info.LocalSize, make([]byte, 4*len(j.shader.info.Specs))
		copy(j.made.spec, j.key.spec)
		return j.shader.ptx.load(d)
	}
	fold := d.plan.Fold()
	data := append(append([]byte{}, vk.Bytes(&fold)...), j.key.spec...)
	data = append(data, vk.Bytes(&j.key.first)...)
	entries := make([]vk.SpecializationMapEntry, len(data)/4)
	for i := range entries {
		entries[i] = vk.SpecializationMapEntry{ConstantID: uint32(i), Offset: uint32(4 * i), Size: 4}
	}
	entries[len(entries)-1].ConstantID = firstID
	stage := vk.PipelineShaderStageCreateInfo{
		Stage:  vk.ShaderStageComputeBit,
		Module: j.shader.module,
		PName:  vk.CString(j.shader.info.EntryPoint),
		PSpecializationInfo: &vk.SpecializationInfo{
			MapEntryCount: uint32(len(entries)), PMapEntries: &entries[0],
			DataSize: uintptr(len(data)), PData: unsafe.Pointer(&data[0]),
		},
	}
	if n := d.plan.SubgroupSize(j.key.kernel); n != 0 {
		vk.Chain(&stage, &vk.PipelineShaderStageRequiredSubgroupSizeCreateInfo{RequiredSubgroupSize: n})
	}
	info := vk.ComputePipelineCreateInfo{Stage: stage, Layout: j.made.layout}
	made, err := d.vk.CreateComputePipelines(ps.cache, []vk.ComputePipelineCreateInfo{info})
	if err != nil {
		return err
	}
	j.made.handle = made[0]
	if !d.instance.debugUtils { // an adopted instance may have the command without the extension
		return nil
	}
	return d.vk.NameObject(vk.ObjectTypePipeline, uint64(made[0]), j.key.kernel.Name) // for the validation layer
}
