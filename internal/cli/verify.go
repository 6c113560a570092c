package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/internal/loop"
	"github.com/sluice-dev/sluice/internal/plain"
)

func verifyCommand(io IO) *cobra.Command {
	var looped []string
	cmd := &cobra.Command{
		Use:   "verify FILE…",
		Short: "check a loop or a workflow, without running it",
		Long: `Check files that say what to run: a loop (.yaml, .json, .toml) or a workflow (.md). All that is wrong is told, with file and line, and
what could have been meant. Nothing is run. The exit code is 0 if all is well, and 1 if not.

  sluice verify fix.yaml
  sluice verify .sluice/workflows/*.md`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args = append(args, looped...)
			if len(args) == 0 {
				return hinted{errors.New("there is no file to verify"), cmd.CommandPath() + " fix.yaml"}
			}
			good := true
			for _, file := range args {
				said, err := verifyFile(file)
				if err == nil {
					if _, err := fmt.Fprintf(io.Out, "ok: %s: %s\n", plain.Name(file), said); err != nil {
						return err
					}
					continue
				}
				good = false
				for _, p := range problems(err) {
					if _, err := fmt.Fprintf(io.Out, "error: %s\n", oneLine(p.Error())); err != nil {
						return err
					}
				}
			}
			if !good {
				return errNo
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&looped, "loop-file", nil, "a file, as avenor names it")
	return cmd
}

// verifyFile says what a file would run, or what is wrong with it.
func verifyFile(file string) (string, error) {
	if filepath.Ext(file) == ".md" {
		w, err := loop.LoadWorkflow(file)
		return fmt.Sprintf("a workflow of %s", plural(len(w.Roles), "role")), err
	}
	cfg, err := loadPlan(file)
	said := fmt.Sprintf("%s before the loop, %d in it, %d after it", plural(len(cfg.Pre), "phase"), len(cfg.Loop), len(cfg.Post))
	if len(cfg.Loop) > 0 {
		said += fmt.Sprintf("; %s at most", plural(cfg.MaxIterations, "iteration"))
	}
	return said, err
}
