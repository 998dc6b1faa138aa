package main

import (
	"fmt"
	goruntime "runtime"

	"github.com/spf13/cobra"

	"github.com/ternvk/tern/model"
	"github.com/ternvk/tern/spirv"
	"github.com/ternvk/tern/tools/internal/buildinfo"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and those of what results depend on",
		Example: "  tern version",
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.out, "tern %s\narithmetic %d\nkernels %.12s\n%s %s/%s\n",
				buildinfo.Version(), model.ArithmeticVersion, spirv.SetHash(), goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
			return err
		},
	}
}
