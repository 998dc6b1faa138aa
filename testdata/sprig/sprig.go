// Package sprig holds Sprig, the small ternary chat model that the binary
// carries. README.md says where it came from.
package sprig

import _ "embed"

// Model is the GGUF file.
//
//go:embed sprig-q2_0.gguf
var Model []byte

// Golden is golden.json: chats with their prompts, token ids and answers.
//
//go:embed golden.json
var Golden []byte
