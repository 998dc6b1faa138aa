// Package rope makes the tables of rotary position embeddings (RoPE), with YaRN
// scaling, on the host: the same words on every machine.
package rope

import (
	"math"

	"github.com/ternvk/tern/runtime/parallel"
)

// Config describes the rotation of one model.
type Config struct {
	Dim  int     // rotated dimensions of a head; pairs are (i, i + Dim/2)
	Base float64 // frequency base
	// YaRN; Factor 0 or 1 means none.
	Factor                float64
	Original              int     // context length before scaling
	ExtFactor, AttnFactor float64 // 1, 1 by default
	BetaFast, BetaSlow    float64 // 32, 1 by default
}

// Frequencies returns the angle per position of each of the Dim/2 pairs, and
// the magnitude by which cos and sin are multiplied.
//
// With YaRN (arXiv 2309.00071, as llama.cpp computes it), pair i turns by
// base^(-2i/dim) * (mix + (1-mix)/factor), mix falling from ExtFactor to 0
// between the pairs low = floor(corr(beta_fast)) and high = ceil(corr(beta_slow)),
// corr(r) = dim * ln(original / (2 pi r)) / (2 ln base); the magnitude is
// attn_factor * (1 + 0.1 ln factor). It holds from position 0 on.
func (c Config) Frequencies() (freq []float64, magnitude float64) {
	freq = make([]float64, c.Dim/2)
	lnBase := ln(c.Base)
	for i := range freq {
		freq[i] = exp(float64(-2*float64(i)*lnBase) / float64(c.Dim))
	}
	magnitude = c.AttnFactor
	if c.Factor == 0 || c.Factor == 1 {
		return freq, magnitude
	}
	corr := func(r float64) float64 {
		return float64(float64(c.Dim)*ln(float64(c.Original)/float64(2*math.Pi*r))) / float64(2*lnBase)
	}
	low := max(0, math.Floor(corr(c.BetaFast)))
	high := min(float64(c.Dim-1), math.Ceil(corr(c.BetaSlow)))
	for i, f := range freq {
		ramp := (float64(i) - low) / max(0.001, high-low)
		mix := float64((1 - min(max(ramp, 0), 1)) * c.ExtFactor)
		freq[i] = float64(float64(f/c.Factor)*(1-mix)) + float64(f*mix)
	}
	if c.ExtFactor != 0 {
		magnitude = float64(magnitude * (1 + float64(0.1*ln(c.Factor))))
	}
	return freq, magnitude
}

// Table returns (cos, sin) pairs for positions 0..n-1: float32 [n][Dim/2][2].
func (c Config) Table(n int) []float32 {
	freq, magnitude := c.Frequencies()
	table := make([]float32, n*c.Dim)
	parallel.For(n, func(pos int) {
		row := table[pos*c.Dim:]
		for i, f := range freq {
			s, co := sincos(float64(float64(pos) * f))
			row[2*i], row[2*i+1] = float32(float64(co*magnitude)), float32(float64(s*magnitude))
		}
	})
	return table
}
