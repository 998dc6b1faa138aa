// Package pull downloads model files from a Hugging Face server or a mirror of one to
// a cache folder. A download survives broken connections and interruptions: it goes on
// where it was. A file gets its name only when its SHA-256 is right, so whatever
// has a name in the folder is whole.
//
// The folder holds OWNER/REPOSITORY/FILE; FILE.part is a download that is not
// complete, FILE.part.json what is known of it, FILE.lock keeps other processes away,
// and FILE.sha256 is the sum in the format of sha256sum.
package pull

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Errors of pulling.
var (
	ErrOffline  = errors.New("offline")
	ErrNotFound = errors.New("not found")
	ErrHash     = errors.New("the bytes are not those of the file")
	ErrNoHash   = errors.New("the server does not tell the file's SHA-256")
	ErrGaveUp   = errors.New("too many failures in a row")
)

// Puller downloads files. Only Dir is required.
type Puller struct {
	Dir     string
	Mirrors []string // base addresses, tried in order; nil: https://huggingface.co
	Token   string   // sent to the mirrors, not where they redirect to another host
	Offline bool     // what is not in the folder is ErrOffline
	SHA256  string   // of the file, if the caller knows it

	Stall    time.Duration // without a byte until a connection is given up; 0: 30 s
	Attempts int           // connections in a row without a new byte until a mirror is given up; 0: 5
	Wait     time.Duration // before the second connection, twice that before the third...; 0: 1 s

	// Progress, if not nil, is told how much of a file is there, in bytes.
	Progress func(done, total int64)
	// Log, if not nil, is told what went wrong and is tried again.
	Log func(text string)

	Client *http.Client // nil: one of its own
}

// DefaultMirror is the server that is asked when there is no mirror.
const DefaultMirror = "https://huggingface.co"

func (p *Puller) mirrors() []string {
	if len(p.Mirrors) == 0 {
		return []string{DefaultMirror}
	}
	return p.Mirrors
}

func (p *Puller) log(format string, args ...any) {
	if p.Log != nil {
		p.Log(fmt.Sprintf(format, args...))
	}
}

func (p *Puller) path(r Ref) string {
	return filepath.Join(p.Dir, filepath.FromSlash(r.Repo), filepath.FromSlash(r.File))
}

// Find returns the path of a file that was pulled. Its error wraps fs.ErrNotExist if
// there is none.
func (p *Puller) Find(r Ref) (string, error) {
	if r.File == "" {
		entries, err := os.ReadDir(p.path(r))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		var files []string
		for _, e := range entries {
			files = append(files, e.Name())
		}
		if r.File = Best(files); r.File == "" {
			return "", fmt.Errorf("%s: no file of it in %s: %w", r, p.Dir, fs.ErrNotExist)
		}
	}
	path := p.path(r)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s: %w", r, err)
	}
	return path, nil
}

// Check reads a file of the folder again and compares it with the sum that it had when it
// came.
func Check(path string) error {
	text, err := os.ReadFile(path + ".sha256")
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if want, _, _ := strings.Cut(string(text), " "); want != hex.EncodeToString(sum.Sum(nil)) {
		return fmt.Errorf("%s: %w", path, ErrHash)
	}
	return nil
}

// Pull returns the path of the file, which it downloads if it is not there yet. It may be
// called by several processes for the same file: one downloads, the others wait.
func (p *Puller) Pull(ctx context.Context, r Ref) (string, error) {
	if p.Offline {
		path, err := p.Find(r)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s is not in %s: %w", r, p.Dir, ErrOffline)
		}
		return path, err
	}
	var failed error
	mirrors := p.mirrors()
	for i, mirror := range mirrors {
		path, err := p.pullFrom(ctx, mirror, r)
		if err == nil || ctx.Err() != nil {
			return path, err
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", mirror, err))
		if i+1 < len(mirrors) {
			p.log("%s: %v; trying %s", mirror, err, mirrors[i+1])
		}
	}
	return "", fmt.Errorf("%s: %w", r, failed)
}

