package guest

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// A request is a guest's question whether a call may pass.
type request struct {
	ref     string // what the guest calls the question
	call    string // the guest's id of the call
	told    event.ToolCalled
	access  []gate.Access
	about   string         // what a person is asked; empty: what the gate asks
	options []event.Option // the guest's own; nil: ours
}

// A question is one that is open, or was decided at once.
type question struct {
	request
	call     *call
	asked    event.GateAsked
	withdraw context.CancelFunc
}

// An answered question.
type answered struct {
	q      *question
	answer gate.Answer
	err    error // it was withdrawn
}

// judge decides about a guest's question: by our rules and our mode first, and else by whoever may answer.
func (s *Session) judge(r request) {
	c := s.calls[r.call]
	if c == nil || c.ended {
		s.tell(event.Event{Header: event.Header{Call: r.call}, Body: r.told})
		c = s.calls[r.call]
	}
	q := &question{request: r, call: c, withdraw: func() {}}
	if c == nil || s.now == nil || s.now.halted != nil {
		s.tongue.drop(q)
		return
	}
	c.judged = true
	name := first(r.told.Name, c.name)
	d := s.cfg.Gate.Decide(r.access)
	switch {
	case d.Action == gate.Allow && !offers(r.options, "allow"):
		s.refuse(q, event.GateDenied{Tool: name, Input: r.told.Input, Reason: unoffered, By: event.ByNobody}, unoffered)
	case d.Action == gate.Allow:
		s.tellOf(c, d.Event(name, r.told.Input))
		s.tongue.settle(q, gate.Answer{Allow: true})
	case d.Action == gate.Deny:
		s.refuse(q, d.Event(name, r.told.Input), d.Reason)
	default:
		s.question(q, name)
	}
}

const unoffered = "the guest offers no answer that would allow it"

// offers says whether one of the options is on that side. Where there are none of the guest's own, ours are offered.
func offers(options []event.Option, side string) bool {
	return options == nil || slices.ContainsFunc(options, func(o event.Option) bool { return strings.HasPrefix(o.Kind, side) })
}

// refuse tells that a call may not pass.
func (s *Session) refuse(q *question, said event.Body, why string) {
	q.call.denied = first(why, "it was denied")
	s.deny(q.call.denied)
	s.tellOf(q.call, said)
	s.tongue.settle(q, gate.Answer{Reason: q.call.denied})
}

// question asks whoever may answer. Others may be asked meanwhile.
func (s *Session) question(q *question, name string) {
	asked := event.GateAsked{Request: s.name("q"), Tool: name, Question: q.about, Input: q.told.Input, Options: q.options}
	if s.cfg.Answer > 0 {
		asked.Deadline = s.time().Add(s.cfg.Answer)
	}
	open := s.cfg.Gate.Ask(asked, q.access, q.call.class)
	q.asked = open.Asked()
	s.asks[q.asked.Request] = q // and not by the guest's name for it, which it may use twice
	s.tellOf(q.call, q.asked)
	over := s.over
	ctx, cancel := context.WithCancel(context.Background())
	q.withdraw = cancel
	go func() {
		defer cancel()
		a, err := open.Wait(ctx)
		select {
		case s.answers <- answered{q, a, err}:
		case <-over:
		}
	}()
}

// answered passes an answer on to the guest.
func (s *Session) answered(a answered) {
	q := a.q
	if s.asks[q.asked.Request] != q {
		return // the reply was over before
	}
	delete(s.asks, q.asked.Request)
	switch {
	case a.err != nil:
		why := "the question was withdrawn"
		if s.now != nil && s.now.halted != nil {
			why = s.now.halted.Reason
		}
		s.tellOf(q.call, gate.Answer{Reason: why, By: event.ByNobody}.Event(q.asked))
		if s.link != nil {
			s.tongue.drop(q)
		}
		return
	case s.link == nil:
		s.tellOf(q.call, a.answer.Event(q.asked))
		return
	case a.answer.Allow && !offers(q.options, "allow"):
		a.answer = gate.Answer{Reason: unoffered, By: event.ByNobody}
	}
	said := a.answer.Event(q.asked)
	if a.answer.Allow {
		s.tellOf(q.call, said)
		s.tongue.settle(q, a.answer)
		return
	}
	s.refuse(q, said, a.answer.Reason)
	if a.answer.By == event.ByNobody && s.cfg.OnAsk == "fail" {
		s.halt(outcome.Verdict{Outcome: event.Denied, Stop: "error", Reason: "a question came up that nobody could answer: " + q.asked.Question})
	}
}

// option is the guest's option for an answer: the one that was chosen, else the first that says the same, for once before for good.
func (q *question) option(a gate.Answer) string {
	if slices.ContainsFunc(q.options, func(o event.Option) bool { return o.ID == a.Option }) {
		return a.Option
	}
	side := "reject"
	if a.Allow {
		side = "allow"
	}
	for _, kind := range []string{side + "_once", side} {
		if i := slices.IndexFunc(q.options, func(o event.Option) bool { return strings.HasPrefix(o.Kind, kind) }); i >= 0 {
			return q.options[i].ID
		}
	}
	return ""
}
