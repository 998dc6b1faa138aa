package op

// Layout is where the words of a batch lie: what the host writes before a run
// and reads after it.
//
//	0         status: 1 if a value was not finite
//	1         number of values that saturated in a half
//	2         0, or where the resident kernel lists the token that it chooses; it then
//	          also sets Tokens and Positions to what the next run is of, and this word
//	          to the next
//	3..15     reserved
//	Tokens    ids, one a token
//	Positions in its sequence, one a token
//	Tables    for each token the word where its sequence's page list begins
//	Outputs   the tokens (by index in the batch) whose logits are wanted
//	Results   the chosen ids, one an output
//	OutPositions, OutTables: Positions and Tables of the outputs' tokens
//	Members   for models with recurrent layers: the sequence of each token, by
//	          index of its record
//	Sequences the records: first token, number of tokens, slot of the state to
//	          read ([Fresh]: none), slot to write
//	Draws     with WithDraws, the records of how the outputs' tokens are drawn ([Draw])
//	Pages     page lists, and after them the tokens that records of draws penalise
type Layout struct {
	N, Out, Seqs                                       int // tokens, outputs, records
	Tokens, Positions, Tables, Outputs, Results, Pages int
	OutPositions, OutTables                            int
	Members, Sequences, Draws                          int
}

// Fresh is the slot to read of a sequence that begins.
const Fresh = 0xffff_ffff

// SequenceWords is the length of a sequence's record.
const SequenceWords = 4

const batchHeader = 16

// Follow is the word of a batch that asks for that.
const Follow = 2

// NewLayout places n tokens and out outputs, without records of sequences.
func NewLayout(n, out int) Layout { return NewSequenceLayout(n, out, 0) }

// NewSequenceLayout places n tokens, out outputs and seqs records of sequences.
func NewSequenceLayout(n, out, seqs int) Layout {
	l := Layout{N: n, Out: out, Seqs: seqs, Tokens: batchHeader}
	l.Positions = l.Tokens + n
	l.Tables = l.Positions + n
	l.Outputs = l.Tables + n
	l.Results = l.Outputs + out
	l.OutPositions = l.Results + out
	l.OutTables = l.OutPositions + out
	l.Members = l.OutTables + out
	l.Sequences = l.Members + min(seqs, 1)*n
	l.Pages = l.Sequences + seqs*SequenceWords
	return l
}

// WithDraws adds a record of a draw for each output.
func (l Layout) WithDraws() Layout {
	l.Draws = l.Pages
	l.Pages += l.Out * DrawWords
	return l
}

// LastIsShort reports whether what follows the cache of the last layer is of fewer tokens than
// the batch has: of those whose logits are wanted. One token goes whole (plan.Tape).
func (l Layout) LastIsShort() bool { return l.Out < l.N && l.N > 1 }

// BatchWords is the number of words a batch of n tokens, out outputs and
// the given number of page entries takes.
func BatchWords(n, out, pages int) int { return NewLayout(n, out).Pages + pages }
