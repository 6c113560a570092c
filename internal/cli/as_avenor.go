package cli

import "github.com/spf13/cobra"

func avenorCommand(io IO) *cobra.Command {
	return &cobra.Command{Use: "avenor"}
}
