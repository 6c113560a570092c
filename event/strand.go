package event

import (
	"slices"
	"strings"
	"time"
)

// This file is what a [Mender] does inside one agent: turns, blocks, calls and questions.

// A strand is what is open in one agent.
type strand struct {
	path, session string

	turn    bool     // a turn is open
	implied bool     // and was inferred
	turns   int      // number of the last turn
	spoke   bool     // a turn began in this reply
	worked  bool     // a call ended since then
	metered bool     // a turn of this reply told its usage
	end     ReplyEnd // of the reply that ends now

	block   Kind // text or thought, while deltas come
	blockID string
	text    strings.Builder
	begun   time.Time // its first delta's
	last    time.Time // its last delta's
	of      uint64    // its last delta's

	calls []call
	asks  []ask
}

// A call is one that is open.
type call struct{ id, name string }

// An ask is a question that is open.
type ask struct{ request, call, tool string }

func (s *strand) header() Header { return Header{Session: s.session, Agent: s.path} }

func (s *strand) callHeader(id string) Header {
	h := s.header()
	h.Call = id
	return h
}

// put does what must be done before e, whose body reads as body, and makes e what is to be passed on.
func (s *strand) put(m *Mender, e *Event, body Body) {
	switch b := body.(type) {
	case Prompt:
		if s.path == "" {
			m.open(b)
		}
	case TurnStarted:
		m.answer()
		s.closeTurn(m)
		s.begin(m, b)
	case TurnEnded:
		if !s.turn {
			s.openTurn(m)
		}
		s.closeBlock(m, false)
		s.turn = false
		s.metered = s.metered || b.Usage != (Usage{})
	case TextDelta:
		s.delta(m, &e.Header, "text", b.ID, b.Text)
	case ThoughtDelta:
		s.delta(m, &e.Header, "thought", b.ID, b.Text)
	case Text:
		if whole := s.whole(m, &e.Header, "text", b.ID, b.Text); whole != b.Text {
			fill(e, whole)
		}
	case Thought:
		if whole := s.whole(m, &e.Header, "thought", b.ID, b.Text); whole != b.Text {
			fill(e, whole)
		}
	case Retry:
		s.closeBlock(m, true)
	case PhaseRetry:
		if s.implied { // the next attempt is another answer
			s.closeBlock(m, true)
			s.closeTurn(m)
		}
	case ToolCalled:
		s.called(m, e.Call, b.Name)
	case ToolStarted:
		s.ensureCall(m, e.Call, b.Name, nil)
	case ToolOutput:
		s.ensureCall(m, e.Call, "", nil)
	case ToolDone, ToolFailed, ToolDenied, ToolCancelled:
		s.toolEnd(m, e.Call, b)
	case GateAsked:
		if e.Call != "" && !b.Inferred {
			s.ensureCall(m, e.Call, b.Tool, b.Input)
		}
		s.asked(e.Call, b)
	case GateAllowed, GateDenied:
		s.answered(m, &e.Header, b)
	case AgentEnded:
		if s.path != "" {
			m.leave(s, b.Error != "")
		}
	case ReplyDone, ReplyFailed, ReplyCancelled:
		_, done := b.(ReplyDone)
		if s.path != "" { // of a sub-agent: the run's own goes on
			s.close(m, !done)
			break
		}
		m.answer()
		s.end, _ = AsReplyEnd(b)
		m.closeReply(!done)
		s.end, s.metered = ReplyEnd{}, false
	}
}

// close ends everything that is open. Cut says that it broke off.
func (s *strand) close(m *Mender, cut bool) {
	s.closeBlock(m, cut)
	for len(s.calls) > 0 {
		s.giveUp(m, 0, "the call did not end")
	}
	for len(s.asks) > 0 {
		s.settle(m, 0, false)
	}
	s.closeTurn(m)
}

