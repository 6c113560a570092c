package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/control"
)

// runSockets is the folder in which the sockets of runs are found.
func runSockets() (control.Registry, error) {
	state, err := config.State(os.Getenv)
	return control.Registry{Dir: filepath.Join(state, "sockets")}, err
}

// A target is a run that somebody wants to talk to: its socket, or its name.
type target struct {
	socket string
	name   string        // id, run id, session or label
	wait   time.Duration // for an answer
}

func (t *target) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&t.socket, "socket", "", "the control socket (else the run is looked for)")
	f.StringVar(&t.name, "run", "", "id, session or label of the run (default: the only one)")
	f.DurationVar(&t.wait, "wait", 30*time.Second, "how long to wait for an answer (0: for ever)")
}

// find finds the socket, and the run's id on it; of a socket that was named, the id is what was named.
func (t *target) find(ctx context.Context, io IO) (socket, run string, err error) {
	if t.socket != "" {
		return t.socket, t.name, nil
	}
	sockets, err := runSockets()
	if err != nil {
		return "", "", err
	}
	if t.name != "" {
		found, others, err := sockets.Find(ctx, t.name)
		for _, o := range others {
			fmt.Fprintf(io.Err, "sluice: another run has that name: %s, by %s\n", o.RuntimeID, o.Socket)
		}
		return found.Socket, found.RuntimeID, err
	}
	live, err := sockets.Live(ctx)
	switch {
	case err != nil:
		return "", "", err
	case len(live) == 0:
		return "", "", hinted{errors.New("no run with a control socket is going on"), "sluice run --control begins one; --socket names one that is elsewhere"}
	case len(live) > 1:
		var names []string
		for _, f := range live {
			names = append(names, cmp.Or(f.RunLabel, f.RuntimeID))
		}
		return "", "", hinted{fmt.Errorf("%d runs are going on: %s", len(live), strings.Join(names, ", ")), "add --run " + names[0]}
	}
	return live[0].Socket, live[0].RuntimeID, nil
}

// talk connects, and does something within the time.
func (t *target) talk(ctx context.Context, io IO, told func(control.Event), do func(ctx context.Context, c *control.Client, run string) error) error {
	if t.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.wait, fmt.Errorf("nobody answered for %s", t.wait))
		defer cancel()
	}
	socket, run, err := t.find(ctx, io)
	if err != nil {
		return err
	}
	c, err := control.Dial(ctx, socket, told)
	if err != nil {
		return err
	}
	defer c.Close()
	if err = do(ctx, c, run); errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return err
}

// controlMethods are the methods whose parameters are words in a row. The run may always be the last word.
var controlMethods = []struct {
	use, short string
	params     []string
	optional   bool // the parameters may be left out
}{
	{"identity", "who serves the socket", nil, true},
	{"status [RUN]", "where a run stands", nil, true},
	{"list", "where every run stands", nil, true},
	{"result [RUN]", "what the agent said in its last reply", nil, true},
	{"cancel [RUN]", "end a run", nil, true},
	{"prompt TEXT [RUN]", "ask for a reply", []string{"text"}, false},
	{"interrupt-and-prompt TEXT [RUN]", "stop the reply that goes on and ask for another", []string{"text"}, false},
	{"answer-permission REQUEST OPTION [RUN]", "answer a question", []string{"request_id", "option_id"}, false},
	{"shutdown [graceful|kill]", "end the process that serves the socket", []string{"mode"}, true},
}

