package plan

import (
	"fmt"
	"slices"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/spirv"
)

// Tape is what the resident kernel (glsl/resident.comp) runs instead of the nodes
// [From, To) of a graph: the forward pass of one token, a step for what would be one
// to three dispatches. The words are those of the nodes.
type Tape struct {
	From, To          int
	Steps             []Step
	Own               uint64       // bytes of the tape's own memory outside of arenas, which steps leave empty as they found it
	Arena             uint64       // bytes of one of the two arenas, for what passes from step to step
	Consts            *graph.Value // bound beside the tape
	Batch             *graph.Value
	Positions, Tables uint32    // where the batch has the token's position and its page table
	Heads             [3]uint32 // head dimension, kv heads, query heads of each
	Share             uint32    // blocks that share a scale, as a power of two
	Blocks            uint32    // of the longest product
	Hidden            uint32
	Kernel            *spirv.Kernel // that runs the tape, with so many workgroups: Plan.Tape fills them in
	Groups            uint32
}

// StepWords is the length of a step: numbers, then addresses of two words.
const (
	StepWords   = 32
	stepNumbers = 16
)

// Step is one step of a tape, in the words of glsl/resident.comp.
type Step struct {
	Words [stepNumbers]uint32
	Refs  [(StepWords - stepNumbers) / 2]Ref
}

// Ref is a place in memory.
type Ref struct {
	In     Memory
	Value  *graph.Value
	Offset uint64 // in the memory that is not a value's
}

// Memory is where a place lies.
type Memory int

// The memories of steps: none, a value's, the tape's own, the arena of the run and that
// of the next.
const (
	Nowhere Memory = iota
	InValue
	InOwn
	InArena
	InNextArena
)

// Empty is what every word of an arena holds before a run writes it.
const Empty = 0x7fedcba9

// Places of a step's words.
const (
	stepOp = iota
	stepIn
	stepRows
	stepBlocks
	stepFlags
	stepWeight
	stepInvK
	stepEps
	stepVBase
	stepKNorm
	stepRope
	stepQScale
	_
	stepChunks
)

// Places that mean something else in other steps.
const (
	stepToken  = stepVBase // embedding: in the batch
	stepQuads  = 9         // of an arena
	stepResult = stepVBase // choice: in the batch
	stepPlace  = 9         // of the token that is run, in the batch
	stepSlices = stepVBase // products: of a row
	stepUnits  = 9         // of 16 rows, of each workgroup
	stepMore   = 10        // the workgroups that have one more
	stepMost   = 11        // units whose sums are kept at once
	stepPer    = 12        // 2^20 over the slices of a unit
	stepNext   = 14        // from a slice to the team's next: units
	stepRest   = 15        // and slices
)

// Places of a step's references.
const (
	refCodes = iota
	refScales
	refX
	refY
	_
	refOut
)

const (
	opEmbed = iota
	opProduct
	opAttention
	opJoin
	opBest
	opChoose
)

const (
	inNorm = iota
	inJoin
	inRow
)

const (
	flagAdds = 1 << iota
	flagSilu
	flagCheck
)

// fewChunks is the bound on attention chunks up to which every workgroup joins them
// for itself; more are joined in a step of their own. unitDims are the dimensions of a
// head that are joined as one, partWords the words of a chunk of a unit: the values, its
// exponent and its sum of weights.
const (
	fewChunks = 4
	unitDims  = 32
	partWords = unitDims + 2
)

// TapeOf finds the part of a graph that the resident kernel can run, nil if there is
// none.
func TapeOf(g *graph.Graph) *Tape {
	for i, n := range g.Nodes {
		if n.Contract == "get_rows_q2_0" {
			r := tapeReader{nodes: g.Nodes, at: i, held: map[*graph.Value]Ref{}}
			r.From = i
			r.token()
			r.To = r.at
			r.Steps[0].Words[stepQuads] = uint32(r.Arena / 16)
			if !r.bad {
				return &r.Tape
			}
			return nil
		}
	}
	return nil
}

// tapeReader walks over the nodes and appends steps.
type tapeReader struct {
	Tape
	nodes []*graph.Node
	at    int
	bad   bool                 // the nodes are others than the kernel can run
	parts Ref                  // of many chunks, used by one layer after the other
	held  map[*graph.Value]Ref // where steps keep what nodes keep in values
}

func (r *tapeReader) want(ok bool) bool {
	r.bad = r.bad || !ok
	return !r.bad
}

func (r *tapeReader) is(contract string) bool {
	return !r.bad && r.at < len(r.nodes) && r.nodes[r.at].Contract == contract
}

