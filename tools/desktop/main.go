//go:build desktop

// Command desktop is a chat window on GLFW and Vulkan whose device Tern borrows: an
// example for programs that have a user interface of their own. Pictures and the model
// have a queue each where the device has two; else a lock lets them in turn, and Tern's
// submissions are short enough for pictures to come between them.
//
// It is built with the tag desktop and cgo (make desktop).
package main

import (
	"flag"
	"fmt"
	"os"
	goruntime "runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/go-gl/glfw/v3.3/glfw"

	"github.com/ternvk/tern/tools/desktop/frame"
	"github.com/ternvk/tern/vk"
)

func main() {
	var o options
	flag.StringVar(&o.model, "m", "", "GGUF `file`, or synth:SHAPE (default: the embedded model)")
	flag.StringVar(&o.ask, "ask", "", "ask this `question` when the model is ready")
	flag.Parse()
	goruntime.LockOSThread() // which GLFW asks for
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "desktop:", err)
		os.Exit(1)
	}
}

type options struct{ model, ask string }

func (o *options) run() error {
	if err := glfw.Init(); err != nil {
		return err
	}
	defer glfw.Terminate()
	if !glfw.VulkanSupported() {
		return vk.ErrNoLoader
	}
	glfw.WindowHint(glfw.ClientAPI, glfw.NoAPI)
	glfw.WindowHint(glfw.ScaleToMonitor, glfw.True)
	w, err := glfw.CreateWindow(1100, 720, "Tern", nil, nil)
	if err != nil {
		return err
	}
	defer w.Destroy()
	d, err := frame.OpenDevice(frame.DeviceOptions{
		GetInstanceProcAddr: uintptr(glfw.GetVulkanGetInstanceProcAddress()),
		Extensions:          w.GetRequiredInstanceExtensions(),
		Surface: func(i vk.InstanceHandle) (vk.SurfaceKHR, error) {
			// The binding wants a pointer for the handle, and gives a pointer to the surface.
			s, err := w.CreateWindowSurface((*struct{})(*(*unsafe.Pointer)(unsafe.Pointer(&i))), nil)
			if err != nil {
				return 0, err
			}
			return **(**vk.SurfaceKHR)(unsafe.Pointer(&s)), nil
		},
	})
	if err != nil {
		return err
	}
	defer d.Close()
	tern, err := d.Tern()
	if err != nil {
		return err
	}
	defer tern.Close()
	name, open, err := frame.Source(o.model)
	if err != nil {
		return err
	}
	s, err := newSwapchain(d)
	if err != nil {
		return err
	}
	defer s.close()
	var changed atomic.Bool
	c := frame.NewChat(tern, name, open, func() {
		if !changed.Swap(true) {
			glfw.PostEmptyEvent()
		}
	})
	defer c.Close()
	listen(w, c)
	return o.loop(w, c, s, &changed)
}

// listen hands the window's events to the chat.
func listen(w *glfw.Window, c *frame.Chat) {
	w.SetCharCallback(func(_ *glfw.Window, r rune) { c.Type(r) })
	w.SetScrollCallback(func(_ *glfw.Window, _, y float64) { c.Scroll(float32(40 * y)) })
	w.SetKeyCallback(func(_ *glfw.Window, key glfw.Key, _ int, action glfw.Action, mods glfw.ModifierKey) {
		if action == glfw.Release {
			return
		}
		control := mods&(glfw.ModControl|glfw.ModSuper) != 0
		switch {
		case key == glfw.KeyEnter || key == glfw.KeyKPEnter:
			c.Ask()
		case key == glfw.KeyBackspace:
			c.Backspace()
		case key == glfw.KeyEscape:
			c.Stop()
		case key == glfw.KeyL && control:
			c.Clear()
		case key == glfw.KeyV && control:
			for _, r := range glfw.GetClipboardString() {
				c.Type(r)
			}
		}
	})
}

// blink is how often a picture is drawn though nothing has changed: for the cursor.
const blink = 250 * time.Millisecond

// loop draws until the window is closed.
func (o *options) loop(w *glfw.Window, c *frame.Chat, s *swapchain, changed *atomic.Bool) error {
	scale, _ := w.GetContentScale()
	atlas, err := frame.NewAtlas(scale)
	if err != nil {
		return err
	}
	scene := &frame.Scene{Atlas: atlas}
	fresh := false
	w.SetFramebufferSizeCallback(func(*glfw.Window, int, int) { fresh = false })
	for !w.ShouldClose() {
		changed.Store(false)
		if o.ask != "" && c.Ready() {
			for _, r := range o.ask {
				c.Type(r)
			}
			c.Ask()
			o.ask = ""
		}
		if width, height := w.GetFramebufferSize(); !fresh && width > 0 && height > 0 {
			if err := s.resize(uint32(width), uint32(height)); err != nil {
				return err
			}
		}
		if scale, _ := w.GetContentScale(); scale > 0 {
			atlas.SetScale(scale)
		}
		start := time.Now()
		state := c.State()
		if fresh, err = s.draw(scene, &state); err != nil {
			return err
		}
		c.FrameTook(time.Since(start))
		if !changed.Load() {
			glfw.WaitEventsTimeout(blink.Seconds())
		} else {
			glfw.PollEvents()
		}
	}
	return nil
}
