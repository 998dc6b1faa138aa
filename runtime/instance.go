package runtime

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/vk"
)

const validationLayer = "VK_LAYER_KHRONOS_validation"

// instance is a VkInstance, made here or adopted, and what the validation
// layer says about its use.
type instance struct {
	*vk.Instance
	api        uint32 // version it was created for
	owned      bool
	validated  bool
	debugUtils bool
	sink       *vk.DebugSink
	messenger  vk.DebugUtilsMessengerEXT

	mu       sync.Mutex
	messages []string
}

// noDevice wraps ErrNoDevice with the reason and what to do.
func noDevice(reason any) error {
	return fmt.Errorf("%w: %v; install a GPU driver with Vulkan, or Mesa's CPU driver (Debian, Ubuntu: apt-get install libvulkan1 mesa-vulkan-drivers), or run with --device reference", graph.ErrNoDevice, reason)
}

func newInstance(validate bool) (*instance, error) {
	loader, err := vk.Load()
	if err != nil {
		return nil, noDevice(err)
	}
	version, err := loader.Version()
	if err != nil {
		return nil, noDevice(err)
	}
	if version < vk.APIVersion11 {
		return nil, noDevice("the Vulkan loader offers only version 1.0")
	}
	in := &instance{api: min(version, vk.APIVersion14), owned: true, validated: validate}
	info := &vk.InstanceCreateInfo{
		PApplicationInfo: &vk.ApplicationInfo{PApplicationName: vk.CString("tern"), PEngineName: vk.CString("tern"), ApiVersion: in.api},
	}
	known, err := loader.EnumerateInstanceExtensionProperties("")
	if err != nil {
		return nil, noDevice(err)
	}
	has := func(list []vk.ExtensionProperties, name string) bool {
		return slices.ContainsFunc(list, func(e vk.ExtensionProperties) bool { return vk.String(e.ExtensionName[:]) == name })
	}
	var extensions, layers []string
	var chain []vk.Extensible
	if has(known, vk.KHRPortabilityEnumerationExtensionName) {
		extensions = append(extensions, vk.KHRPortabilityEnumerationExtensionName)
		info.Flags |= vk.InstanceCreateEnumeratePortabilityBitKHR
	}
	if validate {
		list, err := loader.EnumerateInstanceLayerProperties()
		if err != nil {
			return nil, noDevice(err)
		}
		if !slices.ContainsFunc(list, func(l vk.LayerProperties) bool { return vk.String(l.LayerName[:]) == validationLayer }) {
			return nil, fmt.Errorf("validation was asked for and %s is not installed: %w", validationLayer, graph.ErrUnsupported)
		}
		layers = append(layers, validationLayer)
		offered, err := loader.EnumerateInstanceExtensionProperties(validationLayer)
		if err != nil {
			return nil, noDevice(err)
		}
		settings, enable := has(offered, vk.EXTLayerSettingsExtensionName), has(offered, vk.EXTValidationFeaturesExtensionName)
		switch {
		case settings:
			extensions = append(extensions, vk.EXTLayerSettingsExtensionName)
			// Without the second, newer layers do not look at what shaders read and write.
			on := vk.True
			var list []vk.LayerSettingEXT
			for _, name := range []string{"validate_sync", "syncval_shader_accesses_heuristic"} {
				list = append(list, vk.LayerSettingEXT{PLayerName: vk.CString(validationLayer), PSettingName: vk.CString(name),
					Type: vk.LayerSettingTypeBool32EXT, ValueCount: 1, PValues: unsafe.Pointer(&on)})
			}
			chain = append(chain, &vk.LayerSettingsCreateInfoEXT{SettingCount: uint32(len(list)), PSettings: &list[0]})
		case enable:
			extensions = append(extensions, vk.EXTValidationFeaturesExtensionName)
			sync := vk.ValidationFeatureEnableSynchronizationValidationEXT
			chain = append(chain, &vk.ValidationFeaturesEXT{EnabledValidationFeatureCount: 1, PEnabledValidationFeatures: &sync})
		}
		if has(known, vk.EXTDebugUtilsExtensionName) || has(offered, vk.EXTDebugUtilsExtensionName) {
			in.debugUtils = true
			extensions = append(extensions, vk.EXTDebugUtilsExtensionName)
			in.sink = vk.NewDebugSink(in.collect)
			chain = append(chain, in.messengerInfo())
		}
	}
	info.EnabledLayerCount, info.PpEnabledLayerNames = uint32(len(layers)), vk.CStrings(layers)
	info.EnabledExtensionCount, info.PpEnabledExtensionNames = uint32(len(extensions)), vk.CStrings(extensions)
	vk.Chain(info, chain...)
	in.Instance, err = loader.CreateInstance(info)
	if err != nil {
		if in.sink != nil {
			in.sink.Close()
		}
		return nil, noDevice(fmt.Errorf("creating a Vulkan instance: %w", err))
	}
	if in.sink != nil {
		if in.messenger, err = in.CreateDebugUtilsMessengerEXT(in.messengerInfo()); err != nil {
			in.close()
			return nil, fmt.Errorf("debug messenger: %w", err)
		}
	}
	return in, nil
}

func (in *instance) messengerInfo() *vk.DebugUtilsMessengerCreateInfoEXT {
	return in.sink.CreateInfo(
		vk.DebugUtilsMessageSeverityWarningBitEXT|vk.DebugUtilsMessageSeverityErrorBitEXT,
		vk.DebugUtilsMessageTypeGeneralBitEXT|vk.DebugUtilsMessageTypeValidationBitEXT)
}

func (in *instance) collect(m vk.DebugMessage) {
	// The loader reports drivers it could not open as general messages.
	if m.Types&vk.DebugUtilsMessageTypeValidationBitEXT == 0 {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.messages = append(in.messages, m.ID+": "+m.Text)
}

// kept is an instance that stays open as long as the program runs, so that the
// drivers stay loaded: NVIDIA's can be loaded and unloaded some 30 times, then no
// instance can be made any more.
var kept struct {
	sync.Mutex
	instance *vk.Instance
}

// keep takes over an instance without layers, unless there is one already.
func keep(in *vk.Instance) (taken bool) {
	kept.Lock()
	defer kept.Unlock()
	if kept.instance == nil {
		kept.instance, taken = in, true
	}
	return taken
}

func (in *instance) close() {
	if in.Instance != nil && in.owned {
		if in.messenger != 0 {
			in.DestroyDebugUtilsMessengerEXT(in.messenger)
		}
		if in.validated || !keep(in.Instance) {
			in.DestroyInstance()
		}
	}
	if in.sink != nil {
		in.sink.Close()
	}
}

// adopt uses an instance that the program made.
func adopt(a *Adopt) (*instance, error) {
	if a.Instance == 0 || a.PhysicalDevice == 0 || a.Device == 0 || a.Queue == 0 {
		return nil, errors.New("adopting a device needs instance, physical device, device and queue")
	}
	return adoptInstance(a)
}

func adoptInstance(a *Adopt) (*instance, error) {
	var loader *vk.Loader
	var err error
	if a.GetInstanceProcAddr != 0 {
		loader, err = vk.LoadFrom(a.GetInstanceProcAddr)
	} else {
		loader, err = vk.Load()
	}
	if err != nil {
		return nil, noDevice(err)
	}
	in := &instance{api: a.APIVersion}
	if in.api == 0 {
		in.api = vk.APIVersion11
	}
	in.Instance, err = loader.AdoptInstance(a.Instance)
	return in, err
}
