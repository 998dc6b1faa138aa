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
	Own               uint64       // bytes of the tape's own memory, for what passes from step to step
	Consts            *graph.Value // bound beside the tape
	Batch             *graph.Value
	Positions, Tables uint32    // where the batch has the token's position and its page table
	Heads             [3]uint32 // head dimension, kv heads, query heads of each
	Share             uint32    // blocks that share a scale, as a power of two
	Blocks            uint32    // of the longest product
	Hidden            uint32
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

// Ref is a place in memory: a value's, or, without a value, of the tape's own memory.
type Ref struct {
	Value *graph.Value
	Own   uint64
	set   bool
}

// Set reports whether the step uses the reference.
func (r Ref) Set() bool { return r.set }

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
	stepResult = stepVBase // choice: in the batch
	stepSlices = stepVBase // products: of a row
	stepUnits  = 9         // of 16 rows, of each workgroup
	stepMore   = 10        // the workgroups that have one more
	stepMost   = 11        // slices whose sums are kept at once
	stepPer    = 12        // 2^18 over the slices of a unit
)

// Places of a step's references.
const (
	refCodes = iota
	refScales
	refX
	refY
	refXOut
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
// for itself instead of meeting once more.
const fewChunks = 4

// TapeOf finds the part of a graph that the resident kernel can run, nil if there is
// none.
func TapeOf(g *graph.Graph) *Tape {
	for i, n := range g.Nodes {
		if n.Contract == "get_rows_q2_0" {
			r := tapeReader{nodes: g.Nodes, at: i, held: map[*graph.Value]Ref{}, rooms: map[string]Ref{}}
			r.From = i
			r.token()
			r.To = r.at
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
	held  map[*graph.Value]Ref // where steps keep what nodes keep in values
	rooms map[string]Ref       // of the tape's memory, used by one layer after the other
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

// room is a place of the tape's own memory.
func (r *tapeReader) room(name string, bytes uint64) Ref {
	if ref, ok := r.rooms[name]; ok {
		return ref
	}
	ref := Ref{Own: r.Own, set: true}
	r.Own += (bytes + 255) &^ 255
	r.rooms[name] = ref
	return ref
}

func at(a graph.Arg) Ref { return Ref{Value: a.Value, set: true} }

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
	x := n.Args[3].Value
	r.held[x] = r.room("x", uint64(r.Hidden)*4)
	s := Step{}
	s.Words[stepOp], s.Words[stepBlocks], s.Words[stepToken] = opEmbed, n.Push[1], n.Push[3]
	s.Refs[refCodes], s.Refs[refScales], s.Refs[refOut] = at(n.Args[0]), at(n.Args[1]), r.held[x]
	r.Steps = append(r.Steps, s)
	for r.is("rms_norm_i8") {
		qkv, _ := r.product(r.norm(x), "qkv")
		r.product(r.attention(qkv), "o")
		_, up := r.product(r.norm(x), "up")
		r.product(up, "down")
	}
	r.head(x)
	r.want(r.Consts != nil && r.Hidden%256 == 0)
}

// norm begins a product with a norm of x, after x += y if the node says so. As all
// workgroups read x, the sum goes to another place.
func (r *tapeReader) norm(x *graph.Value) input {
	n := r.next("rms_norm_i8", 4, 6)
	r.want(n.Push[0] == 1 && n.Push[1] == r.Hidden && n.Args[0].Value == x)
	r.Consts = n.Args[2].Value
	in := input{value: n.Args[3].Value}
	in.Words[stepIn], in.Words[stepWeight], in.Words[stepInvK], in.Words[stepEps] = inNorm, n.Push[2], n.Push[4], n.Push[5]
	in.Refs[refX], in.Refs[refY], in.Refs[refXOut] = r.held[x], r.held[x], r.held[x]
	if n.Push[3] != 0 {
		r.sum(&in, x, n.Args[1].Value)
	}
	return in
}

func (r *tapeReader) sum(in *input, x, y *graph.Value) {
	more, ok := r.held[y]
	r.want(ok)
	name := "x"
	if r.held[x] == r.rooms["x"] {
		name = "x, in turns"
	}
	r.held[x] = r.room(name, uint64(r.Hidden)*4)
	in.Words[stepFlags] |= flagAdds
	in.Refs[refY], in.Refs[refXOut] = more, r.held[x]
}

// product ends a product with its node, and takes silu(gate) * up along if that
// follows: then the input of the next product is returned as well.
func (r *tapeReader) product(in input, name string) (*graph.Value, input) {
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
	if s.Refs[refOut] = at(n.Args[3]); name != "" {
		s.Refs[refOut] = r.room(name, uint64(rows)*4)
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
	chunks, parts := part.Push[0], Ref{}
	r.Positions, r.Tables = rope.Push[2], rope.Push[3]
	if !r.bad {
		parts = r.room("parts", part.Args[3].Bytes)
	}
	s := Step{}
	s.Words[stepOp], s.Words[stepChunks] = opAttention, chunks
	s.Words[stepVBase], s.Words[stepWeight], s.Words[stepKNorm], s.Words[stepRope] = rope.Push[4], rope.Push[5], rope.Push[6], rope.Push[7]
	s.Words[stepInvK], s.Words[stepEps], s.Words[stepQScale] = rope.Push[8], rope.Push[9], rope.Push[10]
	s.Refs[refX], s.Refs[refY], s.Refs[refOut] = r.held[qkv], at(rope.Args[1]), parts
	r.Steps = append(r.Steps, s)

	in := input{value: join.Args[2].Value}
	in.Words[stepIn], in.Words[stepChunks], in.Refs[refX] = inJoin, chunks, parts
	if chunks > fewChunks {
		s := in.Step
		s.Words[stepOp], s.Refs[refOut] = opJoin, r.room("joined", uint64(heads[0]*heads[1]*heads[2])*4)
		r.Steps = append(r.Steps, s)
		in = input{value: in.value}
		in.Words[stepIn], in.Refs[refX] = inRow, s.Refs[refOut]
	}
	return in
}

// head reads the last sum, the norm and the head.
func (r *tapeReader) head(x *graph.Value) {
	check, pick := r.next("add_check_f32", 3, 1), r.next("pick_rows_f32", 3, 2)
	r.want(check.Args[0].Value == x && check.Push[0] == r.Hidden && pick.Args[0].Value == x && pick.Push[0] == r.Hidden && pick.Domain[1] == 1)
	picked := pick.Args[2].Value
	r.held[picked] = r.held[x]
	in := r.norm(picked)
	r.sum(&in, picked, check.Args[1].Value)
	in.Words[stepFlags] |= flagCheck
	logits, _ := r.product(in, "")
	if !r.is("argmax_f32") {
		return
	}
	n := r.next("argmax_f32", 2, 2)
	r.want(n.Args[0].Value == logits && n.Domain[0] == 1)
	best := Step{}
	best.Words[stepOp], best.Words[stepRows] = opBest, n.Push[0]
	best.Refs[refX], best.Refs[refOut] = r.held[logits], r.room("best", 8*maxResident)
	choose := Step{}
	choose.Words[stepOp], choose.Words[stepResult] = opChoose, n.Push[1]
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

// Resident is the number of workgroups that the device surely holds at once, and
// their size: one for each processor, or a single one where these are not known.
func (p *Plan) Resident() (groups, local uint32) {
	if p.Type == CPU {
		return 1, 128
	}
	return min(max(p.Processors, 1), maxResident), 512
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
	if t == nil || !p.fits(t) || spirv.Contract(t.Contract()) == nil {
		return nil
	}
	groups, local := p.Resident()
	for i := range t.Steps {
		if s := &t.Steps[i]; s.Words[stepOp] == opProduct {
			units, slices := (s.Words[stepRows]+15)/16, (s.Words[stepBlocks]+7)/8
			s.Words[stepUnits], s.Words[stepMore], s.Words[stepSlices] = units/groups, units%groups, slices
			if s.Words[stepFlags]&flagSilu != 0 {
				slices *= 2
			}
			step, mine := local/16, (units+groups-1)/groups
			per, ok := reciprocal(slices, mine*slices)
			s.Words[stepMost], s.Words[stepPer] = most(p.room(t)/4, slices, step), per
			if !ok || mine*slices > s.Words[stepMost] && s.Words[stepMost]%step != 0 {
				return nil // too much for one workgroup, or what is loaded ahead would not be what comes next
			}
		}
	}
	return t
}

// reciprocal is the factor r with which the kernel divides: i*r>>18 = i/per for all i up
// to most, in 32 bits; false if most is too large for that.
func reciprocal(per, most uint32) (r uint32, ok bool) {
	return (1<<18 + per - 1) / per, uint64(most)*uint64(per) < 1<<18 && most/per < 1<<14
}

// most is the largest multiple of per within limit that, if possible, is one of step
// as well.
func most(limit, per, step uint32) uint32 {
	for n := limit / per * per; n > 0; n -= per {
		if n%step == 0 {
			return n
		}
	}
	return max(limit/per, 1) * per
}

// Contract names the kernel that runs the tape: it depends on the query heads that
// share a kv head.
func (t *Tape) Contract() string { return fmt.Sprintf("resident_gqa%d", t.Heads[2]) }

// room is the shared memory of the resident kernel, besides activations, in vectors of
// four: for sums of slices, a row of hidden width, queries and weights of attention.
func (p *Plan) room(t *Tape) uint32 {
	_, local := p.Resident()
	slices := (t.Blocks + 7) / 8
	attention := t.Heads[2]*t.Heads[0]/4 + t.Heads[0]*3/4 + local/32*t.Heads[2]*16
	return (max(local, local*2, t.Hidden/4, 2*4*slices, attention) + 127) &^ 127
}

func (p *Plan) fits(t *Tape) bool {
	_, local := p.Resident()
	room := p.room(t)
	shared := t.Blocks*(64+8) + room*16 + (256+2*StepWords+2*local)*4 + min(local, room/8)*16
	return shared <= p.Limits.SharedBytes
}

// Spec is the specialisation of the resident kernel for a tape.
func (p *Plan) Spec(t *Tape) []uint32 {
	return []uint32{0, t.Heads[1], t.Blocks, p.room(t), t.Hidden, t.Share}
}
