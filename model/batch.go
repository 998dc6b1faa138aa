package model

import (
	"context"
	"fmt"
	"os"
	"unsafe"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/op"
)

// shape is all that a recorded program depends on.
type shape struct {
	n, out int
	seqs   int  // records of sequences; 0 for models without recurrent layers
	chunks int  // bound on attention chunks, a power of two
	spread bool // most tokens are of sequences of their own
	by     chooser
}

// chooser is who chooses the tokens that follow, and how.
type chooser uint8

const (
	byHost    chooser = iota // from logits that it reads
	byLargest                // the program: the largest logit
	byDraw                   // the program: by records of draws
	byBoth                   // the program, by records of draws; the host reads some of the logits
	byNobody                 // no one: the host reads the hidden states that logits are made of
)

// draws reports whether the batch holds records of draws.
func (c chooser) draws() bool { return c == byDraw || c == byBoth }

// layout of the batch's words.
func (s shape) layout() op.Layout {
	l := op.NewSequenceLayout(s.n, s.out, s.seqs)
	if s.by.draws() {
		l = l.WithDraws()
	}
	return l
}

// recorded is a program with its logits.
type recorded struct {
	graph.Program
	builder *op.Builder
	logits  op.Rows
	used    uint64
}

// maxPrograms bounds the recorded shapes that are kept.
const maxPrograms = 64

// Record builds the graph of a batch shape: n tokens, of which out have their
// logits computed, at positions below context. It ends with the choice of the
// tokens that follow, if that is the program's.
func (m *Model) record(s shape) (*graph.Graph, *recorded) {
	g := graph.New(fmt.Sprintf("n%d.out%d.seqs%d.chunks%d", s.n, s.out, s.seqs, s.chunks))
	b := &op.Builder{
		G: g, Act: m.options.Activations, Batch: m.batch, Layout: s.layout(), Consts: m.weights.Consts, Chunks: s.chunks, Spread: s.spread,
		Headless: s.by == byNobody,
	}
	logits := m.net.Forward(b, &m.memory)
	switch {
	case s.out == 0:
	case s.by == byLargest:
		b.Argmax(logits)
	case s.by.draws():
		logits.Keep = s.by == byBoth
		b.Penalise(logits)
		b.Sample(b.TopK(logits, min(op.MaxTopK, logits.K), op.TopKPart))
	}
	return g, &recorded{builder: b, logits: logits}
}

func (m *Model) program(s shape) (*recorded, error) {
	m.used++
	if r, ok := m.programs[s]; ok {
		r.used = m.used
		return r, nil
	}
	g, r := m.record(s)
	p, err := m.x.Compile(g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.file.Name, err)
	}
	if len(m.programs) >= maxPrograms {
		oldest := s
		for k, r := range m.programs {
			if old, ok := m.programs[oldest]; !ok || r.used < old.used {
				oldest = k
			}
		}
		m.programs[oldest].Close()
		delete(m.programs, oldest)
	}
	r.Program, r.used = p, m.used
	m.programs[s] = r
	return r, nil
}

// Request is what one session adds to a batch.
type Request struct {
	Session *Session
	Tokens  []int32
	Every   bool // logits of every token, not only of the last
	None    bool // no logits at all

	draw   *draw // of the token that follows the last
	logits bool  // are read where the program draws
}

func (r Request) wants(i int) bool {
	return !r.None && (r.Every || i == len(r.Tokens)-1)
}

// Eval appends tokens to sessions, all in as few runs as the chunk size allows,
// and returns for each request the wanted logits: float32 [tokens][vocab], or
// [1][vocab] for the last token. A request that does not fit its session's
// context, or holds an id that is out of range, is an error before anything
// runs. When a run fails or ctx ends, the sessions keep the tokens of the runs
// before it.
func (m *Model) Eval(ctx context.Context, requests ...Request) ([][][]float32, error) {
	logits := make([][][]float32, len(requests))
	err := m.eval(ctx, requests, byHost, func(request int, row []float32, _ uint32) {
		logits[request] = append(logits[request], row)
	})
	return logits, err
}