// begin opens a turn.
func (s *strand) begin(m *Mender, b TurnStarted) {
	s.turn, s.implied, s.spoke, s.worked = true, b.Inferred, true, false
	if s.turns++; b.Number > 0 {
		s.turns = b.Number
	}
	m.fresh = false
}

func (s *strand) openTurn(m *Mender) {
	m.answer()
	s.begin(m, TurnStarted{Inferred: true})
	m.add(s.header(), TurnStarted{Number: s.turns, Inferred: true})
}

// closeTurn ends a turn that nobody ended. If its reply is told to end now, it tells why; and what the reply cost, where its
// turns did not.
func (s *strand) closeTurn(m *Mender) {
	if !s.turn {
		return
	}
	s.closeBlock(m, false)
	s.turn = false
	b := TurnEnded{Number: s.turns, Finish: finishOf(s.end.Stop), Inferred: true}
	if !s.metered {
		b.Usage, b.Cost = s.end.Usage, s.end.Cost
	}
	m.add(s.header(), b)
}

// finishOf is why the model stopped, by the stop reason of its reply.
func finishOf(stop string) Finish {
	switch stop {
	case "end_turn":
		return FinishStop
	case "max_tokens":
		return FinishLength
	case "refusal", "stop_sequence":
		return Finish(stop)
	}
	return ""
}

// speak makes sure that a turn is open in which the model can say something new. After a call has ended, that is another turn,
// if nobody tells turns in this stream.
func (s *strand) speak(m *Mender) {
	s.closeBlock(m, false)
	if s.implied && s.worked {
		s.closeTurn(m)
	}
	if !s.turn {
		s.openTurn(m)
	}
}

// delta takes a piece of a block.
func (s *strand) delta(m *Mender, h *Header, kind Kind, id, text string) {
	if s.block != kind || s.blockID != id {
		s.speak(m)
		s.block, s.blockID, s.begun = kind, id, h.At
	}
	s.of, s.last = h.Of, h.At
	s.text.WriteString(text)
}

// whole takes a whole block: the end of the one whose deltas came, or one of its own. It returns the block's text.
func (s *strand) whole(m *Mender, h *Header, kind Kind, id, text string) string {
	if s.block != kind || id != "" && s.blockID != "" && id != s.blockID {
		s.speak(m)
		return text
	}
	said := s.text.String()
	rest, ok := strings.CutPrefix(text, said)
	switch {
	case text == "":
		text = said
	case !ok:
		s.closeBlock(m, true) // what was said is not what came of it: two blocks
		s.speak(m)
	case rest != "":
		d := Event{Header: *h, Body: TextDelta{ID: s.blockID, Text: rest}}
		if d.Seq = 0; kind == "thought" {
			d.Body = ThoughtDelta{ID: s.blockID, Text: rest}
		}
		m.emit(d.Stamp())
	}
	s.forget()
	return text
}

// fill gives a block its text.
func fill(e *Event, text string) {
	switch b := e.Body.(type) {
	case Text:
		b.Text = text
		e.Body = b
	case Thought:
		b.Text = text
		e.Body = b
	}
}

// closeBlock puts the block together whose deltas came. If it was cut in the middle, that is an inference.
func (s *strand) closeBlock(m *Mender, cut bool) {
	if s.block == "" {
		return
	}
	h := s.header()
	if !cut {
		h.Of = s.of
	}
	if text := s.text.String(); s.block == "text" {
		m.add(h, Text{ID: s.blockID, Text: text, Start: s.begun, End: s.last, Partial: cut, Inferred: cut})
	} else {
		m.add(h, Thought{ID: s.blockID, Text: text, Start: s.begun, End: s.last, Partial: cut, Inferred: cut})
	}
	s.forget()
}

func (s *strand) forget() {
	s.block = ""
	s.text.Reset()
}

