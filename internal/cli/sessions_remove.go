package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/journal"
)

func sessionsRemove(io IO) *cobra.Command {
	return &cobra.Command{
		Use:   "rm ID …",
		Short: "remove sessions, and all that was kept with them",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			state, _, err := sessionsRoot()
			if err != nil {
				return err
			}
			failed := false
			for _, name := range args {
				dir, err := findSession(state, name)
				if err == nil {
					err = removeSession(dir)
				}
				if err != nil {
					io.complain(err)
					failed = true
					continue
				}
				fmt.Fprintln(io.Out, filepath.Base(dir))
			}
			if failed {
				return errNo
			}
			return nil
		},
	}
}

// removeSession removes a session that nobody runs. Nobody can begin to while it goes.
func removeSession(dir string) error {
	release, err := journal.Hold(filepath.Join(dir, journalName))
	if errors.Is(err, journal.ErrLocked) {
		return hinted{fmt.Errorf("session %s is running", filepath.Base(dir)), "stop it first"}
	}
	if err != nil {
		return err
	}
	defer release()
	return os.RemoveAll(dir)
}

type pruneFlags struct {
	older  string
	keep   int
	dryRun bool
}

// pruneAge is how old a session is that prune removes if nobody says anything else.
const pruneAge = "30d"

func sessionsPrune(io IO) *cobra.Command {
	var f pruneFlags
	cmd := &cobra.Command{
		Use:   "prune [--older 30d] [--keep N]",
		Short: "remove old sessions",
		Long: `Prune removes sessions that nobody wrote to for a time (--older, 30 days if nothing is said), or all but the newest so many
(--keep). With both it removes those that are old and not among the newest. One that runs stays. The names of those that went
are printed.`,
		Example: `  sluice sessions prune --dry-run
  sluice sessions prune --older 2w --keep 50`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.prune(io, cmd.Flags().Changed("older"), cmd.Flags().Changed("keep"))
		},
	}
	cmd.Flags().StringVar(&f.older, "older", pruneAge, "not written to for so long: 12h, 30d, 4w")
	cmd.Flags().IntVar(&f.keep, "keep", 0, "the newest so many stay")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only print what would go")
	return cmd
}

func (f pruneFlags) prune(s IO, byAge, byCount bool) error {
	age, err := parseAge(f.older)
	if err != nil {
		return err
	}
	if f.keep < 0 {
		return hinted{fmt.Errorf("--keep %d: it cannot be negative", f.keep), "sluice sessions prune --help"}
	}
	if byCount && !byAge {
		age = 0
	}
	_, root, err := sessionsRoot()
	if err != nil {
		return err
	}
	list, err := sessionFolders(root)
	if err != nil {
		return err
	}
	failed := false
	for i, folder := range list {
		if i < f.keep || time.Since(folder.written) < age {
			continue
		}
		if held(filepath.Join(folder.dir, journalName)) {
			continue
		}
		if !f.dryRun {
			if err := removeSession(folder.dir); err != nil {
				s.complain(err)
				failed = true
				continue
			}
		}
		fmt.Fprintln(s.Out, filepath.Base(folder.dir))
	}
	if failed {
		return errNo
	}
	return nil
}

// parseAge reads a time as people say it: a number of hours, days or weeks, or what Go reads.
func parseAge(s string) (time.Duration, error) {
	const day = 24 * time.Hour
	unit := time.Duration(0)
	digits := strings.TrimRight(s, "dw")
	switch s[len(digits):] {
	case "d":
		unit = day
	case "w":
		unit = 7 * day
	}
	if n, err := strconv.Atoi(digits); err == nil && unit > 0 && n >= 0 && n < 1e5 {
		return time.Duration(n) * unit, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return d, nil
	}
	return 0, hinted{fmt.Errorf("--older %q: a number and h, d or w", s), "sluice sessions prune --older " + pruneAge}
}
