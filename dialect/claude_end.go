package dialect

import (
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file is what claude's decoder reads of sub-agents, results and the end.

// agent is the path of the sub-agent that a line is of. One that was never announced is.
func (c *claudeDecoder) agent(l *claudeIn, h event.Header, emit func(event.Event)) string {
	if a := c.agents[l.Parent]; a != nil {
		return a.path
	}
	return c.enter(l.Parent, l.AgentID, event.AgentStarted{Role: l.Role, Title: l.Description}, h, emit).path
}

// enter begins a sub-agent. Its name is the program's own, which no other sub-agent has.
func (c *claudeDecoder) enter(call, id string, b event.AgentStarted, h event.Header, emit func(event.Event)) *claudeAgent {
	name := strings.Map(func(r rune) rune {
		if r <= ' ' || r == '/' || r == '.' || r == '*' || r == '>' || r == 0x7f {
			return '_'
		}
		return r
	}, clip(first(id, call)))
	a := &claudeAgent{path: name}
	if parent := c.calls[call]; parent != nil && parent.agent != "" {
		a.path = parent.agent + "/" + name
		b.Parent = parent.agent
	}
	b.Depth = strings.Count(a.path, "/") + 1
	c.agents[call] = a
	h.Agent, h.Call = a.path, ""
	emit(event.Event{Header: h, Body: b})
	return a
}

// task begins a sub-agent that says so. Commands in the background are tasks too.
func (c *claudeDecoder) task(l *claudeIn, h event.Header, emit func(event.Event)) {
	if l.Role == "" || l.ToolUseID == "" {
		return
	}
	a := c.agents[l.ToolUseID]
	if a == nil {
		a = c.enter(l.ToolUseID, l.TaskID, event.AgentStarted{Title: l.Description, Role: l.Role, Prompt: l.Prompt}, h, emit)
	}
	a.background = l.Background
}

// taskOver ends a sub-agent that worked in the background. Its report goes to the model, which will say something to it.
func (c *claudeDecoder) taskOver(l *claudeIn, h event.Header, emit func(event.Event)) {
	if a := c.agents[l.ToolUseID]; a == nil || !a.background {
		return
	}
	failure := ""
	if l.TaskState != "completed" {
		failure = first(l.TaskState, "it did not say how it ended")
	}
	c.owed = true
	c.leave(l.ToolUseID, failure, h, emit)
}

// leave ends a sub-agent.
func (c *claudeDecoder) leave(call, failure string, h event.Header, emit func(event.Event)) {
	a := c.agents[call]
	delete(c.agents, call)
	h.Agent, h.Call = a.path, ""
	c.endTurn(c.strand(a.path), h, event.TurnEnded{}, emit)
	delete(c.strands, a.path)
	emit(event.Event{Header: h, Body: event.AgentEnded{Error: failure}})
}

// working says whether a sub-agent in the background is not over.
func (c *claudeDecoder) working() bool {
	for _, a := range c.agents {
		if a.background {
			return true
		}
	}
	return false
}

// result reads what may be the end of a reply: not while sub-agents work or have reported without being answered.
func (c *claudeDecoder) result(l *claudeIn, h event.Header, emit func(event.Event)) {
	if c.held == nil {
		c.held = &claudeEnd{}
	}
	e := c.held
	usage, cost := c.used(l)
	e.end.Usage, e.end.Cost = e.end.Usage.Add(usage), e.end.Cost.Add(cost)
	e.cancelled = strings.HasPrefix(l.Terminal, "aborted")
	e.failed = (l.IsError || l.Subtype != "success") && !e.cancelled // old versions ran out of turns without an error
	e.end.Stop = claudeStop(l, e)
	if e.failed {
		c.problem(l, h, emit)
	}
	if l.Origin.Kind == "task-notification" {
		c.owed = false
	}
	if s := c.strand(""); s.open {
		s.stop = first(l.Stop, s.stop)
	}
	if !c.owed && !c.working() {
		c.over(h, emit)
	}
}

// over ends the reply.
func (c *claudeDecoder) over(h event.Header, emit func(event.Event)) {
	e := c.held
	c.held, c.owed = nil, false
	c.endTurn(c.strand(""), h, event.TurnEnded{Usage: e.end.Usage, Cost: e.end.Cost}, emit)
	c.sum, c.spent = c.sum.Add(e.end.Usage), c.spent.Add(e.end.Cost)
	c.ended, c.failed, c.cancel = true, e.failed, e.cancelled
	tell := func(b event.Body) { emit(event.Event{Header: h, Body: b}) }
	switch {
	case e.cancelled:
		tell(event.ReplyCancelled(e.end))
	case e.failed:
		tell(event.ReplyFailed(e.end))
	default:
		tell(event.ReplyDone(e.end))
	}
}

// problem tells why a reply failed, unless the lines before have.
func (c *claudeDecoder) problem(l *claudeIn, h event.Header, emit func(event.Event)) {
	e := event.Error{Message: l.Result.Text(), Code: claudeCode(l.Status), Name: l.ErrorType}
	if !l.IsError && l.Subtype == "" {
		e.Message = "the result does not say whether it was a success"
	}
	if e.Message == "" {
		e.Message = strings.Join(l.Errors, "; ")
	}
	if e.Message == "" {
		e.Message = strings.ReplaceAll(first(l.Subtype, "error"), "_", " ")
	}
	if c.fatal != nil && c.told == e.Message {
		return
	}
	e.Class, e.Retryable = claudeProblem(whole(l.Status), "")
	c.fail(e, h, emit)
}

// claudeStop is why a reply ended.
func claudeStop(l *claudeIn, e *claudeEnd) string {
	switch {
	case e.cancelled:
		return "cancelled"
	case l.Subtype == "error_max_turns":
		return "max_turn_requests"
	case !e.failed:
		return first(l.Stop, "end_turn")
	}
	switch l.Stop {
	case "refusal", "max_tokens":
		return l.Stop
	}
	return "error"
}

// used is what was spent since the result before: of all models and sub-agents, where the program says so.
func (c *claudeDecoder) used(l *claudeIn) (u event.Usage, cost event.Cost) {
	if l.TotalCost.OK {
		if spent := l.TotalCost.Value - c.cost; spent > 0 {
			cost.Total = &spent
		}
		c.cost = max(c.cost, l.TotalCost.Value)
	}
	if l.Since != nil {
		for _, m := range l.Since {
			one := event.Usage{Input: new(m.Input), Output: new(m.Output - m.Thinking), CacheRead: new(m.CacheRead), CacheWrite: new(m.CacheWrite)}
			if m.Thinking > 0 {
				one.Reasoning = new(m.Thinking)
			}
			u = u.Add(one)
		}
		return u, cost
	}
	u = event.Usage{Input: l.Usage.Input, Output: l.Usage.Output, CacheRead: l.Usage.CacheRead, CacheWrite: l.Usage.CacheWrite}
	if c.qwen { // it counts from its start, and what the cache served is part of the input
		before := c.total
		c.total = u
		u = event.Usage{Input: since(before.Input, u.Input), Output: since(before.Output, u.Output), CacheRead: since(before.CacheRead, u.CacheRead)}
		u.Input = since(u.CacheRead, u.Input)
	}
	return u, cost
}

// claudeCode is the code of an error: the server's status.
func claudeCode(status wire.Num) string {
	if n := whole(status); n > 0 {
		return strconv.Itoa(n)
	}
	return ""
}

// claudeProblem says what kind of trouble a server's status means, and whether it may pass.
func claudeProblem(status int, word string) (class string, passing *bool) {
	switch {
	case status == 401 || status == 403 || word == "authentication_failed":
		return "auth", new(false)
	case status == 429 || word == "rate_limit":
		return "rate_limit", new(true)
	case status >= 500:
		return "provider", new(true)
	case status >= 400:
		return "provider", new(false)
	case word == "unknown" && status == 0:
		return "connection", new(true)
	}
	return "", nil
}

// Ended is true after a result that leaves nothing open. In a stream that goes both ways another prompt may come.
func (c *claudeDecoder) Ended() bool { return c.ended }

// Close tells how the run ended.
func (c *claudeDecoder) Close(emit func(event.Event)) {
	h := event.Header{Session: c.session}
	if c.held != nil {
		c.over(h, emit)
	}
	if !c.ended {
		return
	}
	end := event.RunEnd{Outcome: event.Done, Usage: c.sum, Cost: c.spent, Denials: c.denied}
	switch {
	case c.cancel:
		end.Outcome, end.Reason = event.Cancelled, "interrupted"
		emit(event.Event{Header: h, Body: event.RunCancelled(end)})
	case c.failed:
		end.Outcome, end.Reason = event.Failed, "it failed"
		if e := c.fatal; e != nil {
			end.Reason, end.Class, end.Code = e.Message, e.Class, e.Code
			if e.Retryable != nil && *e.Retryable {
				end.Outcome = event.Unavailable
			}
		}
		emit(event.Event{Header: h, Body: event.RunFailed(end)})
	default:
		emit(event.Event{Header: h, Body: event.RunDone(end)})
	}
}
