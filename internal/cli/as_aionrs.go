package cli

import "github.com/spf13/cobra"

func aionrsCommand(io IO) *cobra.Command {
	return &cobra.Command{Use: "aionrs"}
}
