package spirv

import "fmt"

// Magic is the first word of every SPIR-V module.
const Magic = 0x07230203

const headerWords = 5

// Instruction is one instruction of a module. Operands share the module's words.
type Instruction struct {
	Op       Op
	Operands []uint32 // everything after the first word: result type and result id come first where there are any
	Offset   int      // index of the instruction's first word in the module
}

// Module is a parsed SPIR-V module.
type Module struct {
	Version      uint32 // 0x00010300 is SPIR-V 1.3
	Bound        uint32 // every id is below it
	Instructions []Instruction
}

// Parse splits the words of a module into instructions. It checks the header,
// the lengths and the operand counts of the opcodes that this package reads,
// nothing else: spirv-val is the validator.
func Parse(words []uint32) (*Module, error) {
	if len(words) < headerWords {
		return nil, fmt.Errorf("spirv: %d words, shorter than a module header", len(words))
	}
	if words[0] != Magic {
		return nil, fmt.Errorf("spirv: magic number %#08x, want %#08x", words[0], uint32(Magic))
	}
	m := &Module{Version: words[1], Bound: words[3]}
	for at := headerWords; at < len(words); {
		n := int(words[at] >> 16)
		op := Op(words[at] & 0xffff)
		if n == 0 || n > len(words)-at {
			return nil, fmt.Errorf("spirv: word %d: %v of %d words, %d are left", at, op, n, len(words)-at)
		}
		if n-1 < minOperands[op] {
			return nil, fmt.Errorf("spirv: word %d: %v with %d operands, want at least %d", at, op, n-1, minOperands[op])
		}
		m.Instructions = append(m.Instructions, Instruction{Op: op, Operands: words[at+1 : at+n : at+n], Offset: at})
		at += n
	}
	return m, nil
}

// WordsOf reads little-endian words, the byte order of .spv files.
func WordsOf(data []byte) ([]uint32, error) {
	if len(data)%4 != 0 {
		return nil, fmt.Errorf("spirv: %d bytes, not a multiple of 4", len(data))
	}
	words := make([]uint32, len(data)/4)
	for i := range words {
		words[i] = uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 | uint32(data[4*i+3])<<24
	}
	return words, nil
}

// literalString reads a nul-terminated string and the number of words it takes.
func literalString(words []uint32) (string, int) {
	var b []byte
	for i, w := range words {
		for range 4 {
			if byte(w) == 0 {
				return string(b), i + 1
			}
			b = append(b, byte(w))
			w >>= 8
		}
	}
	return string(b), len(words)
}

// appendString appends a nul-terminated string, padded to whole words.
func appendString(words []uint32, s string) []uint32 {
	b := append([]byte(s), 0)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	more, _ := WordsOf(b) // the length is a multiple of 4
	return append(words, more...)
}
