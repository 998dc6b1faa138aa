package runtime

import (
	"encoding/json"
	"errors"
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

// What the probe has found broken is not asked for, and a device that it refused is
// refused here.
func TestNeedsForesees(t *testing.T) {
	t.Setenv(CacheVariable, t.TempDir())
	own := open(t, Options{CacheDir: os.Getenv(CacheVariable)})
	a := &Adopt{Instance: own.instance.Handle, PhysicalDevice: own.physical, APIVersion: own.instance.api}
	n, err := NeedsOf(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, sound := range own.probe.Rules {
		p := &Probe{Rules: slices.Clone(own.probe.Rules)}
		for i := range p.Rules {
			if p.Rules[i].Name == sound.Name {
				p.Rules[i].Wrong, p.Rules[i].First = 1, "planted"
			}
		}
		data, err := json.Marshal(p)
		if err == nil {
			err = saveFile(own.probeFile(), data)
		}
		if err != nil {
			t.Fatal(err)
		}
		switch less, err := NeedsOf(a); {
		case !sound.Feature && !errors.Is(err, graph.ErrUnsupported):
			t.Errorf("%s is broken: error %v, want one of ErrUnsupported", sound.Name, err)
		case sound.Feature && (err != nil || !slices.Contains(n.Enabled, sound.Name) || slices.Contains(less.Enabled, sound.Name)):
			t.Errorf("%s is broken, but asked for (or was not before): error %v", sound.Name, err)
		}
	}
}
