package vk

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// command indexes the function tables.
type command int

type level uint8

const (
	levelLoader level = iota
	levelInstance
	levelDevice
)

type commandInfo struct {
	level level
	names []string // the core name, then those of extensions it was promoted from
}

// procs holds function addresses, 0 for what was not found.
type procs [commandCount]uintptr

// lookup fills the commands of one level.
func (p *procs) lookup(at level, find func(name string) uintptr) {
	for i := range commands {
		if commands[i].level != at {
			continue
		}
		for _, name := range commands[i].names {
			if p[i] = find(name); p[i] != 0 {
				break
			}
		}
	}
}

func (p *procs) has(name string) bool {
	for i := range commands {
		for _, n := range commands[i].names {
			if n == name {
				return p[i] != 0
			}
		}
	}
	return false
}

// call calls a command that returns VkResult.
//
//go:uintptrescapes
func (p *procs) call(c command, args ...uintptr) Result {
	if p[c] == 0 {
		return ErrorExtensionNotPresent
	}
	r, _, _ := purego.SyscallN(p[c], args...)
	return Result(r)
}

// value calls a command that returns something else or nothing.
//
//go:uintptrescapes
func (p *procs) value(c command, args ...uintptr) uintptr {
	if p[c] == 0 {
		panic("vk: " + commands[c].names[0] + " is not available from this driver or loader (ask Has first)")
	}
	r, _, _ := purego.SyscallN(p[c], args...)
	return r
}

// getProc calls vkGetInstanceProcAddr or vkGetDeviceProcAddr at address get.
func getProc(get, handle uintptr, name string) uintptr {
	r, _, _ := purego.SyscallN(get, handle, uintptr(unsafe.Pointer(CString(name))))
	return r
}

// enumerate asks for a count, then for that many elements, again whenever the
// count has grown in between.
func enumerate[N ~uint32 | ~uintptr, T any](get func(n *N, p *T) Result, fill func(*T)) ([]T, error) {
	n := new(N)
	for {
		if r := get(n, nil); r != Success || *n == 0 {
			return nil, failure(r)
		}
		list := make([]T, *n)
		if fill != nil {
			for i := range list {
				fill(&list[i])
			}
		}
		r := get(n, &list[0])
		if r == Incomplete {
			continue
		}
		if r < 0 {
			return nil, r
		}
		return list[:min(uint64(*n), uint64(len(list)))], failure(r)
	}
}

func failure(r Result) error {
	if r == Success {
		return nil
	}
	return r
}

func unnamed(ctype string, v int32) string { return fmt.Sprintf("%s(%d)", ctype, v) }
