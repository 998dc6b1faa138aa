package op

import (
	"fmt"
	goruntime "runtime"
	"sync"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
)

// Matrix is a packed matrix [Rows][K] on an executor, in one or more segments of
// rows: one for each run of sources of one format, and more where a binding would
// span more than the device allows. How the rows lie is said by [Format]'s regions.
type Matrix struct {
	Name     string
	Rows, K  int
	segments []segment
	buffers  []graph.Buffer
}

type segment struct {
	*Format
	row0, rows int
	parts      []*graph.Value // one for each region
}

// Source is rows of a file's tensor: Data holds Rows rows of K weights in Format.
type Source struct {
	Name    string
	Format  *Format
	Rows, K int
	Data    []byte
}

// PackedBytes is the memory that the sources take as one matrix, for estimates.
// Data is not looked at.
func PackedBytes(sources ...Source) (n uint64) {
	for _, run := range runs(sources) {
		rows := 0
		for _, s := range run {
			rows += s.Rows
		}
		n += align(run[0].Format.packedBytes(rows, run[0].K))
	}
	return n
}

// runs cuts stacked sources where the format changes.
func runs(sources []Source) (list [][]Source) {
	first := 0
	for i := range sources {
		end := i + 1
		if end == len(sources) || sources[end].Format != sources[i].Format {
			list = append(list, sources[first:end])
			first = end
		}
	}
	return list
}

// Upload packs the sources, stacked one under the other, as one matrix. They must
// have the same K. A scale, or a float weight, that is not finite is an error naming
// its tensor.
func Upload(x graph.Executor, name string, sources ...Source) (*Matrix, error) {
	m := &Matrix{Name: name, K: sources[0].K}
	for _, s := range sources {
		switch {
		case s.K%s.Format.Step() != 0:
			return nil, fmt.Errorf("tensor %s: rows of %d weights: want a multiple of %d for %s: %w", s.Name, s.K, s.Format.Step(), s.Format.Name, graph.ErrUnsupported)
		case s.K != m.K || len(s.Data) != s.Rows*s.Format.rowBytes(s.K):
			return nil, fmt.Errorf("tensor %s: %d rows of %d weights in %d bytes do not stack in %s", s.Name, s.Rows, s.K, len(s.Data), name)
		}
	}
	for _, run := range runs(sources) {
		if err := m.upload(x, run); err != nil {
			m.Free(x)
			return nil, err
		}
	}
	return m, nil
}

// upload appends the segments of sources of one format.
func (m *Matrix) upload(x graph.Executor, sources []Source) error {
	f, total := sources[0].Format, 0
	for _, s := range sources {
		total += s.Rows
	}
	per, most := uint64(0), x.Limits().MaxBuffer/2
	for i := range f.regions {
		per = max(per, f.regions[i].bytes(groupRows, m.K))
	}
	limit := int(min(x.Limits().MaxBinding, most)/per) * groupRows
	if limit == 0 {
		return fmt.Errorf("tensor %s: one group of 32 rows takes %d bytes, a binding at most %d: %w", sources[0].Name, per, min(x.Limits().MaxBinding, most), graph.ErrUnsupported)
	}
	for first := 0; first < total; first += limit {
		rows := min(limit, total-first)
		buf, err := x.Alloc(graph.Weights, m.Name, f.packedBytes(rows, m.K))
		if err != nil {
			return fmt.Errorf("tensor %s: %w", sources[0].Name, err)
		}
		m.buffers = append(m.buffers, buf)
		s := segment{Format: f, row0: m.Rows, rows: rows}
		var end uint64
		for i := range f.regions {
			r := &f.regions[i]
			v := &graph.Value{Name: m.Name, Kind: graph.Raw, Bytes: r.bytes(rows, m.K), Buffer: buf, Offset: align(end), Shape: []int{m.K, rows}}
			end = v.Offset + v.Bytes
			p := packer{f, r, sources, m.K, first, first + rows}
			if err := x.Fill(buf, v.Offset, v.Bytes, p.fill); err != nil {
				return err
			}
			s.parts = append(s.parts, v)
		}
		m.segments = append(m.segments, s)
		m.Rows += rows
	}
	return nil
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
	for i := range m.segments {
		n += m.segments[i].bytes()
	}
	return n
}

