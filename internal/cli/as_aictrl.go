package cli

import (
	_ "embed"
	"errors"
	"fmt"
	goio "io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/event"
)

// aictrlFace is aictrl: its names for tools, their arguments and their permissions. Its document gives no exit codes, so they
// are ours. See docs/as-aictrl.md.
var aictrlFace = face{
	name:    "aictrl",
	command: "aictrl run",
	tools:   map[string]string{"todo": "todowrite"},
	args: map[string]map[string]string{
		"read":  {"file_path": "filePath"},
		"write": {"file_path": "filePath"},
		"edit":  {"file_path": "filePath", "old_string": "oldString", "new_string": "newString", "replace_all": "replaceAll"},
		"grep":  {"glob": "include"},
		"task":  {"agent": "subagent_type"},
	},
	permit: aictrlPermission,
}

// aictrlFlags are those that are not ours by another name.
type aictrlFlags struct {
	model, format, session, agent string
	latest, thinking              bool
}

func aictrlCommand(io IO) *cobra.Command {
	root := &cobra.Command{
		Use:     "aictrl",
		Short:   "be aictrl",
		Version: programVersion(),
		Long: `Be aictrl: run the agent with its flags, and tell the run in its words.

  aictrl run --format json "review this"      one JSON object per line, from session_start to session_complete
  aictrl events                               what these lines are`,
		RunE: func(*cobra.Command, []string) error {
			return hinted{errors.New("aictrl is played without a screen: say what to do"), `aictrl run "review this"`}
		},
	}
	root.AddCommand(aictrlRunCommand(io), aictrlEventsCommand(io))
	return root
}

func aictrlRunCommand(io IO) *cobra.Command {
	var a aictrlFlags
	o := defaults()
	o.face = aictrlFace
	cmd := &cobra.Command{
		Use:   "run [message…]",
		Short: "run the agent on a message",
		Long: `Run the agent on a message, as aictrl does; what stands on stdin follows it. With --format json stdout is one JSON object per
line, from session_start to session_complete, and nothing else; "aictrl events" describes them. The exit code is the outcome:

` + exitTable + `

AICTRL_PERMISSION has rules, as in {"bash":{"*":"ask","git *":"allow"},"write":"deny"}: the last one that matches counts, and what it
asks about is rejected, since nobody is there. Without it everything is allowed. AICTRL_MODELS_PATH names a file in the form of
models.dev with the prices and windows of models.

  aictrl run --format json -m anthropic/claude-sonnet-4-20250514 "review this"
  git diff | aictrl run --format json --agent reviewer "review this"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.fill(io, &o); err != nil {
				return err
			}
			return exitWith(o.run(cmd.Context(), io, args))
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.format, "format", "default", "default (text) or json")
	f.StringVarP(&a.model, "model", "m", "", "provider/model (else SLUICE_MODEL, and so on as in sluice run)")
	f.StringVar(&a.agent, "agent", "", "profile of the agent: .sluice/agents/NAME.md")
	f.BoolVar(&a.thinking, "thinking", false, "show what the model thinks")
	f.BoolVarP(&a.latest, "continue", "c", false, "go on with the last session of this folder")
	f.StringVarP(&a.session, "session", "s", "", "go on with the session of this id")
	f.StringArrayVarP(&o.files, "file", "f", nil, "file to go with the message: text or an image; may be repeated")
	f.StringVar(&o.label, "title", "", "a name for the session")
	f.StringVar(&o.workspace, "dir", "", "folder to work in (the current one)")
	f.StringVar(&o.command, "command", "", "skill to apply; the message is its arguments")
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if a.format == "json" { // stdout is for the stream
			cmd.SetOut(io.Err)
		}
		help(cmd, args)
	})
	return cmd
}

// fill makes a run of the flags and of the environment, or says what is wrong with them.
func (a aictrlFlags) fill(io IO, o *runOptions) error {
	switch a.format {
	case "default":
		o.format = "text"
	case "json":
		o.format = "aictrl"
	default:
		return hinted{fmt.Errorf("--format %q: it is one of default, json", a.format), o.help()}
	}
	if a.latest && a.session != "" {
		return hinted{errors.New("--continue and --session: it is one of them"), o.help()}
	}
	o.tell.NoThoughts = !a.thinking
	o.session, o.resume = "ses_"+newSession(), a.session
	if a.latest {
		o.resume, o.orNew = "latest", true
	}
	if !slices.Contains([]string{"default", "build"}, a.agent) { // both are what it calls the one that nobody named
		o.profile = a.agent
	}
	if a.model != "" {
		o.flags.Model = a.model
		o.given("model")
	}
	if o.workspace != "" { // it goes there first, and then looks at the files
		for i, f := range o.files {
			if !filepath.IsAbs(f) {
				o.files[i] = filepath.Join(o.workspace, f)
			}
		}
	}
	o.board = noticeboard{io.Err}
	o.dumb, _ = strconv.ParseBool(os.Getenv("AICTRL_HEADLESS"))
	o.law = aictrlLaw
	o.asked = aictrlNobody
	o.prices = aictrlPrices(io.Err, os.Getenv("AICTRL_MODELS_PATH"))
	return nil
}

// A noticeboard shows notices to a person: the dialect has no word for them.
type noticeboard struct{ w goio.Writer }

// Put implements [event.Sink].
func (n noticeboard) Put(e event.Event) (err error) {
	if b, ok := e.Body.(event.Notice); ok {
		_, err = fmt.Fprintf(n.w, "sluice: %s\n", oneLine(b.Text))
	}
	return err
}

// aictrlEvents describes the stream. A test holds it to the shapes that the dialect has.
//
//go:embed as_aictrl_events.md
var aictrlEvents string

func aictrlEventsCommand(io IO) *cobra.Command {
	var version bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "describe the stream of events",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text := aictrlEvents
			if version {
				text = "1\n"
			}
			_, err := fmt.Fprint(io.Out, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&version, "schema-version", false, "print the version of its schema, and nothing else")
	return cmd
}
