package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// registry is the part of vk.xml that the generator needs.
type registry struct {
	version      string // of the API's newest version: 1.4
	header       string // patch level of the headers: 363
	types        map[string]*ctype
	enums        map[string]*enum
	constants    map[string]constant
	commands     map[string]*ccommand
	typeAlias    map[string]string
	commandAlias map[string][]string // canonical name -> other names
	extensions   map[string]bool
	origin       map[string]string // command or type -> "Vulkan 1.1" or extension
	tags         map[string]bool   // vendor suffixes
}

type ctype struct {
	name, category string
	flags64        bool
	bits           string // of a bitmask: the enum with its values
	dispatchable   bool   // of a handle
	members        []decl // of a struct or union
}

// decl is a struct member or a parameter.
type decl struct {
	name, base string
	ptr        int
	constant   bool // the pointee is const
	dims       []string
	bitfield   bool
	length     string // len attribute
	sType      string // the one value allowed for sType
}

type ccommand struct {
	name, result string
	params       []decl
}

type enum struct {
	name   string
	values []enumValue
}

type enumValue struct {
	name  string
	value int64
}

type constant struct{ ctype, value string }

func readRegistry(root *node) (*registry, error) {
	r := &registry{
		types:        map[string]*ctype{},
		enums:        map[string]*enum{},
		constants:    map[string]constant{},
		commands:     map[string]*ccommand{},
		typeAlias:    map[string]string{},
		commandAlias: map[string][]string{},
		extensions:   map[string]bool{},
		origin:       map[string]string{},
		tags:         map[string]bool{},
	}
	var err error
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	root.each("tags", func(n *node) {
		n.each("tag", func(t *node) { r.tags[t.attrs["name"]] = true })
	})
	root.each("types", func(n *node) { n.each("type", r.readType) })
	root.each("enums", func(n *node) { keep(r.readEnums(n)) })
	root.each("commands", func(n *node) { n.each("command", r.readCommand) })
	root.each("feature", func(n *node) {
		r.version = n.attrs["number"]
		keep(r.readRequires(n, 0, "Vulkan "+r.version))
	})
	root.each("extensions", func(n *node) {
		n.each("extension", func(x *node) {
			if !x.inAPI("supported") {
				return
			}
			number, e := strconv.ParseInt(x.attrs["number"], 10, 64)
			keep(e)
			r.extensions[x.attrs["name"]] = true
			keep(r.readRequires(x, number, x.attrs["name"]))
		})
	})
	return r, err
}

var versionDefine = regexp.MustCompile(`#define VK_HEADER_VERSION (\d+)`)

func (r *registry) readType(n *node) {
	t := &ctype{name: n.attrs["name"], category: n.attrs["category"]}
	if t.name == "" {
		t.name = n.deep("name")
	}
	if t.name == "VK_HEADER_VERSION" {
		if m := versionDefine.FindStringSubmatch(n.flat()); m != nil {
			r.header = m[1]
		}
	}
	if alias := n.attrs["alias"]; alias != "" {
		r.typeAlias[t.name] = alias
		return
	}
	switch t.category {
	case "handle":
		t.dispatchable = n.deep("type") == "VK_DEFINE_HANDLE"
	case "bitmask":
		t.flags64 = n.deep("type") == "VkFlags64"
		if t.bits = n.attrs["bitvalues"]; t.bits == "" {
			t.bits = n.attrs["requires"]
		}
	case "struct", "union":
		n.each("member", func(m *node) { t.members = append(t.members, readDecl(m)) })
	}
	r.types[t.name] = t
}

var dimension = regexp.MustCompile(`\[(\w+)\]`)

// readDecl reads <member> or <param>: `const <type>char</type>* <name>p</name>[4]`.
func readDecl(n *node) decl {
	d := decl{length: n.attrs["len"], sType: n.attrs["values"]}
	d.base, d.name = n.deep("type"), n.deep("name")
	before, after, seenType, seenName := "", "", false, false
	for _, k := range n.kids {
		switch {
		case k.name == "type":
			seenType = true
		case k.name == "name":
			seenName = true
		case seenName:
			after += k.flat()
		case seenType:
			d.ptr += strings.Count(k.flat(), "*")
		default:
			before += k.flat()
		}
	}
	d.constant = strings.Contains(before, "const")
	d.bitfield = strings.Contains(after, ":")
	for _, m := range dimension.FindAllStringSubmatch(after, -1) {
		d.dims = append(d.dims, m[1])
	}
	return d
}

