package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/control"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// A steering says how a run can be steered from outside. The zero one: it cannot.
type steering struct {
	socket string        // where its control socket is
	listed bool          // it has one in any case: in the folder where runs are looked for
	park   time.Duration // how long it waits for another prompt when it has answered one well
	stays  bool          // and also when it has not
}

func (s *steering) flags(f *pflag.FlagSet) {
	f.StringVar(&s.socket, "control-socket", "", "Unix socket over which the run can be steered: sluice control, await, emit")
	f.BoolVar(&s.listed, "control", false, "let the run be steered over a socket of our choosing, found by the run's label or session")
	f.DurationVar(&s.park, "park", 0, "when a prompt is answered, wait so long for another one over the control socket")
}

// askFlags are the flags that say what becomes of a question.
func (o *runOptions) askFlags(f *pflag.FlagSet) {
	f.StringVar(&o.label, "label", "", "a name for the run, by which it is found")
	f.StringVar(&o.onAsk, "on-ask", o.onAsk, "when a question comes up: deny (the call, and go on), fail (the run), forward (to who answers from outside)")
	f.DurationVar(&o.patient, "answer-timeout", o.patient, "how long an answer from outside is waited for; then it is no")
	f.StringVar(&o.handler, "permission-handler", "", "file:BASE asks by files: BASE.req and BASE.req.response, see sluice answer")
}

// checkAsks says what is wrong with them, and whether questions can be put where they are to be.
func (o *runOptions) checkAsks() error {
	if o.patient <= 0 {
		return fmt.Errorf("--answer-timeout %s: nobody could answer in time", o.patient)
	}
	if o.handler == "" {
		return nil
	}
	base, ok := strings.CutPrefix(o.handler, byFiles)
	if !ok || base == "" {
		return fmt.Errorf("--permission-handler %q: it is file:BASE", o.handler)
	}
	return (&control.Files{Base: base}).Check()
}

// byFiles is how a handler begins that is files.
const byFiles = "file:"

// steered is how the run is steered: where questions are forwarded, whoever answers must find it.
func (o *runOptions) steered() steering {
	s := o.steering
	s.listed = s.listed || o.onAsk == forward
	return s
}

// on says whether there is a socket.
func (s steering) on() bool { return s.socket != "" || s.listed }

// check says what is wrong with the flags.
func (s steering) check() error {
	switch {
	case s.park < 0:
		return fmt.Errorf("--park %s: it cannot be negative", s.park)
	case s.park > 0 && !s.on():
		return errors.New("--park waits for a prompt over a control socket, and there is none: add --control")
	}
	return nil
}

// A helm is a run as others steer it: a [control.Run]. It has what the run is asked, one message after the other, so that what is
// accepted will be answered, and nothing is accepted that will not be.
type helm struct {
	steering
	id, parent       string    // by which a supervisor knows it, if there is one
	events, sentinel string    // files
	turned           func()    // told when it begins to work, or has nothing to do; may be nil
	began            time.Time // as far as others are told

	started chan struct{} // closed when it has a journal
	over    chan struct{} // closed when it has ended
	idle    atomic.Bool   // it waits for a prompt
	mute    atomic.Bool   // it has one to answer, or to answer again, and has not told of it yet
	bell    chan struct{} // something came
	end     sync.Once

	mu     sync.Mutex
	r      *runner
	server *control.Server // its own; nil: a supervisor has one
	gates  []*gate.Gate
	held   []event.Custom // until the stream has begun
	open   bool           // it has
	queue  []event.Message
	full   bool                        // nothing is taken any more
	stop   context.CancelCauseFunc     // of the reply that goes on
	hand   func([]event.Command) error // gives it to the phase that is at work, or says that there will be none; nil: there are no phases
	exit   *int
	reason string // of its end
}

func newHelm(s steering) *helm {
	return &helm{steering: s, began: time.Now(), started: make(chan struct{}), over: make(chan struct{}), bell: make(chan struct{}, 1)}
}

var errOver = errors.New("the run is over, or about to be")

// announce begins the stream. Only then is the run there for others: what its journal has from before is over.
func (r *runner) announce(b event.RunStarted) error {
	r.line.src.Emit(event.Event{Body: b})
	return r.helm.launch(r)
}

