// Package model runs ternary transformers: it opens GGUF files on an executor
// and evaluates tokens for many sessions. It is the door for programs that
// embed Tern:
//
//	dev, err := runtime.Open(runtime.Options{})      // or ref.New(), without a GPU
//	m, err := model.Open(ctx, "bonsai.gguf", model.Options{Executor: dev})
//	s, err := m.NewSession()
//	for tok, err := range s.Generate(ctx, m.Tokenizer().Encode("Hello", token.Options{}), model.Sampling{}, 64) { ... }
//
// A [Conversation] adds a file's chat template to that, [Fit] finds the context that
// fits, [Session.SaveFile] keeps a session, and [Model.Unload] lends its memory.
//
// Logits have the same bits on every device, at every batch size and split of
// the prompt. A Model may be used from several goroutines, a Session from one
// at a time.
package model

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ternvk/tern/model/family"
	"github.com/ternvk/tern/model/gguf"
	"github.com/ternvk/tern/model/qwen3"
	"github.com/ternvk/tern/model/qwen35"
	"github.com/ternvk/tern/model/token"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// ArithmeticVersion numbers the rules that fix every bit of the logits (the
// comments of the twins in runtime/ref). Golden hashes belong to a version.
const ArithmeticVersion = 1

// Errors of requests; executors' errors (graph.Err...) are wrapped as well.
var (
	ErrContextFull = errors.New("context full")
	ErrBadToken    = errors.New("token id out of range")
	ErrUnloaded    = errors.New("the model is unloaded")
)

// Options of opening a model. Only Executor or Connect is required.
type Options struct {
	Executor graph.Executor
	// Connect opens the executor, if there is none, while the file is read. What it
	// returns is the caller's also when the model cannot be opened.
	Connect     func() (graph.Executor, error)
	Context     int    // positions of one session; 0: the model's own, at most 4096
	Sequences   int    // sessions that can be full at once; 0: 1
	Activations op.Act // of matrix products; the default is int8
	Chunk       int    // tokens of a prompt that run at once; 0: what the device is tuned to, or 1024
	// Snapshots is the number of earlier states that a session of a model with
	// recurrent layers keeps, so that it can go back without starting again;
	// 0: 2, negative: none.
	Snapshots int
	Q2Group   int // weights in a group of type id 42, if the file does not tell: 64 or 128
	// CacheKeys and CacheValues are how keys and values are stored; the default is f16.
	CacheKeys, CacheValues op.CacheType
	// Progress, if not nil, is told how many bytes of the file are loaded.
	Progress func(done, total uint64)
	// Trace, if not nil, is told each step of opening when it is done, by several goroutines.
	Trace func(done string)
}

// DefaultChunk is the number of tokens of a prompt that run at once, unless Options say.
const DefaultChunk = 1024

// withDefaults also tells c how to store its cache.
func (o Options) withDefaults(c *family.Config) (Options, error) {
	if o.Context == 0 {
		o.Context = min(c.Context, 4096)
	}
	if o.Sequences == 0 {
		o.Sequences = 1
	}
	if o.Chunk == 0 && o.Executor != nil {
		o.Chunk = o.Executor.Limits().Chunk
	}
	if o.Chunk == 0 {
		o.Chunk = DefaultChunk
	}
	if o.Snapshots == 0 {
		o.Snapshots = 2
	}
	o.Snapshots = max(o.Snapshots, 0)
	c.Heads.Keys, c.Heads.Values = o.CacheKeys, o.CacheValues
	switch {
	case o.Context < 1 || o.Context > c.Context:
		return o, fmt.Errorf("context of %d positions: the model allows 1 to %d", o.Context, c.Context)
	case o.Sequences < 1 || o.Sequences > 4096:
		return o, fmt.Errorf("%d sequences: want 1 to 4096", o.Sequences)
	case o.Snapshots > 1024:
		return o, fmt.Errorf("%d snapshots: want at most 1024", o.Snapshots)
	case o.Chunk < 1 || o.Chunk > 16384:
		return o, fmt.Errorf("chunk of %d tokens: want 1 to 16384", o.Chunk)
	}
	return o, nil
}

