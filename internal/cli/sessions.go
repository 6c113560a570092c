package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/wire"
)

type sessionsFlags struct {
	json, here bool
	workspace  string
	limit      int
}

func sessionsCommand(io IO) *cobra.Command {
	var f sessionsFlags
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "what ran here: list, show, export and remove sessions",
		Long: `Every run is kept as a journal, unless it was ephemeral. Sessions lists them, the one that was written to last first: its name, when
that was, how it stands (running; cut: it was killed; or the outcome of its last run), turns, cost, folder and the first
line of what was asked. A cost with a + is of the last run only: the journal is too long to add it all up.

Where a name is asked for, its beginning will do, if no other begins so.`,
		Example: `  sluice sessions --here
  sluice sessions show latest
  sluice sessions export 019a8 -o run.md
  sluice sessions prune --older 30d --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.limit < 0 {
				return hinted{fmt.Errorf("--limit %d: it cannot be negative", f.limit), "sluice sessions -n 0 lists all"}
			}
			if !cmd.Flags().Changed("limit") && isTerminal(io.Out) {
				f.limit = 20
			}
			return listSessions(io, f)
		},
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object per session")
	cmd.Flags().BoolVar(&f.here, "here", false, "only those that worked in this folder")
	cmd.Flags().StringVarP(&f.workspace, "workspace", "C", "", "the folder that is meant (the current one)")
	cmd.Flags().IntVarP(&f.limit, "limit", "n", 0, "the newest so many (0: all; on a terminal 20)")
	cmd.AddCommand(sessionsShow(io), sessionsExport(io), sessionsPath(io), sessionsRemove(io), sessionsPrune(io))
	for _, sub := range cmd.Commands() {
		sub.Args = hintArgs(sub.Args)
	}
	return cmd
}

// sessionsRoot is the folder of all sessions.
func sessionsRoot() (state, root string, err error) {
	state, err = config.State(os.Getenv)
	return state, filepath.Join(state, "sessions"), err
}

// theWorkspace is a folder as runs name it.
func theWorkspace(dir string) (string, error) {
	at, err := filepath.Abs(cmp.Or(dir, "."))
	if err != nil {
		return "", hinted{fmt.Errorf("the current folder is gone: %w", err), "cd to another one"}
	}
	if at, err = filepath.EvalSymlinks(at); err == nil {
		var info os.FileInfo
		if info, err = os.Stat(at); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", at)
		}
	}
	if err != nil {
		return "", hinted{err, "--workspace names the folder"}
	}
	return at, nil
}

func listSessions(s IO, f sessionsFlags) error {
	_, root, err := sessionsRoot()
	if err != nil {
		return err
	}
	folders, err := sessionFolders(root)
	if err != nil {
		return err
	}
	short := shortNames(folders)
	if f.here || f.workspace != "" {
		here, err := theWorkspace(f.workspace)
		if err != nil {
			return err
		}
		folders = slices.DeleteFunc(folders, func(f sessionFolder) bool {
			head, err := readHead(filepath.Join(f.dir, journalName))
			return err != nil || head.started.Cwd != here
		})
	}
	more := 0
	if f.limit > 0 && len(folders) > f.limit {
		more = len(folders) - f.limit
		folders = folders[:f.limit]
	}
	rows := readRows(folders)
	out := bufio.NewWriter(s.Out)
	if f.json {
		for _, row := range rows {
			out.Write(append(wire.Append(nil, row), '\n')) // an error stays, and Flush returns it
		}
		return out.Flush()
	}
	if len(rows) == 0 {
		fmt.Fprintln(s.Err, "sluice: there is no session yet; sluice run begins one")
		return nil
	}
	writeRows(out, rows, short, s.tableOptions())
	if err := out.Flush(); err != nil {
		return err
	}
	if more > 0 {
		fmt.Fprintf(s.Err, "sluice: %d more; -n 0 lists all\n", more)
	}
	return nil
}

// tableOptions say for whom a table is written.
type tableOptions struct {
	width int // of the terminal; 0: nothing is cut
	home  string
	now   time.Time
}

func (s IO) tableOptions() tableOptions {
	o := tableOptions{now: time.Now()}
	o.home, _ = os.UserHomeDir()
	if f, ok := s.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.width, _, _ = term.GetSize(int(f.Fd()))
	}
	return o
}

// writeRows writes a table. Everything in it is tame, whatever the journals say.
func writeRows(out *bufio.Writer, rows []sessionRow, short map[string]string, o tableOptions) {
	table := [][]string{{"session", "when", "state", "turns", "cost", "folder", "prompt"}}
	for _, r := range rows {
		table = append(table, []string{
			cmp.Or(short[r.ID], r.ID), ago(o.now.Sub(r.Written)), cut(tameLine(r.State), 16), strconv.Itoa(r.Turns), r.costText(), atHome(tameLine(r.Workspace), o.home), r.Prompt,
		})
	}
	const folder, prompt = 5, 6
	wide := make([]int, prompt)
	for _, line := range table {
		if o.width > 0 {
			line[folder] = cutFront(line[folder], max(o.width/4, 16))
		}
		for i := range wide {
			wide[i] = max(wide[i], width(line[i]))
		}
	}
	for _, line := range table {
		var b strings.Builder
		for i, n := range wide {
			b.WriteString(line[i] + strings.Repeat(" ", n-width(line[i])+2))
		}
		text := strings.TrimRight(b.String()+line[prompt], " ")
		if o.width > 0 {
			text = cut(text, o.width)
		}
		out.WriteString(text + "\n")
	}
}

func (r sessionRow) costText() string {
	switch {
	case r.Cost == nil:
		return "-"
	case r.AtLeast:
		return humanCost(*r.Cost) + "+"
	}
	return humanCost(*r.Cost)
}

// shortNames returns as much of each long name as tells it from the others, and a few letters at least. Names that somebody
// chose are mostly short, and stay.
func shortNames(list []sessionFolder) map[string]string {
	const least, long = 8, 24
	var names []string
	for _, f := range list {
		names = append(names, filepath.Base(f.dir))
	}
	slices.Sort(names)
	short := map[string]string{}
	for i, name := range names {
		n := least
		if len(name) <= long {
			n = len(name)
		}
		if i > 0 {
			n = max(n, common(name, names[i-1])+1)
		}
		if i+1 < len(names) {
			n = max(n, common(name, names[i+1])+1)
		}
		short[name] = name[:min(n, len(name))]
	}
	return short
}

// common is how many letters two names begin with alike.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// ago says how long ago something was.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return fmt.Sprintf("%d days ago", d/(24*time.Hour))
}

// atHome writes a path below the user's home with a tilde.
func atHome(path, home string) string {
	if rest, ok := strings.CutPrefix(path, home); ok && home != "" && (rest == "" || strings.HasPrefix(rest, "/")) {
		return "~" + rest
	}
	return path
}

// cutFront keeps the end of a path, which tells more than its beginning.
func cutFront(s string, columns int) string {
	if width(s) <= columns {
		return s
	}
	runes := []rune(s)
	for n := 1; len(runes) > 0; runes = runes[1:] { // one for the mark
		if n+width(string(runes)) <= columns {
			break
		}
	}
	return "…" + string(runes)
}

// theSession finds the session that an argument names: a name, its beginning, or latest, which is of this folder.
func theSession(name string) (dir string, err error) {
	state, _, err := sessionsRoot()
	if err != nil {
		return "", err
	}
	if name == "latest" {
		here, err := theWorkspace("")
		if err != nil {
			return "", err
		}
		if name, err = latestSession(state, here); err != nil {
			return "", err
		}
	}
	return findSession(state, name)
}

func sessionsShow(io IO) *cobra.Command {
	var f digestFlags
	cmd := &cobra.Command{
		Use:   "show ID|latest",
		Short: "say what happened in a session",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := theSession(args[0])
			if err != nil {
				return err
			}
			f.dialect = "native"
			return digest(cmd.Context(), io, f, []string{filepath.Join(dir, journalName)})
		},
	}
	cmd.Flags().BoolVar(&f.json, "json", false, "as one JSON object")
	return cmd
}

func sessionsPath(io IO) *cobra.Command {
	return &cobra.Command{
		Use:   "path ID|latest",
		Short: "print where a session's journal is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := theSession(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(io.Out, filepath.Join(dir, journalName))
			return err
		},
	}
}
