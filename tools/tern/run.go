package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) runCommand() *cobra.Command {
	return &cobra.Command{Use: "run", RunE: interruptible(func(ctx context.Context, args []string) error { return nil })}
}
func (a *app) chatCommand() *cobra.Command   { return &cobra.Command{Use: "chat"} }
func (a *app) verifyCommand() *cobra.Command { return &cobra.Command{Use: "verify"} }