// called begins a call. One that is open under the same id is given up.
func (s *strand) called(m *Mender, id, name string) {
	m.answer()
	s.closeBlock(m, false)
	if i := s.find(id); i >= 0 {
		s.giveUp(m, i, "the call was made again before it ended")
	}
	if !s.turn && !s.spoke {
		s.openTurn(m)
	}
	s.calls = append(s.calls, call{id, name})
}

// ensureCall makes sure that the call was called.
func (s *strand) ensureCall(m *Mender, id, name string, input Raw) {
	if s.find(id) < 0 {
		s.called(m, id, name)
		m.add(s.callHeader(id), ToolCalled{Name: name, Input: input, Inferred: true})
	}
}

// toolEnd ends a call. A question about it that nobody answered was answered by what happened.
func (s *strand) toolEnd(m *Mender, id string, b Body) {
	end, _ := AsToolEnd(b)
	s.ensureCall(m, id, end.Name, nil)
	ran := false
	switch b.(type) {
	case ToolDone, ToolFailed:
		ran = true
	}
	s.endCall(m, s.find(id), ran)
}

// giveUp ends a call that never said how it ended.
func (s *strand) giveUp(m *Mender, i int, why string) {
	c := s.calls[i]
	s.endCall(m, i, false)
	m.add(s.callHeader(c.id), ToolCancelled{Name: c.name, Error: why, Inferred: true})
}

// endCall removes a call and answers what was asked about it.
func (s *strand) endCall(m *Mender, i int, ran bool) {
	id := s.calls[i].id
	s.calls = slices.Delete(s.calls, i, i+1)
	s.worked = true
	for i := len(s.asks) - 1; i >= 0 && id != ""; i-- {
		if s.asks[i].call == id {
			s.settle(m, i, ran)
		}
	}
}

// find returns the place of an open call, or -1.
func (s *strand) find(id string) int {
	return slices.IndexFunc(s.calls, func(c call) bool { return c.id == id })
}

func (s *strand) asked(id string, b GateAsked) {
	if !slices.ContainsFunc(s.asks, func(a ask) bool { return a.request == b.Request && a.call == id }) {
		s.asks = append(s.asks, ask{b.Request, id, b.Tool})
	}
}

// answered removes the question that an answer is to. A question that is named was asked, and what was decided about a call
// without a question was called.
func (s *strand) answered(m *Mender, h *Header, b Body) {
	g, _ := AsGateAnswer(b)
	if o, i := m.question(s, g.Request, h.Call); i >= 0 {
		o.asks = slices.Delete(o.asks, i, i+1)
	} else if g.Request != "" {
		m.add(s.callHeader(h.Call), GateAsked{Request: g.Request, Tool: g.Tool, Permission: g.Permission, Patterns: g.Patterns, Input: g.Input, Inferred: true})
	} else if h.Call != "" {
		s.ensureCall(m, h.Call, g.Tool, g.Input)
	}
}

// question finds the open question that an answer of agent s is to: the one about this call, or one of this name, also of
// another agent. The place is -1 if there is none.
func (m *Mender) question(s *strand, request, call string) (*strand, int) {
	if i := slices.IndexFunc(s.asks, func(a ask) bool { return a.request == request && a.call == call }); i >= 0 {
		return s, i
	}
	if request == "" {
		return s, slices.IndexFunc(s.asks, func(a ask) bool { return a.call == call && call != "" })
	}
	for _, o := range append([]*strand{s}, m.agents...) {
		if i := slices.IndexFunc(o.asks, func(a ask) bool { return a.request == request }); i >= 0 {
			return o, i
		}
	}
	return nil, -1
}

// settle answers an open question by what happened.
func (s *strand) settle(m *Mender, i int, ran bool) {
	a := s.asks[i]
	s.asks = slices.Delete(s.asks, i, i+1)
	g := GateAnswer{Request: a.request, Tool: a.tool, Inferred: true}
	if ran {
		m.add(s.callHeader(a.call), GateAllowed(g))
		return
	}
	g.By = ByNobody
	m.add(s.callHeader(a.call), GateDenied(g))
}
