// Package mapped reads memory that is mapped from files. Where such a file has become
// shorter in the meantime, or its disk fails, a read is a fault, which would end the
// program.
package mapped

import (
	"errors"
	"runtime/debug"
)

// ErrLost says that bytes of a mapped file are no longer there.
var ErrLost = errors.New("the file can no longer be read: it was cut off, or its disk failed")

// Read calls f, which reads mapped files, and returns its error, or ErrLost when they
// cannot be read. Goroutines that f starts need a call of their own.
func Read(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case interface {
			error
			Addr() uintptr // of a fault, unless it is nil's
		}:
			err = ErrLost
		default:
			panic(p)
		}
	}()
	return f()
}
