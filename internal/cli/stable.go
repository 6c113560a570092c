package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/control"
	"github.com/sluice-dev/sluice/internal/outcome"
)

func stableCommand(std IO) *cobra.Command {
	s := &supervisor{io: std, shut: make(chan string, 4)}
	cmd := &cobra.Command{
		Use:   "stable --control-socket PATH",
		Short: "supervise many runs in one process, over a control socket",
		Long: `Supervise many runs in one process. They are begun, steered and ended over the control socket, see sluice control; each has a
journal, a file of events and a sentinel of its own. A run that has answered waits for another prompt. When the supervisor ends, so
do they all: PATH.dead says why it did.

  sluice stable --control-socket /tmp/s.sock &
  sluice control --socket /tmp/s.sock spawn --prompt "fix the tests" --label tests
  sluice await tests
  sluice control --socket /tmp/s.sock shutdown`,
		Args: hintArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(); err != nil {
				return hinted{err, cmd.CommandPath() + " --help"}
			}
			code, err := s.serve(cmd.Context())
			if err != nil {
				return err
			}
			return exitWith(code)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.socket, "control-socket", "", "where the socket is put")
	f.IntVar(&s.most, "max-runtimes", 16, "runs at a time; one that only waits for a prompt makes room for another")
	f.DurationVar(&s.idle, "idle-timeout", 0, "end when nothing was done for this time (0: never)")
	f.DurationVar(&s.park, "parked-timeout", 30*time.Minute, "how long a run that has answered waits for another prompt")
	f.DurationVar(&s.grace, "shutdown-timeout", 10*time.Second, "how long runs may take to end, before they are killed")
	return cmd
}

// A supervisor has many runs, and a socket by which they are steered.
type supervisor struct {
	io                IO
	socket            string
	most              int
	idle, park, grace time.Duration

	dir     string // of what runs write
	ctx     context.Context
	stop    context.CancelCauseFunc
	shut    chan string    // how somebody wants it to end
	running sync.WaitGroup // runs
	server  *control.Server
	quiet   *time.Timer // until it has nothing to do for too long; nil: it may

	mu     sync.Mutex
	runs   []*helm // that go on
	ended  []string
	count  int
	closed bool // nothing is begun any more
}

func (s *supervisor) check() error {
	switch {
	case s.socket == "":
		return errors.New("a supervisor is steered over a socket: --control-socket says where it is put")
	case s.most < 1:
		return fmt.Errorf("--max-runtimes %d: there would be none", s.most)
	case s.idle < 0 || s.park < 0 || s.grace < 0:
		return errors.New("a time cannot be negative")
	}
	return nil
}

// serve supervises until it is told to end, or has had nothing to do for too long. Nothing of it is left then.
func (s *supervisor) serve(ctx context.Context) (code int, err error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, stopSignals()...)
	defer signal.Stop(signals)
	s.ctx, s.stop = context.WithCancelCause(ctx)
	defer s.stop(nil)
	if s.dir, err = artifacts(); err != nil {
		return 0, err
	}
	var silence <-chan time.Time
	if s.idle > 0 {
		s.quiet = time.NewTimer(s.idle)
		silence = s.quiet.C
	}
	s.server, err = control.Listen(s.socket, control.ServerOptions{
		Spawn: s.spawn, Token: os.Getenv(tokenVariable), Version: programVersion(),
		Shutdown: func(mode string) {
			select {
			case s.shut <- mode:
			default: // it has been told
			}
		},
	})
	if err != nil {
		os.Remove(s.dir)
		return 0, hinted{err, "--control-socket names it"}
	}
	dead := &sentinel{path: s.server.Path() + ".dead", io: s.io}
	reason := "crashed"
	defer func() {
		if err := dead.put(fmt.Sprintf("STOPPED reason=%s pid=%d at=%s\n", reason, os.Getpid(), time.Now().UTC().Format(time.RFC3339))); err != nil {
			s.io.complain(fmt.Errorf("why it ended cannot be written: %w", err))
		}
	}()
	if err := dead.clear(); err != nil {
		s.io.complain(err)
	}
	s.beFound()
	mode := "graceful"
	cause := &outcome.Cause{Outcome: event.Cancelled, Reason: "the supervisor was shut down", Code: fmt.Sprint(exits[event.Cancelled])}
	select {
	case sig := <-signals:
		reason = "signal"
		var name string
		code, name = signalCode(sig)
		cause.Reason, cause.Code = "the supervisor was stopped by "+name, fmt.Sprint(code)
	case mode = <-s.shut:
		reason = "shutdown"
	case <-silence:
		reason = "idle"
	case <-ctx.Done():
		reason = "signal"
	}
	s.dismiss(mode, cause, signals)
	last, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.server.Close(last) // who has not read by then does not want it
	os.Remove(s.dir)         // if no run wrote anything
	return code, nil
}

// artifacts makes the folder for what runs write.
func artifacts() (string, error) {
	base := filepath.Join(os.TempDir(), fmt.Sprintf("sluice-stable-%d", os.Getuid()))
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	// Whoever made it before us could look into it, and it may be a link.
	if info, err := os.Lstat(base); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return os.MkdirTemp("", "sluice-stable-")
	}
	return os.MkdirTemp(base, "") // 0700
}

// beFound lets the runs be found by their names.
func (s *supervisor) beFound() {
	sockets, err := runSockets()
	if err == nil {
		err = sockets.Enter(fmt.Sprintf("stable-%d", os.Getpid()), s.server)
	}
	if err != nil {
		s.io.complain(fmt.Errorf("runs can only be found by the socket: %w", err))
	}
}

// dismiss ends all runs: those that wait for a prompt are done, those that work are cancelled and given some time. Who is told
// twice, or to kill, kills them.
func (s *supervisor) dismiss(mode string, cause *outcome.Cause, again <-chan os.Signal) {
	s.mu.Lock()
	s.closed = true
	runs := s.runs
	s.mu.Unlock()
	over := make(chan struct{})
	go func() {
		s.running.Wait()
		close(over)
	}()
	if mode != "kill" {
		for _, h := range runs {
			h.finish(cause)
		}
		late := time.After(s.grace)
		for mode != "kill" {
			select {
			case <-over:
				return
			case <-late:
				mode = "kill"
			case <-again:
				mode = "kill"
			case mode = <-s.shut:
			}
		}
	}
	s.stop(cause)
	for _, h := range runs {
		h.kill()
	}
	select {
	case <-over:
	case <-time.After(s.grace + 10*time.Second): // each of them gives up before
	}
}

// finish ends the run: if it waits for a prompt it is done, else it is cancelled.
func (h *helm) finish(cause *outcome.Cause) {
	h.mu.Lock()
	h.full, h.queue = true, nil
	r := h.r
	h.mu.Unlock()
	h.ring()
	if r != nil && !h.idle.Load() {
		r.stop(cause)
	}
}

// kill ends what the run has started, at once.
func (h *helm) kill() {
	h.mu.Lock()
	r := h.r
	h.mu.Unlock()
	if r != nil {
		r.group.Kill()
	}
}
