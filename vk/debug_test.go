package vk

import (
	"slices"
	"sync"
	"testing"
)

const validationLayer = "VK_LAYER_KHRONOS_validation"

// TestDebugMessages provokes a message of the validation layer and one of our own.
func TestDebugMessages(t *testing.T) {
	l := load(t)
	layers := must[[]LayerProperties](t)(l.EnumerateInstanceLayerProperties())
	info := &InstanceCreateInfo{}
	validation := slices.ContainsFunc(layers, func(p LayerProperties) bool { return String(p.LayerName[:]) == validationLayer })
	if validation {
		info.EnabledLayerCount, info.PpEnabledLayerNames = 1, CStrings([]string{validationLayer})
	}
	if !hasExtension(must[[]ExtensionProperties](t)(l.EnumerateInstanceExtensionProperties("")), EXTDebugUtilsExtensionName) {
		t.Skip("no VK_EXT_debug_utils on this machine")
	}
	info.EnabledExtensionCount, info.PpEnabledExtensionNames = 1, CStrings([]string{EXTDebugUtilsExtensionName})
	r := newRig(t, info)

	var mu sync.Mutex
	var got []DebugMessage
	sink := NewDebugSink(func(m DebugMessage) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, m)
	})
	defer sink.Close()
	messenger := must[DebugUtilsMessengerEXT](t)(r.instance.CreateDebugUtilsMessengerEXT(sink.CreateInfo(
		DebugUtilsMessageSeverityErrorBitEXT|DebugUtilsMessageSeverityWarningBitEXT,
		DebugUtilsMessageTypeGeneralBitEXT|DebugUtilsMessageTypeValidationBitEXT)))
	defer r.instance.DestroyDebugUtilsMessengerEXT(messenger)

	ours := &DebugUtilsMessengerCallbackDataEXT{PMessageIdName: CString("ours"), MessageIdNumber: 7, PMessage: CString("hello")}
	r.instance.SubmitDebugUtilsMessageEXT(DebugUtilsMessageSeverityWarningBitEXT, DebugUtilsMessageTypeGeneralBitEXT, ours)
	if len(got) != 1 || got[0].ID != "ours" || got[0].Number != 7 || got[0].Text != "hello" ||
		got[0].Severity != DebugUtilsMessageSeverityWarningBitEXT || got[0].Types != DebugUtilsMessageTypeGeneralBitEXT {
		t.Fatalf("messages %+v", got)
	}
	if !validation {
		t.Logf("no %s on this machine: only our own message was tested", validationLayer)
		return
	}
	fence := must[Fence](t)(r.device.CreateFence(&FenceCreateInfo{}))
	defer r.device.DestroyFence(fence)
	check(t, r.device.NameObject(ObjectTypeFence, uint64(fence), "the fence"))
	got = nil
	if b, err := r.device.CreateBuffer(&BufferCreateInfo{Size: 0, Usage: BufferUsageStorageBufferBit}); err == nil {
		defer r.device.DestroyBuffer(b)
	}
	if len(got) == 0 || got[0].Severity != DebugUtilsMessageSeverityErrorBitEXT || got[0].ID != "VUID-VkBufferCreateInfo-size-00912" {
		t.Errorf("a buffer of no bytes: messages %+v", got)
	}
	got = nil
	check(t, r.device.QueueSubmit(r.queue, nil, fence))
	_ = r.device.ResetFences([]Fence{fence}) // in use: an error, about our named fence
	_ = r.device.QueueWaitIdle(r.queue)
	if len(got) == 0 || len(got[0].Objects) == 0 || got[0].Objects[0] != (DebugObject{ObjectTypeFence, uint64(fence), "the fence"}) {
		t.Errorf("resetting a fence in use: messages %+v", got)
	}
	got = nil
	sink.Close()
	r.instance.SubmitDebugUtilsMessageEXT(DebugUtilsMessageSeverityWarningBitEXT, DebugUtilsMessageTypeGeneralBitEXT, ours)
	if len(got) != 0 {
		t.Errorf("a closed sink got %+v", got)
	}
}
