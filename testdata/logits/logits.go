// Package logits holds golden hashes of logits: what every device must give for
// a model, bit for bit. README.md says how they are made.
package logits

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed hashes.txt
var hashes string

// Golden is a line of hashes.txt.
type Golden struct {
	Model       string // its name, for people
	File        string // SHA-256 of the file, in hex
	Activations string // int8, f16 or f32
	Arithmetic  int    // version of the rules
	Tokens      int    // length of the sequence, 0: the prompts of Sprig's golden.json
	Hash        string // SHA-256 of the logits, in hex
}

// All returns the golden hashes.
func All() ([]Golden, error) {
	var list []Golden
	for i, line := range strings.Split(hashes, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		var g Golden
		if _, err := fmt.Sscan(line, &g.Model, &g.File, &g.Activations, &g.Arithmetic, &g.Tokens, &g.Hash); err != nil {
			return nil, fmt.Errorf("hashes.txt: line %d: %w", i+1, err)
		}
		list = append(list, g)
	}
	return list, nil
}
