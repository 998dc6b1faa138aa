package runtime

import (
	"fmt"
	"testing"

	"github.com/ternvk/tern/runtime/graph"
)

// TestReserve: what was announced lies in one allocation that is not larger; what comes
// beyond gets one of the usual size.
func TestReserve(t *testing.T) {
	d := open(t, Options{})
	const size, count = 3 << 20, 40
	d.Reserve([graph.NumPurposes]uint64{graph.Cache: count * size})
	use := func() Use { return d.Stats().Purposes[graph.Cache] }
	for i := range count {
		b, err := d.Alloc(graph.Cache, fmt.Sprint(i), size)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Free(b)
	}
	if u := use(); u.Blocks != 1 || u.BlockBytes > count*size+1<<16 {
		t.Errorf("%d buffers lie in %d allocations of %d bytes", u.Buffers, u.Blocks, u.BlockBytes)
	}
	b, err := d.Alloc(graph.Cache, "beyond", size)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(b)
	if u := use(); u.Blocks != 2 || u.BlockBytes < count*size+size {
		t.Errorf("one more: %+v", u)
	}
	d.Reserve([graph.NumPurposes]uint64{graph.Cache: 1 << 60})
	big, err := d.Alloc(graph.Cache, "after a reservation that cannot be", 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	d.Free(big)
	d.Reserve([graph.NumPurposes]uint64{})
}
