package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// avenorFace is avenor: a supervisor, whose backend is our agent. Tools have our names. Questions have the answers of its
// document, and one more. Whoever is denied what he needs is blocked.
var avenorFace = face{
	name:    "avenor",
	command: "avenor run",
	options: []event.Option{
		{ID: "allow", Kind: "allow", Name: "allow once"},
		{ID: "reject", Kind: "reject", Name: "reject"},
		{ID: gate.AllowAlways, Kind: gate.AllowAlways, Name: "allow for the session"},
	},
	exit:   avenorExit,
	denied: "blocked",
}

// avenorCommand is the command line of avenor.
func avenorCommand(io IO) *cobra.Command {
	root := &cobra.Command{
		Use:   "avenor",
		Short: "be avenor",
		Long: `Be avenor: supervise an agent, and write what happens as events, one JSON object a line, to the file that --on-event names.

  avenor run --prompt "fix the tests" --on-event run.ndjson --auto-approve
  avenor watch --follow --classify run.ndjson
  avenor digest --classify run.ndjson`,
		Version: "v" + programVersion(),
	}
	root.SetVersionTemplate("avenor {{.Version}}\n")
	root.AddCommand(avenorRunCommand(io), watchCommand(io), digestCommand(io), answerCommand(io), awaitCommand(io), controlCommand(io), emitCommand(io), stableCommand(io), verifyCommand(io), channelCommand(io))
	for _, c := range root.Commands() {
		c.Example = strings.ReplaceAll(c.Example, "sluice ", "avenor ")
		c.Long = strings.ReplaceAll(c.Long, "\n  sluice ", "\n  avenor ")
	}
	return root
}

// avenorArgs are the arguments as we expect them. The word run may be left out, so what does not begin with a command is a run; and
// avenor takes flags with one dash or two.
func avenorArgs(root *cobra.Command, args []string) []string {
	if len(args) == 0 {
		return args
	}
	switch args[0] {
	case "-version":
		return []string{"--version"}
	case "--version", "-v", "help", "--help", "-h", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		return args
	}
	sub, _, err := root.Find(args[:1])
	if err != nil || sub == root {
		args = append([]string{"run"}, args...)
		sub, _, _ = root.Find(args[:1])
	}
	return append(args[:1:1], twoDashes(sub.Flags(), args[1:])...)
}

// twoDashes gives flags the dashes that we expect: avenor takes one or two.
func twoDashes(set *pflag.FlagSet, args []string) []string {
	list := slices.Clone(args)
	for i, a := range list {
		if a == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		if strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && len(name) > 1 && set.Lookup(name) != nil {
			list[i] = "-" + a
		}
	}
	return list
}

// avenorFlags are the flags of a run.
type avenorFlags struct {
	prompt, promptFile, dir, resume string
	onEvent, sentinel               string
	label, runID                    string
	model, thinking, agent, backend string
	config, terminal                string
	timeout, progress, wait         time.Duration
	retries                         int
	auto                            bool
	allow, deny                     []string
	steering
	amend   func(*runOptions) // has the last word
	handler string
	patient time.Duration
}

func avenorRunCommand(io IO) *cobra.Command { return new(avenorFlags).command(io) }

