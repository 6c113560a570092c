package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/spell"
)

// A face is a system that we play: its words for tools, its rules and its exit codes. The zero face is our own. Each has a file,
// as_NAME.go, that makes a run of its flags; the agent and the gate are the same behind all of them.
type face struct {
	name    string                                  // whose rules it has, too: gate.Defaults
	command string                                  // that the run was started by, as in "aictrl run"; empty: its name
	tools   map[string]string                       // its names for our tools; where it is empty it has no such tool
	args    map[string]map[string]string            // its names for the arguments of our tools, by ours
	permit  func(tool, permission string) string    // its names for permissions; nil: ours
	options []event.Option                          // its answers to questions; nil: [gate.Options]
	denied  string                                  // how a reply ends that came to its end without what was denied; empty: well, and only the run is denied
	longer  string                                  // how an answer can be longer than its limit, if there is a flag for it
	forget  bool                                    // what the model thought is not told to it again
	calls   map[string]string                       // what it calls calls of its tools, with %s for their title; their name and that, if it is not there
	exit    func(event.RunEnd, outcome.Verdict) int // its exit codes; nil: ours
}

// A commandLine is how a face is called.
type commandLine struct {
	command func(IO) *cobra.Command
	arrange func(root *cobra.Command, args []string) []string // puts arguments as we expect them; nil: they are so
}

// faces are those that can be played.
func faces() map[string]commandLine {
	return map[string]commandLine{
		"aictrl": {command: aictrlCommand},
		"aionrs": {command: aionrsCommand},
		"avenor": {command: avenorCommand, arrange: avenorArgs},
		"enso":   {command: ensoCommand},
		"grok":   {command: grokCommand},
	}
}

// code is the exit code of a run that ended so.
func (f face) code(end event.RunEnd, v outcome.Verdict) int {
	if f.exit != nil {
		return f.exit(end, v)
	}
	return exitCode(end)
}

// named are tools by the names that they have here. A list may have them by ours.
func (f face) named(list []string) []string {
	if list == nil {
		return nil
	}
	names := make([]string, 0, len(list))
	for _, n := range list {
		if here, ok := f.tools[n]; ok {
			n = here
		}
		if n != "" {
			names = append(names, n)
		}
	}
	return names
}

// faceNames are the names of all faces.
func faceNames() []string { return slices.Sorted(maps.Keys(faces())) }

func asCommand(io IO) *cobra.Command {
	return &cobra.Command{
		Use:   "as NAME [its arguments…]",
		Short: "be another system: " + strings.Join(faceNames(), ", "),
		Long: `Be another system: take its flags, speak its dialect, use its tool names, and exit with its codes. A program that was written
against one of them works unchanged on Sluice. The same happens when this program is called by one of these names; "sluice link
DIR" makes the links.

  sluice as grok --prompt "rename foo to bar" --format json
  sluice as aictrl run --format json "review this"
  sluice as enso run --format json "list .go files"
  sluice as aionrs --json-stream
  sluice as avenor run --prompt "fix the tests" --on-event run.ndjson`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
				return cmd.Help()
			}
			face, ok := faces()[args[0]]
			if !ok {
				return hinted{fmt.Errorf("nobody knows how to be %q", args[0]), guess("sluice as ", args[0], faceNames())}
			}
			root, args := face.command(io), args[1:]
			dress(root, io)
			if face.arrange != nil {
				args = face.arrange(root, args)
			}
			root.SetArgs(args)
			return root.ExecuteContext(cmd.Context())
		},
	}
}

// guess is the command that somebody probably meant, or all that there are.
func guess(prefix, word string, words []string) string {
	if near := spell.Nearest(word, words); near != "" {
		return prefix + near
	}
	return prefix + strings.Join(words, "|")
}

// calledAs says whether the program was called by the name of a face, and returns the arguments of ours that mean the same.
func calledAs(argv []string) []string {
	name := strings.TrimSuffix(filepath.Base(argv[0]), ".exe")
	if _, ok := faces()[name]; ok {
		return append([]string{"as", name}, argv[1:]...)
	}
	return argv[1:]
}

func linkCommand(io IO) *cobra.Command {
	return &cobra.Command{
		Use:   "link DIR",
		Short: "make links to this program by the names of the systems that it can be",
		Long: `Make links to this program in DIR, by the names of the systems that it can be: ` + strings.Join(faceNames(), ", ") + `.
A file of that name that is there already is left alone, and told.

  sluice link ~/bin`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := os.Executable()
			if err == nil {
				target, err = filepath.EvalSymlinks(target)
			}
			if err == nil {
				err = os.MkdirAll(args[0], 0o777)
			}
			if err != nil {
				return err
			}
			var taken []string
			for _, name := range faceNames() {
				path := filepath.Join(args[0], name)
				switch err := os.Symlink(target, path); {
				case errors.Is(err, fs.ErrExist):
					if at, _ := filepath.EvalSymlinks(path); at != target {
						taken = append(taken, path)
						continue
					}
				case err != nil:
					return err
				}
				fmt.Fprintln(io.Out, path)
			}
			if len(taken) > 0 {
				return hinted{fmt.Errorf("not ours, and left alone: %s", strings.Join(taken, ", ")), "sluice link DIR, with another folder"}
			}
			return nil
		},
	}
}
