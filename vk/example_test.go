package vk_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/ternvk/tern/vk"
)

// List the devices of the machine.
func Example() {
	loader, err := vk.Load()
	if errors.Is(err, vk.ErrNoLoader) {
		fmt.Println("install a Vulkan driver")
		return
	}
	instance, err := loader.CreateInstance(&vk.InstanceCreateInfo{
		PApplicationInfo: &vk.ApplicationInfo{ApiVersion: vk.APIVersion11},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer instance.DestroyInstance()
	devices, err := instance.EnumeratePhysicalDevices()
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range devices {
		storage := &vk.PhysicalDevice16BitStorageFeatures{}
		instance.GetPhysicalDeviceFeatures2(d, vk.Chain(&vk.PhysicalDeviceFeatures2{}, storage))
		p := instance.GetPhysicalDeviceProperties(d)
		fmt.Println(vk.String(p.DeviceName[:]), p.DeviceType, storage.StorageBuffer16BitAccess.Bool())
	}
}

// A program that already has a VkInstance and a VkDevice, from any binding or
// from C, passes them as numbers and goes on to own them.
func Example_adopt() {
	var getInstanceProcAddr, instanceHandle, deviceHandle uintptr // from the program's own Vulkan

	loader, err := vk.LoadFrom(getInstanceProcAddr)
	if err != nil {
		log.Fatal(err)
	}
	instance, err := loader.AdoptInstance(vk.InstanceHandle(instanceHandle))
	if err != nil {
		log.Fatal(err)
	}
	device, err := instance.AdoptDevice(vk.DeviceHandle(deviceHandle))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(device.Has("vkCmdDispatch"))
}
