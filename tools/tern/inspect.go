package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/model/gguf"
)

// inspection is what inspect finds, as its JSON spells it.
type inspection struct {
	File     string         `json:"file"`
	Version  uint32         `json:"gguf_version"`
	Bytes    uint64         `json:"tensor_bytes"`
	Params   uint64         `json:"parameters"`
	Metadata []metaReport   `json:"metadata"`
	Tensors  []tensorReport `json:"tensors"`
	Totals   []typeTotal    `json:"totals"`
	Memory   *memoryReport  `json:"memory,omitempty"`
	// MemoryError says why there is no estimate.
	MemoryError string `json:"memory_error,omitempty"`
}

type metaReport struct {
	Key    string `json:"key"`
	Type   string `json:"type"`
	Length int    `json:"length,omitempty"` // of an array, whose Value may be shortened
	Value  any    `json:"value"`
}

type tensorReport struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Shape  []uint64 `json:"shape"` // innermost first
	Offset uint64   `json:"offset"`
	Bytes  uint64   `json:"bytes"`
}

type typeTotal struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Params  uint64 `json:"parameters"`
	Bytes   uint64 `json:"bytes"`
}

func (a *app) inspectCommand() *cobra.Command {
	var full, asJSON bool
	var nodes int
	cmd := &cobra.Command{
		Use:   "inspect [FILE]",
		Short: "Show a model's metadata, tensors and memory",
		Long: "Show a model file's metadata, tensors, totals by type, and the memory it takes with a context of -c positions.\n" +
			"Needs no Vulkan, but for -c -1.",
		Example: `  tern inspect Ternary-Bonsai-1.7B-Q2_0_g64.gguf
  tern inspect -c 32768 model.gguf
  tern inspect --json model.gguf
  tern inspect --graph 1 model.gguf    # the nodes that decode one token`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: interruptible(func(ctx context.Context, args []string) error {
			if nodes < 0 {
				return usagef("--graph %d: want 1 or more", nodes)
			}
			if len(args) == 1 {
				if a.model != "" {
					return usagef("-m %s beside %s: want one model", a.model, args[0])
				}
				a.model = args[0]
			}
			s, err := a.source(ctx)
			if err != nil {
				return err
			}
			f, err := s.open()
			if err != nil {
				return err
			}
			defer f.Close()
			if nodes > 0 {
				return a.printGraph(f, nodes)
			}
			r := describe(f, full)
			if r.Memory, err = a.memory(f, a.context, 1); err != nil {
				r.MemoryError = err.Error()
			}
			if asJSON {
				e := json.NewEncoder(a.out)
				e.SetIndent("", " ")
				e.SetEscapeHTML(false)
				return e.Encode(r)
			}
			return a.printReport(r, full)
		}),
	}
	cmd.Flags().BoolVar(&full, "full", false, "do not shorten arrays and long strings")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().IntVar(&nodes, "graph", 0, "print the graph of a run of `n` tokens instead")
	return cmd
}

// printGraph prints what a run of n tokens does.
func (a *app) printGraph(f *gguf.File, n int) error {
	o, err := a.options(model.Options{Context: max(a.context, n), Chunk: n})
	if err != nil {
		return err
	}
	g, err := model.Record(f, o, n)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.out, g)
	return err
}

const (
	shownElements = 6
	shownText     = 72
)

func describe(f *gguf.File, full bool) inspection {
	r := inspection{File: f.Name, Version: f.Version}
	for _, kv := range f.Meta {
		m := metaReport{Key: kv.Key, Value: kv.Value}
		v := reflect.ValueOf(kv.Value)
		m.Type = v.Type().String()
		if v.Kind() == reflect.Slice {
			m.Length = v.Len()
			if v.Len() > shownElements && !full {
				m.Value = v.Slice(0, shownElements).Interface()
			}
			if b, ok := m.Value.([]uint8); ok { // encoding/json would write base64
				m.Value = widen(b)
			}
		}
		r.Metadata = append(r.Metadata, m)
	}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		r.Tensors = append(r.Tensors, tensorReport{t.Name, t.Type.String(), t.Dims, t.Offset, t.Size})
		at := slices.IndexFunc(r.Totals, func(s typeTotal) bool { return s.Type == t.Type.String() })
		if at < 0 {
			at = len(r.Totals)
			r.Totals = append(r.Totals, typeTotal{Type: t.Type.String()})
		}
		s := &r.Totals[at]
		s.Tensors++
		s.Params += t.Elements()
		s.Bytes += t.Size
		r.Params += t.Elements()
		r.Bytes += t.Size
	}
	return r
}

func widen(b []uint8) []int {
	out := make([]int, len(b))
	for i, v := range b {
		out[i] = int(v)
	}
	return out
}

func (a *app) printReport(r inspection, full bool) error {
	fmt.Fprintf(a.out, "%s: GGUF version %d, %d tensors, %s parameters, %s\n", r.File, r.Version, len(r.Tensors), countText(r.Params), sizeText(r.Bytes))
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nmetadata\n")
	for _, m := range r.Metadata {
		fmt.Fprintf(w, "  %s\t%s\n", m.Key, m.text(full))
	}
	w.Flush()
	fmt.Fprintf(w, "\ntensors\n  name\ttype\tshape\toffset\tsize\n")
	for _, t := range r.Tensors {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%d\t%s\n", t.Name, t.Type, shapeText(t.Shape), t.Offset, sizeText(t.Bytes))
	}
	w.Flush()
	fmt.Fprintf(w, "\ntotals\n")
	for _, t := range r.Totals {
		fmt.Fprintf(w, "  %s\t%d tensors\t%s parameters\t%s\n", t.Type, t.Tensors, countText(t.Params), sizeText(t.Bytes))
	}
	w.Flush()
	if r.Memory == nil {
		fmt.Fprintf(w, "\nmemory: %s\n", r.MemoryError)
	} else {
		r.Memory.print(w)
	}
	return w.Flush()
}

// text is a metadata value on one line.
func (m metaReport) text(full bool) string {
	if s, ok := m.Value.(string); ok {
		if r := []rune(s); len(r) > shownText && !full {
			return strconv.Quote(string(r[:shownText])) + fmt.Sprintf("... (%d bytes)", len(s))
		}
		return strconv.Quote(s)
	}
	v := reflect.ValueOf(m.Value)
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(m.Value)
	}
	var parts []string
	for i := range v.Len() {
		if s, ok := v.Index(i).Interface().(string); ok {
			parts = append(parts, strconv.Quote(s))
		} else {
			parts = append(parts, fmt.Sprint(v.Index(i)))
		}
	}
	if v.Len() < m.Length {
		parts = append(parts, "...")
	}
	return fmt.Sprintf("[%s] (%d)", strings.Join(parts, ", "), m.Length)
}

func shapeText(dims []uint64) string {
	var parts []string
	for _, d := range dims {
		parts = append(parts, strconv.FormatUint(d, 10))
	}
	return strings.Join(parts, " x ")
}
