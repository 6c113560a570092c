package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/mcp"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/provider"
)

// runOptions are the flags of a run.
type runOptions struct {
	flags   config.Flags // those that the configuration has too
	profile string       // --agent
	checks  *checks

	baseURL                    string
	maxTokens, rounds, depth   int
	retryFor, idle             time.Duration
	onAsk                      string
	deniedOK, autoApprove      bool
	format                     string
	workspace, session, resume string
	system, promptFile         string
	files                      []string
	ephemeral                  bool
	requireMCP                 []string
	terminal                   string // of a guest that needs one: pty (or empty), tmux

	steering
	handler string        // who is asked: file:BASE, or nobody
	patient time.Duration // how long an answer is waited for
	label   string        // a person's name for the run
	guest   string        // who does the work, if it is not our own agent

	// What only a face sets.
	face     face
	tell     dialect.Options
	asked    gate.Answerer // who answers questions, if it is somebody else
	helm     *helm         // by which it is steered, if somebody has it already
	door     door          // what lets commands in, instead of one message
	runID    string        // of the run, where it is not the session's
	wrong    error         // with the flags: it is told in the stream, and the run is over
	eager    bool          // the model is opened before the first message, so that who has no key is told at once
	hurry    time.Duration // how long MCP servers may take to start, where somebody waits for the run to be there; 0: the usual
	board    event.Sink    // where a person reads what the dialect has no word for
	shown    event.Sink    // where the stream goes, if not to stdout
	inner    bool          // it is one of several in this program: signals are not its own
	servers  []mcp.Server  // besides those of the configuration
	plan     *plan         // phases to work through, instead of a message
	workflow string        // name of one by whose roles the message is answered
	command  string        // skill that the prompt is for, as if it began with a slash and its name
	orNew    bool          // begin a session if there is none to go on with
	dumb     bool          // text is for a file, even on a terminal
	law      law           // rules of which the last that matches counts, read as the face does
	key      string        // the model's, where a flag may name it
	steps    int           // answers with calls: those of the last are done, and it is the end

	prices    func(prov, model string) (p provider.Price, ok bool) // what models cost, where the configuration does not say
	otherwise func(provider.Options) (name, why string)            // chooses a model when nobody did, and says why, if somebody should know; nil: [provider.Choose]

	filter event.Filter // what every event passes on its way, once there are no secrets in it
	repeat repeat       // when the message is sent again
	over   aftermath    // told of the end, when the stream has it
}

// A law is the rules of a face that are read in another way than ours: how they are told, and which one counts for an access.
type law func(workspace, home string) (rules []event.Rule, own func(gate.Access) *event.Rule, err error)

// A door lets commands into a run while it goes on, and closes the inbox when nothing more will come. It ends with ctx.
type door func(ctx context.Context, r *runner, inbox chan<- event.Command)

// An aftermath is told how a run ended: its session, its end, the verdict that this was made of, and the exit code.
type aftermath func(session string, end event.RunEnd, v outcome.Verdict, code int)

// defaults are the flags of a run as they are when nobody sets them. The configuration has its own.
func defaults() runOptions {
	return runOptions{checks: &checks{}, flags: config.Flags{Config: config.Defaults()}, retryFor: 10 * time.Minute, idle: 5 * time.Minute, onAsk: "deny", patient: 10 * time.Minute, depth: 3}
}

// given says that a key of the configuration was set by a flag.
func (o *runOptions) given(keys ...string) { o.flags.Keys = append(o.flags.Keys, keys...) }

// help is what to type to learn more.
func (o runOptions) help() string {
	if o.face.name == "" {
		return "sluice run --help"
	}
	return first(o.face.command, o.face.name) + " --help"
}

// orHelp is a hint that names a flag of ours, or where a face tells of its own.
func (o runOptions) orHelp(hint string) string {
	if o.face.name == "" {
		return hint
	}
	return o.help()
}

