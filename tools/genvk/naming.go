package main

import (
	"strings"
	"unicode"
)

// goConstant spells a C constant: VK_FORMAT_R8G8B8A8_UNORM is
// FormatR8G8B8A8Unorm, VK_SCOPE_DEVICE_KHR is ScopeDeviceKHR.
func (r *registry) goConstant(name string) string {
	words := strings.Split(strings.TrimPrefix(name, "VK_"), "_")
	var b strings.Builder
	for i, w := range words {
		if i > 0 && i == len(words)-1 && r.tags[w] {
			b.WriteString(w)
			continue
		}
		up := true
		for _, c := range w {
			if up {
				b.WriteRune(c)
			} else {
				b.WriteRune(unicode.ToLower(c))
			}
			up = unicode.IsDigit(c)
		}
	}
	return b.String()
}

// goExtension spells the constant that holds an extension's name.
func goExtension(name string) string {
	words := strings.Split(strings.TrimPrefix(name, "VK_"), "_")
	for i, w := range words {
		words[i] = capital(w)
	}
	return strings.Join(words, "") + "ExtensionName"
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// goParam spells a parameter: pCreateInfo is createInfo.
func goParam(name string) string {
	trimmed := strings.TrimLeft(name, "p")
	if trimmed != "" && trimmed != name && unicode.IsUpper(rune(trimmed[0])) {
		name = strings.ToLower(trimmed[:1]) + trimmed[1:]
	}
	switch name {
	case "type", "range", "func", "map", "len", "make", "unsafe", "string":
		return name + "_"
	}
	return name
}

// goType spells the name of a C type that is not a pointer.
func (r *registry) goType(name string) string {
	name = r.canonical(name)
	switch name {
	case "VkInstance", "VkDevice":
		return strings.TrimPrefix(name, "Vk") + "Handle"
	case "char", "uint8_t":
		return "byte"
	case "int8_t", "int16_t", "int32_t", "int64_t", "uint16_t", "uint32_t", "uint64_t":
		return strings.TrimSuffix(name, "_t")
	case "int":
		return "int32"
	case "float":
		return "float32"
	case "double":
		return "float64"
	case "size_t":
		return "uintptr"
	}
	t := r.types[name]
	switch {
	case t == nil || t.category == "funcpointer" || !strings.HasPrefix(name, "Vk"):
		return "uintptr"
	case strings.Contains(name, "FlagBits"):
		if flags := r.flagsOf(name); flags != "" {
			name = flags
		}
	}
	return strings.TrimPrefix(name, "Vk")
}

// goDecl spells the type of a member or parameter as it lies in memory.
func (r *registry) goDecl(d decl) (string, error) {
	prefix := ""
	for _, dim := range d.dims {
		n, err := r.length(dim)
		if err != nil {
			return "", err
		}
		prefix += "[" + itoa(n) + "]"
	}
	if d.base == "void" || d.ptr > 0 && r.goType(d.base) == "uintptr" && d.base != "size_t" {
		return prefix + strings.Repeat("*", max(d.ptr-1, 0)) + "unsafe.Pointer", nil
	}
	return prefix + strings.Repeat("*", d.ptr) + r.goType(d.base), nil
}
