// Package synth makes models of a given shape whose weights are noise: for
// speed, for memory, and for tests that cross every border of the arithmetic.
//
// A model is a function of its [Shape], seed included, and of nothing else.
// Random numbers are those of splitmix64: the n-th output of the stream that
// starts at s is
//
//	z = s + (n+1)*0x9e3779b97f4a7c15
//	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
//	z = (z ^ z>>27) * 0x94d049bb133111eb
//	z ^ z>>31
//
// modulo 2^64, so every part of a tensor can be made by itself. Tensor i of the
// file has the stream that starts at output i of the stream of the shape's seed.
// Block b of 64 weights takes its outputs 3b, 3b+1 and 3b+2: the 16 bytes of the
// first two, lowest first, are looked up in a table of four codes each, and the
// low byte of the third is the number of its scale (see scales). Norm weight j
// is 1 + (v-0.5)/2, v being the top 24 bits of output j over 2^24.
package synth

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	goruntime "runtime"
	"strconv"
	"sync"

	"github.com/x448/float16"

	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/token"
)

// Shape is the geometry of a synthetic qwen3 model.
type Shape struct {
	Name                 string
	Layers, Hidden, FFN  int
	Heads, KVHeads, Head int // number of heads and their size
	Vocab, Context       int
	Tied                 bool // no output.weight: the embedding is the head
	RopeBase             float32
	YaRNFactor           float32 // 0: no YaRN
	YaRNOriginal         int     // context before YaRN
	Seed                 uint64
	Code3                bool // about 2.5 % of the codes are 3, or else none
}

// Wide crosses the borders of the arithmetic with few layers: a query width
// that is not the hidden size, grouped heads, a short last slice, YaRN, code 3,
// and a separate head with more rows than a device need have workgroups.
var Wide = Shape{
	Name: "wide", Layers: 2, Hidden: 2560, FFN: 1088, Heads: 32, KVHeads: 8, Head: 128, Vocab: 70001, Context: 32768,
	RopeBase: 1e6, YaRNFactor: 4, YaRNOriginal: 8192, Seed: 0x7465726e77696465, Code3: true,
}

// Shapes are the shapes that can be asked for by name.
var Shapes = []Shape{
	Wide,
	bonsai("ternary-bonsai-1.7b", 28, 2048, 6144, 16, 32768, true),
	bonsai("ternary-bonsai-4b", 36, 2560, 9728, 32, 32768, true),
	bonsai("ternary-bonsai-8b", 36, 4096, 12288, 32, 65536, false),
}

func bonsai(name string, layers, hidden, ffn, heads, context int, tied bool) Shape {
	return Shape{
		Name: name, Layers: layers, Hidden: hidden, FFN: ffn, Heads: heads, KVHeads: 8, Head: 128, Vocab: 151669, Context: context,
		Tied: tied, RopeBase: 1e6, YaRNFactor: 4, YaRNOriginal: context / 4, Seed: 1,
	}
}

