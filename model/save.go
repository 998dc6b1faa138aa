package model

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/mapped"
	"github.com/ternvk/tern/runtime/op"
	"github.com/ternvk/tern/runtime/parallel"
)

// Errors of saved sessions.
var (
	ErrMismatch = errors.New("the session was saved by another model or with other options")
	ErrDamaged  = errors.New("the saved session is damaged")
)

// Fingerprint is a SHA-256 of the file's metadata and tensors. It is computed at
// the first call, which reads the whole file.
func (m *Model) Fingerprint() ([sha256.Size]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hashed()
}

// hashed is Fingerprint. mu is held, so that the file stays open.
func (m *Model) hashed() (sum [sha256.Size]byte, err error) {
	if m.closed {
		return sum, fmt.Errorf("%s: %w", m.file.Name, graph.ErrClosed)
	}
	if m.fingerprint == nil {
		if sum, err = fingerprint(m.file); err != nil {
			return sum, err
		}
		m.fingerprint = &sum
	}
	return *m.fingerprint, nil
}

func fingerprint(f *gguf.File) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	for _, kv := range f.Meta {
		fmt.Fprintf(h, "%q %T %v\n", kv.Key, kv.Value, kv.Value)
	}
	sums := make([][sha256.Size]byte, len(f.Tensors))
	err = parallel.Try(len(sums), func(i int) error {
		return mapped.Read(func() error {
			sums[i] = sha256.Sum256(f.Tensors[i].Data())
			return nil
		})
	})
	if err != nil {
		return sum, fmt.Errorf("%s: %w", f.Name, err)
	}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		fmt.Fprintf(h, "%q %v %v %x\n", t.Name, t.Type, t.Dims, sums[i])
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

var sessionMagic = [8]byte{'T', 'e', 'r', 'n', 'S', 'e', 's', '1'}

// sessionHeader is the beginning of a saved session, little-endian. Behind it come
// Tokens int32 ids; Note bytes; for each layer the pages of keys and of values that the first
// Seen tokens take, or the recurrent state after them; and a SHA-256 of all that.
type sessionHeader struct {
	Magic                       [8]byte
	Arithmetic                  uint32
	Fingerprint                 [sha256.Size]byte
	Activations, Keys, Values   uint32
	Tokens, Seen, LastRun, Note uint32
	Len                         uint32 // of this header, bytes
}

// sessionHeader is that of an empty session. mu is held.
func (m *Model) sessionHeader() (h sessionHeader, err error) {
	h = sessionHeader{
		Magic: sessionMagic, Arithmetic: m.arithmetic(), Activations: uint32(m.options.Activations),
		Keys: uint32(m.options.CacheKeys), Values: uint32(m.options.CacheValues), Len: uint32(binary.Size(h)),
	}
	h.Fingerprint, err = m.hashed()
	return h, err
}

// approximate marks what an executor made that is not exact, in place of ArithmeticVersion alone.
const approximate = 1 << 31

func (m *Model) arithmetic() uint32 {
	if x, ok := m.x.(graph.Approximate); ok && !x.Exact() {
		return ArithmeticVersion | approximate
	}
	return ArithmeticVersion
}

// mostNote is the size of the longest note, in bytes.
const mostNote = 64 << 20

