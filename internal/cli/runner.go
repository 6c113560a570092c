package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/agent"
	"github.com/sluice-dev/sluice/internal/config"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/secret"
	"github.com/sluice-dev/sluice/internal/tool"
	"github.com/sluice-dev/sluice/journal"
)

// A runner is one run of the agent, from the first line to the exit code.
type runner struct {
	runOptions
	io       IO
	began    time.Time
	stop     func(*outcome.Cause) // ends the run; the first cause counts
	line     *timeline
	begun    chan struct{}        // closed when line is set
	unread   chan outcome.Verdict // the run is over, and nobody takes what it said
	patience time.Duration
	told     sync.Once // to over
	group    proc.Group
	gate     *gate.Gate // once the agent is made
	forgiven int        // denials of replies that others followed
	talk     *agent.Session
	cfg      config.Loaded
	gear     equipment
	theirs   []event.Rule // of a face's own law, as they are told
	own      func(gate.Access) *event.Rule

	mode, thinking string // by the configuration, and so on
	flagged        string // the provider that the key of a flag is for
	turns, retries int
	timeout, stall time.Duration
	budget         agent.Budget

	was  event.RunStarted // how the session was begun, if it is resumed
	home string           // folder of the session
	tree worktree
}

// run does the run and returns its exit code. It returns as soon as the stream has its end, or when somebody insists.
func (o runOptions) run(ctx context.Context, io IO, args []string) int {
	debug.SetGCPercent(100) // unlike a reader, an agent lives long beside others and should be small
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if o.helm == nil {
		o.helm = newHelm(o.steered())
	}
	r := &runner{runOptions: o, io: io, began: time.Now(), begun: make(chan struct{}), unread: make(chan outcome.Verdict, 1), patience: patience, stop: func(c *outcome.Cause) { cancel(c) }}
	force, release := r.watchSignals()
	defer release()
	done := make(chan int, 1)
	go func() { done <- r.whole(ctx, args) }()
	select {
	case code := <-done:
		return code
	case code := <-force:
		// Told twice: whoever waits for us does not want to wait for a reader, or for a child's last words.
		r.group.Kill()
		select {
		case code = <-done:
		case <-time.After(time.Second):
			r.giveUp(outcome.Ended(ctx))
		}
		return code
	case v := <-r.unread:
		return r.giveUp(v)
	}
}

// giveUp ends the run for a reader who does not read: the journal has its end, and stderr.
func (r *runner) giveUp(v outcome.Verdict) (code int) {
	select {
	case <-r.begun:
		end := r.end(v)
		r.line.close(end)
		r.complain(end)
		return r.exit(r.session, end, v)
	default: // there is nothing to end
		return r.exit("", event.RunEnd{Outcome: v.Outcome, Code: v.Code}, v)
	}
}

// exit is the exit code of a run that ended so. Whoever wants to know of the end is told, once.
func (r *runner) exit(session string, end event.RunEnd, v outcome.Verdict) int {
	code := r.face.code(end, v)
	if r.over != nil {
		r.told.Do(func() { r.over(session, end, v, code) })
	}
	r.helm.leave(code, end.Reason)
	return code
}

// patience is how long a run that is over waits for a reader who takes nothing at all. As long as it goes on, it waits for ever.
var patience = time.Minute

// outwait gives up on such a reader, once ctx has ended.
func (r *runner) outwait(ctx context.Context, over <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-over:
		return
	}
	for {
		select {
		case <-over:
			return
		case <-time.After(r.patience / 10):
			if r.line.stage.waiting() > r.patience {
				r.unread <- outcome.Ended(ctx)
				return
			}
		}
	}
}

// watchSignals ends the run at the first signal. The second gives its exit code.
func (r *runner) watchSignals() (force <-chan int, release func()) {
	if r.inner {
		return nil, func() {}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, stopSignals()...)
	again := make(chan int, 1)
	over := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case s := <-signals:
				code, name := signalCode(s)
				if n > 0 {
					again <- code
					return
				}
				r.stop(&outcome.Cause{Outcome: event.Cancelled, Reason: "stopped by " + name, Code: fmt.Sprint(code)})
			case <-over:
				return
			}
		}
	}()
	return again, func() { signal.Stop(signals); close(over) }
}

// whole runs the run: it opens the stream, works, and closes the stream.
func (r *runner) whole(ctx context.Context, args []string) int {
	var w *journal.Writer
	err := r.wrong
	if err == nil {
		w, err = r.prepare()
	}
	if w != nil {
		defer w.Close()
	}
	if r.ephemeral && r.home != "" {
		defer os.RemoveAll(r.home)
	}
	show := r.show()
	r.past(func(e event.Event) { recall(show, e) })
	r.line = newTimeline(r.session, w, show, r.secrets(), r.stop)
	if r.filter != nil {
		r.line.through(r.filter)
	}
	close(r.begun)
	if r.shown == nil {
		defer watchReader(r.io.Out, func() { r.stop(left) })()
	}
	if r.timeout > 0 {
		var release context.CancelFunc
		ctx, release = context.WithTimeoutCause(ctx, r.timeout, &outcome.Cause{Outcome: event.Timeout, Reason: fmt.Sprintf("the run took longer than %s", r.timeout)})
		defer release()
	}
	over := make(chan struct{})
	defer close(over)
	go r.outwait(ctx, over)
	if r.stall > 0 {
		t := time.AfterFunc(r.stall, func() {
			if r.helm.idle.Load() {
				return // it is waiting to be asked: what is asked winds the clock up again
			}
			r.stop(&outcome.Cause{Outcome: event.Stalled, Reason: fmt.Sprintf("nothing happened for %s", r.stall)})
		})
		defer t.Stop()
		r.line.book.tick = func() { t.Reset(r.stall) }
	}
	var v outcome.Verdict
	if err != nil {
		prov, model := wrongModel(first(r.flags.Config.Model, os.Getenv("SLUICE_MODEL")))
		if at, aerr := filepath.Abs(first(r.workspace, ".")); aerr == nil {
			r.workspace = at // as far as anybody got
		}
		b := r.started(prov, model)
		b.Resumed = false // nothing was read of the session that was to be gone on with
		r.line.src.Emit(event.Event{Body: b})
		v = misuse(err)
		if w == nil && !errors.As(err, new(hinted)) {
			v = outcome.Verdict{Outcome: event.Internal, Reason: err.Error()}
		}
	} else {
		v = r.guard(ctx, args)
	}
	return r.finish(v)
}

