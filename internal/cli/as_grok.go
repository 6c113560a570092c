package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/provider"
)

// grokFace is grok: one command, one prompt, a stream of steps. See docs/as-grok.md.
var grokFace = face{
	name:  "grok",
	tools: map[string]string{"read": "read_file", "write": "write_file", "edit": "edit_file", "bash_output": "process_logs"},
	args:  map[string]map[string]string{"read": {"file_path": "path"}, "write": {"file_path": "path"}, "edit": {"file_path": "path"}},
	exit:  grokExit,
}

// grokExit is the exit code by its table, which ends at 4. A signal has its own.
func grokExit(end event.RunEnd, _ outcome.Verdict) int {
	switch end.Outcome {
	case event.Denied, event.Budget, event.Unverified, event.Timeout:
		return exits[event.Failed]
	case event.Stalled:
		return exits[event.Unavailable]
	}
	return exitCode(end)
}

// grokFlags are those that are not ours by another name.
type grokFlags struct {
	prompt, format, model           string
	rounds                          int
	sandbox, noSandbox, withNetwork bool
}

func grokCommand(io IO) *cobra.Command {
	var g grokFlags
	o := defaults()
	o.face = grokFace
	cmd := &cobra.Command{
		Use:     "grok --prompt TEXT",
		Short:   "run the agent as grok does",
		Version: programVersion(),
		Long: `Run the agent on a prompt, as grok does when nobody watches it. With --format json stdout is one JSON object per line:
step_start, text, tool_use, step_finish, and error as the last line of a run that failed. The exit code is

  0 success              2 may pass: network, rate limit, stalled     4 internal error
  1 wrong usage, no key  3 the agent or a tool failed                 130, 143 stopped by INT, TERM

A model without a provider, as in grok-4.6, is that of SLUICE_MODEL's provider; else of xAI, if -k, -u, GROK_API_KEY,
GROK_BASE_URL or XAI_API_KEY say so; else of the first provider whose key is set.

  grok --prompt "rename foo to bar" --format json --max-tool-rounds 200`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return hinted{errors.New("words that belong to no flag: the prompt goes with --prompt"), `grok --prompt "rename foo to bar"`}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.fill(io, &o); err != nil {
				return err
			}
			io.In = nil // it is never part of the prompt
			return exitWith(o.run(cmd.Context(), io, []string{g.prompt}))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&g.prompt, "prompt", "p", "", "what to do")
	f.StringVar(&g.format, "format", "text", "text, json, or raw: json with pieces of text as they come, which is unstable")
	f.StringVarP(&g.model, "model", "m", "", "name of the model, or provider/name (SLUICE_MODEL, GROK_MODEL)")
	f.StringVarP(&o.key, "api-key", "k", "", "key of the model's provider; others on this machine may see it: GROK_API_KEY is better")
	f.StringVarP(&o.baseURL, "base-url", "u", "", "address of the model's server (GROK_BASE_URL)")
	f.StringVarP(&o.workspace, "directory", "d", "", "folder to work in (the current one)")
	f.StringVarP(&o.resume, "session", "s", "", "go on with a session: its id, or latest for the last one of this folder")
	f.IntVar(&g.rounds, "max-tool-rounds", 400, "rounds of tool calls, at most")
	f.BoolVar(&g.sandbox, "sandbox", false, "walls around commands, or no run")
	f.BoolVar(&g.noSandbox, "no-sandbox", false, "no walls around commands")
	f.BoolVar(&g.withNetwork, "allow-net", false, "commands in the sandbox may use the network")
	f.BoolP("version", "V", false, "print the version")
	return cmd
}

