package runtime

import (
	"slices"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/vk"
)

// A device that the program creates with what NeedsOf tells has the features that one
// opened here has, on a second queue or with a lock, and gives the same words.
func TestNeeds(t *testing.T) {
	own := open(t, Options{Disable: []string{"probe"}})
	a := &Adopt{Instance: own.instance.Handle, PhysicalDevice: own.physical, APIVersion: own.instance.api}
	n, err := NeedsOf(a)
	if err != nil {
		t.Fatal(err)
	}
	priority := float32(1)
	made, err := own.instance.CreateDevice(own.physical, vk.Chain(&vk.DeviceCreateInfo{
		QueueCreateInfoCount:    1,
		PQueueCreateInfos:       &vk.DeviceQueueCreateInfo{QueueFamilyIndex: n.Family, QueueCount: 1, PQueuePriorities: &priority},
		EnabledExtensionCount:   uint32(len(n.Extensions)),
		PpEnabledExtensionNames: vk.CStrings(n.Extensions),
	}, n.Features...))
	if err != nil {
		t.Fatal(err)
	}
	defer made.DestroyDevice()
	a.Device, a.Queue, a.QueueFamily, a.Enabled = made.Handle, made.GetDeviceQueue(n.Family, 0), n.Family, n.Enabled
	guest, err := Open(Options{Adopt: a, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	if got, want := guest.Plan().Features(), own.Plan().Features(); !slices.Equal(got, want) {
		t.Errorf("features %v, want %v", got, want)
	}
	both(t, guest, func(x graph.Executor) []uint32 { return runNorm(t, x, 3, 128) })
}