func controlCommand(io IO) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "control",
		Short: "steer a run over its control socket",
		Long: `Steer a run over its control socket: see where it stands, hear what it says, answer its questions, give it prompts, end it. What
comes back is one line of JSON. The run is the only one that is going on, or the one that --run or --socket names. docs/control.md
has the protocol.

  sluice control status
  sluice control --run nightly tail
  sluice control answer-permission q1 allow_once
  sluice control --socket /tmp/s.sock prompt "and now the tests"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return cmd.Help() },
	}
	t.flags(cmd)
	for _, m := range controlMethods {
		var message string
		var keep bool
		name, _, _ := strings.Cut(m.use, " ")
		sub := &cobra.Command{Use: m.use, Short: m.short}
		sub.Args = hintArgs(cobra.RangeArgs(map[bool]int{true: 0, false: len(m.params)}[m.optional], strings.Count(m.use, " ")))
		switch name {
		case "answer-permission":
			sub.Flags().StringVar(&message, "message", "", "for the model and the record")
		case "interrupt-and-prompt":
			sub.Flags().BoolVar(&keep, "keep-queue", false, "what waits is answered afterwards, instead of being forgotten")
		}
		sub.RunE = func(cmd *cobra.Command, args []string) error {
			params := map[string]any{}
			for i, word := range args {
				if i < len(m.params) {
					params[m.params[i]] = word
				} else {
					t.name = word
				}
			}
			if message != "" {
				params["message"] = message
			}
			if keep {
				params["keep_queue"] = true
			}
			return t.call(cmd.Context(), io, strings.ReplaceAll(name, "-", "_"), params)
		}
		cmd.AddCommand(sub)
	}
	cmd.AddCommand(tailCommand(io, &t), spawnCommand(io, &t))
	return cmd
}

// call calls a method and prints what comes back.
func (t *target) call(ctx context.Context, io IO, method string, params map[string]any) error {
	return t.talk(ctx, io, nil, func(ctx context.Context, c *control.Client, run string) error {
		if run != "" && method != "list" && method != "identity" && method != "shutdown" {
			params["runtime_id"] = run
		}
		var result json.RawMessage
		if err := c.Call(ctx, method, params, &result); err != nil {
			return err
		}
		_, err := fmt.Fprintf(io.Out, "%s\n", result)
		return err
	})
}

func tailCommand(io IO, t *target) *cobra.Command {
	var want control.Subscribe
	var after int64
	cmd := &cobra.Command{
		Use: "tail [RUN]", Short: "print what a run says, until it or its socket is gone",
		Args: hintArgs(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				t.name = args[0]
			}
			if after >= 0 {
				want.AfterSeq = new(uint64(after))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), stopSignals()...)
			defer stop()
			broken := make(chan error, 1)
			t.wait = 0
			return t.talk(ctx, io, func(e control.Event) {
				if _, err := io.Out.Write(append(e.Raw, '\n')); err != nil {
					select {
					case broken <- err:
					default:
					}
				}
			}, func(ctx context.Context, c *control.Client, run string) error {
				want.RuntimeID = run
				if _, err := c.Subscribe(ctx, want); err != nil {
					return err
				}
				select {
				case err := <-broken:
					return err
				case <-c.Done():
				case <-ctx.Done():
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&want.Replay, "replay", false, "from the beginning, not only what comes")
	f.Int64Var(&after, "after-seq", -1, "from after this number")
	f.IntVar(&want.Limit, "limit", 0, "of what is there already only the last so many")
	f.StringVar(&want.Format, "format", "", "dialect (avenor)")
	return cmd
}

func spawnCommand(io IO, t *target) *cobra.Command {
	var s control.Spawn
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "spawn", Short: "begin a run, by a supervisor",
		Args: hintArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout > 0 {
				s.Timeout = timeout.String()
			}
			if err := here(&s); err != nil {
				return err
			}
			return t.talk(cmd.Context(), io, nil, func(ctx context.Context, c *control.Client, _ string) error {
				st, err := c.Spawn(ctx, s)
				if err != nil {
					return err
				}
				return json.NewEncoder(io.Out).Encode(st)
			})
		},
	}
	f := cmd.Flags()
	for name, to := range map[string]*string{
		"prompt": &s.Prompt, "prompt-file": &s.PromptFile, "config": &s.Config, "dir": &s.Dir, "agent": &s.Agent, "label": &s.Label, "model": &s.Model,
		"thinking": &s.Thinking, "backend": &s.Backend, "resume": &s.SessionID, "on-event": &s.OnEvent, "sentinel-file": &s.SentinelFile, "permission-handler": &s.PermissionHandler,
	} {
		f.StringVar(to, name, "", "as in avenor run")
	}
	f.BoolVar(&s.AutoApprove, "auto-approve", false, "as in avenor run")
	f.IntVar(&s.MaxRetries, "max-retries", 0, "as in avenor run")
	f.DurationVar(&timeout, "timeout", 0, "as in avenor run")
	return cmd
}

// here makes the paths of a run those that they are here: a supervisor may be somewhere else.
func here(s *control.Spawn) (err error) {
	s.Dir = first(s.Dir, ".")
	for _, path := range []*string{&s.Dir, &s.PromptFile, &s.Config, &s.OnEvent, &s.SentinelFile} {
		if *path != "" && err == nil {
			*path, err = filepath.Abs(*path)
		}
	}
	if base, ok := strings.CutPrefix(s.PermissionHandler, byFiles); ok && base != "" && err == nil {
		base, err = filepath.Abs(base)
		s.PermissionHandler = byFiles + base
	}
	return err
}

func emitCommand(io IO) *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "emit [EVENT]",
		Short: "put an event of your own into a run's stream",
		Long: `Put an event of your own into a run's stream. It is an object with a name in "event", and is told downstream as it is. Without an
argument the events are read from stdin, one a line.

  sluice emit --run nightly '{"event":"deploy.done","commit":"abc"}'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.talk(cmd.Context(), io, nil, func(ctx context.Context, c *control.Client, run string) error {
				if len(args) == 1 {
					return c.Emit(ctx, run, json.RawMessage(args[0]))
				}
				lines := bufio.NewScanner(io.In)
				lines.Buffer(nil, 16<<20)
				for lines.Scan() {
					if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
						if err := c.Emit(ctx, run, bytes.Clone(line)); err != nil {
							return err
						}
					}
				}
				return lines.Err()
			})
		},
	}
	t.flags(cmd)
	return cmd
}
