package conform

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/ternvk/tern/runtime/graph"
)

// vectors reads the literal vectors of a contract (CONTRACT.txt; its format is
// described beside the files). Each is a step with a name.
func vectors(files fs.FS, contract string) (steps []*step, err error) {
	f, err := files.Open(contract + ".txt")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if steps, err = parseVectors(f, contract); err != nil {
		return nil, fmt.Errorf("vectors of %s: %w", contract, err)
	}
	return steps, nil
}

var kinds = map[string]graph.Kind{"f32": graph.F32, "u32": graph.U32, "raw": graph.Raw}

var accesses = map[string]graph.Access{"in": graph.Read, "io": graph.ReadWrite, "out": graph.Write}

func parseVectors(r io.Reader, contract string) ([]*step, error) {
	var (
		steps []*step
		node  *graph.Node
		w     *words    // binding being read
		into  *[]uint32 // its list being filled
		size  int
	)
	closed := func() error { // ends a binding
		if w == nil {
			return nil
		}
		switch w.access {
		case graph.Read:
			w.after = w.before
		case graph.Write:
			w.before = slices.Repeat([]uint32{poison}, size)
		}
		if len(w.before) != size || len(w.after) != size {
			return fmt.Errorf("a binding of %d words has %d before and %d after", size, len(w.before), len(w.after))
		}
		s := steps[len(steps)-1]
		s.values = append(s.values, w)
		node.Args = append(node.Args, graph.Arg{Access: w.access, Value: &graph.Value{Kind: w.kind, Bytes: uint64(size) * 4}})
		w = nil
		return nil
	}
	in := bufio.NewScanner(r)
	for line := 1; in.Scan(); line++ {
		fields := strings.Fields(in.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		var err error
		switch key := fields[0]; key {
		case "case":
			if err = closed(); err == nil {
				node = &graph.Node{Contract: contract, Label: strings.Join(fields[1:], " ")}
				steps = append(steps, &step{node: node})
			}
		case "domain":
			_, err = fmt.Sscan(strings.Join(fields[1:], " "), &node.Domain[0], &node.Domain[1])
		case "spec":
			node.Spec, err = parseWords(nil, fields[1:])
		case "push":
			node.Push, err = parseWords(nil, fields[1:])
		case "in", "io", "out":
			if err = closed(); err != nil {
				break
			}
			if len(fields) != 3 || node == nil {
				return nil, fmt.Errorf("line %d: want %s KIND WORDS in a case", line, key)
			}
			w = &words{access: accesses[key], kind: kinds[fields[1]]}
			into = &w.before
			size, err = strconv.Atoi(fields[2])
		case "gives":
			into = &w.after
		default:
			if w == nil {
				return nil, fmt.Errorf("line %d: words outside a binding", line)
			}
			*into, err = parseWords(*into, fields)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if err := closed(); err != nil {
		return nil, err
	}
	return steps, in.Err()
}

func parseWords(to []uint32, fields []string) ([]uint32, error) {
	for _, f := range fields {
		word, count, repeated := strings.Cut(f, "*")
		n := 1
		if repeated {
			var err error
			if n, err = strconv.Atoi(count); err != nil {
				return nil, err
			}
		}
		v := uint64(poison)
		if word != "-" {
			var err error
			if v, err = strconv.ParseUint(word, 16, 32); err != nil {
				return nil, err
			}
		}
		to = append(to, slices.Repeat([]uint32{uint32(v)}, n)...)
	}
	return to, nil
}