// launch opens the run's socket. By then it has a journal.
func (h *helm) launch(r *runner) error {
	h.mu.Lock()
	h.r = r
	h.mu.Unlock()
	if h.on() {
		server, err := h.listen(r)
		if err != nil {
			return hinted{err, r.orHelp("--control-socket names it")}
		}
		h.mu.Lock()
		h.server = server
		h.mu.Unlock()
	}
	r.line.src.Watch(func(e event.Event) {
		if _, ok := e.Body.(event.Prompt); ok && e.Top() {
			h.mute.Store(false)
		}
	})
	close(h.started)
	return nil
}

// listen makes the socket. One whose place was named is found like the others.
func (h *helm) listen(r *runner) (*control.Server, error) {
	o := control.ServerOptions{Runs: []control.Run{h}, Token: os.Getenv(tokenVariable), Version: programVersion()}
	sockets, err := runSockets()
	if h.socket == "" {
		if err != nil {
			return nil, err
		}
		return sockets.Listen(r.session, o)
	}
	s, serr := control.Listen(h.socket, o)
	if serr != nil {
		return nil, serr
	}
	if err == nil {
		err = sockets.Enter(r.session, s)
	}
	if err != nil {
		r.io.complain(fmt.Errorf("the run can only be found by its socket: %w", err))
	}
	return s, nil
}

// tokenVariable is the variable with the word by which whoever starts us knows that a socket is ours.
const tokenVariable = "AVENOR_CONTROL_IDENTITY_TOKEN"

// enter says that the stream has begun: what others have to say goes into it from now on.
func (h *helm) enter() {
	h.mu.Lock()
	held, r := h.held, h.r
	h.held, h.open = nil, true
	h.mu.Unlock()
	for _, c := range held {
		r.line.src.Emit(event.Event{Body: c})
	}
}

// leave says that the run is over, and gives those who listen what it said last. A slow one is not waited for.
func (h *helm) leave(code int, reason string) {
	h.end.Do(func() {
		h.mu.Lock()
		h.exit, h.reason, h.full = &code, reason, true
		server := h.server
		h.mu.Unlock()
		if server != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = server.Close(ctx) // the socket is gone; what cannot be removed is found to be dead
		}
		close(h.over)
	})
}

// watch adds a gate whose questions may be answered.
func (h *helm) watch(g *gate.Gate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gates = append(h.gates, g)
}

// Info says what the run is.
func (h *helm) Info() control.Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.r
	return control.Info{
		ID: first(h.id, r.session), Label: r.label, Run: r.runID, Journal: r.journal(), Dir: r.workspace, Backend: first(r.guest, "sluice"),
		Agent: r.profile, Model: r.cfg.Model, Parent: h.parent, Events: h.events, Sentinel: h.sentinel, Parks: h.park > 0 && len(h.queue) == 0 && !h.mute.Load(),
		PID: os.Getpid(), Started: h.began, Exit: h.exit,
	}
}

// Answer answers an open question.
func (h *helm) Answer(request string, a gate.Answer) error {
	h.mu.Lock()
	gates := slices.Clone(h.gates)
	h.mu.Unlock()
	for _, g := range slices.Backward(gates) {
		if err := g.Answer(request, a); !errors.Is(err, gate.ErrUnknown) {
			return err
		}
	}
	return fmt.Errorf("%w: %s", gate.ErrUnknown, request)
}

// Emit puts somebody's own event into the stream.
func (h *helm) Emit(c event.Custom) error {
	h.mu.Lock()
	open := h.open
	if !open {
		h.held = append(h.held, c)
	}
	h.mu.Unlock()
	if !open {
		return nil
	}
	_, err := h.r.line.src.Emit(event.Event{Body: c})
	return err
}

// Cancel ends the run.
func (h *helm) Cancel(reason string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.exit != nil {
		return errOver
	}
	h.full = true
	h.r.stop(&outcome.Cause{Outcome: event.Cancelled, Reason: reason, Code: fmt.Sprint(exits[event.Cancelled])})
	return nil
}

// dismiss takes nothing more: a run that waits for a prompt has come to its end.
func (h *helm) dismiss() {
	h.mu.Lock()
	h.full = true
	h.mu.Unlock()
	h.ring()
}

