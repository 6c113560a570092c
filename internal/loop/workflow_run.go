package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// WorkflowOptions are what a workflow runs with.
type WorkflowOptions struct {
	Source *event.Source
	// Play lets an agent answer a prompt in a role, with agent.started and agent.ended around what it does, and returns the last
	// thing that it said. It is called from several goroutines.
	Play func(ctx context.Context, role Role, prompt string) (said string, v outcome.Verdict)
	Task event.Message // what the workflow is to do; its text is .Task
	Dir  string        // that is worked in
}

// mostAtOnce bounds the roles that work at the same time.
const mostAtOnce = 8

// A played role.
type played struct {
	name, said string
	verdict    outcome.Verdict
}

// Run answers the task: each role works as soon as all that it waits for are done, siblings at the same time. The first that
// fails, or says abort, ends the workflow: what still works is stopped, and nobody begins any more. It returns what those said
// last for whom nobody waits.
func (w Workflow) Run(ctx context.Context, o WorkflowOptions) (string, outcome.Verdict) {
	o.Source.Emit(event.Event{Body: event.Prompt{ID: o.Task.ID, Text: o.Task.Text, Files: o.Task.Files, Source: o.Task.Source}})
	said, v := w.play(ctx, o)
	end := event.ReplyEnd{Prompt: o.Task.ID, Stop: v.Stop, Usage: v.Usage, Cost: v.Cost}
	switch v.Outcome {
	case event.Done:
		o.Source.Emit(event.Event{Body: event.ReplyDone(end)})
	case event.Cancelled:
		o.Source.Emit(event.Event{Body: event.ReplyCancelled(end)})
	default:
		o.Source.Emit(event.Event{Body: v.Problem(o.Task.ID, "")})
		o.Source.Emit(event.Event{Body: event.ReplyFailed(end)})
	}
	return said, v
}

// play lets the roles work.
func (w Workflow) play(ctx context.Context, o WorkflowOptions) (string, outcome.Verdict) {
	ctx, release := Watch(ctx, o.Source)
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		waiting = slices.Clone(w.order)
		outputs = map[string]string{}
		ends    = make(chan played)
		working int
		failure *outcome.Verdict
		sum     = outcome.Verdict{Outcome: event.Done, Stop: "end_turn"}
	)
	for {
		waiting = slices.DeleteFunc(waiting, func(name string) bool {
			ready := !slices.ContainsFunc(w.before[name], func(b string) bool { _, done := outputs[b]; return !done })
			if !ready || failure != nil || ctx.Err() != nil || working == mostAtOnce {
				return false
			}
			working++
			data := w.data(name, o, outputs)
			go func() { ends <- o.act(ctx, w.Roles[name], data) }()
			return true
		})
		if working == 0 {
			break
		}
		p := <-ends
		working--
		outputs[p.name] = p.said
		sum.Usage, sum.Cost = sum.Usage.Add(p.verdict.Usage), sum.Cost.Add(p.verdict.Cost)
		if p.verdict.Denials > sum.Denials { // they are counted for all of them together
			sum.Denials, sum.Denied = p.verdict.Denials, p.verdict.Denied
		}
		if v := p.failed(); v != nil && failure == nil && ctx.Err() == nil { // else it is not the role's doing
			failure = v
			cancel(&outcome.Cause{Outcome: event.Cancelled, Reason: "role " + p.name + " failed"})
		}
	}
	if failure == nil && ctx.Err() != nil {
		failure = new(outcome.Ended(ctx))
	}
	if failure != nil {
		failure.Usage, failure.Cost, failure.Denials, failure.Denied = sum.Usage, sum.Cost, sum.Denials, sum.Denied
		return "", *failure
	}
	return w.last(outputs), sum
}

// act plays one role. A bug in it is its failure, and ends nothing else.
func (o WorkflowOptions) act(ctx context.Context, role Role, data RoleData) (p played) {
	p.name = role.Name
	defer func() {
		if bug := recover(); bug != nil {
			p.verdict = outcome.Verdict{Outcome: event.Internal, Stop: "error", Reason: fmt.Sprintf("panic: %v", bug)}
		}
	}()
	text, err := role.prompt.with(data)
	if err != nil {
		p.verdict = outcome.Verdict{Outcome: event.Misuse, Stop: "error", Reason: "its prompt: " + err.Error()}
		return p
	}
	p.said, p.verdict = o.Play(ctx, role, text)
	return p
}

// failed is the verdict on a workflow whose role ended so, or nil.
func (p played) failed() *outcome.Verdict {
	if m := fold.Directive(p.said); p.verdict.Outcome == event.Done && m.Word == "abort" {
		why := "role " + p.name + " gave up"
		if m.Label != "" {
			why += ": " + m.Label
		}
		return new(outcome.Failed("blocked", why))
	}
	if p.verdict.Outcome == event.Done {
		return nil
	}
	v := p.verdict
	v.Reason = "role " + p.name + ": " + v.Reason
	return &v
}

// data is what a role's prompt may speak of.
func (w Workflow) data(name string, o WorkflowOptions, outputs map[string]string) RoleData {
	d := RoleData{Task: o.Task.Text, Role: name, WorkDir: o.Dir, Outputs: map[string]string{}}
	for _, p := range w.past(name) {
		d.Outputs[p] = outputs[p]
	}
	d.Input = together(w.before[name], outputs)
	return d
}

// last is what those said for whom nobody waits.
func (w Workflow) last(outputs map[string]string) string {
	var names []string
	for _, name := range w.order {
		waited := false
		for _, before := range w.before {
			waited = waited || slices.Contains(before, name)
		}
		if !waited {
			names = append(names, name)
		}
	}
	return together(names, outputs)
}

// together puts outputs one after the other, each under its role's name if there are several.
func together(names []string, outputs map[string]string) string {
	if len(names) == 1 {
		return outputs[names[0]]
	}
	var parts []string
	for _, name := range names {
		parts = append(parts, "## "+name+"\n\n"+outputs[name])
	}
	return strings.Join(parts, "\n\n")
}
