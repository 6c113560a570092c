package event

import "slices"

// This file is what a [Mender] does inside one agent: turns, blocks, calls and questions.

func (s *strand) header() Header { return Header{Session: s.session, Agent: s.path} }

// ensureTurn makes sure that a turn is open. After a call has ended, what the model says next is a new turn, if nobody tells
// turns in this stream.
func (s *strand) ensureTurn(m *Mender, emit func(Event)) {
	m.answer(emit)
	if s.turn && !(s.impliedTurn && s.worked) {
		return
	}
	s.closeTurn(m, emit)
	s.turn, s.impliedTurn, s.worked = true, true, false
	s.turns++
	s.inReply++
	emit(m.infer(s.header(), TurnStarted{Number: s.turns, Inferred: true}))
}

func (s *strand) closeTurn(m *Mender, emit func(Event)) {
	if s.turn {
		s.turn = false
		emit(m.infer(s.header(), TurnEnded{Number: s.turns, Inferred: true}))
	}
}

// delta takes a piece of a block.
func (s *strand) delta(m *Mender, e Event, kind Kind, id, text string, emit func(Event)) {
	if s.block != "" && (s.block != kind || s.blockID != id) {
		s.closeBlock(m, emit, false)
	}
	s.ensureTurn(m, emit)
	if s.block == "" {
		s.block, s.blockID, s.begun = kind, id, e.At
	}
	s.of, s.last = e.Of, e.At
	s.text.WriteString(text)
}

// whole takes a whole block: the end of the one whose deltas came, or one of its own.
func (s *strand) whole(m *Mender, kind Kind, id string, emit func(Event)) {
	if s.block == kind && (id == "" || id == s.blockID) {
		s.block = ""
		s.text.Reset()
		return
	}
	s.closeBlock(m, emit, false)
	s.ensureTurn(m, emit)
}

// closeBlock puts the block together whose deltas came. If the stream was cut in it, it is partial.
func (s *strand) closeBlock(m *Mender, emit func(Event), cut bool) {
	if s.block == "" {
		return
	}
	h := s.header()
	h.Of = s.of
	if cut {
		h.Of = 0
	}
	if s.block == "text" {
		emit(m.infer(h, Text{ID: s.blockID, Text: s.text.String(), Start: s.begun, End: s.last, Partial: cut, Inferred: cut}))
	} else {
		emit(m.infer(h, Thought{ID: s.blockID, Text: s.text.String(), Start: s.begun, End: s.last, Partial: cut, Inferred: cut}))
	}
	s.block = ""
	s.text.Reset()
}

// called begins a call. One that goes on under the same id is taken for ended.
func (m *Mender) called(s *strand, e Event, b ToolCalled, emit func(Event)) {
	s.closeBlock(m, emit, false)
	m.answer(emit)
	if s.inReply == 0 {
		s.ensureTurn(m, emit)
	}
	if i := s.find(e.Call); i >= 0 {
		c := s.calls[i]
		s.calls = slices.Delete(s.calls, i, i+1)
		h := s.header()
		h.Call = c.id
		emit(m.infer(h, ToolCancelled{Name: c.name, Error: "the call was made again before it ended", Inferred: true}))
	}
	s.calls = append(s.calls, openCall{id: e.Call, name: b.Name})
}

// ensureCall makes sure that the call that e belongs to was called.
func (s *strand) ensureCall(m *Mender, e Event, name string, input Raw, emit func(Event)) {
	if s.find(e.Call) >= 0 {
		return
	}
	h := s.header()
	h.Call = e.Call
	c := m.infer(h, ToolCalled{Name: name, Input: input, Inferred: true})
	m.called(s, c, c.Body.(ToolCalled), emit)
	emit(c)
}

func (m *Mender) asked(s *strand, e Event, b GateAsked, emit func(Event)) {
	s.closeBlock(m, emit, false)
	m.answer(emit)
	if e.Call == "" { // about no call: kept as an open question only
		s.calls = append(s.calls, openCall{name: b.Tool, request: b.Request, asked: true})
		return
	}
	s.ensureCall(m, e, b.Tool, b.Input, emit)
	c := &s.calls[s.find(e.Call)]
	c.request, c.asked = b.Request, true
}

func (m *Mender) answered(s *strand, e Event, emit func(Event)) {
	a, _ := AsGateAnswer(e.Body)
	if e.Call != "" {
		s.closeBlock(m, emit, false)
		s.ensureCall(m, e, a.Tool, a.Input, emit)
	}
	for _, o := range m.agents {
		for i := range o.calls {
			c := &o.calls[i]
			if !c.asked || !(a.Request != "" && c.request == a.Request || a.Request == "" && e.Call != "" && c.id == e.Call) {
				continue
			}
			if c.asked = false; c.id == "" {
				o.calls = slices.Delete(o.calls, i, i+1)
			}
			return
		}
	}
}

// toolEnd ends a call; a question about it that nobody answered was answered by what happened.
func (m *Mender) toolEnd(s *strand, e Event, emit func(Event)) {
	end, _ := AsToolEnd(e.Body)
	s.closeBlock(m, emit, false)
	s.ensureCall(m, e, end.Name, nil, emit)
	i := s.find(e.Call)
	c := s.calls[i]
	s.calls = slices.Delete(s.calls, i, i+1)
	s.worked = true
	if !c.asked {
		return
	}
	h := s.header()
	h.Call = e.Call
	a := GateAnswer{Request: c.request, Tool: c.name, Inferred: true}
	switch e.Body.(type) {
	case ToolDone, ToolFailed:
		emit(m.infer(h, GateAllowed(a)))
	default:
		a.By = ByNobody
		emit(m.infer(h, GateDenied(a)))
	}
}

// find returns the place of the call, newest first, or -1.
func (s *strand) find(id string) int {
	for i := len(s.calls) - 1; i >= 0; i-- {
		if s.calls[i].id == id && !(id == "" && s.calls[i].asked) {
			return i
		}
	}
	return -1
}
