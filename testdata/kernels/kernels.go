// Package kernels holds literal test vectors of the kernel contracts. README.md
// says where they came from.
package kernels

import "embed"

// Files has CONTRACT.txt for every contract.
//
//go:embed *.txt
var Files embed.FS
