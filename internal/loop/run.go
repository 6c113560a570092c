package loop

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/git"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// A Worker answers what comes through an inbox, one message after the other, until that is closed or ctx ends, and returns how the
// last reply ended. All that happens it emits into the source; each message has one reply.* event. When Serve has returned, nothing
// that the worker started is left.
type Worker interface {
	Serve(ctx context.Context, inbox <-chan event.Command) outcome.Verdict
}

// A Job is one attempt at a phase, for whoever opens a worker for it.
type Job struct {
	Phase     Phase
	Part      string // pre, loop or post
	Iteration int    // 0 outside the loop
	Attempt   int    // 0 is the first
	Session   string // what the events of the phase have in their headers
	Resumes   bool   // it goes on with that session, of which it remembers what [Job.Remembers] says

	spans []span
}

// A span is events of a journal, by their numbers.
type span struct{ after, upto uint64 }

// Remembers says whether an event of the journal belongs to what a job goes on with: attempts that were given up do not.
func (j Job) Remembers(h event.Header) bool {
	return h.Session == j.Session && slices.ContainsFunc(j.spans, func(s span) bool { return h.Seq > s.after && h.Seq <= s.upto })
}

// Options are what a loop runs with.
type Options struct {
	Source *event.Source
	// Open makes a worker for a job, and tells the session's start, if it is to be told. An error that is no [*outcome.Cause]
	// is one of usage: it is not tried again.
	Open    func(context.Context, Job) (Worker, error)
	Session func() string           // names a phase's session
	Inbox   <-chan []event.Command  // from outside, for whichever phase is running, what belongs together at once; nil: nobody is there
	RunID   string                  // for prompts to speak of
	Dir     string                  // that is worked in
	Retries int                     // of a phase that does not say
	Wait    func(int) time.Duration // before the nth retry; nil: 2, 4, 8, 16, then 30 seconds
}

// The reasons why a loop ends.
const (
	EndTurn       = "end_turn"       // there was no loop, and all phases are done
	Exit          = "exit"           // a phase of the loop said so
	Abort         = "abort"          // a phase said that it cannot go on
	MaxIterations = "max_iterations" // no phase said exit
	PhaseFailure  = "phase_failure"
	Timeout       = "timeout" // of a phase, or of everything
	Cancelled     = "cancelled"
)

// A Result is how a loop ended.
type Result struct {
	Reason     string // one of the above
	Label      string // of the marker that ended it
	Iterations int    // that were completed
	Verdict    outcome.Verdict
}

// A running loop.
type run struct {
	Options
	cfg Config

	iterations int
	last       string          // what the phase before said last
	session    string          // of the phase before in this list; empty: there is none
	spans      []span          // of that session
	git        bool            // some prompt wants to know what changed
	tree       *git.State      // as it was when the phase before began
	early      []event.Command // for the next attempt: it came while that was waited for
	sum        outcome.Verdict
}

// Run runs the phases. Whatever happens, loop.ended is told.
//
//	phase's end                       pre, post        loop
//	─────────────────────────────────────────────────────────────────────────────
//	cancelled                         cancelled        cancelled
//	timeout, stalled                  timeout          timeout
//	marker abort                      abort            abort
//	not done                          phase_failure    phase_failure
//	done, marker exit                 go on            exit, after the post phases
//	done                              go on            go on, up to max_iterations
func Run(ctx context.Context, cfg Config, o Options) Result {
	if problems := cfg.Check(); len(problems) > 0 {
		return Result{Reason: PhaseFailure, Verdict: outcome.Verdict{Outcome: event.Misuse, Reason: problems.Error(), Class: "usage"}}
	}
	r := &run{Options: o, cfg: cfg}
	cfg.each(func(_ string, p *Phase) {
		r.git = r.git || p.prompt.uses["PrevPhaseCommit"] || p.prompt.uses["DiffStat"] || p.prompt.uses["ChangedFiles"]
	})
	r.emit("", event.LoopStarted{MaxIterations: cfg.MaxIterations, Pre: len(cfg.Pre), Loop: len(cfg.Loop), Post: len(cfg.Post)})
	end := r.all(ctx)
	end.Iterations = r.iterations
	r.emit("", event.LoopEnded{Reason: end.Reason, Iterations: end.Iterations, Label: end.Label})
	v := &end.Verdict
	v.Usage, v.Cost, v.Denials, v.Denied = r.sum.Usage, r.sum.Cost, r.sum.Denials, r.sum.Denied
	return end
}

// emit tells something of a session, or of the run.
func (r *run) emit(session string, b event.Body) {
	r.Source.Emit(event.Event{Header: event.Header{Session: session}, Body: b})
}

// all runs the three lists of phases.
func (r *run) all(ctx context.Context) Result {
	if end := r.list(ctx, "pre", r.cfg.Pre, 0); end != nil {
		return *end
	}
	result := Result{Reason: EndTurn, Verdict: outcome.Verdict{Outcome: event.Done, Stop: "end_turn"}}
	if len(r.cfg.Loop) > 0 {
		end := r.iterate(ctx)
		if end.Reason != Exit && end.Reason != MaxIterations {
			return end
		}
		result = end
	}
	if end := r.list(ctx, "post", r.cfg.Post, 0); end != nil {
		return *end
	}
	return result
}

// iterate runs the loop itself.
func (r *run) iterate(ctx context.Context) Result {
	for n := 1; n <= r.cfg.MaxIterations; n++ {
		if end := r.list(ctx, "loop", r.cfg.Loop, n); end != nil {
			return *end
		}
	}
	return Result{Reason: MaxIterations, Verdict: outcome.Failed(MaxIterations, "after "+many(r.iterations, "iteration")+" no phase had said exit")}
}

// list runs phases one after the other, until one of them ends the loop.
func (r *run) list(ctx context.Context, part string, phases []Phase, iteration int) *Result {
	r.session, r.spans = "", nil // the first of them has nobody to go on with
	for i, p := range phases {
		if ctx.Err() != nil {
			return decide(part, p.Name, outcome.Ended(ctx), words{})
		}
		v, said := r.phase(ctx, Job{Phase: p, Part: part, Iteration: iteration})
		end := decide(part, p.Name, v, said)
		if part == "loop" && i == len(phases)-1 && (end == nil || end.Reason == Exit) {
			r.iterations = iteration
		}
		if end != nil {
			return end
		}
	}
	return nil
}

// decide says whether the end of a phase ends the loop.
func decide(part, name string, v outcome.Verdict, said words) *Result {
	switch {
	case v.Outcome == event.Cancelled:
		return &Result{Reason: Cancelled, Verdict: v}
	case v.Outcome == event.Timeout || v.Outcome == event.Stalled:
		return &Result{Reason: Timeout, Verdict: v}
	case said.marker.Word == "abort":
		why := "phase " + name + " gave up"
		if said.marker.Label != "" {
			why += ": " + said.marker.Label
		}
		return &Result{Reason: Abort, Label: said.marker.Label, Verdict: outcome.Failed("blocked", why)}
	case v.Outcome != event.Done:
		v.Reason = "phase " + name + ": " + v.Reason
		return &Result{Reason: PhaseFailure, Verdict: v}
	case said.marker.Word == "exit" && part == "loop":
		return &Result{Reason: Exit, Label: said.marker.Label, Verdict: v}
	}
	return nil
}
