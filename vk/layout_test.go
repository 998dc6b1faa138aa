package vk

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

type layout struct {
	name   string // in C
	size   uintptr
	fields []field
}

type field struct {
	name   string
	offset uintptr
}

type value struct {
	name  string
	value int64
}

// headersVariable names a folder with vulkan/vulkan_core.h, for headers that
// are not where the C compiler looks by itself.
const headersVariable = "TERN_VULKAN_HEADERS"

// TestLayout compares every struct, field and value with the C headers that
// this machine has. What those headers are too old for is logged.
func TestLayout(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler (cc) to read the headers with")
	}
	args := []string{"-x", "c", "-DVK_ENABLE_BETA_EXTENSIONS", "-E", "-"}
	if dir := os.Getenv(headersVariable); dir != "" {
		args = append([]string{"-I", dir}, args...)
	}
	const include = "#include <stddef.h>\n#include <stdio.h>\n#include <vulkan/vulkan.h>\n"
	pre := exec.Command(cc, args...)
	pre.Stdin = strings.NewReader(include)
	text, err := pre.Output()
	if err != nil {
		t.Skipf("no Vulkan headers: %s cannot include vulkan/vulkan.h (%v)", cc, err)
	}
	known := map[string]bool{}
	for _, w := range regexp.MustCompile(`\bV[kK]\w+`).FindAll(text, -1) {
		known[string(w)] = true
	}

	var program, want bytes.Buffer
	var missing []string
	program.WriteString(include + "int main(void) {\n")
	for _, l := range layouts {
		if !known[l.name] {
			missing = append(missing, l.name)
			continue
		}
		fmt.Fprintf(&program, "printf(\"%s %%zu\\n\", sizeof(%s));\n", l.name, l.name)
		fmt.Fprintf(&want, "%s %d\n", l.name, l.size)
		for _, f := range l.fields {
			fmt.Fprintf(&program, "printf(\"%s.%s %%zu\\n\", offsetof(%s, %s));\n", l.name, f.name, l.name, f.name)
			fmt.Fprintf(&want, "%s.%s %d\n", l.name, f.name, f.offset)
		}
	}
	absent := 0
	for _, v := range values {
		if !known[v.name] {
			absent++
			continue
		}
		fmt.Fprintf(&program, "printf(\"%s %%lld\\n\", (long long)%s);\n", v.name, v.name)
		fmt.Fprintf(&want, "%s %d\n", v.name, v.value)
	}
	program.WriteString("return 0; }\n")

	dir := t.TempDir()
	src, exe := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(src, program.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	build := append(args[:len(args)-2:len(args)-2], "-o", exe, src)
	if out, err := exec.Command(cc, build...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cc, err, out)
	}
	got, err := exec.Command(exe).Output()
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(string(got), "\n"), strings.Split(want.String(), "\n")
	if len(gotLines) != len(wantLines) {
		t.Fatalf("C printed %d lines, want %d", len(gotLines), len(wantLines))
	}
	for i, w := range wantLines {
		if gotLines[i] != w {
			t.Errorf("C says %s, Go %s", gotLines[i], w)
		}
	}
	compared := len(layouts) - len(missing)
	t.Logf("%d structs and %d values are equal to C; the headers lack %d values and %d structs: %s",
		compared, len(values)-absent, absent, len(missing), strings.Join(missing, " "))
	if compared < 150 {
		t.Errorf("only %d structs were compared", compared)
	}
}