// fill makes a run of the flags, or says what is wrong with them.
func (g grokFlags) fill(io IO, o *runOptions) error {
	switch g.format {
	case "text":
		o.format = "text"
	case "json", "raw":
		o.format, o.tell.Deltas = "grok", g.format == "raw"
	default:
		return hinted{fmt.Errorf("--format %q: it is one of text, json, raw", g.format), o.help()}
	}
	if g.rounds <= 0 {
		return hinted{fmt.Errorf("--max-tool-rounds %d: there must be one at least", g.rounds), o.help()}
	}
	if g.sandbox && g.noSandbox {
		return hinted{errors.New("--sandbox and --no-sandbox: it is one of them"), o.help()}
	}
	o.steps, o.orNew = g.rounds, o.resume == "latest"
	o.session = "ses_" + newSession()
	if g.sandbox || g.noSandbox {
		o.flags.Sandbox = map[bool]string{true: "require", false: "off"}[g.sandbox]
		o.given("sandbox")
	}
	if g.withNetwork {
		o.flags.Network = true
		o.given("network")
	}
	o.board = grokBoard{noticeboard{io.Err}}
	own := o.key != "" || o.baseURL != ""
	o.asked = grokNobody
	o.otherwise = func(p provider.Options) (name, why string) { return grokChoice(p, own) }
	if name := grokModel(g.model, own); name != "" {
		o.flags.Model = name
		o.given("model")
	}
	return nil
}

// A grokBoard shows a person also what is wrong with a server of tools: in the stream an error is the end.
type grokBoard struct{ noticeboard }

// Put implements [event.Sink].
func (g grokBoard) Put(e event.Event) error {
	if b, ok := e.Body.(event.Error); ok && b.Class == "mcp" {
		e.Body = event.Notice{Text: b.Message}
	}
	return g.noticeboard.Put(e)
}

// grokModel is the model that somebody named, with its provider. It is empty if nobody did, or in another place.
func grokModel(name string, own bool) string {
	set := os.Getenv("SLUICE_MODEL")
	if name == "" && set == "" {
		name = os.Getenv("GROK_MODEL")
	}
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	at, _, _ := strings.Cut(set, "/")
	switch at {
	case "script", "demo": // which have one model
		return set
	case "":
		chosen, _ := grokChoice(provider.Options{}, own)
		at, _, _ = strings.Cut(chosen, "/")
	}
	return at + "/" + name
}

// grokChoice is the model when nobody named one: xAI's, if own says so or the environment has something of it; else what
// we would choose ourselves, but for the demo: here it is an error if there is no key.
func grokChoice(p provider.Options, own bool) (name, why string) {
	for _, v := range []string{"GROK_API_KEY", "GROK_BASE_URL", "XAI_API_KEY"} {
		own = own || os.Getenv(v) != ""
	}
	if !own {
		name, why = provider.Choose(p)
	}
	if own || name == "demo/demo" {
		p.Env = func(v string) string { return map[string]string{"XAI_API_KEY": "one"}[v] }
		name, _ = provider.Choose(p)
		why = ""
	}
	return name, why
}

// grokNobody denies what is asked about, in the words of its document, and says what would let it pass. Everything is allowed here
// that no rule speaks of, so it is a rule that asks: another one that allows it would not count beside that.
var grokNobody = gate.AnswererFunc(func(q event.GateAsked, answer func(gate.Answer) error) {
	what := "call"
	if q.Permission == "bash" {
		what = "command"
	}
	var about []string
	for _, p := range q.Patterns {
		about = append(about, gate.RuleText(event.Rule{Permission: q.Permission, Pattern: p}))
	}
	why := fmt.Sprintf("Tool `%s` denied: %s not in allowlist, since a rule asks about %s, and nobody is there; to let it pass, %s",
		q.Tool, what, first(strings.Join(about, ", "), q.Permission), askedByConfig)
	_ = answer(gate.Answer{By: event.ByNobody, Reason: why}) // late: somebody was there after all
})

// askedByConfig is what to do about a rule that asks, where no flag and no variable overrules it.
const askedByConfig = `take the rule that asks away, or make it narrower ("sluice config show" says where those of the configuration stand)`
