package main

import "github.com/spf13/cobra"

func (a *app) verifyCommand() *cobra.Command { return &cobra.Command{Use: "verify"} }