// next takes a node of the given contract, arguments and push constants. It is an
// empty one if there is another.
func (r *tapeReader) next(contract string, args, push int) *graph.Node {
	if !r.want(r.is(contract) && len(r.nodes[r.at].Args) == args && len(r.nodes[r.at].Push) == push) {
		return &graph.Node{Args: make([]graph.Arg, args), Push: make([]uint32, push), Spec: make([]uint32, 3)}
	}
	r.at++
	return r.nodes[r.at-1]
}

const aligned = 256

// passes is a place in the arena for what a step gives to others.
func (r *tapeReader) passes(words uint32) Ref {
	ref := Ref{In: InArena, Offset: r.Arena}
	r.Arena += (uint64(words)*4 + aligned - 1) &^ (aligned - 1)
	return ref
}

func at(a graph.Arg) Ref { return Ref{In: InValue, Value: a.Value} }

// input is the begin of a product: how it makes the activations that the nodes
// hold in value.
type input struct {
	value *graph.Value
	Step
}

// token reads the nodes of one token: embedding, layers, head and, if the program
// chooses by the largest logit, that.
func (r *tapeReader) token() {
	n := r.next("get_rows_q2_0", 4, 4)
	r.want(n.Domain[1] == 1 && n.Push[2] == 0)
	r.Share, r.Batch, r.Hidden = n.Spec[0], n.Args[2].Value, n.Push[1]*64
	x := n.Args[3].Value // workgroups keep it, and what is added to it
	s := Step{}
	s.Words[stepOp], s.Words[stepRows], s.Words[stepBlocks], s.Words[stepToken] = opEmbed, n.Push[0], n.Push[1], n.Push[3]
	s.Refs[refCodes], s.Refs[refScales], s.Refs[refOut] = at(n.Args[0]), at(n.Args[1]), Ref{In: InNextArena}
	r.Steps = append(r.Steps, s)
	for r.is("rms_norm_i8") {
		qkv, _ := r.product(r.norm(x), true)
		r.product(r.attention(qkv), true)
		_, up := r.product(r.norm(x), true)
		r.product(up, true)
	}
	r.head(x)
	r.want(r.Consts != nil && r.Hidden%256 == 0)
}

// norm begins a product with a norm of x, after x += y if the node says so.
func (r *tapeReader) norm(x *graph.Value) input {
	n := r.next("rms_norm_i8", 4, 6)
	r.want(n.Push[0] == 1 && n.Push[1] == r.Hidden && n.Args[0].Value == x)
	r.Consts = n.Args[2].Value
	in := input{value: n.Args[3].Value}
	in.Words[stepIn], in.Words[stepWeight], in.Words[stepInvK], in.Words[stepEps] = inNorm, n.Push[2], n.Push[4], n.Push[5]
	if n.Push[3] != 0 {
		r.sum(&in, n.Args[1].Value)
	}
	return in
}

func (r *tapeReader) sum(in *input, y *graph.Value) {
	more, ok := r.held[y]
	r.want(ok)
	in.Words[stepFlags] |= flagAdds
	in.Refs[refX] = more
}

// product ends a product with its node, and takes silu(gate) * up along if that
// follows: then the input of the next product is returned as well. What passes to a
// step lies in the arena, else the value is for others.
func (r *tapeReader) product(in input, passes bool) (*graph.Value, input) {
	n := r.next("mul_mat_q2_0_i8", 4, 5)
	rows, blocks, y := n.Push[0], n.Push[2], n.Args[3].Value
	r.want(n.Args[2].Value == in.value && n.Push[1] == 1 && n.Push[3] == 0 && n.Push[4] == rows && n.Spec[2] == r.Share)
	r.Blocks = max(r.Blocks, blocks)
	s := in.Step
	next := input{}
	if r.is("silu_mul_i8") {
		m := r.next("silu_mul_i8", 2, 2)
		r.want(m.Args[0].Value == y && m.Push[1]*2 == rows)
		rows /= 2
		y, s.Words[stepFlags] = m.Args[1].Value, s.Words[stepFlags]|flagSilu
		next.value, next.Words[stepIn] = y, inRow
	}
	s.Words[stepOp], s.Words[stepRows], s.Words[stepBlocks] = opProduct, rows, blocks
	s.Refs[refCodes], s.Refs[refScales] = at(n.Args[0]), at(n.Args[1])
	if s.Refs[refOut] = at(n.Args[3]); passes {
		s.Refs[refOut] = r.passes(rows)
	}
	r.held[y], next.Refs[refX] = s.Refs[refOut], s.Refs[refOut]
	r.Steps = append(r.Steps, s)
	return y, next
}

