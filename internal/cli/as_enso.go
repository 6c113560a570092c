package cli

import "github.com/spf13/cobra"

func ensoCommand(io IO) *cobra.Command {
	return &cobra.Command{Use: "enso"}
}