// Model is an open model on an executor.
type Model struct {
	x       graph.Executor
	file    *gguf.File
	net     family.Model
	config  *family.Config // of net
	options Options
	weights *family.Weights
	tok     *token.Tokenizer

	mu          sync.Mutex // held while a batch is prepared, run and read
	closed      bool
	fingerprint *[sha256.Size]byte // when it is known
	loads       int                // grows when the model is put on an executor
	memory      family.Memory
	remembered  []graph.Buffer // of memory
	batch       *graph.Value
	words       []uint32      // host copy of the batch
	burstTime   time.Duration // bounds the time of tokens that are run ahead
	maxOut      int           // outputs of one run
	pages       pool
	slots       pool // of recurrent state
	programs    map[shape]*recorded
	last        graph.Program // that ran
	used        uint64        // clock for forgetting programs
	sessions    map[*Session]bool
}

// Open opens the file at path. The caller closes the model; the executor stays
// the caller's. A model that does not fit the executor's memory is an error that
// wraps graph.ErrOutOfMemory and gives need and room, before anything is uploaded.
// Cancelling ctx ends the upload at the next tensor. After an error nothing stays
// allocated.
func Open(ctx context.Context, path string, o Options) (*Model, error) {
	return load(ctx, o, func() (*gguf.File, error) { return gguf.Options{Q2Group: o.Q2Group}.Open(path) })
}

// OpenBytes opens a file that lies in memory, such as an embedded one. name is
// used in errors.
func OpenBytes(ctx context.Context, name string, data []byte, o Options) (*Model, error) {
	return load(ctx, o, func() (*gguf.File, error) { return gguf.Options{Q2Group: o.Q2Group}.Parse(name, data) })
}

// families reads the metadata of each architecture.
var families = map[string]func(f *gguf.File, architecture string) (family.Model, error){
	qwen3.Dense: readQwen3, qwen3.Mixture: readQwen3,
	qwen35.Dense: readQwen35, qwen35.Mixture: readQwen35,
}

func readQwen3(f *gguf.File, architecture string) (family.Model, error) {
	return qwen3.Read(f, architecture)
}

func readQwen35(f *gguf.File, architecture string) (family.Model, error) {
	return qwen35.Read(f, architecture)
}

func readFamily(f *gguf.File) (family.Model, error) {
	arch, ok, err := f.String("general.architecture")
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("%s: metadata lacks general.architecture", f.Name)
	}
	read, ok := families[arch]
	if !ok {
		known := slices.Sorted(maps.Keys(families))
		return nil, fmt.Errorf("%s: architecture %q: this build runs %s: %w", f.Name, arch, strings.Join(known, ", "), graph.ErrUnsupported)
	}
	return read(f, arch)
}

func load(ctx context.Context, o Options, read func() (*gguf.File, error)) (_ *Model, err error) {
	if o.Trace == nil {
		o.Trace = func(string) {}
	}
	var connecting, reading sync.WaitGroup
	var refused, bad error
	if o.Executor == nil && o.Connect != nil {
		connecting.Go(func() { o.Executor, refused = o.Connect() })
		defer connecting.Wait()
	}
	f, err := read()
	if err != nil {
		return nil, err
	}
	defer func() {
		if reading.Wait(); err != nil {
			f.Close()
		}
	}()
	net, err := readFamily(f)
	if err != nil {
		return nil, err
	}
	o.Trace("file parsed")
	var tok *token.Tokenizer
	reading.Go(func() {
		tok, bad = readTokenizer(f, net.Base())
		o.Trace("tokenizer read")
	})
	warming, connected := context.WithCancel(ctx)
	reading.Go(func() {
		f.Warm(warming)
		o.Trace("file warm, or device open")
	})
	connecting.Wait()
	connected()
	if refused != nil {
		return nil, refused
	}
	m, err := newModel(f, net, o)
	if err != nil {
		return nil, err
	}
	err = m.upload(ctx, o.Executor)
	if reading.Wait(); bad != nil {
		m.free()
		err = bad
	}
	if err != nil {
		return nil, err
	}
	m.tok = tok
	return m, nil
}

