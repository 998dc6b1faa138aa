package pull

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// server has one file and a fault. It answers as Hugging Face does: a list of files, and
// a redirection with the sum and the size to where the bytes are.
type server struct {
	*httptest.Server
	data            []byte
	etag            string
	requests, bytes atomic.Int64
	// fault may answer a request for bytes, and says whether it did.
	fault  func(s *server, n int64, w http.ResponseWriter, r *http.Request) bool
	silent bool          // does not tell the sum
	stall  time.Duration // after which its pullers give a connection up; 0: what is usual
}

const file = "Model-Q2_0_g64.gguf"

func serve(t *testing.T, data []byte) *server {
	t.Helper()
	s := &server{data: data, etag: `"one"`}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/models/owner/repo/tree/main", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `[{"type":"file","path":"README.md","size":3},{"type":"file","path":"mmproj-Q8_0.gguf","size":9},
			{"type":"file","path":"Model-F16.gguf"},{"type":"file","path":%q,"size":%d,"lfs":{"oid":%q,"size":%[2]d}}]`, file, len(s.data), s.sum())
	})
	mux.HandleFunc("/owner/repo/resolve/main/"+file, func(w http.ResponseWriter, r *http.Request) {
		if !s.silent {
			w.Header().Set("X-Linked-Etag", strconv.Quote(s.sum()))
			w.Header().Set("X-Linked-Size", strconv.Itoa(len(s.data)))
		}
		http.Redirect(w, r, "/cdn", http.StatusFound)
	})
	mux.HandleFunc("/cdn", func(w http.ResponseWriter, r *http.Request) {
		n := s.requests.Add(1)
		counted := &counter{w, &s.bytes}
		if s.fault != nil && s.fault(s, n, counted, r) {
			return
		}
		w.Header().Set("ETag", s.etag)
		http.ServeContent(counted, r, "", time.Time{}, bytes.NewReader(s.data))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) sum() string {
	sum := sha256.Sum256(s.data)
	return hex.EncodeToString(sum[:])
}

type counter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// cut sends n bytes of an answer that promises more, and breaks the connection.
func cut(w http.ResponseWriter, n int) {
	w.(*counter).Write(bytes.Repeat([]byte{0xee}, n))
	panic(http.ErrAbortHandler)
}

func content(n int) []byte {
	data := make([]byte, n)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < n; i++ {
		data[i] = byte(r.Uint32())
	}
	return data
}

func puller(t *testing.T, mirrors ...*server) *Puller {
	t.Helper()
	p := &Puller{Dir: filepath.Join(t.TempDir(), "модели 模型 ☃"), Wait: time.Millisecond, Log: func(text string) { t.Log(text) }}
	for _, m := range mirrors {
		p.Mirrors, p.Stall = append(p.Mirrors, m.URL+"/"), max(p.Stall, m.stall)
	}
	return p
}

var whole = Ref{Repo: "owner/repo", File: file, Revision: "main"}

// arrives pulls and expects the whole file and nothing beside it.
func arrives(t *testing.T, p *Puller, r Ref, want []byte) {
	t.Helper()
	path, err := p.Pull(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
	}
	if err := Check(path); err != nil {
		t.Error(err)
	}
	if found, err := p.Find(r); err != nil || found != path {
		t.Errorf("found %q, %v", found, err)
	}
	left, _ := filepath.Glob(path + ".part*")
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// fails pulls and expects an error, and no file by its name.
func fails(t *testing.T, p *Puller, r Ref, want error) {
	t.Helper()
	if _, err := p.Pull(t.Context(), r); !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if _, err := p.Find(r); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a failure the file is found: %v", err)
	}
}

func TestPull(t *testing.T) {
	s := serve(t, content(1<<20))
	p := puller(t, s)
	var last int64
	p.Progress = func(done, total int64) {
		if done <= last || total != 1<<20 {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	}
	arrives(t, p, Ref{Repo: "owner/repo", Revision: "main"}, s.data) // and picks the file
	if last != 1<<20 {
		t.Errorf("progress ends at %d", last)
	}
	n := s.requests.Load()
	arrives(t, p, whole, s.data)
	p.Offline = true
	arrives(t, p, Ref{Repo: "owner/repo", Revision: "main"}, s.data)
	if s.requests.Load() != n {
		t.Error("a file that is there was asked for")
	}
	path, _ := p.Find(whole)
	if err := os.WriteFile(path, s.data[1:], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Check(path); !errors.Is(err, ErrHash) {
		t.Errorf("a changed file: %v", err)
	}
	empty := puller(t)
	empty.Offline = true
	fails(t, empty, whole, ErrOffline)
}

// Connections that break cost nothing twice.
func TestPullCut(t *testing.T) {
	s := serve(t, content(1<<20))
	s.fault = func(s *server, n int64, w http.ResponseWriter, r *http.Request) bool {
		if n > 9 {
			return false
		}
		from := 0
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		if from > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(s.data)-1, len(s.data)))
		}
		w.Header().Set("ETag", s.etag)
		w.Header().Set("Content-Length", strconv.Itoa(len(s.data)-from))
		if from > 0 {
			w.WriteHeader(http.StatusPartialContent)
		}
		w.Write(s.data[from:][:100_000])
		w.(*counter).ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	arrives(t, puller(t, s), whole, s.data)
	if n := s.bytes.Load(); n > 1<<20+10*300_000 {
		t.Errorf("%d bytes were sent", n)
	}
}

// An interrupted download goes on in the next call, also of another process; a half
// file has no name.
func TestPullInterrupted(t *testing.T) {
	s := serve(t, content(4<<20))
	p := puller(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	p.Progress = func(done, _ int64) {
		if done > 1<<20 {
			cancel()
		}
	}
	if _, err := p.Pull(ctx, whole); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := p.Find(whole); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("half a file is found: %v", err)
	}
	part, err := os.Stat(p.path(whole) + ".part")
	if err != nil || part.Size() < 1<<20 {
		t.Fatalf("%v, %v", part, err)
	}
	p.Progress = nil
	var asked string
	s.fault = func(_ *server, _ int64, _ http.ResponseWriter, r *http.Request) bool {
		asked = r.Header.Get("Range")
		return false
	}
	arrives(t, p, whole, s.data)
	if want := fmt.Sprintf("bytes=%d-", part.Size()); asked != want {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}

// lie is what a server does wrong.
type lie struct {
	fault func(s *server, n int64, w http.ResponseWriter, r *http.Request) bool
	err   error // nil: it arrives
}

// Servers that lie.
func TestPullLies(t *testing.T) {
	tryLies(t, 0, map[string]lie{
		"wrong bytes once": {func(s *server, n int64, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				w.Write(bytes.Repeat([]byte{1}, len(s.data)))
			}
			return n == 1
		}, nil},
		"wrong bytes always": {func(s *server, _ int64, w http.ResponseWriter, r *http.Request) bool {
			w.Write(bytes.Repeat([]byte{1}, len(s.data)))
			return true
		}, ErrHash},
		"too many bytes": {func(s *server, _ int64, w http.ResponseWriter, r *http.Request) bool {
			w.Write(append(bytes.Clone(s.data), 7))
			return true
		}, ErrHash},
		"no end": {func(s *server, _ int64, w http.ResponseWriter, r *http.Request) bool {
			for {
				if _, err := w.Write(s.data); err != nil {
					return true
				}
			}
		}, ErrHash},
		"a length too short": {func(s *server, n int64, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				w.Header().Set("Content-Length", "1000")
				w.Write(s.data[:1000])
			}
			return n == 1
		}, nil},
		"ranges are ignored": {func(s *server, n int64, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				w.Header().Set("Content-Length", strconv.Itoa(len(s.data)))
				cut(w, 1000)
			}
			w.Write(s.data)
			return true
		}, nil},
		"another range": {func(s *server, n int64, w http.ResponseWriter, r *http.Request) bool {
			switch {
			case n == 1:
				w.Header().Set("Content-Length", strconv.Itoa(len(s.data)))
				cut(w, 1000)
			case r.Header.Get("Range") != "":
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-9/%d", len(s.data)))
				w.WriteHeader(http.StatusPartialContent)
				w.Write(s.data[:10])
				return true
			}
			return false
		}, nil},
		"the file changes meanwhile": {func(s *server, n int64, w http.ResponseWriter, r *http.Request) bool {
			if n == 1 {
				w.Header().Set("ETag", `"zero"`)
				w.Header().Set("Content-Length", strconv.Itoa(len(s.data)))
				cut(w, 1000)
			}
			return false
		}, nil},
		"an empty file": {func(s *server, _ int64, w http.ResponseWriter, r *http.Request) bool { return true }, ErrGaveUp},
		"500 twice": {func(s *server, n int64, w http.ResponseWriter, r *http.Request) bool {
			if n < 3 {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return n < 3
		}, nil},
		"404": {func(s *server, _ int64, w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		}, ErrNotFound},
	})
}

// Servers that say nothing any more.
func TestPullSilence(t *testing.T) {
	tryLies(t, 300*time.Millisecond, map[string]lie{
		"a length too long, and silence": {func(s *server, n int64, w http.ResponseWriter, r *http.Request) bool {
			if n > 2 {
				return false
			}
			w.Header().Set("Content-Length", "400000")
			w.Write(s.data[:200_000])
			w.(*counter).ResponseWriter.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}, nil},
		"nothing ever": {func(s *server, _ int64, w http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, ErrGaveUp},
	})
}

func tryLies(t *testing.T, stall time.Duration, lies map[string]lie) {
	data := content(300_000)
	for name, c := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, data)
			s.fault, s.stall = c.fault, stall
			if c.err != nil {
				fails(t, puller(t, s), whole, c.err)
				if n := s.requests.Load(); n > 6 {
					t.Errorf("%d requests", n)
				}
				good := serve(t, data) // a second mirror helps
				s.requests.Store(0)
				arrives(t, puller(t, s, good), whole, data)
				return
			}
			arrives(t, puller(t, s), whole, data)
		})
	}
}

// A slow server is waited for as long as bytes come, in all for longer than a silence may
// last; between two of them much less goes by, on a busy machine too.
func TestPullSlow(t *testing.T) {
	t.Parallel()
	s := serve(t, content(4000))
	s.stall = 2 * time.Second
	s.fault = func(s *server, _ int64, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", strconv.Itoa(len(s.data)))
		for i := 0; i < len(s.data); i += 500 {
			w.Write(s.data[i:][:500])
			w.(*counter).ResponseWriter.(http.Flusher).Flush()
			time.Sleep(s.stall / 7)
		}
		return true
	}
	arrives(t, puller(t, s), whole, s.data)
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// Without a sum nothing is taken; the caller's sum decides.
func TestPullSum(t *testing.T) {
	s := serve(t, content(5000))
	s.silent = true
	fails(t, puller(t, s), whole, ErrNoHash)
	p := puller(t, s)
	p.SHA256 = strings.ToUpper(s.sum())
	arrives(t, p, whole, s.data)
	s.silent = false
	p = puller(t, s)
	p.SHA256 = strings.Repeat("0", 64)
	fails(t, p, whole, ErrHash)
}

// Several pulls of one file at once download it once.
func TestPullTogether(t *testing.T) {
	s := serve(t, content(1<<20))
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			p := puller(t, s)
			p.Dir = dir
			if _, err := p.Pull(t.Context(), whole); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// A token stays with its host.
func TestPullToken(t *testing.T) {
	s := serve(t, content(100))
	var seen atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(seen.Load() || r.Header.Get("Authorization") != "")
		w.Write(s.data)
	}))
	defer other.Close()
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	s.fault = func(_ *server, _ int64, w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Error("the mirror got no token")
		}
		http.Redirect(w, r, elsewhere, http.StatusFound)
		return true
	}
	p := puller(t, s)
	p.Token = "secret"
	arrives(t, p, whole, s.data)
	if seen.Load() {
		t.Error("another host got the token")
	}
}

func TestParseName(t *testing.T) {
	for name, want := range map[string]string{
		"bonsai-1.7b":             "prism-ml/Ternary-Bonsai-1.7B-gguf/Ternary-Bonsai-1.7B-Q2_0_g64.gguf@main",
		"Bonsai-27B":              "prism-ml/Ternary-Bonsai-27B-gguf/Ternary-Bonsai-27B-Q2_g64.gguf@main",
		"owner/repo":              "owner/repo@main",
		"owner/repo/a/b.gguf@v1":  "owner/repo/a/b.gguf@v1",
		"bonsai":                  "",
		"../x":                    "",
		"owner/..":                "",
		"owner/repo/../../x.gguf": "",
		"owner/repo/x.bin":        "",
		"owner/repo/C:x.gguf":     "",
		"owner/repo/.part":        "",
		"owner//x.gguf":           "",
		"owner/repo@../..":        "",
		"":                        "",
	} {
		ref, err := ParseName(name)
		got := ref.String() + "@" + ref.Revision
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q: %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestBest(t *testing.T) {
	for _, c := range []struct{ files, want string }{
		{"a-F16.gguf a-PQ2_0.gguf a-Q2_0.gguf a-Q2_0_g64.gguf", "a-Q2_0_g64.gguf"},
		{"a-PTQ1_0.gguf a-PQ2_0.gguf mmproj-a-Q2_0.gguf", "a-PQ2_0.gguf"},
		{"a-Q2_g64.gguf a-PQ2_0.gguf", "a-Q2_g64.gguf"},
		{"README.md a-Q4_K_M.gguf a-dspark-Q4_0.gguf", ""},
	} {
		if got := Best(strings.Fields(c.files)); got != c.want {
			t.Errorf("%s: %q, want %q", c.files, got, c.want)
		}
	}
}