// attention reads the nodes of a token's attention and begins the product behind it.
func (r *tapeReader) attention(qkv *graph.Value) input {
	rope, part, join := r.next("qkv_rope_cache_f16", 4, 11), r.next("attention_part_f16", 4, 5), r.next("attention_join_i8", 3, 4)
	heads := [3]uint32{rope.Spec[0], rope.Spec[1], part.Spec[2]}
	r.want(rope.Args[0].Value == qkv && part.Args[0].Value == qkv && join.Args[0].Value == part.Args[3].Value && join.Push[0] == 1)
	r.want(heads[0] == 128 && rope.Spec[2] == heads[0] && rope.Push[0] == heads[1]*heads[2])
	r.want(r.Heads == heads || r.Heads == [3]uint32{})
	r.Heads = heads
	chunks := part.Push[0]
	words := heads[1] * heads[2] * chunks * heads[0] / unitDims * partWords
	r.Positions, r.Tables = rope.Push[2], rope.Push[3]
	s := Step{}
	s.Words[stepOp], s.Words[stepChunks] = opAttention, chunks
	s.Words[stepVBase], s.Words[stepWeight], s.Words[stepKNorm], s.Words[stepRope] = rope.Push[4], rope.Push[5], rope.Push[6], rope.Push[7]
	s.Words[stepInvK], s.Words[stepEps], s.Words[stepQScale] = rope.Push[8], rope.Push[9], rope.Push[10]
	s.Refs[refX], s.Refs[refY] = r.held[qkv], at(rope.Args[1])
	in := input{value: join.Args[2].Value}
	if chunks <= fewChunks {
		s.Refs[refOut] = r.passes(words)
		r.Steps = append(r.Steps, s)
		in.Words[stepIn], in.Words[stepChunks], in.Refs[refX] = inJoin, chunks, s.Refs[refOut]
		return in
	}
	if r.parts.In == Nowhere {
		r.parts, r.Own = Ref{In: InOwn}, uint64(words)*4
	}
	s.Refs[refOut] = r.parts
	joined := Step{}
	joined.Words[stepOp], joined.Words[stepChunks] = opJoin, chunks
	joined.Refs[refX], joined.Refs[refOut] = r.parts, r.passes(heads[0]*heads[1]*heads[2])
	r.Steps = append(r.Steps, s, joined)
	in.Words[stepIn], in.Refs[refX] = inRow, joined.Refs[refOut]
	return in
}

// head reads the last sum, the norm and the head.
func (r *tapeReader) head(x *graph.Value) {
	check, pick := r.next("add_check_f32", 3, 1), r.next("pick_rows_f32", 3, 2)
	r.want(check.Args[0].Value == x && check.Push[0] == r.Hidden && pick.Args[0].Value == x && pick.Push[0] == r.Hidden && pick.Domain[1] == 1)
	in := r.norm(pick.Args[2].Value)
	r.sum(&in, check.Args[1].Value)
	in.Words[stepFlags] |= flagCheck
	logits, _ := r.product(in, false)
	if !r.is("argmax_f32") {
		return
	}
	n := r.next("argmax_f32", 2, 2)
	r.want(n.Args[0].Value == logits && n.Domain[0] == 1)
	best := Step{}
	best.Words[stepOp], best.Words[stepRows] = opBest, n.Push[0]
	best.Refs[refX], best.Refs[refOut] = r.held[logits], r.passes(2*maxResident)
	choose := Step{}
	choose.Words[stepOp], choose.Words[stepResult], choose.Words[stepPlace] = opChoose, n.Push[1], r.Steps[0].Words[stepToken]
	choose.Refs[refX] = best.Refs[refOut]
	r.Steps = append(r.Steps, best, choose)
}

// Replaces reports whether a contract is one of those whose nodes go into tapes.
func Replaces(contract string) bool {
	return slices.Contains([]string{"get_rows_q2_0", "rms_norm_i8", "mul_mat_q2_0_i8", "qkv_rope_cache_f16", "attention_part_f16", "attention_join_i8",
		"silu_mul_i8", "add_check_f32", "pick_rows_f32", "argmax_f32"}, contract)
}

// maxResident bounds the workgroups of the resident kernel.
const maxResident = 1024

// residents is the number of workgroups of a resident kernel, which the device surely
// holds at once: one for each processor, or a single one where those are not known.
func (p *Plan) residents() uint32 {
	if p.Type == CPU || p.Processors == 0 {
		return 1
	}
	return min(p.Processors, maxResident)
}

