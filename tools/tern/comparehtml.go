package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"

	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/tools/internal/report"
)

// comparePage collects the report of a comparison.
type comparePage struct {
	about          string
	index          []float64 // of nodes, one for each value that a node wrote
	share, largest []float64 // of differing words, %; and the largest difference of floats
	differing      [][]string
	maps           []func(*report.Page)
}

// shownMaps is how many differing values get a map.
const shownMaps = 12

func newComparePage(about string) *comparePage { return &comparePage{about: about} }

// add notes what a node wrote on both sides.
func (c *comparePage) add(n int, kernel string, node *graph.Node, v *graph.Value, a, b []byte, d *difference) {
	words := len(a) / 4
	top, count := 0.0, 0
	if d != nil {
		count = d.count
		for i := range words {
			if diff := wordDifference(v.Kind, a, b, i); diff-diff == 0 {
				top = max(top, diff)
			}
		}
		name := node.Contract
		if kernel != "" {
			name = kernel
		}
		c.differing = append(c.differing, []string{fmt.Sprint(n), node.Label, name, fmt.Sprintf("%s %v", v.Name, v.Shape),
			fmt.Sprintf("%d of %d", count, words), fmt.Sprint(d.word), fmt.Sprintf("%08x", d.a), fmt.Sprintf("%08x", d.b)})
		if len(c.maps) < shownMaps {
			c.maps = append(c.maps, errorMap(n, node, v, a, b))
		}
	}
	c.index = append(c.index, float64(n))
	c.share = append(c.share, 100*float64(count)/float64(max(words, 1)))
	c.largest = append(c.largest, top)
}

// wordDifference of floats is their distance, of other words the number of bits that
// differ.
func wordDifference(kind graph.Kind, a, b []byte, i int) float64 {
	x, y := binary.LittleEndian.Uint32(a[4*i:]), binary.LittleEndian.Uint32(b[4*i:])
	if kind == graph.F32 {
		return math.Abs(float64(math.Float32frombits(x)) - float64(math.Float32frombits(y)))
	}
	return float64(bits.OnesCount32(x ^ y))
}

// errorMap draws the words of a value, a row for each of its rows.
func errorMap(n int, node *graph.Node, v *graph.Value, a, b []byte) func(*report.Page) {
	words, columns := len(a)/4, 0
	if len(v.Shape) > 0 {
		columns = v.Shape[0]
	}
	if columns < 1 || words%columns != 0 { // packed words are not elements
		rows := 1
		for _, d := range v.Shape[min(1, len(v.Shape)):] {
			rows *= d
		}
		if columns = words; rows > 0 && words%rows == 0 {
			columns = words / rows
		}
	}
	what := "|a - b|"
	if v.Kind != graph.F32 {
		what = "bits that differ"
	}
	axes := report.Axes{Title: fmt.Sprintf("node %d, %s: %s", n, node.Label, what), X: "word of a row", Y: "row"}
	return func(p *report.Page) {
		p.Map(axes, words/columns, columns, func(row, column int) float64 { return wordDifference(v.Kind, a, b, row*columns+column) })
	}
}

func (c *comparePage) write(w io.Writer) error {
	p := report.New("tern compare", c.about)
	if len(c.differing) == 0 {
		p.Text("All words are equal.")
	} else {
		p.Text(fmt.Sprintf("%d values differ. Each node starts from equal words, so what differs is its own.", len(c.differing)))
		p.Table([]string{"node", "label", "kernel", "value", "words that differ", "first", "a", "b"}, c.differing)
	}
	p.Lines(report.Axes{Title: "words that differ, by node", X: "node", Y: "%"}, report.Line{X: c.index, Y: c.share})
	p.Lines(report.Axes{Title: "largest difference, by node (floats; of other words the bits)", X: "node", Y: "|a - b|"}, report.Line{X: c.index, Y: c.largest})
	for _, m := range c.maps {
		m(p)
	}
	return p.Write(w)
}
