package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ternvk/tern/runtime"
	"github.com/ternvk/tern/runtime/graph"
	"github.com/ternvk/tern/runtime/plan"
	"github.com/ternvk/tern/runtime/ref"
)

const (
	referenceDevice = "reference"
	autoDevice      = "auto"
)

// executor opens a device, or the reference. When nothing particular is asked
// for and no device can be used, the reference answers, and standard error says
// why.
func (a *app) executor(device string) (graph.Executor, error) {
	if device == referenceDevice {
		return ref.New(), nil
	}
	d, err := a.vulkan(device)
	if err == nil {
		if d.Plan().Type == plan.CPU && device == autoDevice {
			fmt.Fprintf(a.err, "device: %s, which is a CPU: no GPU was found\n", d.Name())
		} else {
			fmt.Fprintf(a.err, "device: %s\n", d.Name())
		}
		return d, nil
	}
	asked := device != autoDevice || len(a.kernels) > 0 || a.kernelDir != "" || a.mask != "" || a.validate
	if asked || !errors.Is(err, graph.ErrNoDevice) && !errors.Is(err, graph.ErrUnsupported) {
		return nil, err
	}
	fmt.Fprintf(a.err, "device: the Go reference, slowly, because: %v\n", err)
	return ref.New(), nil
}

func (a *app) vulkan(device string) (*runtime.Device, error) {
	o, err := a.deviceOptions(device)
	if err != nil {
		return nil, err
	}
	return runtime.Open(o)
}

// deviceOptions is what the flags say about a device.
func (a *app) deviceOptions(device string) (o runtime.Options, err error) {
	o = runtime.Options{Device: device, Profile: a.profile, KernelDir: a.kernelDir, Force: a.force, Validate: a.validate, Trace: a.tracer()}
	if o.Kernels, err = plan.ParseKernels(strings.Join(a.kernels, ",")); err != nil {
		return o, usageError{err}
	}
	if o.Test.Caps, o.Disable, err = plan.ParseMask(a.mask); err != nil {
		return o, usageError{fmt.Errorf("--mask: %w", err)}
	}
	if a.brief && len(a.kernels) == 0 && a.kernelDir == "" {
		o.Disable = append(o.Disable, "sm90")
	}
	if a.kernelDir != "" {
		if _, err := os.Stat(a.kernelDir); err != nil {
			return o, fmt.Errorf("--kernels: %w", err)
		}
	}
	return o, nil
}

func (a *app) validateFlag(f *pflag.FlagSet) {
	f.BoolVar(&a.validate, "validate", false, "run under the Khronos validation layer, with synchronization validation; its messages are failures")
}

// complaints are the messages of the validation layer so far.
func complaints(x graph.Executor) error {
	v, ok := x.(interface{ Messages() []string })
	if !ok || len(v.Messages()) == 0 {
		return nil
	}
	list := v.Messages()
	return fmt.Errorf("%d messages of the validation layer, first %s", len(list), list[0])
}
