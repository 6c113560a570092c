package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/tool"
)

// A call is a tool call that the model made.
type call struct {
	id     string
	told   event.ToolCalled
	tool   tool.Tool // nil: there is none of that name
	called func(tool, permission string) string
	passed []gate.Access   // what the gate was asked about
	open   <-chan answered // its question, until that is settled
	ended  bool
	bug    *outcome.Verdict // it could not even be planned: the tool panicked
	result string           // what came of it, for the loop detector and the weight of the next request
}

// read makes a call of what the model said. It is planned here only for its title; what is planned counts when it is done.
func (r *reply) read(id string, told event.ToolCalled) *call {
	c := &call{id: r.CallID(id), told: told, tool: r.tools[told.Name], called: r.cfg.Permission}
	if c.tool != nil {
		c.told.Class = c.tool.Spec().Class
		if p, err := c.plan(); err == nil {
			c.told.Title = p.Title
			c.told.Description = strings.TrimSpace(told.Name + " " + p.Title)
			if form, ok := r.cfg.Describe[told.Name]; ok {
				c.told.Description = fmt.Sprintf(form, p.Title)
			}
		}
	}
	return c
}

// plan reads the arguments. What is not a JSON object is never mended.
func (c *call) plan() (p tool.Plan, err error) {
	c.bug = nil
	defer func() {
		if p := recover(); p != nil {
			c.bug = new(panicked(p))
			err = errors.New(c.bug.Reason)
		}
	}()
	if in := strings.TrimSpace(string(c.told.Input)); !strings.HasPrefix(in, "{") {
		return tool.Plan{}, errors.New("the arguments are not a JSON object")
	}
	p, err = c.tool.Plan(c.told.Input)
	if c.called != nil {
		for i, a := range p.Access {
			p.Access[i].Called = c.called(c.told.Name, a.Permission)
		}
	}
	return p, err
}

// act does the calls of one answer. They are judged first, in their order, so that several questions may be open at once.
// Then they run in groups: neighbours that only look, or that only run commands, run at the same time; an edit runs alone.
// A verdict ends the reply.
func (r *reply) act(ctx context.Context, calls []*call) *outcome.Verdict {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for _, c := range calls {
		r.judge(ctx, c)
	}
	var (
		mu      sync.Mutex
		verdict *outcome.Verdict // of the first call that has one
		first   int
	)
	for _, group := range groups(calls) {
		var running sync.WaitGroup
		for i, c := range group {
			running.Go(func() {
				if v := r.do(ctx, c); v != nil {
					mu.Lock()
					if verdict == nil || i < first {
						verdict, first = v, i
					}
					mu.Unlock()
					stop(&outcome.Cause{Outcome: v.Outcome, Reason: v.Reason, Code: v.Code}) // the others are in vain
				}
			})
		}
		running.Wait()
	}
	if verdict == nil && ctx.Err() != nil {
		verdict = new(outcome.Ended(ctx))
	}
	return verdict
}

// groups splits calls into those that may run at the same time.
func groups(calls []*call) (list [][]*call) {
	for i, c := range calls {
		if last := len(list) - 1; i > 0 && c.told.Class == calls[i-1].told.Class && c.told.Class != event.ClassEdit {
			list[last] = append(list[last], c)
		} else {
			list = append(list, []*call{c})
		}
	}
	return list
}

// judge plans a call and asks the gate. A call that may not pass is ended here.
func (r *reply) judge(ctx context.Context, c *call) {
	if c.tool == nil {
		r.fail(c, fmt.Errorf("there is no tool %q; there are %s", c.told.Name, strings.Join(r.toolNames(), ", ")))
		return
	}
	p, err := c.plan()
	if err != nil {
		r.fail(c, err)
		return
	}
	c.passed = slices.Clone(p.Access)
	if len(p.Access) == 0 {
		return
	}
	d := r.cfg.Gate.Decide(p.Access)
	switch d.Action {
	case gate.Allow:
		r.emitOf(c.id, d.Event(c.told.Name, c.told.Input))
	case gate.Deny:
		r.deny(c, d.Event(c.told.Name, c.told.Input), d.Reason)
	default:
		r.question(ctx, c, p)
	}
}

// An answered question.
type answered struct {
	asked  event.GateAsked
	answer gate.Answer
	err    error // it was withdrawn
}

// question asks whoever may answer. The answer comes while other calls are judged and run.
func (r *reply) question(ctx context.Context, c *call, p tool.Plan) {
	asked := event.GateAsked{Request: r.Common.next("q"), Tool: c.told.Name, Input: c.told.Input, Options: r.cfg.Options}
	if r.cfg.Answer > 0 {
		asked.Deadline = r.now().Add(r.cfg.Answer)
	}
	q := r.cfg.Gate.Ask(asked, p.Access, c.told.Class)
	r.mu.Lock()
	r.asked[c.id] = asked.Request
	r.mu.Unlock()
	r.emitOf(c.id, q.Asked())
	answer := make(chan answered, 1)
	c.open = answer
	go func() {
		a, err := q.Wait(ctx)
		if err == nil && !a.Allow && a.By != event.ByNobody {
			r.deny(c, a.Event(q.Asked()), a.Reason) // whoever said so need not wait for the calls before it
		}
		answer <- answered{q.Asked(), a, err}
	}()
}

