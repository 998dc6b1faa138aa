package op

// Layout is where the words of a batch lie: what the host writes before a run
// and reads after it.
//
//	0         status: 1 if a value was not finite
//	1         number of values that saturated in a half
//	2..15     reserved
//	Tokens    ids, one a token
//	Positions in its sequence, one a token
//	Tables    for each token the word where its sequence's page list begins
//	Outputs   the tokens (by index in the batch) whose logits are wanted
//	Results   the chosen ids, one an output
//	Pages     page lists
type Layout struct {
	N, Out                                             int
	Tokens, Positions, Tables, Outputs, Results, Pages int
}

const batchHeader = 16

// NewLayout places n tokens and out outputs.
func NewLayout(n, out int) Layout {
	l := Layout{N: n, Out: out, Tokens: batchHeader}
	l.Positions = l.Tokens + n
	l.Tables = l.Positions + n
	l.Outputs = l.Tables + n
	l.Results = l.Outputs + out
	l.Pages = l.Results + out
	return l
}

// BatchWords is the number of words a batch of n tokens, out outputs and
// the given number of page entries takes.
func BatchWords(n, out, pages int) int { return NewLayout(n, out).Pages + pages }
