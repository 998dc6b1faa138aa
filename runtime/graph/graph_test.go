package graph

import "testing"

// chain is a graph in which every temporary is read by the next node only.
func chain(n int) (*Graph, []*Value) {
	g := New("chain")
	var temps []*Value
	for i := range n {
		v := g.Temp("t", F32, 64)
		node := &Node{Contract: "c", Domain: [2]uint32{1, 1}, Args: []Arg{Out(v)}}
		if i > 0 {
			node.Args = append(node.Args, In(temps[i-1]))
		}
		g.Add(node)
		temps = append(temps, v)
	}
	return g, temps
}

// Temporaries share bytes when their lives do not meet, and never with one that is kept.
func TestPlanSharesBytes(t *testing.T) {
	g, temps := chain(6)
	if l := g.Plan(64); l.Bytes != 128 {
		t.Errorf("%d bytes for a chain, two temporaries live at a time", l.Bytes)
	}
	temps[1].Keep = true
	l := g.Plan(64)
	for _, v := range temps[2:] {
		if l.Offset(v) == l.Offset(temps[1]) {
			t.Errorf("a kept temporary lies at %d, as another does", l.Offset(v))
		}
	}
	if l.Bytes != 192 {
		t.Errorf("%d bytes", l.Bytes)
	}
}
