package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// level is the function table a command belongs to.
func (c *ccommand) level() string {
	switch c.params[0].base {
	case "VkInstance", "VkPhysicalDevice":
		return "Instance"
	case "VkDevice", "VkQueue", "VkCommandBuffer":
		return "Device"
	}
	return "Loader"
}

func (e *emitter) emitCommands(b *bytes.Buffer) error {
	b.WriteString("const (\n")
	for i, c := range e.sel.commands {
		if i == 0 {
			fmt.Fprintf(b, "%s command = iota\n", index(c))
		} else {
			fmt.Fprintf(b, "%s\n", index(c))
		}
	}
	b.WriteString("commandCount\n)\n\nvar commands = [commandCount]commandInfo{\n")
	for _, c := range e.sel.commands {
		fmt.Fprintf(b, "%s: {level%s, []string{%q", index(c), c.level(), c.name)
		for _, alias := range e.commandAlias[c.name] {
			fmt.Fprintf(b, ", %q", alias)
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n\n")
	for _, c := range e.sel.commands {
		if err := e.emitCommand(b, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func index(c wanted) string { return "cmd" + strings.TrimPrefix(c.name, "vk") }

// method is a Go method under construction.
type method struct {
	*emitter
	wanted
	params, results []string // declarations
	before          []string // statements before the call
	args            []string // of the call
	values          []string // returned
	enumerates      *decl    // the array that the command fills, if it counts itself
	counts          map[string]string
}

func (e *emitter) emitCommand(b *bytes.Buffer, c wanted) error {
	m := &method{emitter: e, wanted: c, counts: map[string]string{}}
	if err := m.build(); err != nil {
		return err
	}
	name := strings.TrimPrefix(c.name, "vk")
	if c.hidden {
		name = strings.ToLower(name[:1]) + name[1:]
	}
	recv := strings.ToLower(c.level()[:1])
	if slices.ContainsFunc(m.params, func(p string) bool { return strings.HasPrefix(p, recv+" ") }) {
		return fmt.Errorf("a parameter is called %s like the receiver", recv)
	}
	fmt.Fprintf(b, "// %s is %s (%s).\n", name, c.name, e.origin[c.name])
	results := strings.Join(m.results, ", ")
	if len(m.results) > 1 {
		results = "(" + results + ")"
	}
	fmt.Fprintf(b, "func (%s *%s) %s(%s) %s {\n", recv, c.level(), name, strings.Join(m.params, ", "), results)
	for _, s := range m.before {
		fmt.Fprintln(b, s)
	}
	call := "value"
	if c.result == "VkResult" {
		call = "call"
	}
	invoke := fmt.Sprintf("%s.procs.%s(%s, %s)", recv, call, index(c), strings.Join(m.args, ", "))
	switch {
	case m.enumerates != nil:
		m.emitEnumeration(b, invoke)
	case c.result == "VkResult":
		values := append(m.values, "err")
		if len(m.values) == 0 {
			fmt.Fprintf(b, "return failure(%s)\n", invoke)
		} else {
			fmt.Fprintf(b, "err := failure(%s)\nreturn %s\n", invoke, strings.Join(values, ", "))
		}
	case c.result == "void":
		fmt.Fprintln(b, invoke)
		if len(m.values) > 0 {
			fmt.Fprintf(b, "return %s\n", strings.Join(m.values, ", "))
		}
	default:
		fmt.Fprintf(b, "return %s(%s)\n", m.results[0], invoke)
	}
	b.WriteString("}\n\n")
	return nil
}

func (m *method) emitEnumeration(b *bytes.Buffer, invoke string) {
	elem, count := m.elem(*m.enumerates), m.elem(m.param(m.enumerates.length))
	fill := "nil"
	if m.needsFill(m.enumerates.base) {
		fill = "func(p *" + elem + ") { p.fill() }"
	}
	if m.result == "VkResult" {
		fmt.Fprintf(b, "return enumerate(func(n *%s, p *%s) Result { return Result(%s) }, %s)\n", count, elem, invoke, fill)
		return
	}
	fmt.Fprintf(b, "list, _ := enumerate(func(n *%s, p *%s) Result { %s; return Success }, %s)\nreturn list\n", count, elem, invoke, fill)
}

func (m *method) param(name string) decl {
	i := slices.IndexFunc(m.ccommand.params, func(p decl) bool { return p.name == name })
	if i < 0 {
		return decl{}
	}
	return m.ccommand.params[i]
}

// elem is the Go type behind a pointer parameter.
func (m *method) elem(p decl) string {
	if p.base == "void" {
		return "byte"
	}
	return m.goType(p.base)
}

func (m *method) build() error {
	params := m.ccommand.params
	rest := params
	if params[0].base == "VkInstance" || params[0].base == "VkDevice" {
		m.args = append(m.args, fmt.Sprintf("uintptr(%s.Handle)", strings.ToLower(m.level()[:1])))
		rest = params[1:]
	}
	if !m.raw {
		for i := range rest {
			if err := m.findCount(&rest[i]); err != nil {
				return err
			}
		}
	}
	for _, p := range rest {
		if err := m.add(p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	switch m.result {
	case "VkResult":
		m.results = append(m.results, "error")
	case "void":
	default:
		if len(m.results) > 0 {
			return fmt.Errorf("returns %s and has outputs", m.result)
		}
		d, err := m.goDecl(decl{base: m.result})
		if err != nil {
			return err
		}
		m.results = append(m.results, d)
	}
	return nil
}

// findCount notes which parameter counts the array p, and how Go says it.
func (m *method) findCount(p *decl) error {
	if p.ptr == 0 || p.length == "" || p.length == "null-terminated" {
		return nil
	}
	count := m.param(p.length)
	switch {
	case count.name == "":
		return nil
	case count.ptr == 1:
		if m.enumerates != nil {
			return fmt.Errorf("two enumerated arrays")
		}
		m.enumerates = p
		m.counts[count.name] = "n"
	case p.constant || p.base == "void":
		if m.counts[count.name] != "" {
			return fmt.Errorf("two input arrays share %s: mark it raw", count.name)
		}
		m.counts[count.name] = "len(" + goParam(p.name) + ")"
	}
	return nil
}

// add translates one parameter by the rule in the package comment.
func (m *method) add(p decl) error {
	name, goType := goParam(p.name), m.goType(p.base)
	count := m.counts[p.name]
	pointer := func(expr string) string { return "uintptr(unsafe.Pointer(" + expr + "))" }
	declare := func(typ string) { m.params = append(m.params, name+" "+typ) }
	pass := func(arg string) { m.args = append(m.args, arg) }
	output := func(typ, init, value string) {
		m.before = append(m.before, init)
		m.results = append(m.results, typ)
		m.values = append(m.values, value)
	}
	t := m.types[m.canonical(p.base)]
	opaque := t == nil || t.category == ""
	switch {
	case p.ptr == 0 && len(p.dims) == 0:
		switch {
		case count != "":
			pass("uintptr(" + count + ")")
		case goType == "float32" || t != nil && (t.category == "struct" || t.category == "union"):
			return fmt.Errorf("%s by value cannot be passed", p.base)
		case goType == "Bool32":
			declare("bool")
			pass("uintptr(ToBool32(" + name + "))")
		default:
			declare(goType)
			pass("uintptr(" + name + ")")
		}
	case p.base == "VkAllocationCallbacks":
		pass("0")
	case count == "n":
		pass(pointer("n"))
	case m.enumerates != nil && m.enumerates.name == p.name:
		m.results = append(m.results, "[]"+m.elem(p))
		pass(pointer("p"))
	case p.length == "null-terminated":
		declare("string")
		pass(pointer("optionalString(" + name + ")"))
	case m.raw || p.length == "" && p.constant || p.length == "" && m.sTypeOf(p.base) != "" || p.length == "" && opaque && p.ptr == 1 && goType == "uintptr":
		typ, err := m.goDecl(p)
		if err != nil {
			return err
		}
		declare(typ)
		m.before = append(m.before, m.fillPointer(p)...)
		pass(pointer(name))
	case p.length == "" && p.base == "void" && p.ptr == 2:
		output("unsafe.Pointer", "var "+name+" unsafe.Pointer", name)
		pass(pointer("&" + name))
	case p.length == "" && p.ptr == 1:
		output(goType, "var "+name+" "+goType, name)
		pass(pointer("&" + name))
	case strings.Contains(p.length, "->"):
		info, field, _ := strings.Cut(p.length, "->")
		output("[]"+goType, fmt.Sprintf("%s := make([]%s, %s.%s)", name, goType, goParam(info), capital(field)), name)
		pass(pointer("unsafe.SliceData(" + name + ")"))
	case !p.constant && p.base != "void":
		size := m.counts[p.length]
		if size == "" {
			size = goParam(p.length)
		}
		output("[]"+goType, fmt.Sprintf("%s := make([]%s, %s)", name, goType, size), name)
		pass(pointer("unsafe.SliceData(" + name + ")"))
	case m.param(p.length).name != "":
		declare("[]" + m.elem(p))
		if m.needsFill(p.base) {
			m.before = append(m.before, fmt.Sprintf("fillAll(unsafe.SliceData(%[1]s), len(%[1]s))", name))
		}
		pass(pointer("unsafe.SliceData(" + name + ")"))
	default:
		return fmt.Errorf("length %q is not understood: mark it raw", p.length)
	}
	return nil
}

// fillPointer is the statement that sets sType behind a pointer parameter.
func (m *method) fillPointer(p decl) []string {
	name, count := goParam(p.name), m.param(p.length)
	switch {
	case !m.needsFill(p.base):
		return nil
	case p.length == "":
		return []string{name + ".fill()"}
	case count.ptr == 0:
		return []string{fmt.Sprintf("fillAll(%s, int(%s))", name, goParam(count.name))}
	default:
		return []string{fmt.Sprintf("fillAll(%s, int(*%s))", name, goParam(count.name))}
	}
}
