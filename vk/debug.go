package vk

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// DebugMessage is what a layer or driver reports through VK_EXT_debug_utils.
type DebugMessage struct {
	Severity DebugUtilsMessageSeverityFlagsEXT
	Types    DebugUtilsMessageTypeFlagsEXT
	ID       string // the rule's name, such as VUID-vkCmdDispatch-None-08606
	Number   int32  // the rule's number
	Text     string
	Labels   []string // of the command buffer, outermost first
	Objects  []DebugObject
}

// DebugObject is an object that a DebugMessage is about.
type DebugObject struct {
	Type   ObjectType
	Handle uint64
	Name   string // as set by SetDebugUtilsObjectNameEXT
}

// DebugSink hands debug messages to a Go function. The function is called from
// any thread, also several at once, inside the Vulkan command that caused the
// message; it must not call Vulkan.
type DebugSink struct {
	handle func(DebugMessage)
	pin    runtime.Pinner
}

var sinks struct {
	sync.RWMutex
	callback uintptr
	open     map[uintptr]*DebugSink
}

// NewDebugSink makes a sink. Close it after the instances that use it.
func NewDebugSink(handle func(DebugMessage)) *DebugSink {
	s := &DebugSink{handle: handle}
	s.pin.Pin(s)
	sinks.Lock()
	defer sinks.Unlock()
	if sinks.callback == 0 {
		// Callbacks are never freed by the Go runtime, so there is one.
		sinks.callback = purego.NewCallback(debugCallback)
		sinks.open = map[uintptr]*DebugSink{}
	}
	sinks.open[uintptr(unsafe.Pointer(s))] = s
	return s
}

// CreateInfo asks for messages to this sink: for CreateDebugUtilsMessengerEXT,
// or chained to InstanceCreateInfo for messages about creating and destroying
// the instance itself.
func (s *DebugSink) CreateInfo(severity DebugUtilsMessageSeverityFlagsEXT, types DebugUtilsMessageTypeFlagsEXT) *DebugUtilsMessengerCreateInfoEXT {
	sinks.RLock()
	defer sinks.RUnlock()
	return &DebugUtilsMessengerCreateInfoEXT{
		SType:           StructureTypeDebugUtilsMessengerCreateInfoEXT,
		MessageSeverity: severity,
		MessageType:     types,
		PfnUserCallback: sinks.callback,
		PUserData:       unsafe.Pointer(s),
	}
}

// Close ends the delivery of messages. It may be called more than once.
func (s *DebugSink) Close() {
	sinks.Lock()
	defer sinks.Unlock()
	delete(sinks.open, uintptr(unsafe.Pointer(s)))
	s.pin.Unpin()
}

func debugCallback(severity, types uintptr, data *DebugUtilsMessengerCallbackDataEXT, user uintptr) uintptr {
	sinks.RLock()
	s := sinks.open[user]
	sinks.RUnlock()
	if s == nil || data == nil {
		return 0
	}
	m := DebugMessage{
		Severity: DebugUtilsMessageSeverityFlagsEXT(severity),
		Types:    DebugUtilsMessageTypeFlagsEXT(types),
		ID:       GoString(data.PMessageIdName),
		Number:   data.MessageIdNumber,
		Text:     GoString(data.PMessage),
	}
	for _, l := range unsafe.Slice(data.PCmdBufLabels, data.CmdBufLabelCount) {
		m.Labels = append(m.Labels, GoString(l.PLabelName))
	}
	for _, o := range unsafe.Slice(data.PObjects, data.ObjectCount) {
		m.Objects = append(m.Objects, DebugObject{o.ObjectType, o.ObjectHandle, GoString(o.PObjectName)})
	}
	s.handle(m)
	return 0 // VK_FALSE: the command goes on
}

// NameObject is SetDebugUtilsObjectNameEXT for one object; it does nothing
// without VK_EXT_debug_utils.
func (d *Device) NameObject(kind ObjectType, handle uint64, name string) error {
	if !d.Has("vkSetDebugUtilsObjectNameEXT") {
		return nil
	}
	return d.SetDebugUtilsObjectNameEXT(&DebugUtilsObjectNameInfoEXT{ObjectType: kind, ObjectHandle: handle, PObjectName: CString(name)})
}
