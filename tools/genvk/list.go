package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// selection is what names.txt asks for and everything that it needs, each
// list sorted or in the order of the file, so that output never varies.
type selection struct {
	commands   []wanted
	types      []string // sorted
	constants  []string
	extensions []string
}

type wanted struct {
	*ccommand
	hidden, raw bool
}

func (r *registry) selectNames(list io.Reader) (*selection, error) {
	s := &selection{}
	need := map[string]bool{}
	scan := bufio.NewScanner(list)
	for line := 1; scan.Scan(); line++ {
		text, _, _ := strings.Cut(scan.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if err := r.selectName(s, need, words[0], words[1:]); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	s.types = slices.Sorted(maps.Keys(need))
	return s, scan.Err()
}

func (r *registry) selectName(s *selection, need map[string]bool, name string, words []string) error {
	switch {
	case r.extensions[name]:
		s.extensions = append(s.extensions, name)
	case r.constants[name].value != "":
		s.constants = append(s.constants, name)
	case r.types[name] != nil:
		return r.require(need, name)
	case r.typeAlias[name] != "":
		return fmt.Errorf("%s is another name of %s: list that", name, r.canonical(name))
	case r.commands[name] != nil:
		w := wanted{ccommand: r.commands[name]}
		for _, word := range words {
			switch word {
			case "hidden":
				w.hidden = true
			case "raw":
				w.raw = true
			default:
				return fmt.Errorf("%s: unknown word %q", name, word)
			}
		}
		s.commands = append(s.commands, w)
		for _, p := range w.params {
			if err := r.require(need, p.base); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return r.require(need, w.result)
	default:
		return fmt.Errorf("%s is not in the registry", name)
	}
	return nil
}

// require adds a type and all types that its declaration mentions.
func (r *registry) require(need map[string]bool, name string) error {
	name = r.canonical(name)
	t := r.types[name]
	if t == nil || !strings.HasPrefix(name, "Vk") || need[name] || name == "VkAllocationCallbacks" {
		return nil
	}
	if flags := r.flagsOf(name); flags != "" {
		return r.require(need, flags)
	}
	need[name] = true
	for _, m := range t.members {
		if m.bitfield {
			return fmt.Errorf("%s.%s is a bit field, which Go cannot spell", name, m.name)
		}
		if err := r.require(need, m.base); err != nil {
			return err
		}
	}
	return nil
}