// newModel is a model of which nothing is on the executor yet, without a tokenizer.
func newModel(f *gguf.File, net family.Model, o Options) (*Model, error) {
	c := net.Base()
	if o.Executor == nil {
		return nil, fmt.Errorf("%s: Options.Executor is nil: %w", f.Name, graph.ErrNoDevice)
	}
	o, err := o.withDefaults(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return &Model{file: f, net: net, config: c, options: o, burstTime: burstTime, sessions: map[*Session]bool{}}, nil
}

// upload puts the model on an executor; after an error nothing stays there.
func (m *Model) upload(ctx context.Context, x graph.Executor) error {
	m.loads++
	err := m.place(until{x, ctx})
	m.options.Trace("memory allocated")
	if err == nil {
		err = m.weights.Fill(until{x, ctx}, func(done, total uint64) {
			if m.options.Progress != nil {
				m.options.Progress(done, total)
			}
		})
	}
	m.options.Trace("weights uploaded")
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		m.free()
	}
	return err
}

// place allocates all that the model takes on an executor. Programs can be recorded
// then.
func (m *Model) place(x until) (err error) {
	m.x, m.programs = x.Executor, map[shape]*recorded{}
	if err = m.check(); err != nil {
		return err
	}
	o, vocab := m.options, m.config.Vocab
	m.maxOut = max(1, min(o.Chunk, 64<<20/(vocab*4), int(x.Limits().MaxBinding)/(vocab*4)))
	if err = m.allocMemory(); err != nil {
		return err
	}
	words := batchWords(m.config, o)
	m.words = make([]uint32, words)
	buf, err := x.Alloc(graph.Batch, "batch", uint64(words)*4)
	if err != nil {
		return fmt.Errorf("%s: batch: %w", m.file.Name, err)
	}
	m.batch = &graph.Value{Name: "batch", Kind: graph.U32, Bytes: uint64(words) * 4, Buffer: buf}
	m.weights, err = m.net.Tensors().Place(x, m.file, o.Context)
	return err
}

// readTokenizer returns nil for a file without a vocabulary, which can be run
// on token ids only.
func readTokenizer(f *gguf.File, c *family.Config) (*token.Tokenizer, error) {
	if kind, ok, _ := f.String("tokenizer.ggml.model"); !ok || kind == "no_vocab" || kind == "none" {
		return nil, nil
	}
	tok, err := token.FromGGUF(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	if tok.Len() > c.Vocab {
		return nil, fmt.Errorf("%s: %d tokens for %d rows of token_embd.weight", f.Name, tok.Len(), c.Vocab)
	}
	return tok, nil
}

func (m *Model) free() {
	for _, p := range m.programs {
		p.Close()
	}
	m.programs, m.last = nil, nil
	if m.weights != nil {
		m.weights.Free(m.x)
		m.weights = nil
	}
	m.freeMemory()
	if m.batch != nil {
		m.x.Free(m.batch.Buffer)
		m.batch = nil
	}
}

// usable is the error of a model that cannot run. mu is held.
func (m *Model) usable() error {
	switch {
	case m.closed:
		return fmt.Errorf("%s: %w", m.file.Name, graph.ErrClosed)
	case m.weights == nil:
		return fmt.Errorf("%s: %w", m.file.Name, ErrUnloaded)
	}
	return nil
}

// Close frees the model's memory and closes its file. Sessions fail from then
// on with graph.ErrClosed. Closing again does nothing.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	m.free()
	return m.file.Close()
}

// Context returns the positions of a session.
func (m *Model) Context() int { return m.options.Context }

// Chunk returns the tokens of a prompt that run at once.
func (m *Model) Chunk() int { return m.options.Chunk }

// Tokenizer returns the file's tokenizer, or nil if the file has no vocabulary.
func (m *Model) Tokenizer() *token.Tokenizer { return m.tok }

// File returns the open file: metadata and tensors. It is valid until Close.
func (m *Model) File() *gguf.File { return m.file }
