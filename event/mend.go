package event

import (
	"slices"
	"strings"
	"time"
)

// A Mender makes a stream whole. Events go in as somebody told them; they come out with every span opened before it is used
// and closed once:
//
//	run.started first, one run.* last; replies between a prompt and a reply.*; turns inside replies;
//	deltas followed by their block; each call called once and ended once; each question answered; each
//	sub-agent, phase and loop ended.
//
// What it adds is marked inferred and carries no Of, but for blocks that it puts together from their deltas. A stream that is
// whole passes unchanged. The run's end is held back until Close, since some programs go on talking after it.
//
// The zero Mender is ready.
type Mender struct {
	Program string // named in an inferred run.started

	started bool
	end     Event // the run's end, held
	ended   bool
	run     Header // session of the run
	at      time.Time

	reply    bool
	prompt   string // id of the open reply's prompt
	implied  bool   // the open reply's prompt was inferred
	lastKind Kind
	verdict  Body // how the last reply ended

	agents []*strand // the top one first, then the open sub-agents in the order they came
	loop   bool
	phase  *PhaseStarted
}

// A strand is what is open in one agent.
type strand struct {
	path, session string
	turn          bool // a turn is open
	impliedTurn   bool // and was inferred
	turns         int  // turns so far in the run
	inReply       int  // and in this reply
	worked        bool // a call ended since the model last spoke

	block   Kind // text or thought, while deltas come
	blockID string
	text    strings.Builder
	begun   time.Time // its first delta's
	last    time.Time // its last delta's
	of      uint64

	calls []openCall
}

type openCall struct {
	id, name string
	request  string // an open question about it
	asked    bool
}

// Put passes e on, after what must stand before it.
func (m *Mender) Put(e Event, emit func(Event)) {
	e = e.Stamp()
	if !e.At.IsZero() {
		m.at = e.At
	}
	switch b := e.Body.(type) {
	case Foreign, Unknown, Diag:
		emit(e)
		return
	case RunStarted:
		if m.started {
			emit(Event{e.Header, SessionStarted{b.Backend, b.Cwd, b.Model, b.DangerouslyLoad, b.Resumed}}.Stamp())
			return
		}
		m.started, m.run.Session = true, e.Session
		emit(e)
		return
	}
	if !m.started {
		m.started, m.run.Session = true, e.Session
		emit(m.infer(Header{Session: e.Session}, RunStarted{Format: Format, Program: m.Program, Inferred: true}))
	}
	if m.run.Session == "" && e.Top() {
		m.run.Session = e.Session
	}
	if _, ok := AsRunEnd(e.Body); ok {
		m.hold(e)
		return
	}
	s := m.strand(e, emit)
	switch b := e.Body.(type) {
	case Prompt:
		m.open(e, b, emit)
	case TurnStarted:
		m.answer(emit)
		s.closeBlock(m, emit, false)
		s.closeTurn(m, emit)
		s.turn, s.impliedTurn, s.worked = true, b.Inferred, false
		s.turns++
		s.inReply++
	case TurnEnded:
		if !s.turn {
			s.ensureTurn(m, emit)
		}
		s.closeBlock(m, emit, false)
		s.turn = false
	case TextDelta:
		s.delta(m, e, "text", b.ID, b.Text, emit)
	case ThoughtDelta:
		s.delta(m, e, "thought", b.ID, b.Text, emit)
	case Text:
		s.whole(m, "text", b.ID, emit)
	case Thought:
		s.whole(m, "thought", b.ID, emit)
	case ToolCalled:
		m.called(s, e, b, emit)
	case GateAsked:
		m.asked(s, e, b, emit)
	case GateAllowed, GateDenied:
		m.answered(s, e, emit)
	case ToolStarted:
		s.ensureCall(m, e, b.Name, nil, emit)
	case ToolOutput:
		s.ensureCall(m, e, "", nil, emit)
	case ToolDone, ToolFailed, ToolDenied, ToolCancelled:
		m.toolEnd(s, e, emit)
	case AgentEnded:
		m.closeStrand(s, emit)
		m.agents = slices.DeleteFunc(m.agents, func(o *strand) bool { return o == s && o.path != "" })
	case ReplyDone, ReplyFailed, ReplyCancelled:
		m.answer(emit)
		m.closeReply(emit)
		m.verdict, m.reply = e.Body, false
	case LoopStarted:
		m.loop = true
	case LoopEnded:
		m.closePhase(emit)
		m.loop = false
	case PhaseStarted:
		m.closePhase(emit)
		m.phase = &b
	case PhaseRetry:
		if s.impliedTurn { // the next attempt is another answer
			s.closeBlock(m, emit, true)
			s.closeTurn(m, emit)
		}
	case PhaseEnded:
		m.phase = nil
	}
	m.lastKind = e.Kind
	emit(e)
}

