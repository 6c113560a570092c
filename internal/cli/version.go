package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/event"
)

// version is the program's, unless the build knows better.
const version = "0.1.0"

func versionCommand(io IO) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(io.Out, "sluice %s, format %d, %s %s/%s\n", programVersion(), event.Format, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

func programVersion() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" && b.Main.Version != "(devel)" {
		return b.Main.Version
	}
	return version
}
