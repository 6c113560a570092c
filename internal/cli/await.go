package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/internal/control"
)

// Exit codes of whoever waits for a run, or answers it. A moment has its own.
const (
	exitMisused = 2   // bad usage; nobody there; nothing asked
	exitWaited  = 124 // for too long
)

var errWaited = errors.New("nothing of that kind happened in time")

func awaitCommand(io IO) *cobra.Command {
	var t target
	var until, format string
	var timeout time.Duration
	var output bool
	cmd := &cobra.Command{
		Use:   "await [RUN]",
		Short: "wait until a run needs somebody, or is over",
		Long: `Wait until a run needs somebody, or is over, and say which; it returns the moment that happens. RUN is an id, a session or a
label; if several runs have it, it is the newest. One that is not there yet is given two seconds to begin. A run that was killed is
over too.

  sluice await nightly && echo done
  sluice await --until attention --format json nightly

  ATTENTION permission RUN question     TURN-DONE RUN     END failed|timeout|killed RUN reason

  0 it is done       10 it failed       11 it took too long       12 it was killed or cancelled
  2 no such run      20 it asks something (--until attention)     124 nothing happened within --timeout`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				t.name = args[0]
			}
			say := func(m control.Moment) { fmt.Fprintln(io.Out, m.Plain()) }
			switch format {
			case "plain":
			case "json":
				say = func(m control.Moment) { json.NewEncoder(io.Out).Encode(m) }
			default:
				io.complain(fmt.Errorf("no format %q: it is plain or json", format))
				return exitError(exitMisused)
			}
			m, err := t.await(cmd.Context(), io, until, timeout, say)
			switch {
			case errors.Is(err, errWaited):
				io.complain(err)
				return exitError(exitWaited)
			case err != nil:
				io.complain(err)
				return exitError(exitMisused)
			}
			say(m)
			if output && m.Event != "attention" {
				if format == "json" {
					json.NewEncoder(io.Out).Encode(map[string]string{"final_output": m.Output})
				} else {
					fmt.Fprintln(io.Out, m.Output)
				}
			}
			return exitWith(m.Exit())
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.socket, "socket", "", "the control socket (else the run is looked for)")
	f.StringVar(&until, "until", control.UntilDone, "attention: also when it asks something; or done")
	f.DurationVar(&timeout, "timeout", 0, "how long to wait (0: for ever)")
	f.BoolVar(&output, "print-output", false, "then print what the agent said last")
	f.StringVar(&format, "format", "plain", "plain or json")
	return cmd
}

// appear is how long a run may take to be there.
const appear = 2 * time.Second

// await waits for a run that is there, or is about to be.
func (t *target) await(ctx context.Context, io IO, until string, timeout time.Duration, say func(control.Moment)) (control.Moment, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errWaited)
		defer cancel()
	}
	if until != control.UntilAttention && until != control.UntilDone {
		return control.Moment{}, fmt.Errorf("--until %q: it is attention or done", until)
	}
	for begun := time.Now(); ; {
		m, err := t.moment(ctx, io, until, say)
		if err == nil || time.Since(begun) > appear {
			return m, err
		}
		select { // whoever has just started a run need not know how long that takes
		case <-time.After(appear / 100):
		case <-ctx.Done():
			return m, context.Cause(ctx)
		}
	}
}

// moment waits for a run that is there.
func (t *target) moment(ctx context.Context, io IO, until string, say func(control.Moment)) (control.Moment, error) {
	socket, run, err := t.find(ctx, io)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return control.Moment{}, err
	}
	return control.Await(ctx, socket, run, until, say)
}

func answerCommand(io IO) *cobra.Command {
	var r control.Reply
	cmd := &cobra.Command{
		Use:   "answer BASE --option ID",
		Short: "answer a question that a run put out as a file",
		Long: `Answer a question that a run put out as a file. BASE is what its --permission-handler file:BASE says; it is the oldest open
question, or the one that --request names. docs/permission-handlers.md has the protocol.

  sluice answer run.perm --option allow_once
  sluice answer run.perm --request q2 --option reject_once --message "not on main"

  0 answered      2 bad usage, nothing is asked, no such option, answered already      1 the file cannot be written`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				io.complain(fmt.Errorf("what is %q? one base is answered at a time", args[1]))
				return exitError(exitMisused)
			}
			if len(args) == 1 {
				r.Base = args[0]
			}
			err := r.Send()
			if errors.Is(err, control.ErrRefused) {
				io.complain(err)
				return exitError(exitMisused)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Option, "option", "", "id of the option that is chosen")
	f.StringVar(&r.Request, "request", "", "id of the question (the oldest one)")
	f.StringVar(&r.Message, "message", "", "for the model and the record")
	f.StringVar(&r.Outcome, "outcome", "", "selected, or cancelled to deny it without choosing")
	f.BoolVar(&r.Force, "force", false, "replace an answer that is there already")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		io.complain(hinted{err, cmd.CommandPath() + " --help"})
		return exitError(exitMisused)
	})
	return cmd
}
