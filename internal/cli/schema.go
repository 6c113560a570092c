package cli

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/dialect"
)

func schemaCommand(io IO) *cobra.Command {
	var commands bool
	cmd := &cobra.Command{
		Use:       "schema DIALECT",
		Short:     "print the JSON Schema of a dialect's lines",
		Example:   "  sluice schema native\n  sluice schema aionrs --commands",
		Args:      cobra.MatchAll(cobra.ExactArgs(1)),
		ValidArgs: dialect.SourceNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := dialect.Source(args[0])
			if err != nil {
				return err
			}
			schema := d.Schema()
			if commands {
				if d.Name != "aionrs" {
					return hinted{errors.New(d.Name + " takes no commands"), "sluice schema aionrs --commands"}
				}
				schema = dialect.CommandSchema()
			}
			var b bytes.Buffer
			if err := json.Indent(&b, schema, "", "  "); err != nil {
				return err
			}
			b.WriteByte('\n')
			_, err = b.WriteTo(io.Out)
			return err
		},
	}
	cmd.Flags().BoolVar(&commands, "commands", false, "of the commands that a client sends")
	return cmd
}
