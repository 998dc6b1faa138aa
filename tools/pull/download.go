package pull

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// download is one file from one mirror.
type download struct {
	*Puller
	ref  Ref
	path string
	url  string

	part  *os.File
	known partInfo
	sum   hash.Hash // of the first have bytes
	have  int64
}

// partInfo is what is known of a file that is not complete.
type partInfo struct {
	SHA256 string `json:"sha256"`
	ETag   string `json:"etag,omitempty"` // of where the bytes came from
	Size   int64  `json:"size"`           // -1: not told
}

// errAgain says that what was downloaded is of another file: begin again.
var errAgain = errors.New("the file has changed")

func (d *download) run(ctx context.Context) (err error) {
	if err := d.open(); err != nil {
		return err
	}
	defer func() { d.part.Close() }()
	failures, again := 0, true // again: it may begin once more
	for {
		before := d.have
		err := d.connect(ctx)
		if err == nil {
			if err = d.check(); err == nil {
				return d.finish()
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case again && (errors.Is(err, errAgain) || errors.Is(err, ErrHash)):
			d.log("%s: %v; beginning again", filepath.Base(d.path), err)
			again = false
			if err := d.restart(); err != nil {
				return err
			}
			continue
		case errors.Is(err, ErrHash):
			return errors.Join(err, d.restart(), os.Remove(d.path+".part.json"))
		case isFinal(err):
			return err
		}
		if failures++; d.have > before {
			failures = 1
		}
		if failures >= d.attempts() {
			return fmt.Errorf("%w%s: %w", ErrGaveUp, d.place(), err)
		}
		d.log("%s: %v%s; trying again", filepath.Base(d.path), err, d.place())
		if err := sleep(ctx, d.pause(failures)); err != nil {
			return err
		}
	}
}

// place says how far the download is, if it has begun.
func (d *download) place() string {
	switch {
	case d.have == 0:
		return ""
	case d.known.Size < 0:
		return fmt.Sprintf(" after %d bytes", d.have)
	}
	return fmt.Sprintf(" after %d of %d bytes", d.have, d.known.Size)
}

// isFinal reports whether an error comes back however often it is tried.
func isFinal(err error) bool {
	var status statusError
	var local *os.PathError
	return errors.As(err, &status) && status.final() || errors.As(err, &local) || errors.Is(err, ErrNoHash)
}

func (d *download) attempts() int {
	if d.Attempts > 0 {
		return d.Attempts
	}
	return 5
}

func (d *download) pause(failures int) time.Duration {
	wait := d.Wait
	if wait == 0 {
		wait = time.Second
	}
	return wait << (failures - 1)
}

func sleep(ctx context.Context, t time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(t):
		return nil
	}
}

