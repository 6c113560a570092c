package event

import (
	"slices"
	"strings"
	"time"
)

// A Mender makes a stream whole. Events go in as somebody told them; they come out with every span opened before it is used
// and closed once:
//
//	run.started first, one run.* last; in it loops, in them phases, in them replies, each from a prompt to a
//	reply.*; in replies turns and sub-agents, parents around children; in turns blocks, each after its deltas
//	and equal to them; each call called once, in a turn or after it, and ended once; each question answered
//	before its call ends, and each answer that names one after it.
//
// A stream that is whole passes unchanged. What the Mender adds is marked inferred and carries no Of; only a block that is put
// together from deltas and was not cut, and a delta for the rest of a block that its deltas did not reach, are as good as
// told. Every event that goes in comes out, but for
//
//   - a run's second end: the first that is not run.done stands;
//   - a second run.started, which comes out as session.started, and an end before it, after which the run went on; unless it
//     begins another run;
//   - a block without text, which gets the text of its deltas.
//
// The run's end is held back until Close or the next run, since some programs go on talking after it. Foreign lines, diags and
// kinds that nobody knows may stand anywhere before it.
//
// The zero Mender is ready.
type Mender struct {
	Program string // named in an inferred run.started
	Runs    bool   // a run.started after the run's end begins another run, as in a journal that was resumed

	emit    func(Event) // the caller's
	at      time.Time   // of the last event that had one
	started bool
	run     Header // with the run's session
	end     Event  // the run's end, held; its kind is empty while there is none

	loop  bool
	phase *PhaseStarted

	reply   bool
	prompt  string // id of its prompt
	implied bool   // its prompt was inferred
	fresh   bool   // no turn began in it

	agents []*strand // the top one first, then the open sub-agents, parents before children
}

// Put passes e on, after what must stand before it.
func (m *Mender) Put(e Event, emit func(Event)) {
	if e.Body != nil {
		e.Kind = e.Body.Kind()
	}
	body := readable(e.Body)
	if b, ok := body.(RunStarted); ok && m.Runs && m.end.Kind != "" && b.Format != 0 {
		m.Close(emit)
	}
	m.emit = emit
	if !e.At.IsZero() {
		m.at = e.At
	}
	switch b := body.(type) {
	case nil, Foreign, Diag, Unknown:
		emit(e)
		return
	case RunStarted:
		if !m.started {
			m.started, m.run.Session = true, e.Session
			emit(e)
			return
		}
		m.end = Event{} // the run goes on
		body = SessionStarted{b.Backend, b.Cwd, b.Model, b.DangerouslyLoad, b.Resumed}
		e = Event{e.Header, body}.Stamp()
	}
	m.start(&e.Header)
	switch b := body.(type) {
	case RunDone, RunFailed, RunCancelled:
		if m.end.Kind == "" || m.end.Kind == "run.done" {
			m.end = e
		}
		return
	case LoopStarted:
		m.closeLoop()
		m.loop = true
	case LoopEnded:
		m.closePhase()
		if !m.loop {
			m.add(m.run, LoopStarted{Inferred: true})
		}
		m.loop = false
	case PhaseStarted:
		m.closePhase()
		m.phase = &b
	case PhaseEnded:
		m.endPhase(b)
	default:
		m.strand(&e.Header, body).put(m, &e, body)
	}
	emit(e)
}

// Close ends what is open, and the run. The Mender is then ready for another stream.
func (m *Mender) Close(emit func(Event)) {
	m.emit = emit
	m.start(new(Header))
	if m.end.Kind == "" {
		m.end = m.infer(m.run, RunFailed{Outcome: Failed, Reason: "the stream ended without its end", Inferred: true})
	}
	switch m.end.Kind {
	case "run.done":
		m.endReply(Done, "")
	case "run.cancelled":
		m.endReply(Cancelled, "")
	}
	m.closeLoop()
	m.top().close(m, true) // questions that were asked outside replies
	if m.end.At.Before(m.at) {
		m.end.At = m.at
	}
	emit(m.end)
	*m = Mender{Program: m.Program, Runs: m.Runs}
}

// readable returns what can be read of a body. An [Unknown] may be of a known kind: the fields that have their type count.
func readable(b Body) Body {
	if u, ok := b.(Unknown); ok {
		if find(&kinds, u.Name) >= 0 {
			b, _ = decode(u.Name, u.Raw)
		}
	}
	return b
}

// infer makes an event that nobody told.
func (m *Mender) infer(h Header, b Body) Event {
	h.At = m.at
	return Event{h, b}.Stamp()
}

func (m *Mender) add(h Header, b Body) { m.emit(m.infer(h, b)) }

// start makes sure that the run is open before an event with header h.
func (m *Mender) start(h *Header) {
	if m.run.Session == "" && h.Top() {
		m.run.Session = h.Session
	}
	if !m.started {
		m.started = true
		m.add(m.run, RunStarted{Format: Format, Program: m.Program, Inferred: true})
	}
}