func (f *avenorFlags) command(io IO) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags]",
		Short: "run the agent on a prompt or a loop, and write what happens to a file",
		Long: `Run the agent on a prompt, or on the phases of a loop. What happens goes to the file that --on-event names, one event a line,
session.end last, of a loop avenor.loop.end. stdout is for a person: on a terminal it shows the run, in a pipe or a file it is what the
agent said last.

Nobody answers the agent's questions, unless --auto-approve or --permission-handler does, or somebody over --control-socket: they are
rejected then, and the run ends as blocked.

  0 end_turn, exit  3 max_tokens                            5 blocked, abort  130, 143 cancelled
  2 refusal         4 max_turn_requests, max_iterations     124 timeout       1 any other`,
		Example: `  avenor run --prompt "fix the tests" --on-event run.ndjson --auto-approve
  avenor run --config loop.yaml --on-event run.ndjson --max-retries 2 --sentinel-file run.done
  avenor run --backend claude --prompt-file task.md --on-event run.ndjson --permission-handler file:run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("what is %q? a prompt is given with --prompt", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), io, cmd.Flags()) },
	}
	s := cmd.Flags()
	s.StringVar(&f.prompt, "prompt", "", "what the agent is to do")
	s.StringVar(&f.promptFile, "prompt-file", "", "file that says it")
	s.StringVar(&f.onEvent, "on-event", "", "file for the events, made anew; - is stdout (default: they are not written)")
	s.StringVar(&f.dir, "dir", "", "folder to work in (the current one)")
	s.StringVar(&f.label, "label", "", "a name for the run, on its events as run_label")
	s.StringVar(&f.runID, "run-id", "", "an id for the run, on its events as run_id")
	s.StringVar(&f.model, "model", "", "provider/name of the model (else SLUICE_MODEL, and so on as in sluice run)")
	s.StringVar(&f.agent, "agent", "", "profile of the agent: .sluice/agents/NAME.md")
	s.StringVar(&f.thinking, "thinking", "", "how much the model thinks first: off, minimal, low, medium, high, xhigh, max")
	s.StringVar(&f.config, "config", "", "file with a loop: phases that are worked through instead of one prompt")
	s.StringVar(&f.config, "loop-file", "", "the same as --config")
	s.StringVar(&f.backend, "backend", "", "who does the work: "+strings.Join(avenorBackends(), ", ")+" (sluice)")
	s.StringVar(&f.terminal, "terminal", os.Getenv("AVENOR_CLAUDE_TERMINAL"), "what the backends claude and claude-channel have for a terminal: pty, tmux (pty)")
	s.StringVar(&f.resume, "resume", "", "go on with the session of this id")
	s.DurationVar(&f.timeout, "timeout", 0, "end the run after this time, retries included (0: never)")
	s.DurationVar(&f.progress, "progress-timeout", 0, "end the run when nothing happened for this time (0: never)")
	s.IntVar(&f.retries, "max-retries", 0, "how often a run is tried again that failed with exit code 1 for a reason that may pass")
	s.DurationVar(&f.wait, "retry-wait", 2*time.Second, "how long to wait before the first retry; it doubles, up to fifteen times as long")
	s.BoolVar(&f.auto, "auto-approve", false, "answer every question with yes; that it was asked is told")
	s.StringVar(&f.handler, "permission-handler", "", "file:BASE asks by files: BASE.req and BASE.req.response, see avenor answer")
	s.DurationVar(&f.patient, "permission-timeout", 10*time.Minute, "how long an answer is waited for, by file or over the control socket; then it is no")
	f.steering.flags(s)
	s.StringVar(&f.sentinel, "sentinel-file", "", "file that says how the run ended, written when it has")
	s.StringArrayVar(&f.allow, "allow", nil, "let pass without a question: 'bash(git *)', 'edit(src/**)'; may be repeated")
	s.StringArrayVar(&f.deny, "deny", nil, "never let pass; may be repeated")
	return cmd
}

// run does the run. From here on a sentinel that was asked for is written, whatever happens.
func (f *avenorFlags) run(ctx context.Context, io IO, set *pflag.FlagSet) error {
	s := &sentinel{path: f.sentinel, run: f.runID, io: io}
	if err := s.clear(); err != nil {
		return hinted{err, "--sentinel-file names the file"}
	}
	o, err := f.options(set)
	if err == nil {
		var release func()
		if release, err = f.show(&o, &io); err == nil {
			defer release()
		}
	}
	if err != nil {
		s.write("", event.RunEnd{Outcome: event.Misuse}, outcome.Verdict{}, exitUsage)
		return o.hint(err)
	}
	s.run, o.over = o.runID, s.ended(o.plan)
	if f.amend != nil {
		f.amend(&o)
	}
	io.In = nil // stdin is nobody's
	return exitWith(o.run(ctx, io, f.words()))
}

// words are the prompt.
func (f *avenorFlags) words() []string {
	if f.prompt == "" {
		return nil
	}
	return []string{f.prompt}
}

// asks says who is asked.
func (f *avenorFlags) asks(o *runOptions) error {
	if f.patient <= 0 {
		return fmt.Errorf("--permission-timeout %s: nobody could answer in time", f.patient)
	}
	o.handler, o.patient, o.steering = f.handler, f.patient, f.steering
	if o.on() {
		o.onAsk = forward // who wants a socket answers by it
	}
	return nil
}

// options are a run of ours that does what the flags say.
func (f *avenorFlags) options(set *pflag.FlagSet) (runOptions, error) {
	o := defaults()
	o.face, o.format, o.filter = avenorFace, "avenor", &narrator{}
	switch {
	case f.prompt != "" && f.promptFile != "":
		return o, errors.New("--prompt says what to do, and --prompt-file names a file that does: only one of them")
	case f.prompt == "" && f.promptFile == "" && f.config == "":
		return o, errors.New("there is no prompt: --prompt says what to do, or --config names a loop")
	case f.config != "" && f.resume != "":
		return o, errors.New("--resume goes on with one session, and the phases of --config begin their own: only one of them")
	case !slices.Contains([]string{"", "pty", "tmux"}, f.terminal):
		return o, fmt.Errorf("--terminal %q: it is one of pty, tmux", f.terminal)
	case f.retries < 0:
		return o, fmt.Errorf("--max-retries %d: it cannot be negative", f.retries)
	case f.wait < 0:
		return o, fmt.Errorf("--retry-wait %s: it cannot be negative", f.wait)
	}
	var backendErr error
	o.guest, backendErr = avenorGuest(f.backend)
	if err := either(backendErr, f.asks(&o)); err != nil {
		return o, err
	}
	o.terminal = f.terminal
	o.promptFile, o.workspace, o.resume, o.profile = f.promptFile, f.dir, f.resume, f.agent
	o.runID, o.label, o.autoApprove = f.runID, f.label, f.auto
	o.repeat = repeat{most: f.retries, wait: f.wait, may: mayPass}
	c := &o.flags.Config
	o.flags.Keys = changed(set)
	c.Model, c.Allow, c.Deny, c.Timeout, c.Stall = f.model, f.allow, f.deny, config.Duration(f.timeout), config.Duration(f.progress)
	if set.Changed("progress-timeout") {
		o.given("stall")
	}
	if c.Thinking = f.thinking; avenorThinking[f.thinking] != "" {
		c.Thinking = avenorThinking[f.thinking]
	}
	f.plan(&o)
	return o, o.check()
}

// avenorThinking are its degrees of thinking that are not ours.
var avenorThinking = map[string]string{"minimal": "low", "xhigh": "high", "max": "high"}

// mayPass says whether a reply that failed with exit code 1 may end better the next time: not if the user, the model's server or
// the model itself has refused, and not if it is our bug.
func mayPass(v outcome.Verdict) bool {
	return v.Outcome == event.Unavailable || v.Outcome == event.Failed && v.Class == "" && v.Stop == "error"
}
