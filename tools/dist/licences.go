package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// licences joins the licences of Go and of all modules that the packages link, as they lie in
// the module cache. A module without one is an error: it cannot be passed on.
func licences(env, packages []string) ([]byte, error) {
	list, err := output(env, "go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"}, packages...)...)
	if err != nil {
		return nil, err
	}
	root, err := output(env, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	modules := strings.Split(strings.TrimSpace(list), "\n")
	slices.Sort(modules)
	modules = slices.DeleteFunc(slices.Compact(modules), func(m string) bool { return m == "" })
	modules = append([]string{"the Go standard library and runtime\t" + strings.TrimSpace(root)}, modules...)
	var b bytes.Buffer
	b.WriteString("Tern links the following, under their licences.\n")
	for _, m := range modules {
		name, dir, _ := strings.Cut(m, "\t")
		texts, err := licenceFiles(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, path := range texts {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "\n%s\n%s (%s)\n\n%s\n", strings.Repeat("=", 78), name, filepath.Base(path), bytes.TrimSpace(text))
		}
	}
	return b.Bytes(), nil
}

// licenceFiles finds the texts of a module.
func licenceFiles(dir string) (list []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		for _, stem := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"} {
			if !e.IsDir() && strings.HasPrefix(upper, stem) {
				list = append(list, filepath.Join(dir, e.Name()))
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no licence lies in %s", dir)
	}
	return list, nil
}