func (r *registry) readCommand(n *node) {
	if alias := n.attrs["alias"]; alias != "" {
		r.commandAlias[alias] = append(r.commandAlias[alias], n.attrs["name"])
		return
	}
	proto := n.child("proto")
	c := &ccommand{name: proto.deep("name"), result: proto.deep("type")}
	n.each("param", func(p *node) { c.params = append(c.params, readDecl(p)) })
	r.commands[c.name] = c
}

func (r *registry) readEnums(n *node) error {
	name := n.attrs["name"]
	if n.attrs["type"] == "constants" || name == "API Constants" {
		n.each("enum", func(e *node) {
			if v, ok := e.attrs["value"]; ok {
				r.constants[e.attrs["name"]] = constant{e.attrs["type"], v}
			}
		})
		return nil
	}
	en := &enum{name: name}
	r.enums[name] = en
	var err error
	n.each("enum", func(e *node) { err = firstError(err, en.add(e, 0)) })
	return err
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (en *enum) add(n *node, extension int64) error {
	if n.attrs["alias"] != "" || !n.inAPI("api") {
		return nil
	}
	v := enumValue{name: n.attrs["name"]}
	for _, old := range en.values {
		if old.name == v.name {
			return nil
		}
	}
	var err error
	switch {
	case n.attrs["bitpos"] != "":
		var bit int64
		bit, err = strconv.ParseInt(n.attrs["bitpos"], 10, 64)
		v.value = 1 << bit
	case n.attrs["offset"] != "":
		var offset int64
		offset, err = strconv.ParseInt(n.attrs["offset"], 10, 64)
		if x := n.attrs["extnumber"]; x != "" && err == nil {
			extension, err = strconv.ParseInt(x, 10, 64)
		}
		v.value = 1000000000 + (extension-1)*1000 + offset
		if n.attrs["dir"] == "-" {
			v.value = -v.value
		}
	default:
		v.value, err = strconv.ParseInt(n.attrs["value"], 0, 64)
	}
	if err != nil {
		return fmt.Errorf("enum %s: %w", v.name, err)
	}
	en.values = append(en.values, v)
	return nil
}

// readRequires reads what a core version or an extension adds.
func (r *registry) readRequires(n *node, extension int64, origin string) error {
	var err error
	n.each("require", func(q *node) {
		for _, kind := range []string{"type", "command"} {
			q.each(kind, func(k *node) {
				if _, ok := r.origin[k.attrs["name"]]; !ok {
					r.origin[k.attrs["name"]] = origin
				}
			})
		}
		q.each("enum", func(e *node) {
			if en := r.enums[e.attrs["extends"]]; en != nil {
				err = firstError(err, en.add(e, extension))
			}
		})
	})
	return err
}

// sTypeOf is the structure type constant of a struct that begins with sType
// and pNext, or "" for any other type.
func (r *registry) sTypeOf(name string) string {
	if t := r.types[name]; t != nil && t.category == "struct" && len(t.members) > 1 && t.members[0].name == "sType" {
		return t.members[0].sType
	}
	return ""
}

// length is the value of an array dimension.
func (r *registry) length(dim string) (int, error) {
	if c, ok := r.constants[dim]; ok {
		dim = strings.TrimRight(strings.Trim(c.value, "()"), "U")
	}
	return strconv.Atoi(dim)
}

func (r *registry) canonical(name string) string {
	for r.typeAlias[name] != "" {
		name = r.typeAlias[name]
	}
	return name
}

// flagsOf is the bitmask type whose values the enum bits lists.
func (r *registry) flagsOf(bits string) string {
	var found []string
	for name, t := range r.types {
		if t.category == "bitmask" && t.bits == bits {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}