// Close ends what is open, and the run.
func (m *Mender) Close(emit func(Event)) {
	if !m.started {
		m.started = true
		emit(m.infer(Header{}, RunStarted{Format: Format, Program: m.Program, Inferred: true}))
	}
	if !m.ended {
		m.end = m.infer(m.run, RunFailed{Outcome: Failed, Reason: "the stream ended without its end", Inferred: true})
	}
	if m.reply {
		m.closeReply(emit)
		r := ReplyEnd{Prompt: m.prompt, Inferred: true}
		switch m.end.Body.(type) {
		case RunDone:
			emit(m.infer(m.run, ReplyDone(r)))
		case RunCancelled:
			emit(m.infer(m.run, ReplyCancelled(r)))
		default:
			emit(m.infer(m.run, ReplyFailed(r)))
		}
	}
	m.closeAll(emit)
	m.closePhase(emit)
	if m.loop {
		m.loop = false
		emit(m.infer(m.run, LoopEnded{Inferred: true}))
	}
	if m.end.At.IsZero() {
		m.end.At = m.at
	}
	emit(m.end)
}

// hold keeps the run's end. A second one replaces the first only if it is worse news.
func (m *Mender) hold(e Event) {
	if _, done := m.end.Body.(RunDone); m.ended && !done {
		return
	}
	m.end, m.ended = e, true
}

// infer makes an event that nobody told.
func (m *Mender) infer(h Header, b Body) Event {
	h.At = m.at
	return Event{h, b}.Stamp()
}

// strand returns the strand that e belongs to; a sub-agent that was never announced is.
func (m *Mender) strand(e Event, emit func(Event)) *strand {
	if len(m.agents) == 0 {
		m.agents = append(m.agents, &strand{session: m.run.Session})
	}
	if e.Agent == "" {
		top := m.agents[0]
		if e.Session != "" && topical(e.Body) {
			top.session = e.Session
		}
		return top
	}
	for _, s := range m.agents {
		if s.path == e.Agent {
			if e.Session != "" {
				s.session = e.Session
			}
			return s
		}
	}
	if _, ok := e.Body.(AgentStarted); !ok {
		h := Header{Session: e.Session, Agent: e.Agent}
		emit(m.infer(h, AgentStarted{Depth: strings.Count(e.Agent, "/") + 1, Inferred: true}))
	}
	s := &strand{path: e.Agent, session: e.Session}
	m.agents = append(m.agents, s)
	return s
}

// topical says whether a body moves the top agent on to its session: a question from elsewhere or an error does not.
func topical(b Body) bool {
	switch b.(type) {
	case Prompt, SessionStarted, TurnStarted, TextDelta, Text, ThoughtDelta, Thought, ToolCalled:
		return true
	}
	return false
}

// open begins a reply.
func (m *Mender) open(e Event, b Prompt, emit func(Event)) {
	top := m.agents[0]
	switch {
	case !m.reply:
	case b.Source == SourceSteer:
		top.closeBlock(m, emit, false)
		return
	case m.lastKind == "prompt" && (b.ID == m.prompt || m.implied):
		m.prompt, m.implied = b.ID, b.Inferred
		return // goes on with its text
	default:
		m.closeReply(emit)
		emit(m.infer(m.run, ReplyFailed{Prompt: m.prompt, Inferred: true}))
		m.verdict = ReplyFailed{}
	}
	m.reply, m.prompt, m.implied = true, b.ID, b.Inferred
	for _, s := range m.agents {
		s.inReply = 0
	}
}

// answer makes sure that a reply is open.
func (m *Mender) answer(emit func(Event)) {
	if m.reply {
		return
	}
	m.reply, m.prompt, m.implied = true, "", true
	m.agents[0].inReply = 0
	m.lastKind = "prompt"
	emit(m.infer(Header{Session: m.agents[0].session}, Prompt{Inferred: true}))
}

// closeReply closes everything that a reply holds.
func (m *Mender) closeReply(emit func(Event)) {
	m.closeAll(emit)
	m.reply = false
}

func (m *Mender) closeAll(emit func(Event)) {
	for len(m.agents) > 1 {
		s := m.agents[len(m.agents)-1]
		m.agents = m.agents[:len(m.agents)-1]
		m.closeStrand(s, emit)
		emit(m.infer(s.header(), AgentEnded{Inferred: true}))
	}
	for _, top := range m.agents {
		m.closeStrand(top, emit)
	}
}

// closeStrand closes an agent's block, calls and turn, and the agents below it.
func (m *Mender) closeStrand(s *strand, emit func(Event)) {
	if s.path != "" {
		for i := len(m.agents) - 1; i > 0; i-- {
			if c := m.agents[i]; strings.HasPrefix(c.path, s.path+"/") {
				m.agents = slices.Delete(m.agents, i, i+1)
				m.closeStrand(c, emit)
				emit(m.infer(c.header(), AgentEnded{Inferred: true}))
			}
		}
	}
	s.closeBlock(m, emit, true)
	for len(s.calls) > 0 {
		c := s.calls[0]
		h := s.header()
		h.Call = c.id
		if c.asked {
			emit(m.infer(h, GateDenied{Request: c.request, Tool: c.name, By: ByNobody, Inferred: true}))
		}
		s.calls = s.calls[1:]
		if c.id != "" {
			emit(m.infer(h, ToolCancelled{Name: c.name, Error: "the stream ended before the call did", Inferred: true}))
		}
	}
	s.closeTurn(m, emit)
}

func (m *Mender) closePhase(emit func(Event)) {
	if p := m.phase; p != nil {
		m.phase = nil
		emit(m.infer(m.run, PhaseEnded{Phase: p.Phase, Iteration: p.Iteration, Inferred: true}))
	}
}