// open takes up what an earlier download has left.
func (d *download) open() (err error) {
	if d.part, err = os.OpenFile(d.path+".part", os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	d.sum, d.known = sha256.New(), partInfo{SHA256: d.ref.SHA256, Size: -1}
	text, err := os.ReadFile(d.path + ".part.json")
	var left partInfo
	if err != nil || json.Unmarshal(text, &left) != nil || d.ref.SHA256 != "" && left.SHA256 != d.ref.SHA256 {
		return d.restart()
	}
	d.known = left
	if d.have, err = io.Copy(d.sum, d.part); err != nil {
		d.part.Close()
		return err
	}
	return nil
}

// restart forgets what was downloaded.
func (d *download) restart() error {
	d.sum, d.have, d.known = sha256.New(), 0, partInfo{SHA256: d.ref.SHA256, Size: -1}
	if err := d.part.Truncate(0); err != nil {
		return err
	}
	_, err := d.part.Seek(0, io.SeekStart)
	return err
}

// connect makes one connection and reads what it gives; nil means that all bytes are
// there.
func (d *download) connect(ctx context.Context) error {
	if d.known.Size >= 0 && d.have == d.known.Size && d.known.SHA256 != "" {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := time.AfterFunc(d.stall(), cancel) // until the next byte
	defer watch.Stop()

	headers := http.Header{}
	headers.Set("Accept-Encoding", "identity")
	if d.have > 0 {
		headers.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		if d.known.ETag != "" {
			headers.Set("If-Range", d.known.ETag)
		}
	}
	told := partInfo{Size: -1}
	resp, err := d.get(ctx, d.url, headers, func(h http.Header) { told.learn(h) })
	if err != nil {
		return stalled(ctx, err)
	}
	defer resp.Body.Close()
	if err := d.accept(resp, told); err != nil {
		return err
	}
	return stalled(ctx, d.read(ctx, resp.Body, func() { watch.Reset(d.stall()) }))
}

func stalled(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the connection stalled: %w", err)
	}
	return err
}

var sumText = regexp.MustCompile(`^[0-9a-f]{64}$`)

// learn takes what a Hugging Face server says of a file before it redirects to where its
// bytes are.
func (i *partInfo) learn(h http.Header) {
	if sum := strings.Trim(h.Get("X-Linked-Etag"), `W/"`); sumText.MatchString(sum) {
		i.SHA256 = sum
	}
	if n, err := strconv.ParseInt(h.Get("X-Linked-Size"), 10, 64); err == nil && n >= 0 {
		i.Size = n
	}
}

// accept checks an answer against what is known, and tells whether its bytes follow those that
// are there.
func (d *download) accept(resp *http.Response, told partInfo) error {
	told.learn(resp.Header)
	told.ETag = resp.Header.Get("ETag")
	if strings.HasPrefix(told.ETag, "W/") {
		told.ETag = ""
	}
	if told.SHA256 == "" {
		if sum := strings.Trim(told.ETag, `"`); sumText.MatchString(sum) {
			told.SHA256 = sum
		}
	}
	length := resp.ContentLength
	switch resp.StatusCode {
	case http.StatusPartialContent:
		from, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || from != d.have {
			return errAgain
		}
		length = total
	case http.StatusRequestedRangeNotSatisfiable:
		return errAgain
	}
	if told.Size < 0 {
		told.Size = length
	}
	if d.ref.SHA256 != "" {
		told.SHA256 = d.ref.SHA256
	}
	if told.SHA256 == "" {
		told.SHA256 = d.known.SHA256
	}
	switch {
	case told.SHA256 == "":
		return fmt.Errorf("%w; --sha256 gives it", ErrNoHash)
	case d.have > 0 && (told.SHA256 != d.known.SHA256 || d.known.Size >= 0 && told.Size >= 0 && told.Size != d.known.Size):
		return errAgain
	case d.have > 0 && resp.StatusCode == http.StatusOK: // it begins at the beginning
		if err := d.restart(); err != nil {
			return err
		}
	}
	if told.Size < 0 {
		told.Size = d.known.Size
	}
	d.known = told
	text, err := json.Marshal(d.known)
	if err != nil {
		return err
	}
	return os.WriteFile(d.path+".part.json", text, 0o644)
}

var rangeText = regexp.MustCompile(`^bytes (\d+)-\d+/(\d+|\*)$`)

// contentRange reads where a part begins, and the size of the whole, -1 if it is not told.
func contentRange(text string) (from, total int64, ok bool) {
	m := rangeText.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, false
	}
	from, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if total, err = strconv.ParseInt(m[2], 10, 64); err != nil {
		total = -1
	}
	return from, total, true
}

// read appends a body to the part. A body that ends early is an error, one that goes on
// behind the end is of another file. What a cancelled connection still holds is not
// waited for.
func (d *download) read(ctx context.Context, body io.Reader, alive func()) error {
	piece := make([]byte, 256<<10)
	for ctx.Err() == nil {
		n, err := body.Read(piece)
		if n > 0 {
			alive()
			if d.known.Size >= 0 && d.have+int64(n) > d.known.Size {
				return fmt.Errorf("%w: more than its %d bytes come", ErrHash, d.known.Size)
			}
			if _, err := d.part.Write(piece[:n]); err != nil {
				return err
			}
			d.sum.Write(piece[:n])
			d.have += int64(n)
			if d.Progress != nil {
				d.Progress(d.have, d.known.Size)
			}
		}
		switch {
		case err == io.EOF && d.known.Size >= 0 && d.have < d.known.Size:
			return io.ErrUnexpectedEOF
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
	return ctx.Err()
}

// check compares the sum of what is there.
func (d *download) check() error {
	if sum := hex.EncodeToString(d.sum.Sum(nil)); sum != d.known.SHA256 {
		return fmt.Errorf("%w: SHA-256 %s, want %s", ErrHash, sum, d.known.SHA256)
	}
	return nil
}

// finish gives the file, which is checked, its name.
func (d *download) finish() error {
	if err := errors.Join(d.part.Sync(), d.part.Close()); err != nil {
		return err
	}
	text := d.known.SHA256 + "  " + filepath.Base(d.path) + "\n"
	if err := os.WriteFile(d.path+".sha256", []byte(text), 0o644); err != nil {
		return err
	}
	if err := os.Rename(d.path+".part", d.path); err != nil {
		return err
	}
	os.Remove(d.path + ".part.json")
	return nil
}