// secrets are the values that must not get out: of variables that look secret, of those that the user named as keys, and what
// the configuration has for MCP servers.
func (r *runner) secrets() *secret.Redactor { return secret.New(r.secretValues()) }

func (r *runner) secretValues() []secret.Value {
	keys := map[string]bool{}
	for _, e := range r.cfg.Endpoints {
		keys[e.KeyEnv] = true
	}
	servers, _ := configuredServers(r.cfg)
	values := secret.Values(os.Environ(), func(name string) bool { return keys[name] || tool.Secret(name) })
	values = append(values, secret.Values([]string{"key=" + r.key, "url=" + r.baseURL}, func(name string) bool { return name == "key" })...)
	return append(values, serverSecrets(append(servers, r.servers...))...)
}

// guard works, and comes back at the latest some time after ctx has ended, whatever the work does then.
func (r *runner) guard(ctx context.Context, args []string) outcome.Verdict {
	const grace = 5 * time.Second
	done := make(chan outcome.Verdict, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- outcome.Verdict{Outcome: event.Internal, Reason: fmt.Sprintf("panic: %v", p)}
			}
		}()
		done <- r.work(ctx, args)
	}()
	select {
	case v := <-done:
		return v
	case <-ctx.Done():
	}
	for {
		select {
		case v := <-done:
			return v
		case <-time.After(grace):
			if r.line.stage.waiting() == 0 { // else it is the reader who takes his time
				return outcome.Ended(ctx)
			}
		}
	}
}

// show is where the stream goes.
func (r *runner) show() event.Sink {
	if r.shown != nil {
		return r.shown
	}
	format := r.format
	o := textOptions{ASCII: asciiLocale(os.Getenv)}
	if f, ok := r.io.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && !r.dumb {
		smart := os.Getenv("TERM") != "dumb"
		o.Live, o.Colour = smart, smart && os.Getenv("NO_COLOR") == ""
		o.Width, _, _ = term.GetSize(int(f.Fd()))
		format = first(format, "text")
	}
	if format == "text" {
		return newText(r.io.Out, o)
	}
	d, _ := dialect.Lookup(first(format, "native"))
	stream := dialect.NewWriter(r.io.Out, d, r.tell)
	if r.board != nil {
		return &aside{stream: stream, person: r.board}
	}
	return stream
}

// misuse is the verdict on what the user should type differently.
func misuse(err error) outcome.Verdict {
	reason := oneLine(err.Error())
	if h, ok := errors.AsType[hinted](err); ok && h.hint != "" {
		reason += " (" + h.hint + ")"
	}
	return outcome.Verdict{Outcome: event.Misuse, Reason: reason, Class: "usage"}
}

// finish leaves nothing behind, gives the stream its end, and says on stderr what went wrong.
func (r *runner) finish(v outcome.Verdict) int {
	r.helm.enter() // if it came to nothing before
	end := r.line.finish(r.end(v))
	if c := r.line.stage.failed; c != nil && end.Outcome == event.Done {
		end.Outcome, end.Reason, end.Code = c.Outcome, c.Reason, c.Code // the journal knows better, but nobody was shown that
	}
	r.complain(end)
	return r.exit(r.session, end, v)
}

// end leaves nothing behind, and makes the run's end of the verdict.
func (r *runner) end(v outcome.Verdict) event.RunEnd {
	killed := r.group.Close()
	if r.gear.box != nil {
		r.gear.box.Close()
	}
	end := event.RunEnd{
		Outcome: v.Outcome, Reason: v.Reason, Class: v.Class, Code: v.Code, Usage: v.Usage, Cost: v.Cost, Denials: v.Denials,
		Duration: new(time.Since(r.began).Milliseconds()), Killed: killed, Changes: r.tree.after(),
	}
	return end
}

// denied is the verdict on a run that came to its end, but not with all that it tried.
func (r *runner) denied(v outcome.Verdict) outcome.Verdict {
	if n := v.Denials - r.forgiven; v.Outcome == event.Done && n > 0 && !r.deniedOK {
		v.Outcome = event.Denied
		why := first(v.Denied, "the answer was no")
		switch {
		case r.forgiven > 0:
			v.Reason = fmt.Sprintf("calls of its last reply were denied: %d", n)
		case n > 1:
			v.Reason = fmt.Sprintf("%d of its calls were denied, the first one: %s", n, why)
		default:
			v.Reason = "one of its calls was denied: " + why
		}
	}
	return v
}

func (r *runner) complain(end event.RunEnd) {
	if end.Outcome != event.Done {
		fmt.Fprintf(r.io.Err, "sluice: %s: %s\n", end.Outcome, r.line.secrets.String(oneLine(end.Reason)))
	}
}
