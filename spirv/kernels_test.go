package spirv

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table says of each kernel what its words say, and exact kernels obey the lint.
func TestKernels(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kernels {
		if seen[k.Name] {
			t.Errorf("%s is listed twice", k.Name)
		}
		seen[k.Name] = true
		if found, ok := Lookup(k.Name); !ok || found != k {
			t.Errorf("Lookup does not find %s", k.Name)
		}
		data := k.Data()
		if got := Hash(data); got != k.Hash {
			t.Errorf("%s: the file hashes to %s, the table says %s", k.Name, got, k.Hash)
		}
		info, err := k.Reflect(data)
		if err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		if info.Bindings != k.Bindings || info.PushBytes != k.PushBytes || info.LocalSize != k.LocalSize || info.LocalSizeIDs != k.LocalSizeIDs {
			t.Errorf("%s: the words say %+v, the table %+v", k.Name, *info, k.Info)
		}
		if info.PushBytes > 128 {
			t.Errorf("%s: %d bytes of push constants, Vulkan promises 128", k.Name, info.PushBytes)
		}
		if err := k.Lint(data); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
		if (k.Class == ClassExact) == (k.Bound() != "") {
			t.Errorf("%s: class %q", k.Name, k.Class)
		}
		if k.IsPTX() {
			continue
		}
		if _, err := WithFloatControls(k.Words(), FloatControls{RTE32: true}); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
	if _, ok := Lookup("no_such_kernel"); ok {
		t.Error("Lookup finds a kernel that does not exist")
	}
}

// Every contract has a base implementation, which needs nothing. The resident kernel
// computes what others compute, and may be missing.
func TestContractsHaveABase(t *testing.T) {
	for _, k := range Kernels {
		if strings.HasPrefix(k.Contract, "resident") {
			continue
		}
		isBase := func(k *Kernel) bool { return k.Impl == "" && len(k.Needs) == 0 }
		if !slices.ContainsFunc(Contract(k.Contract), isBase) {
			t.Errorf("contract %s has no base implementation that needs nothing", k.Contract)
		}
	}
}

func TestSetHash(t *testing.T) {
	if h := SetHash(); !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(h) {
		t.Errorf("SetHash is %q", h)
	}
}
