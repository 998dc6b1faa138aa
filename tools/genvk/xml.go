package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
)

// node is an XML element, or a run of text when name is empty. The registry
// mixes text and elements inside C declarations, so order must be kept.
type node struct {
	name  string
	text  string
	attrs map[string]string
	kids  []*node
}

func parseXML(r io.Reader) (*node, error) {
	root := &node{}
	stack := []*node{root}
	dec := xml.NewDecoder(r)
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		top := stack[len(stack)-1]
		switch tok := tok.(type) {
		case xml.StartElement:
			n := &node{name: tok.Name.Local, attrs: map[string]string{}}
			for _, a := range tok.Attr {
				n.attrs[a.Name.Local] = a.Value
			}
			top.kids = append(top.kids, n)
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			top.kids = append(top.kids, &node{text: string(tok)})
		}
	}
	if reg := root.child("registry"); reg != nil {
		return reg, nil
	}
	return nil, fmt.Errorf("no <registry> element")
}

func (n *node) child(name string) *node {
	for _, k := range n.kids {
		if k.name == name {
			return k
		}
	}
	return nil
}

// each visits the direct children called name that belong to Vulkan (and not
// only to Vulkan SC).
func (n *node) each(name string, visit func(*node)) {
	for _, k := range n.kids {
		if k.name == name && k.inAPI("api") {
			visit(k)
		}
	}
}

func (n *node) inAPI(attr string) bool {
	api, ok := n.attrs[attr]
	return !ok || slices.Contains(strings.Split(api, ","), "vulkan")
}

// flat is the C text of a declaration, without comments.
func (n *node) flat() string {
	if n.name == "" {
		return n.text
	}
	if n.name == "comment" {
		return ""
	}
	var b strings.Builder
	for _, k := range n.kids {
		b.WriteString(k.flat())
	}
	return b.String()
}

// deep is the text of the first descendant called name.
func (n *node) deep(name string) string {
	for _, k := range n.kids {
		if k.name == name {
			return strings.TrimSpace(k.flat())
		}
		if s := k.deep(name); s != "" {
			return s
		}
	}
	return ""
}
