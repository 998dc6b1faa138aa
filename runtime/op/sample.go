package op

import "github.com/ternvk/tern/runtime/graph"

// MaxTopK is the length of the longest list of largest logits.
const MaxTopK = 128

// TopKPart is the number of logits of which one workgroup finds the largest.
const TopKPart = 4096

// Draw says how the token of an output is drawn.
type Draw struct {
	Pairs, Count                         int // place in the batch and number of (token, count) to penalise
	Repeat, Inverse, Presence, Frequency float32
	Factor                               float32 // log2(e)/temperature
	TopK                                 int     // 1 to MaxTopK
	TopP, MinP                           float32 // 0: all
	Seed, Position                       uint64
}

// DrawWords is the length of the record of a draw.
const DrawWords = 14

// Words is the record in the batch.
func (d Draw) Words() []uint32 {
	return []uint32{
		uint32(d.Pairs), uint32(d.Count), f32(d.Repeat), f32(d.Inverse), f32(d.Presence), f32(d.Frequency),
		f32(d.Factor), uint32(d.TopK), f32(d.TopP), f32(d.MinP),
		uint32(d.Seed), uint32(d.Seed >> 32), uint32(d.Position), uint32(d.Position >> 32),
	}
}

// Penalise lowers the logits of recent tokens, by the outputs' records of draws.
func (b *Builder) Penalise(x Rows) {
	b.drawn(x.N)
	b.add("penalise", "penalise_f32", x.N, 1, nil, u32(x.K, b.Layout.Draws), uint64(64*x.N), uint64(4*64*x.N),
		graph.InOut(x.Value), graph.In(b.Batch))
}

// List is N lists of the K largest logits, in order, and their tokens.
type List struct {
	*graph.Value
	N, K int
}

// TopK lists the k largest of each row, having listed those of parts of a row first
// if a row has more elements than a part.
func (b *Builder) TopK(x Rows, k, part int) List {
	must(k >= 1 && k <= MaxTopK, "the largest %d: want 1 to %d", k, MaxTopK)
	l := b.topK("top_k_part", x.Value, x.N, x.K, k, part, false)
	if width := l.K; width > k {
		return b.topK("top_k", l.Value, x.N, width, k, width, true)
	}
	return l
}

// topK is a row of lists, one for each part, as a list of all of them.
func (b *Builder) topK(label string, x *graph.Value, n, width, k, part int, ids bool) List {
	parts, has := (width+part-1)/part, 0
	if ids {
		has = 1
	}
	v := b.G.Temp(label, graph.Raw, uint64(2*n*parts*k)*4, k, parts, n)
	b.add(label, "top_k_f32", parts, n, nil, u32(width, part, parts, k, n, has), uint64(8*n*width), x.Bytes+v.Bytes,
		graph.In(x), graph.Out(v))
	return List{v, n, parts * k}
}

// Sample draws a token from each list, by the outputs' records, into the batch's
// results.
func (b *Builder) Sample(l List) {
	b.drawn(l.N)
	b.add("sample", "sample_f32", l.N, 1, nil, u32(l.K, l.N, b.Layout.Draws, b.Layout.Results), uint64(64*l.N*l.K), l.Bytes,
		graph.In(l.Value), graph.InOut(b.Batch))
}

func (b *Builder) drawn(n int) {
	must(b.Layout.Draws > 0 && n == b.Layout.Out, "%d rows for %d outputs, records of draws at %d", n, b.Layout.Out, b.Layout.Draws)
}