// eval runs the requests and calls output for every wanted row, in order: with
// the logits, or with the token that the program chose.
func (m *Model) eval(ctx context.Context, requests []Request, by chooser, output func(request int, row []float32, token uint32)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return err
	}
	if err := m.admit(requests); err != nil {
		return err
	}
	var run []entry
	out, maxOut := 0, m.maxOut
	if by.draws() { // the batch has room for so many draws
		maxOut = min(maxOut, m.options.Sequences)
	}
	flush := func() error {
		if len(run) == 0 {
			return nil
		}
		err := m.run(ctx, run, by, output)
		run, out = run[:0], 0
		return err
	}
	seen := map[*Session]bool{}
	for i, r := range requests {
		var list []entry
		if !seen[r.Session] {
			list = r.Session.behind(i)
		} else if m.config.Recurrent != nil { // the tokens of a sequence lie together in a run
			if err := flush(); err != nil {
				return err
			}
		}
		seen[r.Session] = true
		for j, id := range r.Tokens {
			list = append(list, entry{i, r.Session, id, r.wants(j), r.draw, by == byHost || by == byNobody || r.logits})
		}
		for _, t := range list {
			if len(run) == m.options.Chunk || t.wants && out == maxOut {
				if err := flush(); err != nil {
					return err
				}
			}
			run = append(run, t)
			if t.wants {
				out++
			}
		}
	}
	return flush()
}

// entry is one token of a run.
type entry struct {
	request int
	session *Session
	id      int32
	wants   bool
	draw    *draw // of the token that follows, if the program draws
	read    bool  // what was computed for the token, if it is wanted
}

// admit checks the requests and takes the pages they need.
func (m *Model) admit(requests []Request) error {
	grow := map[*Session]int{}
	for _, r := range requests {
		if r.Session == nil || r.Session.m != m {
			return fmt.Errorf("%s: a request without a session of this model", m.file.Name)
		}
		if r.Session.closed {
			return fmt.Errorf("session: %w", graph.ErrClosed)
		}
		for _, id := range r.Tokens {
			if id < 0 || int(id) >= m.config.Vocab {
				return fmt.Errorf("%s: token id %d of a vocabulary of %d: %w", m.file.Name, id, m.config.Vocab, ErrBadToken)
			}
		}
		grow[r.Session] += len(r.Tokens)
	}
	for s, n := range grow {
		want := len(s.tokens) + n
		if want > m.options.Context {
			return fmt.Errorf("%s: %d tokens in a context of %d: %w", m.file.Name, want, m.options.Context, ErrContextFull)
		}
		if !m.pages.take(&s.pages, (want+op.PageTokens-1)/op.PageTokens) {
			return fmt.Errorf("%s: no cache pages left for %d positions: close a session or open the model with more sequences: %w", m.file.Name, want, ErrContextFull)
		}
	}
	return nil
}

// run evaluates one batch.
func (m *Model) run(ctx context.Context, run []entry, by chooser, output func(int, []float32, uint32)) (err error) {
	parts := partsOf(run)
	s := shape{n: len(run), chunks: 1, by: by}
	for _, t := range run {
		if t.wants {
			s.out++
		}
	}
	if m.config.Recurrent != nil {
		s.seqs = len(parts)
		if err := m.takeSlots(parts); err != nil {
			return err
		}
		defer func() { m.settle(parts, err == nil) }()
	}
	used := m.lay(run, parts, &s)
	s.spread = spreads(len(run), len(parts), s.chunks)
	p, err := m.program(s)
	if err != nil {
		return err
	}
	if err := m.x.Write(m.batch.Buffer, 0, wordBytes(m.words[:used])); err != nil {
		return err
	}
	m.last = p.Program
	first, end := read(run)
	room := make(chan []float32, 1)
	go func() { room <- touched((end - first) * p.logits.K) }() // while the device works
	if err := m.x.Run(ctx, p.Program); err != nil {
		return err
	}
	l, w := p.builder.Layout, m.words
	if err := m.x.Read(m.batch.Buffer, 0, wordBytes(w[:l.Members])); err != nil {
		return err
	}
	if w[0] != 0 {
		return fmt.Errorf("%s: the hidden state of a token: %w", m.file.Name, graph.ErrNonFinite)
	}
	rows, err := m.readRows(p, s.out, first, <-room)
	if err != nil {
		return err
	}
	out := 0
	for _, t := range run {
		if t.wants {
			best := w[l.Results+out]
			if (by == byLargest || by.draws()) && int(best) >= m.config.Vocab {
				return fmt.Errorf("%s: logits: %w", m.file.Name, graph.ErrNonFinite)
			}
			output(t.request, rows[out], best)
			out++
		}
	}
	for _, t := range run {
		t.session.advance(t.id)
	}
	return nil
}

// read tells of which outputs rows are read: from the first that is asked for to the last.
func read(run []entry) (first, end int) {
	out := 0
	for _, t := range run {
		if !t.wants {
			continue
		}
		if t.read {
			if end == 0 {
				first = out
			}
			end = out + 1
		}
		out++
	}
	return first, end
}