func runCommand(io IO) *cobra.Command {
	o := defaults()
	cmd := &cobra.Command{
		Use:   "run [flags] [prompt…]",
		Short: "run the agent, headless, until the task is done",
		Long: `Run the agent on a task. The prompt is what stands in the arguments, in --prompt-file, and on stdin if that is a pipe
or a file; a pipe beside another prompt that says nothing for two seconds is left alone. A prompt that begins with a
dash stands after --. stdout is the stream of events, in the dialect that --format names, and nothing else; on a
terminal it is readable text. The exit code is the outcome:

` + exitTable + `

The model is --model, or SLUICE_MODEL, or the one in the configuration, or that of the first key found in the
environment, or a local server's, or "demo/demo": a small built-in one that needs no key and no network.

  sluice run "What is in this folder?"
  sluice run --model anthropic/claude-sonnet-5-5 --allow 'bash(go test *)' --mode auto_edit "fix the failing test"
  git diff | sluice run --format aictrl "review this" > review.ndjson`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.flags.Keys = changed(cmd.Flags())
			if err := either(unset(cmd), o.check()); err != nil {
				return err
			}
			return exitWith(o.run(cmd.Context(), io, args))
		},
	}
	f, c, d := cmd.Flags(), &o.flags.Config, o.flags.Config
	o.workFlags(f)
	f.StringVarP(&c.Model, "model", "m", "", "provider/name of the model")
	f.StringVar(&o.baseURL, "base-url", "", "address of the provider's server")
	f.StringVar(&c.Thinking, "thinking", "", "how much the model thinks first: off, low, medium, high")
	f.IntVar(&o.maxTokens, "max-tokens", 0, "tokens of one answer (0: the model's usual)")
	f.IntVar(&c.MaxTurns, "max-turns", d.MaxTurns, "answers of the model, at most (0: no limit)")
	f.IntVar(&o.rounds, "max-tool-rounds", 0, "rounds of tool calls, at most (0: no limit)")
	f.IntVar(&c.Retries, "retries", d.Retries, "how often a request is sent again")
	f.DurationVar(&o.retryFor, "retry-for", o.retryFor, "how long a request is sent again")
	f.DurationVar(&o.idle, "idle", o.idle, "how long the model's server may be silent in the middle of an answer")
	f.StringVar(&o.system, "system-prompt", "", "instead of our own instructions to the model")
	f.IntVar(&c.Limits.MaxToolCalls, "max-tool-calls", 0, "budget: tool calls, sub-agents' included (0: no limit)")
	f.Int64Var(&c.Limits.MaxTotalTokens, "max-total-tokens", 0, "budget: tokens in and out, sub-agents' included (0: no limit)")
	f.Float64Var(&c.Limits.MaxCost, "max-cost", 0, "budget: US dollars where the price is known, sub-agents' included (0: no limit)")
	f.IntVar(&o.depth, "max-depth", o.depth, "how deep sub-agents may be nested (0: none)")
	f.StringVar(&o.profile, "agent", "", "profile of the agent: .sluice/agents/NAME.md")
	f.StringArrayVar(&o.requireMCP, "require-mcp", nil, "MCP server that must answer; may be repeated")
	f.StringVar(&c.Sandbox, "sandbox", d.Sandbox, "walls around commands: auto (what the machine has), require (all of them), off")
	f.BoolVar(&c.Network, "network", d.Network, "commands in the sandbox may use the network")
	f.StringVar(&o.checks.schemaFile, "output-schema", "", "file with a JSON Schema that the final answer must fit")
	f.StringArrayVar(&o.checks.requireTools, "require-tool", nil, "tool that must be there and be called; may be repeated")
	return cmd
}

