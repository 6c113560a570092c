package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/gate"
)

// ensoFace is ensō: its names for tools and their arguments. Reasoning is shown and not appended to the history: the model
// derives it anew each turn. Exit codes are ours, since its document gives none.
var ensoFace = face{
	name:    "enso",
	command: "enso run",
	tools:   map[string]string{"task": "spawn_agent"},
	args: map[string]map[string]string{
		"bash":  {"command": "cmd", "background": "run_in_background"},
		"read":  {"file_path": "path"},
		"write": {"file_path": "path"},
		"edit":  {"file_path": "path"},
		"task":  {"agent": "role"},
	},
	forget: true,
}

// ensoFlags are the flags of enso. Those of all its commands may stand before the command.
type ensoFlags struct {
	yolo, ephemeral, latest bool
	resume, agent           string
	turns                   int
	format, workflow        string

	// Not in its document: what a run of ours can be told, too.
	model       string
	allow, deny []string
	timeout     time.Duration
}

func ensoCommand(io IO) *cobra.Command {
	root := &cobra.Command{
		Use:     "enso",
		Short:   "be ensō",
		Version: programVersion(),
		Long: `Be ensō: run the agent with its flags, and tell the run in its words.

  enso run --yolo --format json "list .go files in cmd/"`,
	}
	f := &ensoFlags{}
	f.common(root.PersistentFlags())
	root.AddCommand(
		ensoRunCommand(io, f),
		ensoAbsent("tui", `enso run --format text "…" shows a run as text`),
		ensoAbsent("attach", "sluice watch --follow shows a run as it goes"),
	)
	return root
}

func (f *ensoFlags) common(set *pflag.FlagSet) {
	set.BoolVar(&f.yolo, "yolo", false, "allow all that no rule denies")
	set.StringVar(&f.resume, "resume", "", "go on with the session of this id")
	set.StringVar(&f.resume, "session", "", "the same")
	set.BoolVar(&f.latest, "continue", false, "go on with the last session of this folder")
	set.BoolVar(&f.ephemeral, "ephemeral", false, "keep nothing; the session has no id")
	set.IntVar(&f.turns, "max-turns", 0, "answers of the model, at most (0: as configured; -1: no limit)")
	set.StringVar(&f.agent, "agent", "", "profile of the agent: .sluice/agents/NAME.md")
	set.StringVar(&f.model, "model", "", "provider/name of the model (else SLUICE_MODEL, and so on as in sluice run)")
	set.StringArrayVar(&f.allow, "allow", nil, "let pass: 'bash(git *)', 'edit(src/**)'; may be repeated")
	set.StringArrayVar(&f.deny, "deny", nil, "never let pass, not even with --yolo; may be repeated")
	set.DurationVar(&f.timeout, "timeout", 0, "end the run after this time (0: never)")
}

func ensoRunCommand(io IO, f *ensoFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags] [prompt…]",
		Short: "run the agent on a prompt, or on what stdin says",
		Long: `Run the agent on a prompt: that of the arguments or, if there are none, what stdin says. "/NAME args" is what the skill of that
name says. With --format json stdout is one JSON object a line, from session_start to session_end, and nothing else. What no rule
allows is denied, since nobody is there to ask; --yolo allows it. The exit code is the outcome:

` + exitTable + `

  enso run --yolo --format json "list .go files in cmd/"
  echo "review the last commit" | enso run --format json --allow 'bash(git *)'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd.Flags())
			switch {
			case err != nil && o.format == "enso":
				o.wrong = hinted{err, o.help()} // there is a reader who waits for an end
			case err != nil:
				return hinted{err, o.help()}
			}
			if len(args) > 0 {
				io.In = nil // the prompt is the one or the other
			}
			return exitWith(o.run(cmd.Context(), io, args))
		},
	}
	cmd.Flags().StringVar(&f.format, "format", "text", "text or json")
	cmd.Flags().StringVar(&f.workflow, "workflow", "", "let the roles of .sluice/workflows/NAME.md do it")
	return cmd
}

// options are a run of ours that does what the flags say.
func (f *ensoFlags) options(set *pflag.FlagSet) (runOptions, error) {
	o := defaults()
	o.face = ensoFace
	formats := map[string]string{"text": "text", "json": "enso"}
	o.format, o.ephemeral, o.profile = formats[f.format], f.ephemeral, f.agent
	named := set.Changed("resume") || set.Changed("session")
	switch {
	case o.format == "":
		return o, fmt.Errorf("--format %q: it is text or json", f.format)
	case set.Changed("workflow") && f.workflow == "":
		return o, errors.New("--workflow needs the name of a workflow")
	case f.workflow != "" && (f.latest || named):
		return o, errors.New("the roles of --workflow begin anew: neither --resume nor --continue go with it")
	case f.turns < -1:
		return o, fmt.Errorf("--max-turns %d: it is a number of turns, 0 for as many as configured, or -1 for no limit", f.turns)
	case f.latest && named:
		return o, errors.New("--continue goes on with the last session, --resume with the one that it names: only one of them")
	case named && f.resume == "":
		return o, errors.New("--resume needs the id of a session")
	case f.latest:
		f.resume = "latest"
	}
	o.resume, o.workflow = f.resume, f.workflow
	c := &o.flags.Config
	o.flags.Keys = changed(set)
	c.Model, c.Allow, c.Deny, c.Timeout = f.model, f.allow, f.deny, config.Duration(f.timeout)
	switch {
	case f.turns > 0:
		c.MaxTurns = f.turns
	case f.turns < 0:
		c.MaxTurns = 0 // which is our word for it
	default:
		o.flags.Keys = slices.DeleteFunc(o.flags.Keys, func(key string) bool { return key == "max_turns" })
	}
	if f.yolo {
		c.Mode = gate.ModeYolo
		o.given("mode")
	}
	return o, o.check()
}

// ensoAbsent is a command that needs a person at a terminal.
func ensoAbsent(name, instead string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              "not here: " + instead,
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return hinted{fmt.Errorf("enso %s is for a person at a terminal, and not here", name), instead}
		},
	}
}
