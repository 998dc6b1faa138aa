package perplexity

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// The file of base logits, little-endian, as llama.cpp writes it:
//
//	"_logits_"  int32 n_ctx  int32 n_vocab  int32 n_chunk  int32 tokens[n_chunk*n_ctx]
//
// and then, chunk by chunk, a row for each scored position: float32 scale, float32
// minimum, n_vocab uint16 levels, and one more if n_vocab is odd. The log-probability
// of a token is minimum + scale*level: what is more than 16 below the largest logit
// is raised to that, and the rest is rounded to one of 65,536 levels. So even a model
// against itself shows some divergence.
const magic = "_logits_"

const (
	maxVocab = 1 << 24
	span     = 16 // of logits below the largest
)

// Header begins a file of base logits.
type Header struct {
	Context, Vocab, Chunks int
	Tokens                 []int32 // Chunks*Context
}

// Row is a row of the file.
type Row struct {
	Scale, Min float32
	Levels     []uint16 // one for each token of the vocabulary
}

// LogProb is the log-probability of a token.
func (r Row) LogProb(token int) float64 {
	return float64(float32(r.Scale*float32(r.Levels[token])) + r.Min)
}

// NewRow rounds logits.
func NewRow(logits []float32) Row {
	top := slices.Max(logits)
	low := max(slices.Min(logits), top-span)
	r := Row{Scale: (top - low) / 65535, Min: float32(float64(low) - LogSumExp(logits)), Levels: make([]uint16, len(logits))}
	inv := float32(0)
	if r.Scale > 0 {
		inv = 1 / r.Scale
	}
	for i, l := range logits {
		if l > low {
			r.Levels[i] = uint16(min(65535, math.RoundToEven(float64(inv*(l-low)))))
		}
	}
	return r
}

func rowBytes(vocab int) int { return 8 + (vocab+1)/2*4 }

func (r Row) encode(dst []byte) {
	binary.LittleEndian.PutUint32(dst, math.Float32bits(r.Scale))
	binary.LittleEndian.PutUint32(dst[4:], math.Float32bits(r.Min))
	for i, l := range r.Levels {
		binary.LittleEndian.PutUint16(dst[8+2*i:], l)
	}
}

// Writer writes a file of base logits, which gets its name when it is complete.
type Writer struct {
	file *os.File
	out  *bufio.Writer
	path string
	row  []byte
	left int // rows missing
}

// Create begins a file. Close or Abort must be called.
func Create(path string, h Header) (*Writer, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path) // a device or a pipe must not be replaced
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return nil, err
	}
	w := &Writer{file: f, out: bufio.NewWriterSize(f, 1<<20), path: path, row: make([]byte, rowBytes(h.Vocab)), left: h.Chunks * Scored(h.Context)}
	_, err = w.out.WriteString(magic)
	err = errors.Join(err, binary.Write(w.out, binary.LittleEndian, []int32{int32(h.Context), int32(h.Vocab), int32(h.Chunks)}),
		binary.Write(w.out, binary.LittleEndian, h.Tokens))
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return w, nil
}

// Write adds the next row.
func (w *Writer) Write(r Row) error {
	r.encode(w.row)
	w.left--
	_, err := w.out.Write(w.row)
	return err
}

// Close ends the file. Rows that are missing are an error, and then no file is left.
func (w *Writer) Close() error {
	err := w.out.Flush()
	if w.left != 0 && err == nil {
		err = fmt.Errorf("%s: %d rows are missing", w.path, w.left)
	}
	if err == nil {
		err = w.file.Chmod(0o644)
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	f := w.file
	w.file = nil
	if err := errors.Join(f.Close(), os.Rename(f.Name(), w.path)); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Abort removes an unfinished file; after Close it does nothing.
func (w *Writer) Abort() error {
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Reader reads a file of base logits.
type Reader struct {
	Header
	path string
	file *os.File
	in   *bufio.Reader
	row  []byte
}

// Open reads the header of a file and checks its length. The caller closes it.
func Open(path string) (*Reader, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, fmt.Errorf("%s: not a file of base logits", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Reader{path: path, file: f, in: bufio.NewReaderSize(f, 1<<20)}
	if err := r.header(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return r, nil
}

func (r *Reader) header() error {
	var head struct {
		Magic                  [8]byte
		Context, Vocab, Chunks int32
	}
	if err := binary.Read(r.in, binary.LittleEndian, &head); err != nil || string(head.Magic[:]) != magic {
		return errors.New("not a file of base logits")
	}
	st, err := r.file.Stat()
	if err != nil {
		return err
	}
	n, v, c := int64(head.Context), int64(head.Vocab), int64(head.Chunks)
	if n < 4 || v < 2 || v > maxVocab || c < 1 || n > st.Size()/4/c || c*n > st.Size()/4 {
		return fmt.Errorf("the header is damaged: %d chunks of %d tokens, a vocabulary of %d, in %d bytes", c, n, v, st.Size())
	}
	rows := c * int64(Scored(int(n)))
	if want := 20 + 4*c*n + rows*int64(rowBytes(int(v))); st.Size() != want {
		return fmt.Errorf("%d chunks of %d tokens with a vocabulary of %d take %d bytes, the file has %d", c, n, v, want, st.Size())
	}
	r.Header = Header{int(n), int(v), int(c), make([]int32, c*n)}
	if err := binary.Read(r.in, binary.LittleEndian, r.Tokens); err != nil {
		return err
	}
	for i, t := range r.Tokens {
		if t < 0 || int64(t) >= v {
			return fmt.Errorf("token %d is %d, of a vocabulary of %d", i, t, v)
		}
	}
	r.row = make([]byte, rowBytes(int(v)))
	return nil
}

// Next reads the next row.
func (r *Reader) Next() (Row, error) {
	if _, err := io.ReadFull(r.in, r.row); err != nil {
		return Row{}, fmt.Errorf("%s: %w", r.path, err)
	}
	row := Row{
		Scale:  math.Float32frombits(binary.LittleEndian.Uint32(r.row)),
		Min:    math.Float32frombits(binary.LittleEndian.Uint32(r.row[4:])),
		Levels: make([]uint16, r.Vocab),
	}
	// The largest is a logarithm of a probability, but for rounding.
	if top := row.Scale*65535 + row.Min; !(row.Scale >= 0 && top <= 0.01 && top >= -math.MaxFloat32) {
		return Row{}, fmt.Errorf("%s: a row's scale %g or minimum %g is no such number", r.path, row.Scale, row.Min)
	}
	for i := range row.Levels {
		row.Levels[i] = binary.LittleEndian.Uint16(r.row[8+2*i:])
	}
	return row, nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }
