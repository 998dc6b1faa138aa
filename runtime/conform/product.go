package conform

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// Edges of products: rows around groups and workgroups, K around slices and
// groups of four blocks, tokens around the tiles of all implementations.
var (
	productRows   = []int{33, 1, 64, 151, 31, 129, 32, 65, 63, 96, 127, 128, 95, 255, 97, 257, 70001}
	productK      = []int{64, 576, 128, 1088, 512, 448, 2560, 192, 320, 1024, 4160}
	productTokens = []int{1, 4, 2, 9, 3, 17, 5, 8, 33, 7, 16, 65, 6, 15, 31, 32, 63, 64, 127, 128, 129, 256, 257}
)

// Matrices of the published models, 1.7B, 4B, 8B and 27B: queries, keys and values;
// attention's output; gates and ups; downs; of the last also a delta net's inputs;
// the heads. Rows, and weights in a row.
var (
	modelShapes = [][2]int{
		{4096, 2048}, {2048, 2048}, {12288, 2048}, {2048, 6144}, {151669, 2048},
		{6144, 2560}, {2560, 4096}, {19456, 2560}, {2560, 9728}, {151669, 2560},
		{6144, 4096}, {4096, 4096}, {24576, 4096}, {4096, 12288}, {151669, 4096},
		{14336, 5120}, {5120, 6144}, {34816, 5120}, {5120, 17408}, {16480, 5120}, {248320, 5120},
	}
	shapeTokens = []int{1, 5, 65}
)

func isProduct(contract string) bool { return strings.HasPrefix(contract, "mul_mat_") }

func hasShapes(contract string) bool {
	return strings.HasPrefix(contract, "get_rows_") || isProduct(contract) && !strings.HasPrefix(contract, "mul_mat_id_")
}

// matrix picks rows, weights in a row and tokens. Of the models' matrices, those
// for several tokens have an odd number of rows.
func (c *Case) matrix(r *rand.Rand) (rows, k, n int) {
	if c.shapes {
		s, n := modelShapes[c.Index%len(modelShapes)], shapeTokens[c.Index/len(modelShapes)%len(shapeTokens)]
		if rows = s[0]; n > 1 {
			rows -= 1 + 2*r.IntN(16)
		}
		return rows, s[1], n
	}
	if c.Index >= len(productRows)*len(productK)*len(productTokens) {
		return 1 + r.IntN(4096), 64 * (1 + r.IntN(80)), 1 + r.IntN(200)
	}
	return c.from(productRows), c.from(productK), c.from(productTokens)
}

// work is the number of multiply-adds, without end for matrices beyond half a
// gigabyte, of which a comparison needs some copies.
func (w weights) work(rows, k, n int) uint64 {
	if op.PackedBytes(op.Source{Format: w.format, Rows: rows, K: k}) > 1<<29 {
		return math.MaxUint64
	}
	return uint64(rows) * uint64(k) * uint64(n)
}

// weights says how a matrix is made up.
type weights struct {
	format        *op.Format
	codes, scales string
	segment       uint64 // bytes that a region of a segment may take; 0: no bound
}

// weights picks a format and what is in it. It rounds k up to what the format takes, or, for whole floats, down to an
// odd number now and then.
func (c *Case) weights(r *rand.Rand, formats []*op.Format, k *int, whole bool) weights {
	w := weights{format: formats[r.IntN(len(formats))], codes: "any", scales: "plain"}
	step := w.format.Step()
	*k = (*k + step - 1) / step * step
	if step == 1 && !whole && r.IntN(2) == 0 {
		*k -= r.IntN(64)
	}
	if r.IntN(3) == 0 {
		w.codes = [...]string{"ternary", "same"}[r.IntN(2)]
	}
	if r.IntN(3) == 0 {
		w.scales = [...]string{"any", "edge"}[r.IntN(2)]
	}
	switch {
	case c.shapes:
		w.segment = 128 << 20 // what every device allows
	case r.IntN(4) == 0:
		w.segment = uint64(1+r.IntN(3)) * op.PackedBytes(op.Source{Format: w.format, Rows: 32, K: *k})
	}
	return w
}

func (w weights) String() string {
	s := w.format.Name + ", " + w.codes + " codes, " + w.scales + " scales"
	if w.segment > 0 {
		s += ", segments"
	}
	return s
}

// scalesOf are the offsets of the scales and minima in a block of a file, and the size
// of the numbers that they multiply.
var scalesOf = map[string]struct {
	at   []int
	size float64
}{
	"Q2_0": {[]int{0}, 1}, "Q2_0 (group 128)": {[]int{0}, 1}, "PQ2_0": {[]int{0}, 1}, "TQ2_0": {[]int{64}, 1},
	"PTQ1_0": {[]int{26}, 1}, "TQ1_0": {[]int{52}, 1}, "Q1_0": {[]int{0}, 1},
	"Q8_0": {[]int{0}, 74}, "Q4_0": {[]int{0}, 5}, "Q4_1": {[]int{0, 2}, 8},
	"Q2_K": {[]int{80, 82}, 12}, "Q4_K": {[]int{0, 2}, 200}, "Q6_K": {[]int{208}, 1000},
}