func (m *Mender) closeLoop() {
	m.closePhase()
	if m.loop {
		m.loop = false
		m.add(m.run, LoopEnded{Inferred: true})
	}
}

func (m *Mender) closePhase() {
	m.endReply(Failed, "")
	if p := m.phase; p != nil {
		m.phase = nil
		m.add(m.run, PhaseEnded{Phase: p.Phase, Iteration: p.Iteration, Inferred: true})
	}
}

// endPhase makes sure that the phase that is to end is open, and its reply over.
func (m *Mender) endPhase(b PhaseEnded) {
	if m.phase == nil || m.phase.Phase != b.Phase {
		m.closePhase()
		m.add(m.run, PhaseStarted{Phase: b.Phase, Iteration: b.Iteration, Inferred: true})
	}
	m.phase = nil
	switch b.Stop {
	case "end_turn":
		m.endReply(Done, b.Stop)
	case "cancelled":
		m.endReply(Cancelled, b.Stop)
	default:
		m.endReply(Failed, b.Stop)
	}
}

// open begins a reply, unless the prompt belongs to the one that is open or asks for none.
func (m *Mender) open(b Prompt) {
	switch {
	case b.Source == SourceHistory || m.reply && b.Source == SourceSteer:
		return
	case m.fresh && (m.implied || b.ID == m.prompt):
		m.prompt, m.implied = b.ID, b.Inferred
		return
	}
	m.endReply(Failed, "")
	m.reply, m.prompt, m.implied, m.fresh = true, b.ID, b.Inferred, true
}

// answer makes sure that a reply is open.
func (m *Mender) answer() {
	if !m.reply {
		m.reply, m.prompt, m.implied, m.fresh = true, "", true, true
		m.add(m.top().header(), Prompt{Inferred: true})
	}
}

// endReply ends the open reply, if there is one, as that ended which holds it.
func (m *Mender) endReply(as Outcome, stop string) {
	if !m.reply {
		return
	}
	m.closeReply(as != Done)
	h, r := m.top().header(), ReplyEnd{Prompt: m.prompt, Stop: stop, Inferred: true}
	switch as {
	case Done:
		m.add(h, ReplyDone(r))
	case Cancelled:
		m.add(h, ReplyCancelled(r))
	default:
		m.add(h, ReplyFailed(r))
	}
}

// closeReply closes everything that a reply holds.
func (m *Mender) closeReply(cut bool) {
	m.endAgents("")
	top := m.top()
	top.close(m, cut)
	top.spoke = false
	m.reply, m.fresh = false, false
}

func (m *Mender) top() *strand {
	if len(m.agents) == 0 {
		m.agents = []*strand{{session: m.run.Session}}
	}
	return m.agents[0]
}

// strand returns the strand that an event belongs to; a sub-agent that was never announced is.
func (m *Mender) strand(h *Header, body Body) *strand {
	top := m.top()
	if h.Agent == "" {
		if h.Session != "" && topical(body) {
			top.session = h.Session
		}
		return top
	}
	_, announced := body.(AgentStarted)
	for _, s := range m.agents {
		if s.path != h.Agent {
			continue
		}
		if announced { // again
			m.endAgent(s)
			break
		}
		if h.Session != "" {
			s.session = h.Session
		}
		return s
	}
	m.answer()
	depth := strings.Count(h.Agent, "/") + 1
	if i := strings.LastIndexByte(h.Agent, '/'); i > 0 && depth <= maxDepth {
		m.strand(&Header{Agent: h.Agent[:i]}, nil) // its parent
	}
	s := &strand{path: h.Agent, session: h.Session}
	if !announced {
		m.add(s.header(), AgentStarted{Depth: depth, Inferred: true})
	}
	m.agents = append(m.agents, s)
	return s
}

// maxDepth is how deep a sub-agent may be for its parents to be announced: a path is somebody's text, and may be all slashes.
const maxDepth = 16

// topical says whether a body moves the top agent on to its session: a question from elsewhere or an error does not.
func topical(b Body) bool {
	switch b.(type) {
	case Prompt, SessionStarted, TurnStarted, TextDelta, Text, ThoughtDelta, Thought, ToolCalled:
		return true
	}
	return false
}

// endAgent ends a sub-agent that did not say so.
func (m *Mender) endAgent(s *strand) {
	m.leave(s, true)
	m.add(s.header(), AgentEnded{Inferred: true})
}

// leave closes what a sub-agent holds and forgets it.
func (m *Mender) leave(s *strand, cut bool) {
	m.endAgents(s.path + "/")
	s.close(m, cut)
	m.agents = slices.DeleteFunc(m.agents, func(o *strand) bool { return o == s })
}

// endAgents ends the sub-agents whose paths begin so, children before parents.
func (m *Mender) endAgents(prefix string) {
	for i := len(m.agents) - 1; i > 0; i-- {
		if s := m.agents[i]; strings.HasPrefix(s.path, prefix) {
			m.endAgent(s)
		}
	}
}