// Lookup returns the shape of a name.
func Lookup(name string) (Shape, error) {
	var names []string
	for _, s := range Shapes {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Shape{}, fmt.Errorf("no synthetic shape %q; there are %q", name, names)
}

// Bytes returns the model as a GGUF file in memory.
func (s Shape) Bytes() ([]byte, error) {
	var size uint64
	for _, t := range s.tensors() {
		elements, bytes := t.Type.Block()
		size += product(t.Dims)/elements*bytes + 64
	}
	var b bytes.Buffer
	b.Grow(int(size) + 32*s.Vocab + 1<<16)
	w, err := gguf.NewWriter(&b, s.meta(), s.tensors())
	if err == nil {
		err = s.stream(w)
	}
	if err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// Create writes the model as a GGUF file, which appears at path when complete.
func (s Shape) Create(path string) error {
	w, err := gguf.Create(path, s.meta(), s.tensors())
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := s.stream(w); err != nil {
		return err
	}
	return w.Close()
}

func (s Shape) tensors() []gguf.Spec {
	var specs []gguf.Spec
	add := func(t gguf.Type, name string, dims ...int) {
		spec := gguf.Spec{Name: name + ".weight", Type: t}
		for _, d := range dims {
			spec.Dims = append(spec.Dims, uint64(d))
		}
		specs = append(specs, spec)
	}
	q, kv := s.Heads*s.Head, s.KVHeads*s.Head
	add(gguf.Q2_0, "token_embd", s.Hidden, s.Vocab)
	add(gguf.F32, "output_norm", s.Hidden)
	if !s.Tied {
		add(gguf.Q2_0, "output", s.Hidden, s.Vocab)
	}
	for i := range s.Layers {
		blk := "blk." + strconv.Itoa(i) + "."
		add(gguf.F32, blk+"attn_norm", s.Hidden)
		add(gguf.Q2_0, blk+"attn_q", s.Hidden, q)
		add(gguf.Q2_0, blk+"attn_k", s.Hidden, kv)
		add(gguf.Q2_0, blk+"attn_v", s.Hidden, kv)
		add(gguf.Q2_0, blk+"attn_output", q, s.Hidden)
		add(gguf.F32, blk+"attn_q_norm", s.Head)
		add(gguf.F32, blk+"attn_k_norm", s.Head)
		add(gguf.F32, blk+"ffn_norm", s.Hidden)
		add(gguf.Q2_0, blk+"ffn_gate", s.Hidden, s.FFN)
		add(gguf.Q2_0, blk+"ffn_up", s.Hidden, s.FFN)
		add(gguf.Q2_0, blk+"ffn_down", s.FFN, s.Hidden)
	}
	return specs
}

func (s Shape) meta() []gguf.KV {
	u := func(n int) uint32 { return uint32(n) }
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: "qwen3"},
		{Key: "general.name", Value: "Synthetic " + s.Name},
		{Key: "general.file_type", Value: uint32(41)},
		{Key: "qwen3.block_count", Value: u(s.Layers)},
		{Key: "qwen3.context_length", Value: u(s.Context)},
		{Key: "qwen3.embedding_length", Value: u(s.Hidden)},
		{Key: "qwen3.feed_forward_length", Value: u(s.FFN)},
		{Key: "qwen3.attention.head_count", Value: u(s.Heads)},
		{Key: "qwen3.attention.head_count_kv", Value: u(s.KVHeads)},
		{Key: "qwen3.attention.key_length", Value: u(s.Head)},
		{Key: "qwen3.attention.value_length", Value: u(s.Head)},
		{Key: "qwen3.attention.layer_norm_rms_epsilon", Value: float32(1e-6)},
		{Key: "qwen3.rope.freq_base", Value: s.RopeBase},
	}
	if s.YaRNFactor != 0 {
		kvs = append(kvs,
			gguf.KV{Key: "qwen3.rope.scaling.type", Value: "yarn"},
			gguf.KV{Key: "qwen3.rope.scaling.factor", Value: s.YaRNFactor},
			gguf.KV{Key: "qwen3.rope.scaling.original_context_length", Value: u(s.YaRNOriginal)})
	}
	return append(kvs, s.vocabulary()...)
}

// vocabulary has a token for each byte, names nobody types for the rest, and an
// end-of-text token.
func (s Shape) vocabulary() []gguf.KV {
	tokens, types := make([]string, s.Vocab), make([]token.Type, s.Vocab)
	for i := range tokens {
		tokens[i], types[i] = "tok"+strconv.Itoa(i), token.Normal
	}
	other := 0x100
	for b := range 256 {
		r := rune(b)
		if b <= ' ' || 0x7f <= b && b <= 0xa0 || b == 0xad { // not printable
			r = rune(other)
			other++
		}
		tokens[b] = string(r)
	}
	eos := int32(s.Vocab - 1)
	tokens[eos], types[eos] = "<|endoftext|>", token.Control
	vocab := token.Vocab{Pre: "qwen2", Tokens: tokens, Types: types, Merges: []string{}, BOS: -1, EOS: eos, EOT: -1, Pad: -1}
	var kvs []gguf.KV
	for _, e := range vocab.Metadata() {
		kvs = append(kvs, gguf.KV(e))
	}
	return kvs
}

