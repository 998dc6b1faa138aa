//go:build !windows

package vk

import (
	"runtime"

	"github.com/ebitengine/purego"
)

func loaderNames() []string {
	if runtime.GOOS == "darwin" {
		return []string{
			"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib",
			"/opt/homebrew/lib/libvulkan.1.dylib", "/usr/local/lib/libvulkan.1.dylib",
			"/opt/homebrew/lib/libMoltenVK.dylib", "/usr/local/lib/libMoltenVK.dylib",
		}
	}
	return []string{"libvulkan.so.1", "libvulkan.so"}
}

// openLibrary stays on one thread: dlerror tells a thread of its own failures only.
func openLibrary(name, symbol string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, err
	}
	return purego.Dlsym(lib, symbol)
}
