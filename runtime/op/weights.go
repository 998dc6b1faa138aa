package op

import (
	"fmt"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/mapped"
)

// Matrix is a packed matrix [Rows][K] on an executor, in one or more segments of
// rows: one for each run of sources of one format, and more where a binding would
// span more than the device allows. How the rows lie is said by [Format]'s regions.
type Matrix struct {
	Name     string
	Rows, K  int
	segments []segment
	buffers  []graph.Buffer
	packers  []packer // what Fill has to do
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

// Upload is Place and Fill.
func Upload(x graph.Executor, name string, sources ...Source) (*Matrix, error) {
	m, err := Place(x, name, sources...)
	if err == nil {
		if err = m.Fill(x); err != nil {
			m.Free(x)
			return nil, err
		}
	}
	return m, err
}

// Place makes room for the sources, stacked one under the other, as one matrix. They
// must have the same K. Their data is read by Fill.
func Place(x graph.Executor, name string, sources ...Source) (*Matrix, error) {
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
		if err := m.place(x, run); err != nil {
			m.Free(x)
			return nil, err
		}
	}
	return m, nil
}

// place appends the segments of sources of one format.
func (m *Matrix) place(x graph.Executor, sources []Source) error {
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
			m.packers = append(m.packers, packer{v, f, r, sources, m.K, first, first + rows})
			s.parts = append(s.parts, v)
		}
		m.segments = append(m.segments, s)
		m.Rows += rows
	}
	return nil
}

// Fill packs the sources. A scale, or a float weight, that is not finite is an error
// naming its tensor. Matrices may be filled at the same time.
func (m *Matrix) Fill(x graph.Executor) error {
	for _, p := range m.packers {
		if err := x.Fill(p.to.Buffer, p.to.Offset, p.to.Bytes, p.fill); err != nil {
			return err
		}
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
	to        *graph.Value
	format    *Format
	region    *region
	sources   []Source
	k         int
	row0, end int
}

// fill makes the packed bytes from off on. Sources may lie in a file.
func (p *packer) fill(off uint64, dst []byte) error {
	return mapped.Read(func() error { return p.write(off, dst) })
}

// write makes the packed bytes from off on: tile by tile, where a tile is one unit of
// the 32 rows of a group.
func (p *packer) write(off uint64, dst []byte) error {
	r := p.region
	tile, units := r.words*groupRows*4, r.units(p.k)
	g := group{packer: p, at: -1, unit: make([]uint32, r.words)}
	for at := int(off); len(dst) > 0; {
		i, skip := at/tile, at%tile
		n := len(dst) / tile
		if skip > 0 || n == 0 { // over an edge of dst
			part := make([]uint32, tile/4)
			if err := g.tiles(i, 1, part); err != nil {
				return err
			}
			n = copy(dst, bytesOf(part)[skip:])
		} else {
			n = min(n, units-i%units)
			if err := g.tiles(i, n, wordsOf(dst[:n*tile])); err != nil {
				return err
			}
			n *= tile
		}
		at, dst = at+n, dst[n:]
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

// tiles makes n tiles of a group, from tile i on.
func (g *group) tiles(i, n int, out []uint32) error {
	r := g.region
	units := r.units(g.k)
	if at := i / units; at != g.at {
		g.at = at
		for lane := range g.rows {
			g.rows[lane].of, g.rows[lane].data = g.row(g.row0 + at*groupRows + lane)
		}
	}
	first := i % units * r.elements
	end := min(first+n*r.elements, g.k)
	from, to := g.format.rowBytes(first), g.format.rowBytes(end)
	for lane := range g.rows {
		row := &g.rows[lane]
		if row.data == nil {
			for w := lane * r.together; w < len(out); w += groupRows * r.together {
				clear(out[w:][:r.together])
			}
			continue
		}
		if unit, err := g.pack(out[lane*r.together:], row.data[from:to]); err != nil {
			col := first + unit*r.elements
			return fmt.Errorf("tensor %s, weights %d to %d of a row: %w", row.of.Name, col, min(col+r.elements, g.k)-1, err)
		}
	}
	return nil
}

// pack makes units of a row in out, which begins with its first words.
func (g *group) pack(out []uint32, src []byte) (unit int, err error) {
	r := g.region
	if r.packRow != nil {
		return r.packRow(out, src)
	}
	for size := g.format.rowBytes(r.elements); len(src) > 0; unit++ {
		clear(g.unit)
		n := min(size, len(src))
		if err := r.pack(g.unit, src[:n]); err != nil {
			return unit, err
		}
		src = src[n:]
		for w := 0; w < len(g.unit); w += r.together {
			at := (unit*r.words + w) * groupRows
			for i := range r.together { // a call of copy takes longer
				out[at+i] = g.unit[w+i]
			}
		}
	}
	return 0, nil
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

// PlaceConsts makes room for so many float32, the constants of a model.
func PlaceConsts(x graph.Executor, n int) (*graph.Value, error) {
	bytes := uint64(n) * 4
	if bytes > x.Limits().MaxBinding {
		return nil, fmt.Errorf("%d bytes of norms and rope tables, a binding spans at most %d (a smaller context helps): %w", bytes, x.Limits().MaxBinding, graph.ErrUnsupported)
	}
	buf, err := x.Alloc(graph.Constants, "constants", bytes)
	if err != nil {
		return nil, fmt.Errorf("norms and rope tables: %w", err)
	}
	return &graph.Value{Name: "constants", Kind: graph.F32, Bytes: bytes, Buffer: buf}, nil
}

// WriteConsts writes all constants of a model.
func WriteConsts(x graph.Executor, to *graph.Value, values []float32) error {
	return x.Write(to.Buffer, to.Offset, bytesOf(values))
}
