package main

import (
	"bytes"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readSmall(t *testing.T) *registry {
	t.Helper()
	f, err := os.Open("testdata/small.xml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	root, err := parseXML(f)
	if err != nil {
		t.Fatal(err)
	}
	r, err := readRegistry(root)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func generate(t *testing.T, names string) (string, error) {
	t.Helper()
	r := readSmall(t)
	sel, err := r.selectNames(strings.NewReader(names))
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := (&emitter{registry: r, sel: sel}).api(&b); err != nil {
		return "", err
	}
	src, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, b.Bytes())
	}
	return regexp.MustCompile(`[ \t]+`).ReplaceAllString(string(src), " "), nil
}

func TestGenerate(t *testing.T) {
	src, err := generate(t, "vkCreateThing\nvkGetThings # a comment\nvkSetThings hidden\nVK_ALL\nVK_KHR_thing\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"vk.xml 1.0.7; DO NOT EDIT",
		"All = ^uint64(0)",
		`KHRThingExtensionName = "VK_KHR_thing"`,
		"type DeviceHandle uintptr",
		"// Thing is VkThing (Vulkan 1.0).\ntype Thing uint64",
		"type KindFlags uint32",
		"KindRoundBit KindFlags = 0x1\n KindSquareBitKHR KindFlags = 0x80000000",
		"ErrorThingKHR Result = -1000007001",
		"type Either [3]uint32",
		"type ThingCreateInfo struct {\n SType StructureType\n PNext unsafe.Pointer\n Kind KindFlags\n PartCount uint32\n PParts *Part\n Either Either\n Grid [2][3]float32\n}",
		"StructureTypeThingCreateInfo StructureType = 1000001005",
		`cmdCreateThing: {levelDevice, []string{"vkCreateThing", "vkCreateThingKHR"}}`,
		"func (d *Device) CreateThing(createInfo *ThingCreateInfo) (Thing, error) {\n createInfo.fill()",
		"func (d *Device) GetThings(all bool) ([]Thing, error) {\n return enumerate(",
		"func (d *Device) setThings(things []Thing, data []byte) {",
		"uintptr(len(things)), uintptr(unsafe.Pointer(unsafe.SliceData(things))), uintptr(len(data))",
	} {
		if !strings.Contains(src, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, no := range []string{"OnlySC", "Never", "AllocationCallbacks"} {
		if strings.Contains(src, no) {
			t.Errorf("%q should not be there", no)
		}
	}
	if t.Failed() {
		t.Log(src)
	}
}

func TestRefusals(t *testing.T) {
	for names, want := range map[string]string{
		"vkNone":                 "line 1: vkNone is not in the registry",
		"\nVkThingCreateInfoKHR": "line 2: VkThingCreateInfoKHR is another name of VkThingCreateInfo",
		"VkBits":                 "VkBits.a is a bit field",
		"vkSetWeight":            "vkSetWeight: weight: float by value",
		"vkGetThings loud":       `unknown word "loud"`,
		"VK_KHR_never":           "not in the registry",
	} {
		if _, err := generate(t, names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", names, err, want)
		}
	}
	if _, err := parseXML(strings.NewReader("<registry><types>")); err == nil {
		t.Error("a truncated registry was accepted")
	}
	if _, err := parseXML(strings.NewReader("<html></html>")); err == nil {
		t.Error("a file without a registry was accepted")
	}
}

func TestNames(t *testing.T) {
	r := readSmall(t)
	for c, want := range map[string]string{
		"VK_FORMAT_R8G8B8A8_UNORM":  "FormatR8G8B8A8Unorm",
		"VK_ERROR_DEVICE_LOST":      "ErrorDeviceLost",
		"VK_COMPONENT_FLOAT16_KHR":  "ComponentFloat16KHR",
		"VK_PIPELINE_STAGE_2_COPY":  "PipelineStage2Copy",
		"VK_KHR_IN_THE_MIDDLE":      "KhrInTheMiddle",
		"VK_FEATURES_16BIT_STORAGE": "Features16BitStorage",
	} {
		if got := r.goConstant(c); got != want {
			t.Errorf("%s is %s, want %s", c, got, want)
		}
	}
	for c, want := range map[string]string{"pCreateInfo": "createInfo", "ppData": "data", "pipeline": "pipeline", "type": "type_", "p": "p"} {
		if got := goParam(c); got != want {
			t.Errorf("%s is %s, want %s", c, got, want)
		}
	}
}

// TestCommitted generates package vk again, where this machine has the same
// registry, and compares.
func TestCommitted(t *testing.T) {
	path := os.Getenv("VK_XML")
	if path == "" {
		path = systemRegistry
	}
	f, err := os.Open(path)
	if err != nil {
		t.Skip("no registry on this machine: ", err)
	}
	defer f.Close()
	root, err := parseXML(f)
	if err != nil {
		t.Fatal(err)
	}
	r, err := readRegistry(root)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile("../../vk/vk_gen.go")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(old), "\n")
	if !strings.Contains(first, "vk.xml "+r.version+"."+r.header+";") {
		t.Skipf("the registry here is %s.%s, and the committed file says: %s", r.version, r.header, first)
	}
	dir := t.TempDir()
	out, test := filepath.Join(dir, "vk_gen.go"), filepath.Join(dir, "layout_gen_test.go")
	if err := run(path, "../../vk/names.txt", out, test); err != nil {
		t.Fatal(err)
	}
	for made, committed := range map[string]string{out: "../../vk/vk_gen.go", test: "../../vk/layout_gen_test.go"} {
		a, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(committed)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs from what genvk writes now: run go generate ./vk", committed)
		}
	}
}
