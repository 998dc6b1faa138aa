package runtime

import (
	"encoding/json"
	"os"
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

// What the probe has found broken is not asked for.
func TestNeedsForesees(t *testing.T) {
	t.Setenv(CacheVariable, t.TempDir())
	own := open(t, Options{CacheDir: os.Getenv(CacheVariable)})
	a := &Adopt{Instance: own.instance.Handle, PhysicalDevice: own.physical, APIVersion: own.instance.api}
	feature := slices.IndexFunc(probed, own.Plan().Has)
	if feature < 0 {
		t.Skip("this device has no feature that the probe decides about")
	}
	name := probed[feature]
	if n, err := NeedsOf(a); err != nil || !slices.Contains(n.Enabled, name) {
		t.Fatalf("%v, %v: want %s among the features", n, err, name)
	}
	for i := range own.probe.Rules {
		if r := &own.probe.Rules[i]; r.Name == name {
			r.Wrong, r.First = 1, "planted"
		}
	}
	data, err := json.Marshal(own.probe)
	if err == nil {
		err = saveFile(own.probeFile(), data)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, err := NeedsOf(a); err != nil || slices.Contains(n.Enabled, name) {
		t.Errorf("%v, %v: %s is asked for though the probe found it broken", n, err, name)
	}
}
