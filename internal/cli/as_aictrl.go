package cli

import "github.com/spf13/cobra"

func aictrlCommand(io IO) *cobra.Command {
	return &cobra.Command{Use: "aictrl"}
}
