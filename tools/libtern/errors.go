//go:build cgo

package main

// #include "bridge.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/runtime/graph"
)

// errArgument is wrapped by what an argument has wrong.
var errArgument = errors.New("argument out of range")

func argument(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errArgument)...)
}

// codes lists errors from the special to the general.
var codes = []struct {
	is   error
	code C.int
}{
	{errArgument, C.TERN_ARGUMENT},
	{context.Canceled, C.TERN_CANCELLED},
	{graph.ErrDeviceLost, C.TERN_DEVICE_LOST},
	{graph.ErrOutOfMemory, C.TERN_OUT_OF_MEMORY},
	{graph.ErrNoDevice, C.TERN_NO_DEVICE},
	{graph.ErrUnsupported, C.TERN_UNSUPPORTED},
	{graph.ErrClosed, C.TERN_CLOSED},
	{model.ErrUnloaded, C.TERN_UNLOADED},
	{model.ErrContextFull, C.TERN_CONTEXT_FULL},
	{model.ErrMismatch, C.TERN_MISMATCH},
	{model.ErrDamaged, C.TERN_DAMAGED},
	{fs.ErrNotExist, C.TERN_NOT_FOUND},
	{errFormat, C.TERN_FORMAT},
}

// errFormat marks errors of files that cannot be read as models.
var errFormat = errors.New("not a model that can be read")

// fail keeps the text of an error for the thread, and returns its code.
func fail(err error) C.int {
	if err == nil {
		return C.TERN_OK
	}
	text := C.CString(err.Error())
	C.tern_set_error(text)
	C.free(unsafe.Pointer(text))
	for _, c := range codes {
		if errors.Is(err, c.is) {
			return c.code
		}
	}
	return C.TERN_ERROR
}
