package parallel

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
)

func TestFor(t *testing.T) {
	for _, n := range []int{0, 1, 2, 1000} {
		calls := make([]atomic.Int32, n)
		For(n, func(i int) { calls[i].Add(1) })
		for i := range calls {
			if c := calls[i].Load(); c != 1 {
				t.Fatalf("%d of %d: %d calls", i, n, c)
			}
		}
	}
}

// Whichever of two calls fails first, the error is the lower one's.
func TestTry(t *testing.T) {
	if err := Try(100, func(int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		var calls atomic.Int32
		err := Try(10_000, func(i int) error {
			calls.Add(1)
			if i == 7 || i == 8 {
				return fmt.Errorf("call %d", i)
			}
			return nil
		})
		if err == nil || err.Error() != "call 7" {
			t.Fatalf("error %v", err)
		}
		if calls.Load() == 10_000 {
			t.Fatal("all calls were made")
		}
	}
	if err := Try(1, func(int) error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
}
