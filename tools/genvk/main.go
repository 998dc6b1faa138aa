// Command genvk writes the generated part of package vk from the Vulkan
// registry (vk.xml) and a list of names.
//
//	genvk -registry vk.xml -names vk/names.txt -out vk/vk_gen.go -test vk/layout_gen_test.go
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
)

// systemRegistry is where Linux distributions and the SDK install it.
const systemRegistry = "/usr/share/vulkan/registry/vk.xml"

func main() {
	xmlPath := flag.String("registry", "", "the registry to read (default "+systemRegistry+")")
	namesPath := flag.String("names", "names.txt", "the list of names to generate")
	outPath := flag.String("out", "vk_gen.go", "the Go file to write")
	testPath := flag.String("test", "layout_gen_test.go", "the table for the layout test to write")
	flag.Parse()
	if *xmlPath == "" {
		*xmlPath = systemRegistry
	}
	if err := run(*xmlPath, *namesPath, *outPath, *testPath); err != nil {
		fmt.Fprintln(os.Stderr, "genvk:", err)
		os.Exit(1)
	}
}

func run(xmlPath, namesPath, outPath, testPath string) error {
	xmlFile, err := os.Open(xmlPath)
	if err != nil {
		return err
	}
	defer xmlFile.Close()
	root, err := parseXML(xmlFile)
	if err != nil {
		return fmt.Errorf("%s: %w", xmlPath, err)
	}
	reg, err := readRegistry(root)
	if err != nil {
		return fmt.Errorf("%s: %w", xmlPath, err)
	}
	names, err := os.Open(namesPath)
	if err != nil {
		return err
	}
	defer names.Close()
	sel, err := reg.selectNames(names)
	if err != nil {
		return fmt.Errorf("%s: %w", namesPath, err)
	}
	e := &emitter{registry: reg, sel: sel}
	if err := write(outPath, e.api); err != nil {
		return err
	}
	return write(testPath, e.layouts)
}

func write(path string, emit func(*bytes.Buffer) error) error {
	var b bytes.Buffer
	if err := emit(&b); err != nil {
		return err
	}
	src, err := format.Source(b.Bytes())
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", path, err, b.Bytes())
	}
	return os.WriteFile(path, src, 0o644)
}
