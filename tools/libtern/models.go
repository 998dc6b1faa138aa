//go:build cgo

// Command libtern is built as a C library (go build -buildmode=c-shared): tern.h says
// what it offers, and these files are thin: they turn handles and C structs into the
// objects of package model, and errors into codes.
package main

// #include "bridge.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"unsafe"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/runtime/ref"
	"github.com/ternvk/tern/testdata/sprig"
	"github.com/ternvk/tern/tools/internal/buildinfo"
	"github.com/ternvk/tern/vk"
)

func main() {} // which a library needs and nobody calls

var cVersion = C.CString(buildinfo.Version())

//export tern_version
func tern_version() *C.tern_string { return cVersion }

// handles gives out the numbers of models and sessions.
type handles[T any] struct {
	mu   sync.Mutex
	last uint64
	of   map[uint64]*T
}

func (h *handles[T]) add(v *T) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[uint64]*T{}
	}
	h.last++
	h.of[h.last] = v
	return h.last
}

// get finds an object; numbers that were given out once are closed.
func (h *handles[T]) get(what string, n uint64) (*T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.of[n]
	switch {
	case v != nil:
		return v, nil
	case n == 0 || n > h.last:
		return nil, argument("%d is no %s", n, what)
	}
	return nil, fmt.Errorf("the %s: %w", what, graph.ErrClosed)
}

// take is get for the last time.
func (h *handles[T]) take(what string, n uint64) (*T, error) {
	v, err := h.get(what, n)
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.of[n] != v {
			return nil, fmt.Errorf("the %s: %w", what, graph.ErrClosed)
		}
		delete(h.of, n)
	}
	return v, err
}

// opened is a model and the executor that was opened for it.
type opened struct {
	*model.Model
	device func() (graph.Executor, error)

	mu sync.Mutex
	x  graph.Executor
}

var (
	models   handles[opened]
	sessions handles[session]
)

// file is what is opened: a path, or bytes.
type file struct {
	name string
	data []byte
}

func fileOf(path *C.tern_string) file {
	if path == nil {
		return file{"sprig (embedded)", sprig.Model}
	}
	return file{name: C.GoString(path)}
}

// parse opens the file for its description.
func (f file) parse() (*gguf.File, error) {
	if f.data != nil {
		return formatted(gguf.Parse(f.name, f.data))
	}
	return formatted(gguf.Open(f.name))
}

// formatted marks errors that are not of finding the file.
func formatted[T any](v T, err error) (T, error) {
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		err = fmt.Errorf("%w (%w)", err, errFormat)
	}
	return v, err
}

// settings are C options, for one call.
type settings struct {
	model.Options
	fit    bool
	device func() (graph.Executor, error)

	ctx context.Context
	end func() // of the call: callbacks are not used any more
}

func settingsOf(o *C.tern_options_in) (s settings, err error) {
	s.device = func() (graph.Executor, error) { return openDevice("auto") }
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(context.Background())
	s.end = cancel
	if o == nil {
		return s, nil
	}
	switch {
	case o.size < C.sizeof_tern_options:
		return s, argument("options of %d bytes: tern_options_init was not called", o.size)
	case o.context < -1 || o.sessions < 0:
		return s, argument("context of %d positions, %d sessions", o.context, o.sessions)
	}
	s.Sequences, s.fit = int(o.sessions), o.context == -1
	s.Context = max(int(o.context), 0)
	if f, user := o.progress, o.user; f != nil {
		ctx := s.ctx
		s.Progress = func(done, total uint64) {
			if ctx.Err() == nil && C.tern_call_progress(f, user, C.uint64_t(done), C.uint64_t(total)) != 0 {
				cancel()
			}
		}
	}
	if o.vulkan != nil {
		adopt, err := adoptOf(o.vulkan)
		if err != nil {
			return s, err
		}
		s.device = func() (graph.Executor, error) { return runtime.Open(runtime.Options{Adopt: adopt}) }
	} else if o.device != nil {
		name := C.GoString(o.device)
		s.device = func() (graph.Executor, error) { return openDevice(name) }
	}
	return s, nil
}

func adoptOf(v *C.tern_vulkan) (*runtime.Adopt, error) {
	if v.size < C.sizeof_tern_vulkan {
		return nil, argument("vulkan of %d bytes: tern_vulkan_init was not called", v.size)
	}
	a := &runtime.Adopt{
		GetInstanceProcAddr: uintptr(v.get_instance_proc_addr), Instance: vk.InstanceHandle(uintptr(v.instance)),
		PhysicalDevice: vk.PhysicalDevice(uintptr(v.physical_device)), Device: vk.DeviceHandle(uintptr(v.device)),
		Queue: vk.Queue(uintptr(v.queue)), QueueFamily: uint32(v.queue_family), APIVersion: uint32(v.api_version),
	}
	if v.features != nil {
		var err error
		if a.Enabled, err = plan.ParseWords(C.GoString(v.features)); err != nil {
			return nil, fmt.Errorf("%w (%w)", err, errArgument)
		}
	}
	lock, unlock, user := v.lock, v.unlock, v.user
	if (lock == nil) != (unlock == nil) {
		return nil, argument("lock without unlock")
	}
	if lock != nil {
		a.Lock, a.Unlock = func() { C.tern_call_lock(lock, user) }, func() { C.tern_call_lock(unlock, user) }
	}
	return a, nil
}

