package vk

import "unsafe"

// header begins every struct that can be in a pNext chain (VkBaseOutStructure).
type header struct {
	sType StructureType
	pNext unsafe.Pointer
}

// Extensible is a pointer to a struct that begins with sType and pNext.
type Extensible interface {
	// fill sets sType, here and in all structs inside and behind this one, and
	// returns the head; nil for a nil pointer.
	fill() *header
}

// Chain makes a pNext chain of root and next, in that order, and sets their
// sType. A chain that root or next had before is replaced; nil pointers in next
// are left out. It returns root.
//
//	features := vk.Chain(&vk.PhysicalDeviceFeatures2{}, &storage16, &float16)
func Chain[T Extensible](root T, next ...Extensible) T {
	last := root.fill()
	last.pNext = nil
	for _, n := range next {
		if n == nil {
			continue
		}
		if h := n.fill(); h != nil {
			last.pNext = unsafe.Pointer(h)
			h.pNext = nil
			last = h
		}
	}
	return root
}

func fillAll[T any, P interface {
	*T
	Extensible
}](p *T, n int) {
	if p == nil {
		return
	}
	list := unsafe.Slice(p, n)
	for i := range list {
		P(&list[i]).fill()
	}
}
