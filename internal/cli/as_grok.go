package cli

import "github.com/spf13/cobra"

func grokCommand(io IO) *cobra.Command {
	return &cobra.Command{Use: "grok"}
}
