package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// unpack reads the files of an archive, by name.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".zip") {
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			files[f.Name] = string(text)
		}
		return files
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(text)
	}
}

// Archives hold what they are given, and are the same when they are made again.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("text of a"), 0o644); err != nil {
		t.Fatal(err)
	}
	entries := []entry{{"x/a", filepath.Join(dir, "a"), nil, 0o755}, {"x/b", "", []byte("text of b"), 0o644}}
	stamp := time.Unix(1700000000, 0).UTC()
	for _, name := range []string{"one.zip", "one.tar.gz"} {
		path := filepath.Join(dir, name)
		var made [2][]byte
		for i := range made {
			if err := archive(path, entries, stamp); err != nil {
				t.Fatal(err)
			}
			var err error
			if made[i], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(made[0], made[1]) {
			t.Errorf("%s differs when it is made again", name)
		}
		if got := unpack(t, path); len(got) != 2 || got["x/a"] != "text of a" || got["x/b"] != "text of b" {
			t.Errorf("%s holds %q", name, got)
		}
		bad := append(entries, entry{"x/c", filepath.Join(dir, "none"), nil, 0o644})
		if err := archive(filepath.Join(dir, "bad"+name), bad, stamp); err == nil {
			t.Error("an archive with a file that does not exist")
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "bad*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Every module that is linked, on every platform, has a licence that is passed on.
func TestLicences(t *testing.T) {
	for _, p := range platforms {
		env := append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0")
		text, err := licences(env, []string{"github.com/ternvk/tern/tools/tern"})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"Go standard library", "github.com/ebitengine/purego v", "github.com/spf13/cobra v", "Apache License", "Copyright"} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: %q is not there", p, part)
			}
		}
		if strings.Contains(string(text), "go-gl/glfw") {
			t.Errorf("%s: what is not linked is there", p)
		}
	}
	if _, err := licenceFiles(t.TempDir()); err == nil {
		t.Error("a module without a licence")
	}
}

// The unit, the container and the manifests use options, variables and metrics that
// exist.
func TestFilesFit(t *testing.T) {
	var sources strings.Builder
	for _, pattern := range []string{"../tern/*.go", "../serve/*.go", "../../runtime/*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(text)
		}
	}
	names := regexp.MustCompile(`\btern_[a-z_]+[a-z]\b|\bTERN_[A-Z_]+\b|--(?:host|port|parallel|queue|max-wait|keep-alive)\b`)
	for _, path := range []string{"tern.service", "Containerfile", "kubernetes/tern.yaml", "kubernetes/gateway.yaml", "kubernetes/README.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names.FindAllString(string(text), -1) {
			quoted := `"` + strings.TrimPrefix(name, "--") + `"`
			if name != "TERN_OPTIONS" && !strings.Contains(sources.String(), quoted) {
				t.Errorf("%s: %s is not known to tern", path, name)
			}
		}
	}
}

// commitHash is the beginning of the commit that the sources are at.
func commitHash(t *testing.T) string {
	t.Helper()
	text, err := output(nil, "git", "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	return text[:12]
}

// The archive of this platform: its sum is right, its program answers, and the library is
// inside where there is a compiler.
func TestDist(t *testing.T) {
	if os.Getenv("TERN_CONFORM") != "all" {
		t.Skip("builds a release: with TERN_CONFORM=all")
	}
	out := t.TempDir()
	this := runtime.GOOS + "/" + runtime.GOARCH
	t.Chdir("../..")
	if err := run(out, this); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	sum, name, _ := strings.Cut(strings.TrimSpace(string(sums)), "  ")
	data, err := os.ReadFile(filepath.Join(out, name))
	if err != nil || fmt.Sprintf("%x", sha256.Sum256(data)) != sum {
		t.Fatalf("%s: wrong sum, %v", name, err)
	}
	files := unpack(t, filepath.Join(out, name))
	folder := strings.TrimSuffix(strings.TrimSuffix(name, ".tar.gz"), ".zip")
	program := filepath.Join(out, "tern")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if err := os.WriteFile(program, []byte(files[folder+"/"+filepath.Base(program)]), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"version", "kernels "}, {"version", commitHash(t)}, {"run --device reference What-is-7-times-8?", "."},
	} {
		text, err := exec.Command(program, strings.Fields(c.args)...).Output()
		if err != nil || !strings.Contains(string(text), c.want) {
			t.Errorf("tern %s: %q, %v", c.args, text, err)
		}
	}
	for _, p := range platforms {
		if _, there := files[folder+"/"+p.library]; p.String() == this && p.compiler() != "" && !there {
			t.Errorf("%s has no %s", name, p.library)
		}
	}
	if err := run(out, "plan9/mips"); err == nil {
		t.Error("an unknown platform")
	}
}
