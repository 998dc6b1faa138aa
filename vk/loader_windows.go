package vk

import "syscall"

func loaderNames() []string { return []string{"vulkan-1.dll"} }

func openLibrary(name, symbol string) (uintptr, error) {
	lib, err := syscall.LoadLibrary(name)
	if err != nil {
		return 0, &syscall.DLLError{Err: err, ObjName: name, Msg: name + ": " + err.Error()}
	}
	return syscall.GetProcAddress(lib, symbol)
}