// openDevice opens a device. With auto the reference stands in for none.
func openDevice(name string) (graph.Executor, error) {
	if name == "reference" {
		return ref.New(), nil
	}
	d, err := runtime.Open(runtime.Options{Device: name})
	if err == nil {
		return d, nil
	}
	if name == "auto" && (errors.Is(err, graph.ErrNoDevice) || errors.Is(err, graph.ErrUnsupported)) {
		return ref.New(), nil
	}
	return nil, err
}

//export tern_open
func tern_open(path *C.tern_string, o *C.tern_options_in, m *C.tern_model) C.int {
	if m == nil {
		return fail(argument("no room for the model"))
	}
	return openModel(fileOf(path), o, m)
}

//export tern_open_memory
func tern_open_memory(data *C.tern_bytes, size C.size_t, o *C.tern_options_in, m *C.tern_model) C.int {
	if m == nil || data == nil || size == 0 {
		return fail(argument("no data, or no room for the model"))
	}
	return openModel(file{"memory", unsafe.Slice((*byte)(unsafe.Pointer(data)), int(size))}, o, m)
}

func openModel(f file, o *C.tern_options_in, m *C.tern_model) C.int {
	*m = 0
	s, err := settingsOf(o)
	defer s.end()
	if err != nil {
		return fail(err)
	}
	opened, err := open(f, s)
	if err != nil {
		return fail(err)
	}
	*m = C.tern_model(models.add(opened))
	return C.TERN_OK
}

func open(f file, s settings) (*opened, error) {
	parsed, err := f.parse() // first, so that a bad file is told without a device
	if err != nil {
		return nil, err
	}
	defer parsed.Close()
	if s.Executor, err = s.device(); err != nil {
		return nil, err
	}
	o := &opened{device: s.device, x: s.Executor}
	if s.fit {
		if s.Context, _, err = model.Fit(parsed, s.Options); err != nil {
			return nil, errors.Join(err, o.x.Close())
		}
	}
	if f.data != nil {
		o.Model, err = model.OpenBytes(s.ctx, f.name, f.data, s.Options)
	} else {
		o.Model, err = model.Open(s.ctx, f.name, s.Options)
	}
	if err != nil {
		return nil, errors.Join(err, o.x.Close())
	}
	return o, nil
}

//export tern_close
func tern_close(n C.tern_model) C.int {
	m, err := models.take("model", uint64(n))
	if err != nil {
		return fail(err)
	}
	sessions.mu.Lock()
	var own []uint64
	for n, s := range sessions.of {
		if s.model == m {
			own = append(own, n)
		}
	}
	sessions.mu.Unlock()
	for _, n := range own {
		if s, err := sessions.take("session", n); err == nil {
			s.close()
		}
	}
	err = m.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	return fail(errors.Join(err, m.x.Close()))
}

//export tern_unload
func tern_unload(n C.tern_model) C.int {
	m, err := models.get("model", uint64(n))
	if err != nil {
		return fail(err)
	}
	m.Unload()
	return C.TERN_OK
}

//export tern_reload
func tern_reload(n C.tern_model) C.int {
	m, err := models.get("model", uint64(n))
	if err != nil {
		return fail(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	err = m.Reload(context.Background(), nil)
	if !errors.Is(err, graph.ErrDeviceLost) {
		return fail(err)
	}
	x, err := m.device()
	if err != nil {
		return fail(err)
	}
	m.x.Close() // it is lost, and has nothing more to say
	m.x = x
	return fail(m.Reload(context.Background(), x))
}

//export tern_device
func tern_device(n C.tern_model, name *C.char, size C.size_t) C.int {
	m, err := models.get("model", uint64(n))
	if err != nil {
		return fail(err)
	}
	if name == nil || size == 0 {
		return fail(argument("no room for the name"))
	}
	m.mu.Lock()
	text := m.x.Name()
	m.mu.Unlock()
	room := unsafe.Slice((*byte)(unsafe.Pointer(name)), int(size))
	end := copy(room[:len(room)-1], strings.ToValidUTF8(text[:min(len(text), len(room)-1)], ""))
	room[end] = 0
	return C.TERN_OK
}

//export tern_estimate
func tern_estimate(path *C.tern_string, o *C.tern_options_in, out *C.tern_memory) C.int {
	if out == nil || out.size < C.sizeof_tern_memory {
		return fail(argument("no room for the estimate, or its size is not set"))
	}
	s, err := settingsOf(o)
	defer s.end()
	if err != nil {
		return fail(err)
	}
	f, err := fileOf(path).parse()
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	if s.fit {
		x, err := s.device()
		if err != nil {
			return fail(err)
		}
		defer x.Close()
		s.Executor = x
		if s.Context, _, err = model.Fit(f, s.Options); err != nil {
			return fail(err)
		}
	}
	e, err := model.EstimateMemory(f, s.Options)
	if err != nil {
		return fail(err)
	}
	out.context = C.int32_t(e.Context)
	out.weights, out.cache = C.uint64_t(e.Weights+e.Constants), C.uint64_t(e.Cache+e.State)
	out.scratch, out.total = C.uint64_t(e.Scratch+e.Batch), C.uint64_t(e.Total())
	return C.TERN_OK
}
