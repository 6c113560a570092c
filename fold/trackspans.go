package fold

import (
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// This file is what a [Tracker] keeps of all agents: calls, questions and the agents themselves.

func (t *Tracker) spans(e event.Event) {
	switch e.Kind {
	case "tool.called":
		b, _ := e.Body.(event.ToolCalled)
		t.calls.open(&e.Header, b.Name)
		t.change = true
	case "tool.started":
		t.calls.start(&e.Header)
	case "tool.done", "tool.failed", "tool.denied", "tool.cancelled":
		if _, ok := t.calls.end(&e.Header); ok {
			t.change = true
		}
		if e.Call != "" {
			t.answer(func(q Question) bool { return q.Call == e.Call && q.Agent == e.Agent })
		}
	case "agent.started":
		b, _ := e.Body.(event.AgentStarted)
		t.agentStarted(e.Header, b)
	case "agent.ended":
		t.agentEnded(e.Agent)
	}
	switch b := e.Body.(type) {
	case event.GateAsked:
		t.ask(e.Header, b)
	case event.GateAllowed, event.GateDenied:
		a, _ := event.AsGateAnswer(b)
		t.answer(func(q Question) bool {
			if a.Request != "" {
				return q.Request == a.Request
			}
			return e.Call != "" && q.Call == e.Call && q.Agent == e.Agent
		})
		// A terminal's dialog has no id; the answer to it ends what the status said.
		if len(t.s.Pending) == 0 {
			t.shown = false
		}
	}
}

func (t *Tracker) ask(h event.Header, b event.GateAsked) {
	q := Question{
		Request: b.Request, Call: h.Call, Agent: h.Agent, Tool: b.Tool, Question: b.Question,
		Options: b.Options, Deadline: b.Deadline, Since: h.At,
	}
	t.change = true
	t.phase("waiting", t.s.PhaseLabel)
	for i, o := range t.s.Pending {
		if b.Request != "" && o.Request == b.Request { // asked again
			t.s.Pending[i] = q
			return
		}
	}
	t.s.Pending = append(t.s.Pending, q)
}

// answer removes the questions that are answered.
func (t *Tracker) answer(is func(Question) bool) {
	n := len(t.s.Pending)
	if n == 0 {
		return
	}
	t.s.Pending = slices.DeleteFunc(t.s.Pending, is)
	if len(t.s.Pending) < n {
		t.change = true
	}
	if len(t.s.Pending) == 0 {
		t.s.Pending = nil
	}
}

func (t *Tracker) agentStarted(h event.Header, b event.AgentStarted) {
	if h.Agent == "" || slices.ContainsFunc(t.agents, func(a OpenAgent) bool { return a.Agent == h.Agent }) {
		return
	}
	t.agents = append(t.agents, OpenAgent{Agent: h.Agent, Session: h.Session, Title: b.Title, Since: h.At})
	t.change = true
}

// agentEnded closes the agent, those below it, and what they left open.
func (t *Tracker) agentEnded(path string) {
	within := func(agent string) bool {
		return path != "" && (agent == path || strings.HasPrefix(agent, path+"/"))
	}
	n := len(t.agents) + t.calls.len()
	t.agents = slices.DeleteFunc(t.agents, func(a OpenAgent) bool { return within(a.Agent) })
	t.calls.drop(within)
	if len(t.agents)+t.calls.len() < n {
		t.change = true
	}
	if len(t.agents) == 0 {
		t.agents = nil
	}
	t.answer(func(q Question) bool { return within(q.Agent) })
}
