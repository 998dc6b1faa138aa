package vk

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"
)

func TestChain(t *testing.T) {
	var a PhysicalDevice16BitStorageFeatures
	var b PhysicalDevice8BitStorageFeatures
	b.PNext = unsafe.Pointer(&a) // an old chain, which must go
	for range 2 {
		root := Chain(&PhysicalDeviceFeatures2{}, &a, nil, (*PhysicalDeviceVulkan12Features)(nil), &b)
		if root.SType != StructureTypePhysicalDeviceFeatures2 || root.PNext != unsafe.Pointer(&a) ||
			a.SType != StructureTypePhysicalDevice16BitStorageFeatures || a.PNext != unsafe.Pointer(&b) ||
			b.SType != StructureTypePhysicalDevice8BitStorageFeatures || b.PNext != nil {
			t.Fatalf("root %+v, a %+v, b %+v", root, a, b)
		}
	}
	if root := Chain(&b); root.PNext != nil {
		t.Error("a chain of one struct has a next")
	}
}

// TestFill checks sType inside and behind structs.
func TestFill(t *testing.T) {
	queues := make([]DeviceQueueCreateInfo, 2)
	info := &DeviceCreateInfo{QueueCreateInfoCount: 2, PQueueCreateInfos: &queues[0]}
	info.fill()
	pipelines := []ComputePipelineCreateInfo{{}, {}}
	fillAll(&pipelines[0], 2)
	if info.SType != StructureTypeDeviceCreateInfo || queues[1].SType != StructureTypeDeviceQueueCreateInfo ||
		pipelines[1].SType != StructureTypeComputePipelineCreateInfo || pipelines[1].Stage.SType != StructureTypePipelineShaderStageCreateInfo {
		t.Errorf("info %+v, queues %+v, pipelines %+v", info, queues, pipelines)
	}
	fillAll[DeviceQueueCreateInfo](nil, 3) // an array that may be null
}

func TestStrings(t *testing.T) {
	for _, s := range []string{"", "a", "VK_KHR_push_descriptor", "größe"} {
		if got := GoString(CString(s)); got != s {
			t.Errorf("%q came back as %q", s, got)
		}
	}
	list := unsafe.Slice(CStrings([]string{"one", "", "three"}), 3)
	if GoString(list[0]) != "one" || GoString(list[1]) != "" || GoString(list[2]) != "three" {
		t.Error("CStrings lost a string")
	}
	if CStrings(nil) != nil || GoString(nil) != "" || optionalString("") != nil {
		t.Error("nothing became something")
	}
	if String([]byte("ab\x00c")) != "ab" || String([]byte("full")) != "full" || String(nil) != "" {
		t.Error("String is wrong about the end")
	}
	if got := Bytes(&[2]uint16{0x0201, 0x0403}); len(got) != 4 || got[3] != 4 {
		t.Errorf("Bytes gave %x", got)
	}
	if got := SliceBytes([]uint32{1, 2}); len(got) != 8 || got[4] != 2 || len(SliceBytes([]uint32(nil))) != 0 {
		t.Errorf("SliceBytes gave %x", got)
	}
}

func TestVersion(t *testing.T) {
	if MakeVersion(1, 3, 0) != APIVersion13 || APIVersion14 != 0x404000 {
		t.Error("versions are packed wrongly")
	}
	if a, b, c := SplitVersion(MakeVersion(1, 4, 312)); a != 1 || b != 4 || c != 312 {
		t.Errorf("split to %d.%d.%d", a, b, c)
	}
}

// TestGarbage calls from several goroutines, each on its own stack that grows,
// while memory is collected all the time: what C reads must stay in place.
func TestGarbage(t *testing.T) {
	r := newRig(t, &InstanceCreateInfo{})
	d := r.device
	stop := make(chan struct{})
	var collector, callers sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	for range 4 {
		callers.Go(func() {
			for i := range 200 {
				initial := uint64(1000 + i)
				s, err := d.CreateSemaphore(Chain(&SemaphoreCreateInfo{}, &SemaphoreTypeCreateInfo{SemaphoreType: SemaphoreTypeTimeline, InitialValue: initial}))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := d.GetSemaphoreCounterValue(s); err != nil || got != initial {
					t.Errorf("semaphore is at %d (%v), want %d", got, err, initial)
				}
				if err := d.WaitSemaphores(&SemaphoreWaitInfo{SemaphoreCount: 1, PSemaphores: &s, PValues: &initial}, 0); err != nil {
					t.Error(err)
				}
				d.DestroySemaphore(s)
			}
		})
	}
	callers.Wait()
	close(stop)
	collector.Wait()
}