func (p *Puller) pullFrom(ctx context.Context, mirror string, r Ref) (path string, err error) {
	if r.File == "" {
		if r, err = p.choose(ctx, mirror, r); err != nil {
			return "", err
		}
	}
	if p.SHA256 != "" {
		r.SHA256 = strings.ToLower(p.SHA256)
	}
	path = p.path(r)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	lock := flock.New(path + ".lock")
	if _, err := lock.TryLockContext(ctx, 200*time.Millisecond); err != nil {
		return "", fmt.Errorf("%s.lock: %w", path, err)
	}
	defer lock.Unlock()
	if _, err := os.Stat(path); err == nil { // by the process that was waited for
		return path, nil
	}
	d := download{Puller: p, ref: r, path: path, url: address(mirror, r.Repo, "resolve", r.Revision, r.File)}
	return path, d.run(ctx)
}

func address(mirror string, parts ...string) string {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(mirror, "/"))
	for _, part := range parts {
		for _, c := range strings.Split(part, "/") {
			b.WriteString("/" + url.PathEscape(c))
		}
	}
	return b.String()
}

// mostListing bounds the list of a repository's files, in bytes.
const mostListing = 8 << 20

// choose asks for a repository's files and picks one.
func (p *Puller) choose(ctx context.Context, mirror string, r Ref) (Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, p.stall())
	defer cancel()
	resp, err := p.get(ctx, address(mirror, "api/models", r.Repo, "tree", r.Revision)+"?recursive=true", nil, nil)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	var list []struct {
		Path string `json:"path"`
		LFS  struct {
			OID string `json:"oid"`
		} `json:"lfs"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostListing)).Decode(&list); err != nil {
		return r, fmt.Errorf("the list of %s: %w", r.Repo, err)
	}
	var files []string
	for _, f := range list {
		files = append(files, f.Path)
	}
	if r.File = Best(files); r.File == "" {
		return r, fmt.Errorf("%s has no file that this build runs: %w", r.Repo, ErrNotFound)
	}
	for _, f := range list {
		if f.Path == r.File {
			r.SHA256 = f.LFS.OID
		}
	}
	checked, err := ParseName(r.Repo + "/" + r.File + "@" + r.Revision) // the name comes from a server
	checked.SHA256 = r.SHA256
	return checked, err
}

func (p *Puller) stall() time.Duration {
	if p.Stall > 0 {
		return p.Stall
	}
	return 30 * time.Second
}

// get asks for an address. redirected is told the headers of answers that lead
// elsewhere. An answer other than 200 and 206 is an error.
func (p *Puller) get(ctx context.Context, from string, headers http.Header, redirected func(http.Header)) (*http.Response, error) {
	client := http.Client{}
	if p.Client != nil {
		client = *p.Client
	}
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) > 10 {
			return errors.New("more than 10 redirections")
		}
		if redirected != nil && req.Response != nil {
			redirected(req.Response.Header)
		}
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "tern")
	if p.Token != "" {
		req.Header.Set("Authorization", "Bearer "+p.Token)
	}
	for k, v := range headers {
		req.Header[k] = v
	}
	resp, err := client.Do(req)
	var long *url.Error // which repeats the address
	if errors.As(err, &long) {
		err = long.Err
	}
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		return resp, nil
	}
	resp.Body.Close()
	return nil, statusError(resp.StatusCode)
}

// statusError is an answer that is no file.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("the server says %d %s", int(e), http.StatusText(int(e)))
}

func (e statusError) Is(target error) bool { return target == ErrNotFound && e == http.StatusNotFound }

// final reports whether asking again is of no use.
func (e statusError) final() bool {
	return e >= 400 && e < 500 && e != http.StatusTooManyRequests && e != http.StatusRequestTimeout
}
