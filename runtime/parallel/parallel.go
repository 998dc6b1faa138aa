// Package parallel runs loops on all processors.
package parallel

import (
	goruntime "runtime"
	"sync"
	"sync/atomic"
)

// For calls f(i) for 0 <= i < n from several goroutines. Calls are independent: their
// order changes nothing.
func For(n int, f func(i int)) {
	workers := min(goruntime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// Try is For for calls that can fail. After a failure none begins beyond it; the error is
// that of the lowest i that fails, and so always the same.
func Try(n int, f func(i int) error) (err error) {
	var mu sync.Mutex
	lowest := n // that failed
	For(n, func(i int) {
		mu.Lock()
		skip := i > lowest
		mu.Unlock()
		if skip {
			return
		}
		if bad := f(i); bad != nil {
			mu.Lock()
			defer mu.Unlock()
			if i < lowest {
				lowest, err = i, bad
			}
		}
	})
	return err
}