// Tape is TapeOf for this device, with the shares of its workgroups: nil if it does
// not run tapes, if one of the contracts is to be run by an implementation of the
// user's choice, or if shared memory is too small.
func (p *Plan) Tape(g *graph.Graph) *Tape {
	if !p.Has("resident") {
		return nil
	}
	for contract := range p.kernels {
		if Replaces(contract) {
			return nil
		}
	}
	t := TapeOf(g)
	if t == nil {
		return nil
	}
	var err error
	if t.Kernel, err = p.Choose(t.Contract(), [2]uint32{1, 1}); err != nil || t.Kernel.Impl == "" && p.Type != CPU || !p.fits(t) {
		return nil // the device lacks something that single dispatches can do without
	}
	t.Groups = p.residents()
	groups, local := t.Groups, t.Kernel.LocalSize[0]
	for i := range t.Steps {
		s := &t.Steps[i]
		switch s.Words[stepOp] {
		case opBest: // of the rows that the workgroup made
			before := &t.Steps[i-1]
			s.Words[stepUnits], s.Words[stepMore] = before.Words[stepUnits], before.Words[stepMore]
		case opProduct:
			units, slices := (s.Words[stepRows]+unitRows-1)/unitRows, (s.Words[stepBlocks]+7)/8
			s.Words[stepUnits], s.Words[stepMore], s.Words[stepSlices] = units/groups, units%groups, slices
			if s.Words[stepFlags]&flagSilu != 0 {
				slices *= 2
			}
			teams, mine := local/t.team(), (units+groups-1)/groups
			s.Words[stepNext], s.Words[stepRest] = teams/slices, teams%slices
			s.Words[stepMost], s.Words[stepPer] = most(t.room()*4/unitRows/slices, mine, slices, teams), (1<<20+slices-1)/slices
			if s.Words[stepMost] == 0 || teams*slices >= 1<<20 {
				return nil // too much for shared memory, or for the kernel's division
			}
		}
	}
	return t
}

// unitRows are the rows that workgroups take at once.
const unitRows = 16

// team is the number of invocations that take a slice of a unit's rows.
func (t *Tape) team() uint32 {
	if slices.Contains(t.Kernel.Defines, "SHUFFLE") {
		return 2 * unitRows
	}
	return unitRows
}

// most is the number of units up to limit of a pass: all that a workgroup has, or as
// many as make whole rounds, so that what is loaded ahead is what comes next. 0 if
// there is no such number.
func most(limit, mine, slices, round uint32) uint32 {
	if mine <= limit {
		return max(mine, 1)
	}
	for n := limit; n > 0; n-- {
		if n*slices%round == 0 {
			return n
		}
	}
	return 0
}

// Contract names the kernel that runs the tape: it depends on the query heads that
// share a kv head.
func (t *Tape) Contract() string { return fmt.Sprintf("resident_gqa%d", t.Heads[2]) }

// roomUnits are the units of the longest product whose sums of slices shared memory has
// room for: whole rounds for any number of slices.
const roomUnits = 16

// room is the shared memory of the resident kernel, besides activations, in vectors of
// four: for sums of slices, a row of hidden width, queries and weights of attention.
func (t *Tape) room() uint32 {
	local := t.Kernel.LocalSize[0]
	attention := max(t.Heads[0]*8, local/32*t.Heads[2]*16) + t.Heads[2]*t.Heads[0]/2 + t.Heads[0]*3/4 + t.Heads[2]*16
	batch := (min(5*(local/8-8), 160) + 31) &^ 31 // of chunks that are joined
	join := batch*(unitDims/4+1) + batch/2
	return (max(local*2, t.Hidden/4, roomUnits*unitRows*t.blocks()/8/4, attention, join) + 127) &^ 127
}

// full is 1 if all products have whole slices.
func (t *Tape) full() uint32 {
	for _, s := range t.Steps {
		if s.Words[stepOp] == opProduct && s.Words[stepBlocks]%8 != 0 {
			return 0
		}
	}
	return 1
}

// blocks are those of the longest product in whole slices.
func (t *Tape) blocks() uint32 { return (t.Blocks + 7) &^ 7 }

func (p *Plan) fits(t *Tape) bool {
	room := t.room()
	shared := t.blocks()*(64+8) + room*16 + (256+2*StepWords)*4
	if p.Type == CPU { // without subgroups
		shared += t.Kernel.LocalSize[0] * 16
	}
	return shared <= p.Limits.SharedBytes
}

// Spec is the specialisation of the resident kernel for the tape.
func (t *Tape) Spec() []uint32 {
	return []uint32{0, t.Heads[1], t.blocks(), t.room(), t.Hidden, t.Share, t.full()}
}
