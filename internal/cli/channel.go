package cli

import (
	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/internal/guest"
)

// channelCommand is the program that a claude with a channel starts beside itself. Nobody types it.
func channelCommand(io IO) *cobra.Command {
	return &cobra.Command{
		Use:    "claude-channel",
		Short:  "the sidecar of a claude that sluice drives; claude starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return guest.Sidecar(cmd.Context(), io.In, io.Out, programVersion())
		},
	}
}