const gamma = 0x9e3779b97f4a7c15

// output is output n of the splitmix64 stream that starts at s.
func output(s, n uint64) uint64 {
	z := s + (n+1)*gamma
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// codes is the table that turns a random byte i into four codes, the base-3
// digits of a number: i mod 81, or for the last 13 bytes, of which 81 leaves no
// whole round, 4, 10, ..., 76. With code3 these have code 3 first and last.
func codes(code3 bool) (table [256]byte) {
	for i := range table {
		n := i % 81
		if i >= 243 {
			n = 4 + 6*(i-243)
		}
		c := [4]int{n % 3, n / 3 % 3, n / 9 % 3, n / 27}
		if code3 && i >= 243 {
			c[0], c[3] = 3, 3
		}
		table[i] = byte(c[0] | c[1]<<2 | c[2]<<4 | c[3]<<6)
	}
	return table
}

// scales is the table of scales for rows of k weights, which keep the size of
// what goes through: number i is 1.2/sqrt(k) * (0.5 + i/256), in half precision.
func scales(k int) (table [256]uint16) {
	for i := range table {
		table[i] = float16.Fromfloat32(float32(1.2 / math.Sqrt(float64(k)) * (0.5 + float64(i)/256))).Bits()
	}
	return table
}

const (
	blockWeights = 64
	blockBytes   = 18
	pieceBlocks  = 1 << 18 // 4.5 MiB
)

// stream writes the data of all tensors.
func (s Shape) stream(w io.Writer) error {
	piece := make([]byte, pieceBlocks*blockBytes)
	table := codes(s.Code3)
	for i, t := range s.tensors() {
		seed := output(s.Seed, uint64(i))
		if t.Type == gguf.F32 {
			for j := range int(t.Dims[0]) {
				v := float32(output(seed, uint64(j))>>40) / (1 << 24)
				binary.LittleEndian.PutUint32(piece[4*j:], math.Float32bits(1+(v-0.5)/2))
			}
			if _, err := w.Write(piece[:4*t.Dims[0]]); err != nil {
				return err
			}
			continue
		}
		d := scales(int(t.Dims[0]))
		blocks := int(product(t.Dims)) / blockWeights
		for from := 0; from < blocks; from += pieceBlocks {
			n := min(pieceBlocks, blocks-from)
			fill(piece[:n*blockBytes], seed, from, &table, &d)
			if _, err := w.Write(piece[:n*blockBytes]); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill makes the blocks from number first on, as many as dst holds.
func fill(dst []byte, seed uint64, first int, codes *[256]byte, scales *[256]uint16) {
	n := len(dst) / blockBytes
	workers := min(goruntime.GOMAXPROCS(0), 1+n/4096)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				out, at := dst[i*blockBytes:][:blockBytes], uint64(first+i)*3
				lo, hi := output(seed, at), output(seed, at+1)
				binary.LittleEndian.PutUint16(out, scales[byte(output(seed, at+2))])
				for j := range 8 {
					out[2+j] = codes[byte(lo>>(8*j))]
					out[10+j] = codes[byte(hi>>(8*j))]
				}
			}
		})
	}
	wg.Wait()
}

func product(dims []uint64) uint64 {
	n := uint64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

// Tokens returns n token ids below vocab: the outputs of the stream of seed,
// modulo vocab.
func Tokens(seed uint64, n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(output(seed, uint64(i)) % uint64(vocab))
	}
	return ids
}
