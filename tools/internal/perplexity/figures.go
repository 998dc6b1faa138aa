// Package perplexity scores logits: how well a model foresees a text, and how far it
// is from another model that did the same. The figures, the file of base logits and
// the rules of what is scored are those of llama.cpp's perplexity tool, so that
// numbers can be compared and files exchanged.
//
// A text is cut into chunks of as many tokens as the context has, without overlap;
// the rest is dropped. Of each chunk the second half is scored: with n tokens, row i
// of the logits, for i from n/2 to n-2, foretells token i+1.
package perplexity

import (
	"cmp"
	"math"
	"slices"
)

// First is the first position of a chunk of n tokens whose logits are scored.
func First(n int) int { return n / 2 }

// Scored is the number of positions of a chunk that are scored.
func Scored(n int) int { return n - 1 - First(n) }

// Score is what is known of one scored token.
type Score struct {
	NLL float64 // -ln of the probability that the model gave to the token
	// Against a base only:
	BaseNLL float64
	KL      float64 // divergence of the model from the base over the vocabulary
	SameTop bool    // both find the same token likeliest
}

// DeltaP is the model's probability of the token less the base's.
func (s Score) DeltaP() float64 { return math.Exp(-s.NLL) - math.Exp(-s.BaseNLL) }

// LogSumExp is ln of the sum of the exponentials of logits.
func LogSumExp(logits []float32) float64 {
	top, sum := float64(slices.Max(logits)), 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	return top + math.Log(sum)
}

// Of scores a row of logits that foretells token.
func Of(logits []float32, token int32) Score {
	return Score{NLL: LogSumExp(logits) - float64(logits[token])}
}

// least is the log-probability of the base at or below which the divergence leaves
// a token out.
const least = -16

// Against scores a row of logits also against the base's row.
func Against(logits []float32, token int32, base Row) Score {
	norm := LogSumExp(logits)
	s := Score{NLL: norm - float64(logits[token]), BaseNLL: -base.LogProb(int(token))}
	top, baseTop := 0, 0
	for i, l := range logits {
		if l > logits[top] {
			top = i
		}
		if base.Levels[i] > base.Levels[baseTop] {
			baseTop = i
		}
		if p := base.LogProb(i); p > least {
			s.KL += math.Exp(p) * (p - (float64(l) - norm))
		}
	}
	s.SameTop = top == baseTop
	return s
}

// Measure is a number with its standard error.
type Measure struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"`
}

func mean(values []float64) (m Measure) {
	n := float64(len(values))
	var sum2 float64
	for _, v := range values {
		m.Value += v
		sum2 += v * v
	}
	m.Value /= n
	m.Error = deviation(sum2/n-m.Value*m.Value, n)
	return m
}

// deviation is the standard error of a mean of n numbers of that variance.
func deviation(variance, n float64) float64 {
	if variance <= 0 || n < 2 {
		return 0
	}
	return math.Sqrt(variance / (n - 1))
}

// Quantile is a value below which a share of all lie.
type Quantile struct {
	Share float64 `json:"share"`
	Value float64 `json:"value"`
}

// quantiles are interpolated between neighbours; 1 is the largest value, 0 the least.
func quantiles(values []float64, shares ...float64) (list []Quantile) {
	sorted := slices.SortedFunc(slices.Values(values), cmp.Compare[float64])
	for _, s := range shares {
		at := s * float64(len(sorted)-1)
		i := int(at)
		v := sorted[i]
		if f := at - float64(i); f > 0 {
			v = (1-f)*v + f*sorted[i+1]
		}
		list = append(list, Quantile{s, v})
	}
	return list
}

// Figures are what a run found.
type Figures struct {
	Tokens int     `json:"tokens"` // scored
	PPL    Measure `json:"ppl"`
	// Against a base only:
	*Comparison
}

// Comparison is a model against a base.
type Comparison struct {
	BasePPL     Measure    `json:"ppl_base"`
	Correlation float64    `json:"correlation"` // of ln PPL, -1 to 1
	LnRatio     Measure    `json:"ln_ppl_ratio"`
	Ratio       Measure    `json:"ppl_ratio"`
	Difference  Measure    `json:"ppl_difference"`
	KL          Measure    `json:"kl"`
	KLQuantiles []Quantile `json:"kl_quantiles"`
	DeltaP      Measure    `json:"delta_p"`
	DeltaPs     []Quantile `json:"delta_p_quantiles"`
	RMS         Measure    `json:"rms_delta_p"`
	SameTop     Measure    `json:"same_top_p"`
}

// Summarise sums up scores, of which there must be some.
func Summarise(scores []Score, withBase bool) Figures {
	nll := column(scores, func(s Score) float64 { return s.NLL })
	q := mean(nll)
	f := Figures{Tokens: len(scores), PPL: ppl(q)}
	if withBase {
		f.Comparison = compare(scores, nll, q, f.PPL)
	}
	return f
}

func column(scores []Score, f func(Score) float64) []float64 {
	list := make([]float64, len(scores))
	for i, s := range scores {
		list[i] = f(s)
	}
	return list
}

// ppl is the perplexity of a mean negative log-likelihood.
func ppl(nll Measure) Measure {
	p := math.Exp(nll.Value)
	return Measure{p, p * nll.Error}
}

func compare(scores []Score, nll []float64, q Measure, qPPL Measure) *Comparison {
	n := float64(len(scores))
	baseNLL := column(scores, func(s Score) float64 { return s.BaseNLL })
	b := mean(baseNLL)
	product := 0.0
	for i, v := range nll {
		product += v * baseNLL[i]
	}
	covariance := 0.0 // of the two means
	if n >= 2 {
		covariance = (product/n - q.Value*b.Value) / (n - 1)
	}
	kl := column(scores, func(s Score) float64 { return s.KL })
	dp := column(scores, Score.DeltaP)
	c := &Comparison{
		BasePPL: ppl(b), KL: mean(kl), DeltaP: mean(dp),
		KLQuantiles: quantiles(kl, 1, .999, .99, .95, .9, .5, .1, .05, .01, .001, 0),
		DeltaPs:     quantiles(dp, 1, .999, .99, .95, .9, .75, .5, .25, .1, .05, .01, .001, 0),
	}
	if q.Error > 0 && b.Error > 0 {
		c.Correlation = covariance / (q.Error * b.Error)
	}
	c.LnRatio = Measure{q.Value - b.Value, root(q.Error*q.Error + b.Error*b.Error - 2*covariance)}
	ratio := math.Exp(c.LnRatio.Value)
	c.Ratio = Measure{ratio, ratio * c.LnRatio.Error}
	c.Difference = Measure{qPPL.Value - c.BasePPL.Value,
		root(qPPL.Error*qPPL.Error + c.BasePPL.Error*c.BasePPL.Error - 2*qPPL.Value*c.BasePPL.Value*covariance)}
	squares := mean(column(scores, func(s Score) float64 { return s.DeltaP() * s.DeltaP() }))
	if c.RMS.Value = math.Sqrt(squares.Value); c.RMS.Value > 0 {
		c.RMS.Error = squares.Error / (2 * c.RMS.Value)
	}
	c.SameTop = mean(column(scores, func(s Score) float64 {
		if s.SameTop {
			return 1
		}
		return 0
	}))
	return c
}

// root is 0 for what rounding made negative.
func root(v float64) float64 { return math.Sqrt(max(v, 0)) }
