package pull

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Ref is a file of a repository on a Hugging Face server or a mirror of one.
type Ref struct {
	Repo     string // owner/name
	File     string // "": the one of the repository that this build runs best
	Revision string
	SHA256   string // hexadecimal, where it is known beforehand
}

func (r Ref) String() string {
	if r.File == "" {
		return r.Repo
	}
	return r.Repo + "/" + r.File
}

// names has the models that go by a short name.
var names = map[string]Ref{
	"bonsai-1.7b": {Repo: "prism-ml/Ternary-Bonsai-1.7B-gguf", File: "Ternary-Bonsai-1.7B-Q2_0_g64.gguf"},
	"bonsai-4b":   {Repo: "prism-ml/Ternary-Bonsai-4B-gguf", File: "Ternary-Bonsai-4B-Q2_0_g64.gguf"},
	"bonsai-8b":   {Repo: "prism-ml/Ternary-Bonsai-8B-gguf", File: "Ternary-Bonsai-8B-Q2_0_g64.gguf"},
	"bonsai-27b":  {Repo: "prism-ml/Ternary-Bonsai-27B-gguf", File: "Ternary-Bonsai-27B-Q2_g64.gguf"},
	"bonsai-2-27b": {
		Repo: "prism-ml/Ternary-Bonsai-2-27B-gguf", File: "Ternary-Bonsai-2-27B-PQ2_0.gguf",
		SHA256: "3907dc1658db1f78a9826bf8d5bcb8dc65db0d466388937af57f2294fae62ec1",
	},
}

// Names lists the short names, sorted, with what they stand for.
func Names() (list []string) {
	for name, ref := range names {
		list = append(list, fmt.Sprintf("%-14s%s", name, ref))
	}
	slices.Sort(list)
	return list
}

// IsShort reports whether a name is one of the short ones.
func IsShort(name string) bool {
	_, ok := names[strings.ToLower(name)]
	return ok
}

// component is a part of a path that means the same on every platform.
var component = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// ParseName reads a short name, OWNER/REPOSITORY or OWNER/REPOSITORY/FILE, each but the
// first with @REVISION behind if it is not to be main.
func ParseName(name string) (Ref, error) {
	if ref, ok := names[strings.ToLower(name)]; ok {
		ref.Revision = "main"
		return ref, nil
	}
	path, revision, pinned := strings.Cut(name, "@")
	if !pinned {
		revision = "main"
	}
	parts := strings.Split(path, "/")
	bad := len(parts) < 2 || len(parts) > 8 || !component.MatchString(revision)
	for _, p := range parts {
		bad = bad || !component.MatchString(p) || strings.HasSuffix(p, ".")
	}
	if bad {
		return Ref{}, fmt.Errorf("%q is no model to download: want one of %s, or owner/repository, or owner/repository/file.gguf",
			name, strings.Join(short(), ", "))
	}
	ref := Ref{Repo: parts[0] + "/" + parts[1], File: strings.Join(parts[2:], "/"), Revision: revision}
	if ref.File != "" && !strings.HasSuffix(ref.File, ".gguf") {
		return Ref{}, fmt.Errorf("%s is no GGUF file", name)
	}
	return ref, nil
}

func short() (list []string) {
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// preference has the formats by what this build runs best, as file names spell them.
var preference = []string{"-Q2_0_g64", "-Q2_g64", "-Q2_0", "-PQ2_0", "-TQ2_0", "-PTQ1_0", "-TQ1_0", "-Q1_0", "-Q4_0", "-Q8_0", "-F16", "-BF16", "-F32"}

// Best picks the file that this build runs best among the names of a repository's, or "".
// Files beside a model (projectors of images, drafters) are no candidates.
func Best(files []string) string {
	best, at := "", len(preference)
	for _, f := range slices.Sorted(slices.Values(files)) {
		stem, ok := strings.CutSuffix(f, ".gguf")
		lower := strings.ToLower(stem)
		if !ok || strings.Contains(lower, "mmproj") || strings.Contains(lower, "dspark") || strings.Contains(lower, "-of-0") {
			continue
		}
		rank := slices.IndexFunc(preference, func(p string) bool { return strings.HasSuffix(lower, strings.ToLower(p)) })
		if rank >= 0 && rank < at {
			best, at = f, rank
		}
	}
	return best
}