// touched returns n zeros whose pages are there: a row of a large vocabulary has 150, and
// the first copy to them took 0.4 ms.
func touched(n int) []float32 {
	a := make([]float32, n)
	for i := 0; i < n; i += os.Getpagesize() / 4 {
		a[i] = 0
	}
	return a
}

// readRows returns for each of so many outputs its logits or hidden state, nil for one that
// is not to be read. Those from the first on for which there is room are read at once.
func (m *Model) readRows(p *recorded, outputs, first int, room []float32) ([][]float32, error) {
	rows, width := make([][]float32, outputs), p.logits.K
	if len(room) == 0 {
		return rows, nil
	}
	buf, off := p.Place(p.logits.Value)
	if err := m.x.Read(buf, off+uint64(first*width)*4, floatBytes(room)); err != nil {
		return nil, err
	}
	for i := range len(room) / width {
		rows[first+i] = room[i*width:][:width:width]
	}
	return rows, nil
}

// part is the tokens of one session in a run.
type part struct {
	session      *Session
	first, count int
	write        []uint32 // the slot that the run writes state to
}

// partsOf lists the sessions of a run; of models with recurrent layers the tokens
// of a session lie together.
func partsOf(run []entry) (parts []*part) {
	of := map[*Session]*part{}
	for i, t := range run {
		p := of[t.session]
		if p == nil {
			p = &part{session: t.session, first: i}
			of[t.session], parts = p, append(parts, p)
		}
		p.count++
	}
	return parts
}

// lay writes the words of a batch and returns their number; it sets the shape's
// bound on chunks.
func (m *Model) lay(run []entry, parts []*part, s *shape) int {
	l, w := s.layout(), m.words
	clear(w[:l.Pages])
	type place struct{ index, table, pos int }
	of := map[*Session]*place{}
	next, out := l.Pages, 0
	for i, p := range parts {
		of[p.session] = &place{i, next, p.session.done}
		next += copy(w[next:], p.session.pages)
		if s.seqs > 0 {
			copy(w[l.Sequences+i*op.SequenceWords:], []uint32{uint32(p.first), uint32(p.count), p.session.slot(), p.write[0]})
		}
	}
	for i, t := range run {
		at := of[t.session]
		w[l.Tokens+i], w[l.Positions+i], w[l.Tables+i] = uint32(t.id), uint32(at.pos), uint32(at.table)
		if s.seqs > 0 {
			w[l.Members+i] = uint32(at.index)
		}
		for s.chunks*op.PageTokens <= at.pos {
			s.chunks *= 2
		}
		at.pos++
		if t.wants {
			w[l.Outputs+out], w[l.OutPositions+out], w[l.OutTables+out] = uint32(i), w[l.Positions+i], w[l.Tables+i]
			if s.by.draws() {
				t.draw.Pairs = next
				copy(w[l.Draws+out*op.DrawWords:], t.draw.Words())
				next += copy(w[next:], t.draw.pairs)
			}
			out++
		}
	}
	return next
}

// spreads reports whether the attention of n tokens of some sequences is split over
// chunks: at most two tokens of each, and little memory for the parts.
func spreads(n, sequences, chunks int) bool { return n <= 2*sequences && n*chunks <= maxParts }

const maxParts = 2048

func wordBytes(w []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*4)
}

func floatBytes(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), len(f)*4)
}

// shapeOf is the shape of a run of n tokens of some sessions, with out logits, at
// positions below context.
func (m *Model) shapeOf(n, out, sessions, context int) shape {
	s := shape{n: n, out: out, chunks: 1}
	if m.config.Recurrent != nil {
		s.seqs = sessions
	}
	for s.chunks*op.PageTokens < context {
		s.chunks *= 2
	}
	s.spread = spreads(n, sessions, s.chunks)
	return s
}

// Program records and compiles the graph of a batch for inspection and for
// comparisons node by node: n tokens with logits of the last out, at positions
// below context. The batch's words are those of the last Eval.
func (m *Model) Program(n, out, context int) (graph.Program, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(); err != nil {
		return nil, err
	}
	p, err := m.program(m.shapeOf(n, out, 1, context))
	if err != nil {
		return nil, err
	}
	return p.Program, nil
}

// Last returns the program of the last run, for inspection and profiles, nil before
// the first; the batch still holds that run's words. It is valid until the next run.
func (m *Model) Last() graph.Program {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}