// settle waits for the answer to a call's question, if it has one.
func (r *reply) settle(ctx context.Context, c *call) *outcome.Verdict {
	if c.open == nil {
		return nil
	}
	a := <-c.open
	c.open = nil
	if a.err != nil {
		why := outcome.Ended(ctx).Reason
		r.emitOf(c.id, gate.Answer{Reason: why, By: event.ByNobody}.Event(a.asked))
		r.cancel([]*call{c}, why)
		return nil
	}
	said := a.answer.Event(a.asked)
	switch {
	case a.answer.Allow:
		r.emitOf(c.id, said)
		return nil
	case c.ended:
		return nil
	}
	r.deny(c, said, a.answer.Reason)
	if a.answer.By == event.ByNobody && r.cfg.OnAsk == "fail" {
		return &outcome.Verdict{Outcome: event.Denied, Stop: "error", Reason: "a question came up that nobody could answer: " + a.asked.Question}
	}
	return nil
}

// do runs a call that was judged. The call ends here, exactly once, whatever happens.
func (r *reply) do(ctx context.Context, c *call) (v *outcome.Verdict) {
	var start time.Time
	defer func() {
		if p := recover(); p != nil {
			v = new(panicked(p))
			if !c.ended {
				r.emitEnd(c, event.ToolFailed(r.end(c, start, tool.Result{Error: v.Reason})))
			}
		}
	}()
	var p tool.Plan
	for tries := 0; ; tries++ {
		if v := r.settle(ctx, c); v != nil || c.ended {
			return cmp.Or(v, c.bug)
		}
		if ctx.Err() != nil {
			r.cancel([]*call{c}, outcome.Ended(ctx).Reason)
			return nil
		}
		var err error
		if p, err = c.plan(); err != nil {
			r.fail(c, err)
			return c.bug
		}
		if slices.Equal(c.passed, p.Access) {
			break
		}
		if tries == 3 {
			r.fail(c, errors.New("what it would touch changes all the time"))
			return nil
		}
		r.judge(ctx, c) // what ran before it changed what it would touch
	}
	if r.cfg.Before != nil {
		if err := r.cfg.Before(ctx, r.seen(c)); err != nil {
			r.deny(c, event.GateDenied{Tool: c.told.Name, Input: c.told.Input, Reason: err.Error(), By: event.ByHook}, err.Error())
			return nil
		}
	}
	if r.cfg.Changing != nil && c.told.Class != event.ClassInfo {
		r.changing.Do(r.cfg.Changing)
	}
	start = r.now()
	r.emitOf(c.id, event.ToolStarted{Name: c.told.Name})
	within := context.WithValue(ctx, replyKey{}, r)
	result := p.Run(within, func(text string) { r.emitOf(c.id, event.ToolOutput{Text: text}) })
	if result.Title == "" {
		result.Title = p.Title
	}
	end := r.end(c, start, result)
	switch {
	case result.Error != "" && ctx.Err() != nil:
		end.Error = outcome.Ended(ctx).Reason
		r.emitEnd(c, event.ToolCancelled(end))
	case result.Error != "":
		r.emitEnd(c, event.ToolFailed(end))
	default:
		r.noticeSkill(c)
		r.emitEnd(c, event.ToolDone(end))
	}
	if r.cfg.After != nil {
		r.cfg.After(ctx, r.seen(c), end)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fatal
}

// seen is a call as others see it.
func (r *reply) seen(c *call) Call {
	return Call{ID: c.id, Agent: r.path, Tool: c.told.Name, Input: c.told.Input}
}

// emitEnd ends a call.
func (r *reply) emitEnd(c *call, b event.Body) {
	c.ended = true
	if end, ok := event.AsToolEnd(b); ok {
		c.result = end.Output + end.Error
	}
	r.emitOf(c.id, b)
}

func (r *reply) end(c *call, start time.Time, result tool.Result) event.ToolEnd {
	end := event.ToolEnd{
		Name: c.told.Name, Exit: result.Exit, Type: result.Type, Error: result.Error, Truncated: result.Truncated,
		Title: result.Title, Output: result.Output, Metadata: result.Metadata,
	}
	if end.Title == "" {
		end.Title = c.told.Title
	}
	if !start.IsZero() {
		end.Start, end.End = start, r.now()
	}
	return end
}

// fail ends a call that could not even be begun.
func (r *reply) fail(c *call, err error) {
	r.emitEnd(c, event.ToolFailed(r.end(c, time.Time{}, tool.Result{Error: err.Error()})))
}

// cancel ends calls that will not be done.
func (r *reply) cancel(calls []*call, why string) {
	for _, c := range calls {
		r.emitEnd(c, event.ToolCancelled(r.end(c, time.Time{}, tool.Result{Error: why})))
	}
}

// deny ends a call that may not pass.
func (r *reply) deny(c *call, said event.Body, why string) {
	r.mu.Lock()
	if r.denials++; r.denials == 1 {
		r.denied = why
	}
	r.mu.Unlock()
	r.emitOf(c.id, said)
	r.emitEnd(c, event.ToolDenied(r.end(c, time.Time{}, tool.Result{Error: why})))
}
