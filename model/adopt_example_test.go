package model_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/testdata/sprig"
	"github.com/ternvk/tern/vk"
)

// A program that draws with Vulkan lends its device: it creates that with what NeedsOf tells, and,
// where its queue is used by both, gives the lock around every use.
func Example_adopt() {
	loader, err := vk.Load() // or vk.LoadFrom, with the program's own vkGetInstanceProcAddr
	if err != nil {
		log.Fatal(err)
	}
	instance, err := loader.CreateInstance(&vk.InstanceCreateInfo{PApplicationInfo: &vk.ApplicationInfo{ApiVersion: vk.APIVersion13}})
	if err != nil {
		log.Fatal(err)
	}
	defer instance.DestroyInstance()
	list, err := instance.EnumeratePhysicalDevices()
	if err != nil || len(list) == 0 {
		log.Fatal("no device: ", err)
	}
	adopt := &runtime.Adopt{Instance: instance.Handle, PhysicalDevice: list[0], APIVersion: vk.APIVersion13}
	needs, err := runtime.NeedsOf(adopt)
	if err != nil {
		log.Fatal(err)
	}
	priority := float32(1)
	device, err := instance.CreateDevice(list[0], vk.Chain(&vk.DeviceCreateInfo{
		QueueCreateInfoCount:    1,
		PQueueCreateInfos:       &vk.DeviceQueueCreateInfo{QueueFamilyIndex: needs.Family, QueueCount: 1, PQueuePriorities: &priority},
		EnabledExtensionCount:   uint32(len(needs.Extensions)),
		PpEnabledExtensionNames: vk.CStrings(needs.Extensions),
	}, needs.Features...))
	if err != nil {
		log.Fatal(err)
	}
	defer device.DestroyDevice()

	var queue sync.Mutex // the program holds it when it submits or presents
	adopt.Device, adopt.Queue, adopt.QueueFamily = device.Handle, device.GetDeviceQueue(needs.Family, 0), needs.Family
	adopt.Enabled, adopt.Lock, adopt.Unlock = needs.Enabled, queue.Lock, queue.Unlock
	tern, err := runtime.Open(runtime.Options{Adopt: adopt})
	if err != nil {
		log.Fatal(err)
	}
	defer tern.Close() // leaves the device to the program
	ctx := context.Background()
	m, err := model.OpenBytes(ctx, "sprig", sprig.Model, model.Options{Executor: tern, Context: 128})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	c, err := model.NewConversation(s)
	if err != nil {
		log.Fatal(err)
	}
	for piece, err := range c.Ask(ctx, "What is the capital of Spain?") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece.Text)
	}
}
