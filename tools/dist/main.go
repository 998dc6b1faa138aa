// Command dist makes the archives of a release: for each platform the program, the
// library for C where there is a compiler for it, and the licences of all that is
// inside; beside them SHA256SUMS. Equal sources give equal archives.
//
//	go run ./tools/dist -out bin/dist
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/pe"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "bin/dist", "`folder` of the archives")
	only := flag.String("only", "", "make only these, a list of `OS/ARCH` with commas")
	flag.Parse()
	if err := run(*out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// platform is what an archive is for.
type platform struct {
	os, arch string
	cc       []string // compilers that can make the library, tried in order
	library  string   // its file
	link     string   // what its linker is told
}

var platforms = []platform{
	{"linux", "amd64", []string{"x86_64-linux-gnu-gcc", "gcc", "cc"}, "libtern.so.1", "-extldflags=-Wl,-soname,libtern.so.1"},
	{"linux", "arm64", []string{"aarch64-linux-gnu-gcc"}, "libtern.so.1", "-extldflags=-Wl,-soname,libtern.so.1"},
	{"windows", "amd64", []string{"x86_64-w64-mingw32-gcc"}, "tern.dll", "'-extldflags=-static-libgcc -Wl,--no-insert-timestamp,--out-implib=%s/libtern.dll.a'"},
	{"darwin", "arm64", nil, "", ""},
}

func (p platform) String() string { return p.os + "/" + p.arch }

// compiler finds the one for the library, "" if there is none here.
func (p platform) compiler() string {
	for _, cc := range p.cc {
		out, err := exec.Command(cc, "-dumpmachine").Output()
		machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[p.arch]
		if err == nil && strings.HasPrefix(string(out), machine) {
			return cc
		}
	}
	return ""
}

func run(out, only string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	stamp, version, err := commit()
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, p := range platforms {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.String()) {
			continue
		}
		path, err := p.make(out, version, stamp)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), filepath.Base(path))
	}
	if sums.Len() == 0 {
		return fmt.Errorf("no platform is called %q", only)
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// commit tells when the sources were committed, which is the time of all files, and how
// the archives are called: by the tag, or the commit, with -dirty behind if the sources are not as committed.
func commit() (stamp time.Time, version string, err error) {
	text, err := output(nil, "git", "log", "-1", "--format=%ct %h")
	if err != nil {
		return stamp, "", err
	}
	var seconds int64
	if _, err := fmt.Sscan(text, &seconds, &version); err != nil {
		return stamp, "", fmt.Errorf("git log: %q: %w", text, err)
	}
	if tag, err := output(nil, "git", "describe", "--tags", "--exact-match"); err == nil {
		version = strings.TrimSpace(tag)
	}
	changes, err := output(nil, "git", "status", "--porcelain", "--untracked-files=no")
	if changes != "" {
		version += "-dirty"
	}
	return time.Unix(seconds, 0).UTC(), version, err
}

// make builds one archive and returns its path.
func (p platform) make(out, version string, stamp time.Time) (string, error) {
	work, err := os.MkdirTemp("", "tern-dist-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	env := append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0")
	program := "tern"
	if p.os == "windows" {
		program += ".exe"
	}
	if _, err := output(env, "go", "build", "-buildvcs=true", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(work, program), "./tools/tern"); err != nil {
		return "", err
	}
	folder := fmt.Sprintf("tern-%s-%s-%s", version, p.os, p.arch)
	files := []entry{
		{folder + "/" + program, filepath.Join(work, program), nil, 0o755},
		{folder + "/LICENSE", "LICENSE", nil, 0o644},
		{folder + "/README.md", "README.md", nil, 0o644},
	}
	if p.os == "linux" {
		files = append(files, entry{folder + "/tern.service", "tools/dist/tern.service", nil, 0o644})
	}
	note := "no library: no compiler for it here"
	packages := []string{"./tools/tern"}
	if cc := p.compiler(); cc != "" {
		library, err := p.buildLibrary(work, cc, env)
		if err != nil {
			return "", err
		}
		for _, f := range library {
			files = append(files, entry{folder + "/" + filepath.Base(f), f, nil, 0o644})
		}
		packages = append(packages, "./tools/libtern")
		note = "with " + p.library
		env = append(env, "CGO_ENABLED=1") // so that the library's packages are listed
	} else if p.cc == nil {
		note = "no library"
	}
	licences, err := licences(env, packages)
	if err != nil {
		return "", err
	}
	files = append(files, entry{folder + "/THIRD-PARTY-LICENSES.txt", "", licences, 0o644})
	path := filepath.Join(out, folder+map[bool]string{true: ".zip", false: ".tar.gz"}[p.os == "windows"])
	if err := archive(path, files, stamp); err != nil {
		return "", err
	}
	size := func(path string) float64 {
		info, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return float64(info.Size()) / (1 << 20)
	}
	fmt.Printf("%-44s %5.1f MiB; %s %.1f MiB, %s\n", filepath.Base(path), size(path), program, size(filepath.Join(work, program)), note)
	return path, nil
}

// buildLibrary makes libtern, and returns its files.
func (p platform) buildLibrary(work, cc string, env []string) ([]string, error) {
	link := p.link
	files := []string{filepath.Join(work, p.library), "tools/libtern/tern.h"}
	if strings.Contains(link, "%s") {
		link = fmt.Sprintf(link, filepath.ToSlash(work))
		files = append(files, filepath.Join(work, "libtern.dll.a"))
	}
	// Without an id, as that would differ with the folder in what the linker is told.
	_, err := output(append(env, "CGO_ENABLED=1", "CC="+cc), "go", "build", "-buildvcs=true", "-buildmode=c-shared", "-trimpath", "-ldflags", "-s -w -buildid= "+link,
		"-o", files[0], "./tools/libtern")
	if err == nil && p.os == "windows" {
		err = standsAlone(files[0])
	}
	return files, err
}

// standsAlone tells whether a .dll needs no others than those of Windows.
func standsAlone(dll string) error {
	f, err := pe.Open(dll)
	if err != nil {
		return err
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	needs := map[string]bool{}
	for _, s := range symbols {
		_, library, _ := strings.Cut(s, ":")
		needs[strings.ToLower(library)] = true
	}
	for library := range needs {
		if !slices.Contains([]string{"kernel32.dll", "msvcrt.dll", "ucrtbase.dll", "ntdll.dll"}, library) {
			err = errors.Join(err, fmt.Errorf("%s needs %s, which Windows does not have", filepath.Base(dll), library))
		}
	}
	return err
}

// output runs a program.
func output(env []string, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	var complaint bytes.Buffer
	c.Env, c.Stderr = env, &complaint
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, complaint.Bytes())
	}
	return string(text), nil
}
