package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/runtime/graph"
)

var errDifferent = errors.New("the devices differ")

func (a *app) compareCommand() *cobra.Command {
	var with, prompt, ids, html string
	var from, tokens int
	var all bool
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:   "compare",
		Short: "Compare two devices node by node, word by word",
		Long: "Run a prompt's graph on --device and on --with, one node at a time, and compare every word that a node writes.\n" +
			"The first difference is printed and ends the comparison with exit status 1. With --all, or before --from, the first\n" +
			"device takes the other's words and the comparison goes on.",
		Example: `  tern compare                         # the best device against the reference
  tern compare --device 0 --with 1 -m model.gguf --tokens 64
  tern compare --kernel mul_mat_q2_0_i8= --from 17`,
		Args: usage(onlyFlags),
		RunE: interruptible(func(ctx context.Context, _ []string) error {
			if tokens < 0 || from < 0 {
				return usagef("--tokens and --from must not be negative")
			}
			if ids != "" && cmd.Flags().Changed("prompt") {
				return usagef("--prompt and --ids exclude each other")
			}
			if err := a.writable(html); err != nil {
				return err
			}
			c, err := a.openPair(ctx, with)
			if err != nil {
				return err
			}
			defer c.close()
			list, err := a.tokens(ctx, c.a.Model, ids, []string{prompt}, true)
			if err != nil {
				return err
			}
			if tokens > 0 {
				list = list[:min(tokens, len(list))]
			}
			if err := c.prepare(ctx, list); err != nil {
				return err
			}
			nodes := len(c.pa.Graph().Nodes)
			if from >= nodes {
				return usagef("--from %d: the graph has %d nodes", from, nodes)
			}
			about := fmt.Sprintf("%d tokens, %d nodes: %s with %s", len(list), nodes, c.a.x.Name(), c.b.x.Name())
			fmt.Fprintln(a.err, about)
			pictures := newComparePage(about)
			if html != "" {
				c.watch = pictures.add
			}
			differences := 0
			for i := range nodes {
				d, err := c.node(ctx, i)
				if err != nil {
					return fmt.Errorf("node %d: %w", i, err)
				}
				if i < from || d == nil {
					continue
				}
				differences++
				if _, err := fmt.Fprintln(a.out, d); err != nil {
					return err
				}
				if !all && html == "" {
					return errDifferent
				}
			}
			if err := a.writeReport(html, pictures.write); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.out, "%d nodes, %d words equal\n", nodes-from-differences, c.equal); err != nil {
				return err
			}
			if differences > 0 {
				return errDifferent
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&with, "with", referenceDevice, "the `device` to compare with")
	cmd.Flags().StringVarP(&prompt, "prompt", "p", "What is the capital of France?", "text to run")
	cmd.Flags().StringVar(&ids, "ids", "", "token ids to run instead, with commas")
	cmd.Flags().IntVar(&tokens, "tokens", 0, "use the first `n` tokens (default: all)")
	cmd.Flags().IntVar(&from, "from", 0, "compare from this node on")
	cmd.Flags().BoolVar(&all, "all", false, "go on after a difference")
	cmd.Flags().StringVar(&html, "html", "", "go on after a difference, and write a report with plots to this `file`")
	return cmd
}

// pair is one model on two executors, and what runs there.
type pair struct {
	a, b   *opened
	pa, pb graph.Program
	equal  uint64 // words
	// watch, if not nil, is told the words that each node wrote, and the first
	// difference among them, if there is one.
	watch func(n int, kernel string, node *graph.Node, v *graph.Value, a, b []byte, d *difference)
}

// limited makes an executor look as narrow as another, so that both get graphs
// of the same nodes.
type limited struct {
	graph.Executor
	limits graph.Limits
}

func (l limited) Limits() graph.Limits { return l.limits }

func (a *app) openPair(ctx context.Context, with string) (*pair, error) {
	s, err := a.source(ctx)
	if err != nil {
		return nil, err
	}
	x, err := a.executor(a.device)
	if err != nil {
		return nil, err
	}
	y, err := a.executor(with)
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	l, m := x.Limits(), y.Limits()
	l = graph.Limits{MaxBinding: min(l.MaxBinding, m.MaxBinding), MaxBuffer: min(l.MaxBuffer, m.MaxBuffer)}
	c := &pair{}
	if c.a, err = a.load(ctx, s, limited{x, l}, model.Options{}); err != nil {
		return nil, errors.Join(err, y.Close())
	}
	if c.b, err = a.load(ctx, s, limited{y, l}, model.Options{}); err != nil {
		return nil, errors.Join(err, c.a.Close())
	}
	return c, nil
}

func (c *pair) close() error { return errors.Join(c.a.Close(), c.b.Close()) }

// prepare brings the words of a batch of tokens to both executors, by running
// it, and compiles its program.
func (c *pair) prepare(ctx context.Context, tokens []int32) error {
	for _, side := range []struct {
		o *opened
		p *graph.Program
	}{{c.a, &c.pa}, {c.b, &c.pb}} {
		s, err := side.o.NewSession()
		if err != nil {
			return err
		}
		if _, err = s.Eval(ctx, tokens, false); err != nil {
			return fmt.Errorf("%s: %w", side.o.x.Name(), err)
		}
		if *side.p, err = side.o.Program(len(tokens), 1, len(tokens)); err != nil {
			return err
		}
	}
	return nil
}

// difference is the first word of a node's outputs that differs.
type difference struct {
	index  int
	node   *graph.Node
	kernel string
	value  *graph.Value
	word   int
	a, b   uint32
	count  int // of words of the value that differ
}

func (d *difference) String() string {
	kernel := ""
	if d.kernel != "" && d.kernel != d.node.Contract {
		kernel = " by " + d.kernel
	}
	text := fmt.Sprintf("node %d %s (%s%s): %s %v word %d: %08x and %08x", d.index, d.node.Label, d.node.Contract, kernel,
		d.value.Name, d.value.Shape, d.word, d.a, d.b)
	if d.value.Kind == graph.F32 {
		text += fmt.Sprintf(", %g and %g", math.Float32frombits(d.a), math.Float32frombits(d.b))
	}
	return fmt.Sprintf("%s; %d of its %d words differ", text, d.count, d.value.Bytes/4)
}

// node runs one node on both sides and compares what it wrote. Where that
// differs, side a takes the words of side b, so that the next node starts from
// equal words.
func (c *pair) node(ctx context.Context, i int) (*difference, error) {
	na, nb := c.pa.Graph().Nodes[i], c.pb.Graph().Nodes[i]
	for j, arg := range na.Args {
		// Words that a contract leaves alone must not count as different.
		if arg.Access == graph.Write && arg.IsTemp() {
			zero := make([]byte, arg.Bytes)
			if err := errors.Join(write(c.a.x, c.pa, arg.Value, zero), write(c.b.x, c.pb, nb.Args[j].Value, zero)); err != nil {
				return nil, err
			}
		}
	}
	if err := c.a.x.RunNodes(ctx, c.pa, i, i+1); err != nil {
		return nil, fmt.Errorf("%s: %w", c.a.x.Name(), err)
	}
	if err := c.b.x.RunNodes(ctx, c.pb, i, i+1); err != nil {
		return nil, fmt.Errorf("%s: %w", c.b.x.Name(), err)
	}
	var first *difference
	for j, arg := range na.Args {
		if arg.Access&graph.Write == 0 {
			continue
		}
		wa, wb := make([]byte, arg.Bytes), make([]byte, arg.Bytes)
		if err := errors.Join(read(c.a.x, c.pa, arg.Value, wa), read(c.b.x, c.pb, nb.Args[j].Value, wb)); err != nil {
			return nil, err
		}
		d := compareWords(wa, wb)
		if c.watch != nil {
			c.watch(i, c.kernel(i), na, arg.Value, wa, wb, d)
		}
		if d == nil {
			c.equal += arg.Bytes / 4
			continue
		}
		if err := write(c.a.x, c.pa, arg.Value, wb); err != nil {
			return nil, err
		}
		if first == nil {
			first = d
			d.index, d.node, d.value, d.kernel = i, na, arg.Value, c.kernel(i)
		}
	}
	return first, nil
}

// kernel is what runs node i on side a, empty if that does not tell.
func (c *pair) kernel(i int) string {
	if k, ok := c.pa.(interface{ Kernels() []string }); ok {
		return k.Kernels()[i]
	}
	return ""
}

// compareWords finds the first different word; not-a-number equals itself
// whatever its bits.
func compareWords(a, b []byte) *difference {
	var d *difference
	nan := func(w uint32) bool { return w&0x7fffffff > 0x7f800000 }
	for i := 0; i+4 <= len(a); i += 4 {
		wa, wb := binary.LittleEndian.Uint32(a[i:]), binary.LittleEndian.Uint32(b[i:])
		switch {
		case wa == wb || nan(wa) && nan(wb):
		case d == nil:
			d = &difference{word: i / 4, a: wa, b: wb, count: 1}
		default:
			d.count++
		}
	}
	return d
}

func read(x graph.Executor, p graph.Program, v *graph.Value, data []byte) error {
	buf, at := p.Place(v)
	return x.Read(buf, at, data)
}

func write(x graph.Executor, p graph.Program, v *graph.Value, data []byte) error {
	buf, at := p.Place(v)
	return x.Write(buf, at, data)
}