// block makes up a block of a file, in rows of k weights.
func (w weights) block(r *rand.Rand, b []byte, same byte, k int) {
	size := 1.2 / math.Sqrt(float64(k))
	switch w.format.Name {
	case "F32":
		binary.LittleEndian.PutUint32(b, math.Float32bits(w.float(r, size)))
		return
	case "BF16":
		binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(w.float(r, size))>>16))
		return
	case "F16":
		binary.LittleEndian.PutUint16(b, half(r, w.scales, size))
		return
	}
	for i := range b {
		switch b[i] = byte(r.Uint32()); w.codes {
		case "ternary": // code 3 of two bits becomes 1
			b[i] &^= b[i] >> 1 & 0x55 << 1
		case "same":
			b[i] = same
		}
	}
	h := scalesOf[w.format.Name]
	for _, at := range h.at {
		binary.LittleEndian.PutUint16(b[at:], half(r, w.scales, size/h.size))
	}
}

// float is a finite float weight.
func (w weights) float(r *rand.Rand, size float64) float32 {
	switch w.scales {
	case "any":
		return wide.next(r)
	case "edge":
		return pick(r, zeros, tiny).next(r)
	}
	return float32(size * r.NormFloat64())
}

// limited claims a small bound on bindings.
type limited struct {
	graph.Executor
	limits graph.Limits
}

func (x limited) Limits() graph.Limits { return x.limits }

// data is a file's rows of random weights.
func (w weights) data(r *rand.Rand, rows, k int) []byte {
	f := w.format
	data := make([]byte, rows*(k/f.Elements)*f.Bytes)
	same := byte(r.IntN(4)) * 0x55
	for at := 0; at < len(data); at += f.Bytes {
		w.block(r, data[at:][:f.Bytes], same, k)
	}
	return data
}

// matrix packs random weights.
func (m *maker) matrix(w weights, rows, k int) *op.Matrix {
	f, data := w.format, w.data(m.r, rows, k)
	x := limited{m.x, m.x.Limits()}
	if w.segment > 0 { // a few segments are as good as thousands
		x.limits.MaxBinding = max(w.segment, op.PackedBytes(op.Source{Format: f, Rows: (rows + 3) / 4, K: k}))
	}
	matrix, err := op.Upload(x, "weights", op.Source{Name: "weights", Format: f, Rows: rows, K: k, Data: data})
	if err != nil {
		m.err = err
	}
	return matrix
}

// mulMat: activations are made by the twin of their contract.
func mulMat(act op.Act, formats []*op.Format) space {
	return func(c *Case, r *rand.Rand) {
		c.act = act
		rows, k, n := c.matrix(r)
		w, v := c.weights(r, formats, &k, act != op.F32), pick(r, normal, outliers, wide, tiny, huge, zeros, ties, halves, special)
		c.shape(rows, n, w.work(rows, k, n), "%d rows, k %d, n %d, %v, %s", rows, k, n, w, v.name)
		if w.codes != "same" {
			c.Products = int64(rows) * int64(n)
		}
		c.record = func(m *maker) {
			matrix := m.matrix(w, rows, k)
			if m.err == nil {
				m.MulMat("product", matrix, m.Quantize("act", m.rows("x", n, k, v)))
			}
		}
	}
}

func dequant(formats []*op.Format) space {
	return func(c *Case, r *rand.Rand) {
		rows, k, _ := c.matrix(r)
		w := c.weights(r, formats, &k, false)
		c.shape((rows+31)/32*32*((k+63)/64), 1, uint64(rows*k), "%d rows, k %d, %v", rows, k, w)
		c.record = func(m *maker) {
			if matrix := m.matrix(w, rows, k); m.err == nil {
				m.Dequant(matrix)
			}
		}
	}
}

func getRows(formats []*op.Format) space {
	return func(c *Case, r *rand.Rand) {
		rows, k, n := c.matrix(r)
		w := c.weights(r, formats, &k, false)
		c.shape((k+63)/64, n, w.work(rows, k, 1), "%d rows, k %d, n %d, %v", rows, k, n, w)
		c.record = func(m *maker) {
			matrix := m.matrix(w, rows, k)
			m.Layout = op.NewLayout(n, 1)
			words := make([]uint32, op.BatchWords(n, 1, 0))
			for t := range n {
				words[m.Layout.Tokens+t] = uint32(r.IntN(rows))
			}
			words[m.Layout.Tokens+r.IntN(n)] = uint32(rows - 1)
			m.Batch = m.input("batch", graph.U32, words)
			if m.err == nil {
				m.Embed(matrix)
			}
		}
	}
}
