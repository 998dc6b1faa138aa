package runtime

import (
	"sync"
	"unsafe"

	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/vk"
)

// ptx is a kernel in PTX, which the driver compiles when it is first loaded.
type ptx struct {
	text     []byte
	once     sync.Once
	module   vk.CuModuleNVX
	function vk.CuFunctionNVX
	err      error
}

// load makes the function, once. It only reads from d.
func (x *ptx) load(d *Device) error {
	x.once.Do(func() {
		text := append(x.text, 0) // drivers take it for a C string
		info := &vk.CuModuleCreateInfoNVX{DataSize: uintptr(len(x.text)), PData: unsafe.Pointer(&text[0])}
		if x.module, x.err = d.vk.CreateCuModuleNVX(info); x.err == nil {
			x.function, x.err = d.vk.CreateCuFunctionNVX(&vk.CuFunctionCreateInfoNVX{Module: x.module, PName: vk.CString(spirv.PTXEntry)})
		}
		x.text = nil
	})
	return x.err
}

func (x *ptx) destroy(d *Device) {
	if x == nil {
		return
	}
	if x.function != 0 {
		d.vk.DestroyCuFunctionNVX(x.function)
	}
	if x.module != 0 {
		d.vk.DestroyCuModuleNVX(x.module)
	}
}

// launch records a node whose kernel is PTX: its parameters are the addresses of the
// bindings, the push constants and the specialisation constants.
func (p *Program) launch(cmd vk.CommandBuffer, n *node) {
	var params []unsafe.Pointer
	for _, a := range n.Args {
		b, at := p.place(a.Value)
		address := b.block.address + b.offset + at
		params = append(params, unsafe.Pointer(&address))
	}
	if len(n.Push) > 0 {
		params = append(params, unsafe.Pointer(&n.Push[0]))
	}
	if len(n.spec) > 0 {
		params = append(params, unsafe.Pointer(&n.spec[0]))
	}
	p.device.vk.CmdCuLaunchKernelNVX(cmd, &vk.CuLaunchInfoNVX{
		Function: n.ptx.function,
		GridDimX: n.grid.Groups[0], GridDimY: n.grid.Groups[1], GridDimZ: 1,
		BlockDimX: n.local[0], BlockDimY: n.local[1], BlockDimZ: n.local[2],
		SharedMemBytes: n.kernel.Tile.Get("shared", 0),
		ParamCount:     uintptr(len(params)), PParams: unsafe.SliceData(params),
	})
}