// Save writes the session: its tokens, its note and what the model remembers of them, but
// for earlier snapshots of recurrent state. It can be restored by the same model
// with the same activations and cache types, on any device of the same profile: what an exact
// device goes on from is exact.
func (s *Session) Save(w io.Writer) error {
	m := s.m
	h, place, err := s.describe()
	if err != nil {
		return err
	}
	if len(s.Note) > mostNote {
		return fmt.Errorf("%s: saving a session: a note of %d bytes, at most %d", m.file.Name, len(s.Note), mostNote)
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<20)
	if err := binary.Write(out, binary.LittleEndian, h); err != nil {
		return err
	}
	if err := binary.Write(out, binary.LittleEndian, s.tokens); err != nil {
		return err
	}
	if _, err := out.Write(s.Note); err != nil {
		return err
	}
	err = m.transfer(place, func(c *cut, data []byte) error {
		if err := m.x.Read(c.buffer, c.offset, data); err != nil {
			return err
		}
		if c.clear != nil {
			c.clear(data, place.seen%op.PageTokens)
		}
		_, err := out.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: saving a session: %w", m.file.Name, err)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// describe is what Save writes first, and where it finds the rest.
func (s *Session) describe() (sessionHeader, place, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if err := s.usable(); err != nil {
		return sessionHeader{}, place{}, err
	}
	h, err := s.m.sessionHeader()
	h.Tokens, h.Seen, h.LastRun, h.Note = uint32(len(s.tokens)), uint32(s.done), uint32(s.steps), uint32(len(s.Note))
	return h, s.place(s.done), err
}

// Restore makes a session of what Save has written, and reads r up to there. It fails
// with ErrMismatch if that was saved by another model or with other options, with
// ErrDamaged if it is torn or changed, and with ErrContextFull if it is longer than
// the context or no cache is left for it.
func (m *Model) Restore(r io.Reader) (*Session, error) {
	s, err := m.NewSession()
	if err != nil {
		return nil, err
	}
	if err := s.restoreFrom(r); err != nil {
		s.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("it ends early: %w", ErrDamaged)
		}
		return nil, fmt.Errorf("%s: restoring a session: %w", m.file.Name, err)
	}
	return s, nil
}

func (s *Session) restoreFrom(r io.Reader) error {
	m := s.m
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	var h sessionHeader
	if err := binary.Read(in, binary.LittleEndian, &h); err != nil {
		return err
	}
	m.mu.Lock()
	want, err := m.sessionHeader()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	want.Tokens, want.Seen, want.LastRun, want.Note = h.Tokens, h.Seen, h.LastRun, h.Note
	switch {
	case h.Magic != want.Magic || h.Len != want.Len:
		return fmt.Errorf("this is no saved session of this version: %w", ErrDamaged)
	case h != want:
		return ErrMismatch
	case h.Seen > h.Tokens || h.Note > mostNote:
		return fmt.Errorf("%d of %d tokens, a note of %d bytes: %w", h.Seen, h.Tokens, h.Note, ErrDamaged)
	case int(h.Tokens) > m.options.Context:
		return fmt.Errorf("%d tokens in a context of %d: %w", h.Tokens, m.options.Context, ErrContextFull)
	}
	tokens := make([]int32, h.Tokens)
	if err := binary.Read(in, binary.LittleEndian, tokens); err != nil {
		return err
	}
	for _, id := range tokens {
		if id < 0 || int(id) >= m.config.Vocab {
			return fmt.Errorf("token id %d: %w", id, ErrDamaged)
		}
	}
	note := make([]byte, h.Note)
	if _, err := io.ReadFull(in, note); err != nil {
		return err
	}
	place, err := s.reserve(int(h.Seen))
	if err != nil {
		return err
	}
	err = m.transfer(place, func(c *cut, data []byte) error {
		if _, err := io.ReadFull(in, data); err != nil {
			return err
		}
		return m.x.Write(c.buffer, c.offset, data)
	})
	if err != nil {
		return err
	}
	if err := checkSum(r, sum); err != nil {
		return err
	}
	s.tokens, s.done, s.steps, s.Note = tokens, int(h.Seen), int(h.LastRun), note
	return nil
}

func checkSum(r io.Reader, sum hash.Hash) error {
	var stored [sha256.Size]byte
	if _, err := io.ReadFull(r, stored[:]); err != nil {
		return err
	}
	if !bytes.Equal(stored[:], sum.Sum(nil)) {
		return fmt.Errorf("its checksum is wrong: %w", ErrDamaged)
	}
	return nil
}

// SaveFile saves to a file, which is whole or not there: it is written beside
// path and renamed.
func (s *Session) SaveFile(path string) (err error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", path) // a device or a pipe must not be replaced
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	err = s.Save(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// RestoreFile restores a session that SaveFile has written.
func (m *Model) RestoreFile(path string) (*Session, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	s, err := m.Restore(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		s.Close()
		return nil, fmt.Errorf("%s: more follows the session: %w", path, ErrDamaged)
	}
	return s, nil
}

// usable is the error of a session that cannot run. mu is held.
func (s *Session) usable() error {
	if s.closed {
		return fmt.Errorf("session: %w", graph.ErrClosed)
	}
	return s.m.usable()
}

// reserve takes the memory of a session that has seen n tokens.
func (s *Session) reserve(n int) (place, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if err := s.usable(); err != nil {
		return place{}, err
	}
	if !s.m.pages.take(&s.pages, pagesOf(n)) {
		return place{}, fmt.Errorf("no cache pages left for %d positions: %w", n, ErrContextFull)
	}
	if n > 0 && s.m.config.Recurrent != nil {
		p := []*part{{session: s}}
		if err := s.m.takeSlots(p); err != nil {
			return place{}, err
		}
		s.now = p[0].write
	}
	return s.place(n), nil
}

func pagesOf(tokens int) int { return (tokens + op.PageTokens - 1) / op.PageTokens }

// place is where the memory of a session lies, as long as the model stays loaded.
type place struct {
	load  int
	seen  int // tokens
	pages []uint32
	slot  uint32
}

// place of what seen tokens take. mu is held.
func (s *Session) place(seen int) place {
	return place{s.m.loads, seen, s.pages[:pagesOf(seen)], s.slot()}
}

// cut is a range of a buffer; clear zeroes its positions from one on, if it is a
// page that may hold more than the session's.
type cut struct {
	buffer        graph.Buffer
	offset, bytes uint64
	clear         func(page []byte, from int)
}

// mostCut bounds a cut of several pages, in bytes.
const mostCut = 16 << 20

// cuts lists the memory of a session, in the order of its file.
func (m *Model) cuts(p place) (list []cut) {
	if p.seen == 0 {
		return nil
	}
	h := m.config.Heads
	for i := range m.config.Layers {
		if m.config.HasState(i) {
			conv, rule := op.StateBytes(m.config.Delta, 1)
			b := m.memory.States[i].Buffers()
			list = append(list, cut{b[0], uint64(p.slot) * conv, conv, nil}, cut{b[1], uint64(p.slot) * rule, rule, nil})
			continue
		}
		c := m.memory.Caches[i]
		values := uint64(c.VBase) * 4
		keyPage := values / uint64(cachePages(m.options))
		valuePage := (c.Bytes - values) / uint64(cachePages(m.options))
		list = pageCuts(list, c.Buffer, 0, keyPage, p, h.ClearKeys)
		list = pageCuts(list, c.Buffer, values, valuePage, p, h.ClearValues)
	}
	return list
}

// pageCuts joins pages that lie behind each other. The last page stands alone if
// it is not full.
func pageCuts(list []cut, b graph.Buffer, base, size uint64, p place, clear func([]byte, int)) []cut {
	for i, pg := range p.pages {
		at := base + uint64(pg)*size
		partial := i == len(p.pages)-1 && p.seen%op.PageTokens != 0
		if last := len(list) - 1; i > 0 && !partial && list[last].offset+list[last].bytes == at && list[last].bytes+size <= mostCut {
			list[last].bytes += size
			continue
		}
		c := cut{b, at, size, nil}
		if partial {
			c.clear = clear
		}
		list = append(list, c)
	}
	return list
}

// transfer calls do for each cut of a session's memory, between runs of other
// sessions.
func (m *Model) transfer(p place, do func(c *cut, data []byte) error) error {
	loaded := func(f func() error) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if err := m.usable(); err != nil {
			return err
		}
		if m.loads != p.load {
			return fmt.Errorf("it was loaded anew: %w", ErrUnloaded)
		}
		return f()
	}
	var list []cut
	if err := loaded(func() error { list = m.cuts(p); return nil }); err != nil {
		return err
	}
	var data []byte
	for i := range list {
		c := &list[i]
		if uint64(cap(data)) < c.bytes {
			data = make([]byte, c.bytes)
		}
		if err := loaded(func() error { return do(c, data[:c.bytes]) }); err != nil {
			return err
		}
	}
	return nil
}