// workFlags are those of a run whoever does the work: what may pass, who is asked, where it works, what is kept, and what must hold.
func (o *runOptions) workFlags(f *pflag.FlagSet) {
	c := &o.flags.Config
	f.StringVar(&c.Mode, "mode", c.Mode, "what passes without a rule: default (nothing), auto_edit (looking and editing), yolo (everything)")
	f.StringArrayVar(&c.Allow, "allow", nil, "let pass: 'bash(git *)', 'edit(src/**)', 'outside(/tmp/**)'; may be repeated")
	f.StringArrayVar(&c.Ask, "ask", nil, "ask about what this rule matches; may be repeated")
	f.StringArrayVar(&c.Deny, "deny", nil, "never let pass, in no mode; may be repeated")
	o.askFlags(f)
	o.steering.flags(f)
	f.BoolVar(&o.autoApprove, "auto-approve", false, "answer every question with yes: what no rule denies passes, and that it was asked is told")
	f.BoolVar(&o.deniedOK, "denied-ok", false, "a run with denied calls is done all the same")
	f.StringVar(&o.format, "format", "", "text, "+dialectNames()+" (native if stdout is not a terminal)")
	f.StringVarP(&o.workspace, "workspace", "C", "", "folder to work in (the current one)")
	f.StringVar(&o.session, "session-id", "", "name of the session (a new one)")
	f.StringVar(&o.resume, "resume", "", "go on with a session: its name, or latest for the last one of this folder")
	f.StringVar(&o.promptFile, "prompt-file", "", "file with the prompt")
	f.StringArrayVarP(&o.files, "file", "f", nil, "file to go with the prompt: text or an image; may be repeated")
	f.BoolVar(&o.ephemeral, "ephemeral", false, "keep no journal after the run")
	f.DurationVar((*time.Duration)(&c.Timeout), "timeout", 0, "end the run after this time (0: never)")
	f.DurationVar((*time.Duration)(&c.Stall), "stall", 0, "end the run when nothing happened for this time (0: never)")
	f.StringVar(&o.checks.verify, "verify", "", "command that must succeed when the agent is done")
	f.BoolVar(&o.checks.expectChange, "expect-change", false, "something must have changed in the git work tree")
}

// unset says whether a flag has nothing that must have something, as of a variable that is not set: who asked for a session, a
// folder or a check should not silently go without.
func unset(cmd *cobra.Command) error {
	for _, name := range []string{"resume", "session-id", "workspace", "prompt-file", "agent", "output-schema", "verify", "control-socket", "permission-handler"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return hinted{fmt.Errorf("--%s is empty", name), cmd.CommandPath() + " --help"}
		}
	}
	return nil
}

// changed lists the keys of the configuration whose flags were given.
func changed(f *pflag.FlagSet) (keys []string) {
	f.Visit(func(f *pflag.Flag) {
		if key, ok := config.KeyOf("--" + f.Name); ok {
			keys = append(keys, key)
		}
	})
	return keys
}

// exitWith makes an error of an exit code: everything has been said.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return exitError(code)
}

// An exitError ends the program with this code and says nothing.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// hint adds what to type to an error.
func (o runOptions) hint(err error) error {
	if err == nil {
		return nil
	}
	return hinted{err, o.help()}
}

// check says what is wrong with the flags.
func (o runOptions) check() error {
	bad := func(flag, value string, right ...string) error {
		return hinted{fmt.Errorf("--%s %q: it is one of %s", flag, value, strings.Join(right, ", ")), o.help()}
	}
	one := func(flag, value string, right ...string) error {
		for _, r := range right {
			if value == r {
				return nil
			}
		}
		return bad(flag, value, right...)
	}
	if o.format != "" && o.format != "text" {
		if _, err := dialect.Lookup(o.format); err != nil {
			return bad("format", o.format, append([]string{"text"}, dialect.Names()...)...)
		}
	}
	for flag, n := range map[string]int{"max-tokens": o.maxTokens, "max-tool-rounds": o.rounds, "max-depth": o.depth} {
		if n < 0 {
			return hinted{fmt.Errorf("--%s %d: it cannot be negative", flag, n), o.help()}
		}
	}
	for flag, d := range map[string]time.Duration{"retry-for": o.retryFor, "idle": o.idle} {
		if d < 0 {
			return hinted{fmt.Errorf("--%s %s: it cannot be negative", flag, d), o.help()}
		}
	}
	if err := config.Check(o.flags); err != nil {
		return hinted{err, o.help()}
	}
	if o.resume != "" && (o.session != "" || o.ephemeral) {
		other := "--session-id"
		if o.ephemeral {
			other = "--ephemeral"
		}
		return hinted{fmt.Errorf("--resume goes on with a session that is kept, under its own name: %s does not go with it", other), o.help()}
	}
	return either(
		one("on-ask", o.onAsk, "deny", "fail", forward),
		o.hint(checkSession(o.session)),
		o.hint(o.steered().check()),
		o.hint(o.checkAsks()),
	)
}

// checkSession says whether a name is good for a folder.
func checkSession(id string) error {
	good := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
	}
	if strings.HasPrefix(id, ".") || len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return !good(r) }) {
		return fmt.Errorf("%q cannot name a session: letters, digits, dots, dashes and underlines, 128 at most, and no dot first", id)
	}
	return nil
}
