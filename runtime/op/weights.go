package op

import (
	"encoding/binary"
	"fmt"
	goruntime "runtime"
	"sync"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
)

// Matrix is a packed Q2_0 matrix [Rows][K] on an executor, in one or more
// segments of rows, so that no binding spans more than the device allows.
//
// Packed form: rows in groups of 32 (the last padded with zero weights), one
// 16-byte vector of codes for each block and row of a group: neighbouring
// invocations take neighbouring rows. Scales follow likewise, four halves
// together. Nothing but the order of the file's bytes changes.
type Matrix struct {
	Name     string
	Rows, K  int
	segments []segment
	buffers  []graph.Buffer
}

type segment struct {
	row0, rows    int
	codes, scales *graph.Value
}

// Source is rows of a file's Q2_0 tensor (group 64): Data holds Rows*K/64
// blocks of 18 bytes.
type Source struct {
	Name    string
	Rows, K int
	Data    []byte
}

const (
	groupRows  = 32
	blockBytes = 18
)

func padded(rows int) int { return (rows + groupRows - 1) / groupRows * groupRows }

// packedSizes returns the bytes of codes and scales of rows x k weights.
func packedSizes(rows, k int) (codes, scales uint64) {
	nb := k / 64
	return uint64(padded(rows)) * uint64(nb) * 16, uint64(padded(rows)) * uint64((nb+3)/4) * 8
}

// MatrixBytes is the memory that a packed matrix takes, for estimates.
func MatrixBytes(rows, k int) uint64 {
	c, s := packedSizes(rows, k)
	return align(c) + s
}

func align(n uint64) uint64 { return (n + 255) &^ 255 }

// Upload packs the sources, stacked one under the other, as one matrix. Stacked
// sources must have the same K and, but for the last, a multiple of 32 rows.
// A scale that is not finite is an error naming its tensor.
func Upload(x graph.Executor, name string, sources ...Source) (*Matrix, error) {
	m := &Matrix{Name: name, K: sources[0].K}
	for i, s := range sources {
		if s.K != m.K || s.K%64 != 0 || (i+1 < len(sources) && s.Rows%groupRows != 0) || len(s.Data) != s.Rows*(s.K/64)*blockBytes {
			return nil, fmt.Errorf("tensor %s: %d rows of %d weights in %d bytes do not stack in %s", s.Name, s.Rows, s.K, len(s.Data), name)
		}
		m.Rows += s.Rows
	}
	per, _ := packedSizes(groupRows, m.K)
	limit := int(min(x.Limits().MaxBinding, x.Limits().MaxBuffer/2)/per) * groupRows
	if limit == 0 {
		return nil, fmt.Errorf("tensor %s: one group of 32 rows takes %d bytes, a binding at most %d: %w", name, per, x.Limits().MaxBinding, graph.ErrUnsupported)
	}
	for row0 := 0; row0 < m.Rows; row0 += limit {
		rows := min(limit, m.Rows-row0)
		codes, scales := packedSizes(rows, m.K)
		buf, err := x.Alloc(graph.Weights, name, align(codes)+scales)
		if err != nil {
			m.Free(x)
			return nil, fmt.Errorf("tensor %s: %w", name, err)
		}
		m.buffers = append(m.buffers, buf)
		p := packer{sources, m.K / 64, row0, row0 + rows}
		err = x.Fill(buf, 0, codes, p.codes)
		if err == nil {
			err = x.Fill(buf, align(codes), scales, p.scales)
		}
		if err != nil {
			m.Free(x)
			return nil, err
		}
		m.segments = append(m.segments, segment{row0, rows,
			&graph.Value{Name: name, Kind: graph.Raw, Bytes: codes, Buffer: buf, Shape: []int{m.K, rows}},
			&graph.Value{Name: name + ".scales", Kind: graph.Raw, Bytes: scales, Buffer: buf, Offset: align(codes), Shape: []int{m.K / 64, rows}},
		})
	}
	return m, nil
}

// Free returns the memory of the matrix.
func (m *Matrix) Free(x graph.Executor) {
	for _, b := range m.buffers {
		x.Free(b)
	}
	m.buffers, m.segments = nil, nil
}

// Bytes is the memory the matrix takes.
func (m *Matrix) Bytes() (n uint64) {
	for _, s := range m.segments {
		n += s.codes.Bytes + s.scales.Bytes
	}
	return n
}

// packer turns the rows [row0, end) of stacked sources into packed bytes.
type packer struct {
	sources   []Source
	nb        int
	row0, end int
}

// row finds the blocks of a row; nil for padding.
func (p *packer) row(row int) (Source, []byte) {
	if row >= p.end {
		return Source{}, nil
	}
	for _, s := range p.sources {
		if row < s.Rows {
			return s, s.Data[row*p.nb*blockBytes:][:p.nb*blockBytes]
		}
		row -= s.Rows
	}
	return Source{}, nil
}

// pieces calls f for every group of 32 rows and unit (a block, or four scales)
// that dst, which starts at byte off of the packed form, covers; size is the
// bytes of one row's unit.
func (p *packer) pieces(off uint64, dst []byte, size, units int, f func(src Source, row []byte, unit int, out []byte) error) error {
	first, count := int(off)/size, len(dst)/size
	workers := min(goruntime.GOMAXPROCS(0), 1+count/4096)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := count * w / workers; i < count*(w+1)/workers; i++ {
				at := first + i
				unit := at / groupRows % units
				src, row := p.row(p.row0 + at/groupRows/units*groupRows + at%groupRows)
				if err := f(src, row, unit, dst[i*size:][:size]); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) codes(off uint64, dst []byte) error {
	return p.pieces(off, dst, 16, p.nb, func(_ Source, row []byte, b int, out []byte) error {
		if row == nil {
			for i := range out {
				out[i] = 0x55
			}
			return nil
		}
		copy(out, row[b*blockBytes+2:])
		return nil
	})
}

func (p *packer) scales(off uint64, dst []byte) error {
	return p.pieces(off, dst, 8, (p.nb+3)/4, func(src Source, row []byte, unit int, out []byte) error {
		for i := range 4 {
			b, d := unit*4+i, uint16(0)
			if row != nil && b < p.nb {
				d = binary.LittleEndian.Uint16(row[b*blockBytes:])
				if d&0x7c00 == 0x7c00 {
					return fmt.Errorf("tensor %s: the scale of block %d in a row is not finite: %w", src.Name, b, graph.ErrNonFinite)
				}
			}
			binary.LittleEndian.PutUint16(out[2*i:], d)
		}
		return nil
	})
}

// UploadConsts writes float32 vectors, one after the other, as the constants of
// a model.
func UploadConsts(x graph.Executor, parts ...[]float32) (*graph.Value, error) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	bytes := uint64(n) * 4
	if bytes > x.Limits().MaxBinding {
		return nil, fmt.Errorf("%d bytes of norms and rope tables, a binding spans at most %d (a smaller context helps): %w", bytes, x.Limits().MaxBinding, graph.ErrUnsupported)
	}
	buf, err := x.Alloc(graph.Constants, "constants", bytes)
	if err != nil {
		return nil, fmt.Errorf("norms and rope tables: %w", err)
	}
	at := uint64(0)
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		if err := x.Write(buf, at, unsafe.Slice((*byte)(unsafe.Pointer(&p[0])), len(p)*4)); err != nil {
			x.Free(buf)
			return nil, err
		}
		at += uint64(len(p)) * 4
	}
	return &graph.Value{Name: "constants", Kind: graph.F32, Bytes: bytes, Buffer: buf}, nil
}
