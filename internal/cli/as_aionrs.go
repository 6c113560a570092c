package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// aionrsFace is aionrs: a conversation with a client at the other end of stdin and stdout. See docs/as-aionrs.md.
var aionrsFace = face{
	name: "aionrs",
	tools: map[string]string{
		"read": "Read", "write": "Write", "edit": "Edit", "bash": "Bash", "glob": "Glob", "grep": "Grep", "task": "Spawn", "skill": "Skill",
		"bash_output": "", "todo": "", // which its document does not have
	},
	calls:  map[string]string{"Write": "Write to %s", "Bash": "Execute: %s", "Glob": "Search for %s", "Grep": "Grep %s", "Spawn": "Spawn: %s"},
	longer: longer,
	exit:   aionrsExit,
}

// aionrsExit: a conversation that came to its end is 0, whatever became of its replies; what stops it has its own code; the rest
// is fatal.
func aionrsExit(end event.RunEnd, _ outcome.Verdict) int {
	switch end.Outcome {
	case event.Done, event.Cancelled:
		return exitCode(end)
	}
	return exitUsage
}

// aionrsFlags are those that are not ours by another name.
type aionrsFlags struct {
	stream, yolo, configPath bool
	provider, model          string
	maxTurns                 int
}

func aionrsCommand(io IO) *cobra.Command {
	var a aionrsFlags
	o := defaults()
	o.face = aionrsFace
	cmd := &cobra.Command{
		Use:     "aionrs --json-stream",
		Short:   "talk to a client as aionrs does: commands on stdin, events on stdout",
		Version: "0.1.0 (sluice " + programVersion() + ")",
		Long: `Talk to a client, as aionrs does: one JSON object to a line, commands on stdin, events on stdout. The client waits for "ready" and sends
messages; the agent answers each with a stream, and asks before it uses a tool. It ends when stdin does (exit 0) or at SIGTERM (143); what
is fatal is an event too (1).

  aionrs --json-stream --provider anthropic --model claude-sonnet-4-20250514`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return hinted{errors.New("words that belong to no flag: messages come on stdin"), "aionrs --help"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.configPath {
				path, err := config.Path(os.Getenv)
				if err == nil {
					_, err = fmt.Fprintln(io.Out, path)
				}
				return err
			}
			if !a.stream {
				return hinted{errors.New("there is nobody to talk to without --json-stream"), "aionrs --json-stream, or sluice run for a task"}
			}
			o.wrong = either(a.fill(&o), unnamed(cmd.Flags()), o.check())
			return exitWith(o.run(cmd.Context(), io, nil))
		},
	}
	cmd.SetVersionTemplate("aionrs {{.Version}}\n")
	f := cmd.Flags()
	f.BoolVar(&a.stream, "json-stream", false, "commands on stdin, events on stdout")
	f.StringVar(&a.provider, "provider", "", "anthropic, openai, bedrock, vertex, or another that Sluice knows")
	f.StringVar(&a.model, "model", "", "name of the model (SLUICE_MODEL: provider/name)")
	f.IntVar(&o.maxTokens, "max-tokens", 0, "tokens of one answer (0: the model's usual)")
	f.IntVar(&a.maxTurns, "max-turns", 0, "answers of the model to one message, at most (0: the configuration's)")
	f.StringVar(&o.baseURL, "base-url", "", "address of the provider's server, with or without /v1")
	f.StringVar(&o.system, "system-prompt", "", "instead of our own instructions to the model")
	f.BoolVar(&a.yolo, "auto-approve", false, "begin in mode yolo: tools are not asked about")
	f.StringVar(&o.workspace, "workspace", "", "folder to work in (the current one)")
	f.StringVar(&o.session, "session-id", "", "name of the session (a new one); it must not be there yet")
	f.StringVar(&o.resume, "resume", "", "go on with a session: its name, or latest for the last one of this folder")
	f.BoolVar(&a.configPath, "config-path", false, "print where the configuration is")
	return cmd
}

// aionrsHurry is less than the half minute that its clients wait for ready.
const aionrsHurry = 20 * time.Second

// fill makes a run of the flags, or says what is wrong with them.
func (a aionrsFlags) fill(o *runOptions) error {
	client := &aionrsClient{}
	o.format, o.tell.Starting = "aionrs", true
	o.asked, o.door, o.eager, o.hurry = client, client.door, true, aionrsHurry
	o.deniedOK = true // the client said no himself
	// A conversation has no clock, and begins in the mode that the flags say.
	o.given("mode", "timeout", "stall")
	if a.yolo {
		o.flags.Mode = "yolo"
	}
	if a.maxTurns != 0 {
		o.flags.MaxTurns = a.maxTurns
		o.given("max_turns")
	}
	if a.provider == "openai" {
		o.baseURL = versioned(first(o.baseURL, os.Getenv("OPENAI_BASE_URL")))
	}
	switch {
	case a.provider != "" && a.model != "":
		o.flags.Model = a.provider + "/" + a.model
	case a.model != "": // provider/name, as ours
		o.flags.Model = a.model
	case a.provider != "" && !strings.HasPrefix(os.Getenv("SLUICE_MODEL"), a.provider+"/"):
		return hinted{fmt.Errorf("--provider %s without --model", a.provider), "--model names the model"}
	default:
		return nil
	}
	o.given("model")
	return nil
}

// unnamed says whether a flag that names a session has no name, as of a variable that is not set: who asked for a conversation
// should not get another one.
func unnamed(set *pflag.FlagSet) error {
	for _, name := range []string{"resume", "session-id"} {
		if f := set.Lookup(name); f.Changed && f.Value.String() == "" {
			return hinted{fmt.Errorf("--%s needs the name of a session", name), "aionrs --help"}
		}
	}
	return nil
}

// versioned puts the version behind an OpenAI address that has none: some clients take it off.
func versioned(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || regexp.MustCompile(`/v\d+[a-z0-9]*/?$`).MatchString(u.Path) {
		return address
	}
	return u.JoinPath("v1").String()
}