// Send asks for a reply, or stops the one that goes on.
func (h *helm) Send(c event.Command) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch c := c.(type) {
	case event.Message:
		if h.full {
			return errOver
		}
		if h.hand != nil {
			return h.give(c)
		}
		h.queue = append(h.queue, c)
		h.ring()
	case event.Stop:
		if h.hand != nil {
			return h.give(c)
		}
		if h.stop != nil {
			h.stop(outcome.Stopped)
		}
	default:
		return fmt.Errorf("a run takes no %T from outside", c)
	}
	return nil
}

// Interrupt stops the reply that goes on and asks for another.
func (h *helm) Interrupt(m event.Message, keep bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.full {
		return errOver
	}
	if h.hand != nil {
		return h.give(event.Stop{}, m)
	}
	if !keep {
		h.queue = nil
	}
	h.queue = slices.Insert(h.queue, 0, m)
	if h.stop != nil {
		h.stop(outcome.Stopped)
	}
	h.ring()
	return nil
}

// give hands something to a phase. h.mu is held, but not while that is waited for.
func (h *helm) give(list ...event.Command) error {
	hand := h.hand
	h.mu.Unlock()
	defer h.mu.Lock()
	return hand(list)
}

func (h *helm) ring() {
	select {
	case h.bell <- struct{}{}:
	default:
	}
}

// ask puts the run's own message before all that others ask.
func (h *helm) ask(m event.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = slices.Insert(h.queue, 0, m)
}

func (h *helm) rest(idle bool) {
	if h.idle.Swap(idle) != idle && h.turned != nil {
		h.turned()
	}
}

// next is what is to be answered next, if anything is, and for how long. If the run parks it is waited for.
func (h *helm) next(ctx context.Context, good bool) (m event.Message, one context.Context, ok bool) {
	var late <-chan time.Time
	if h.park > 0 && (good || h.stays) {
		late = time.After(h.park)
	}
	for {
		m, one, ok = h.take(ctx, late == nil)
		if ok || one == nil {
			h.rest(h.idle.Load() && !ok) // who was not let wait to the end is idle still
			return m, one, ok
		}
		h.rest(true)
		select {
		case <-h.bell:
		case <-late:
			late = nil
		case <-ctx.Done():
		}
	}
}

// take takes the next message, if there is one. If there is none and nothing will come, there is no context either.
func (h *helm) take(ctx context.Context, last bool) (m event.Message, one context.Context, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != nil {
		h.stop(nil)
		h.stop = nil
	}
	switch {
	case ctx.Err() == nil && len(h.queue) > 0:
		m, h.queue = h.queue[0], h.queue[1:]
		one, h.stop = context.WithCancelCause(ctx)
		h.mute.Store(true)
		return m, one, true
	case ctx.Err() != nil || last || h.full:
		h.full = true
		return m, nil, false
	}
	return m, ctx, false
}

// replies lets a worker answer a message, and what others ask for meanwhile or, if the run parks, later. The verdict is on the
// last reply, with what all of them used.
func (r *runner) replies(ctx context.Context, w worker, m event.Message) (v outcome.Verdict) {
	var usage event.Usage
	var cost event.Cost
	r.helm.ask(m)
	for good := false; v.Outcome != event.Internal; {
		m, one, ok := r.helm.next(ctx, good)
		if !ok {
			break
		}
		r.forgiven = v.Denials // whoever goes on knows of them
		inbox := make(chan event.Command, 1)
		inbox <- m
		close(inbox)
		v = r.insist(one, w, m, w.Serve(one, inbox))
		usage, cost = usage.Add(v.Usage), cost.Add(v.Cost)
		good = v.Outcome == event.Done && v.Denials == r.forgiven
		if r.helm.park > 0 {
			r.line.src.Flush() // nobody knows when the next word comes
		}
	}
	if r.helm.idle.Load() && ctx.Err() != nil { // it was not let wait to the end
		n, why := v.Denials, v.Denied
		v = outcome.Ended(ctx)
		v.Denials, v.Denied = n, why
	}
	v.Usage, v.Cost = usage, cost
	return v
}