func (s *segment) bytes() (n uint64) {
	for _, v := range s.parts {
		n += v.Bytes
	}
	return n
}

// args binds the segment for reading, before other arguments.
func (s *segment) args(more ...graph.Arg) []graph.Arg {
	var args []graph.Arg
	for _, v := range s.parts {
		args = append(args, graph.In(v))
	}
	return append(args, more...)
}

// packer makes a region of the rows [row0, end) of stacked sources.
type packer struct {
	format    *Format
	region    *region
	sources   []Source
	k         int
	row0, end int
}

// fill makes the packed bytes from off on: tile by tile, where a tile is one unit of
// the 32 rows of a group.
func (p *packer) fill(off uint64, dst []byte) error {
	tile := p.region.words * groupRows * 4
	first, last := int(off)/tile, (int(off)+len(dst)+tile-1)/tile
	workers := min(goruntime.GOMAXPROCS(0), 1+(last-first)/64)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			g := group{packer: p, at: -1, unit: make([]uint32, p.region.words)}
			part := make([]uint32, tile/4)
			for i := first + (last-first)*w/workers; i < first+(last-first)*(w+1)/workers && errs[w] == nil; i++ {
				at := i*tile - int(off)
				if at >= 0 && at+tile <= len(dst) {
					errs[w] = g.tile(i, wordsOf(dst[at:][:tile]))
					continue
				}
				errs[w] = g.tile(i, part) // over an edge of dst
				copy(dst[max(at, 0):], bytesOf(part)[max(-at, 0):])
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

// group makes tiles of the 32 rows of one group after the other.
type group struct {
	*packer
	at   int // its number
	rows [groupRows]struct {
		of   *Source
		data []byte // nil for padding
	}
	unit []uint32
}

// tile makes tile i.
func (g *group) tile(i int, out []uint32) error {
	r := g.region
	units := r.units(g.k)
	if at := i / units; at != g.at {
		g.at = at
		for lane := range g.rows {
			g.rows[lane].of, g.rows[lane].data = g.row(g.row0 + at*groupRows + lane)
		}
	}
	col := i % units * r.elements
	end := min(col+r.elements, g.k)
	from, to := g.format.rowBytes(col), g.format.rowBytes(end)
	for lane := range g.rows {
		row := &g.rows[lane]
		clear(g.unit)
		if row.data != nil {
			if err := r.pack(g.unit, row.data[from:to]); err != nil {
				return fmt.Errorf("tensor %s, weights %d to %d of a row: %w", row.of.Name, col, end-1, err)
			}
		}
		for w := 0; w < len(g.unit); w += r.together {
			copy(out[w*groupRows+lane*r.together:], g.unit[w:w+r.together])
		}
	}
	return nil
}

// wordsOf are bytes that begin at a word, as words.
func wordsOf(b []byte) []uint32 { return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(b)/4) }

func bytesOf[T uint32 | float32](words []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*4)
}

// row finds the source and bytes of a row; nil for padding.
func (p *packer) row(row int) (*Source, []byte) {
	if row >= p.end {
		return nil, nil
	}
	size := p.format.rowBytes(p.k)
	for i := range p.sources {
		s := &p.sources[i]
		if row < s.Rows {
			return s, s.Data[row*size:][:size]
		}
		row -= s.Rows
	}
	return nil, nil
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
		if err := x.Write(buf, at, bytesOf(p)); err != nil {
			x.Free(buf)
			return nil, err
		}
		at += uint64(len(p)) * 4
	}
	return &graph.Value{Name: "constants", Kind: graph.F32, Bytes: bytes, Buffer: buf}, nil
}
