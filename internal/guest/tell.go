package guest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// A call is one that the guest made.
type call struct {
	id     string // ours: the guest's own, unless that was used before
	number int    // of the reply
	name   string
	agent  string
	input  event.Raw
	class  event.Class
	order  int    // which of the reply's calls it is
	judged bool   // the gate has decided about it
	denied string // why it was denied
	ended  bool
}

// hear takes a word of the process.
func (s *Session) hear(w word) {
	s.of = 0
	if s.greeting != nil {
		s.greeting = time.After(s.cfg.Greeting)
	}
	switch {
	case w.exit != nil:
		s.exited(w.exit.String(), w.exit.Err == nil && w.exit.Signal == "" && w.exit.Code == 0)
	case w.channel != nil:
		if t, ok := s.tongue.(interface{ heard(message) }); ok {
			t.heard(*w.channel)
		}
	case w.screen != nil:
		if t, ok := s.tongue.(interface{ screen(string) }); ok {
			t.screen(*w.screen)
		}
	case w.noise:
		s.noise(w.line, "stderr")
	case len(w.line) == 0:
	case w.torn:
		s.keep(w)
		s.noise(append([]byte("a line that was cut: "), w.line...), "stdout")
	case !isObject(w.line):
		s.noise(w.line, "stdout")
	default:
		if t, ok := s.tongue.(interface{ gist([]byte) []byte }); ok {
			w.line = t.gist(w.line)
		}
		s.keep(w)
		s.tongue.line(w.line)
		s.of = 0
	}
}

// isObject says whether a line can be a message at all.
func isObject(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' {
			return c == '{'
		}
	}
	return false
}

// keep writes a line down as it was. What is read from it names it.
func (s *Session) keep(w word) {
	f := event.NewForeign(s.guest.dialect, w.line)
	f.Torn = w.torn
	e, err := s.src.Emit(event.Event{Header: event.Header{Session: s.cfg.Session, At: s.time()}, Body: f})
	if err == nil {
		s.of = e.Seq
	}
}

// noise keeps what the guest says beside the protocol.
func (s *Session) noise(line []byte, from string) {
	text := oneLine(line)
	if from == "stdout" && text != "" {
		if s.strays > noiseSize {
			return
		}
		if s.strays += len(text) + 1; s.strays > noiseSize {
			text = "it says too much on stdout that is no message: the rest is left out"
		}
	}
	if text != "" {
		s.put(event.Event{Body: event.Diag{Text: text, Source: s.guest.name + " " + from}})
	}
}

// put passes an event on, as it is, through the mender: what must be open before it is opened.
func (s *Session) put(e event.Event) {
	e.Seq, e.Session, e.At = 0, s.cfg.Session, s.time()
	s.mend.Put(e, func(e event.Event) {
		if e.Kind == "run.started" {
			return // the run is not ours
		}
		e.Session = s.cfg.Session
		s.src.Emit(e) // who owns the source ends ctx when it breaks
	})
}

// tellOf tells something about a call, of our own account.
func (s *Session) tellOf(c *call, b event.Body) {
	s.put(event.Event{Header: event.Header{Agent: c.agent, Call: c.id}, Body: b})
}

// tell passes on what a tongue read.
func (s *Session) tell(e event.Event) {
	e = e.Stamp()
	if e.Of = s.of; event.Inferred(e.Body) {
		e.Of = 0
	}
	switch b := e.Body.(type) {
	case event.RunStarted, event.RunDone, event.RunFailed, event.RunCancelled, event.SessionStarted:
		return // of the guest's run, not of ours
	case event.ReplyDone:
		s.ends(event.Done, event.ReplyEnd(b), e.Of)
		return
	case event.ReplyFailed:
		s.ends(event.Failed, event.ReplyEnd(b), e.Of)
		return
	case event.ReplyCancelled:
		s.ends(event.Cancelled, event.ReplyEnd(b), e.Of)
		return
	case event.Error:
		if s.now != nil {
			s.now.problem, s.now.told = &b, b.Message
			b.Prompt = s.now.prompt
			e.Body = b
		}
	}
	if s.now == nil && spoken(e.Body) {
		return // nobody asked; the line is kept
	}
	if e.Call != "" && !s.ofCall(&e) {
		return
	}
	s.put(e)
}

// spoken says whether a body belongs into a reply.
func spoken(b event.Body) bool {
	switch b.(type) {
	case event.Diag, event.Notice, event.Custom, event.Catalog, event.Error, event.Retry, event.Plan:
		return false
	}
	return true
}

// ends takes the guest's word that the reply is over.
func (s *Session) ends(o event.Outcome, end event.ReplyEnd, of uint64) {
	if r := s.now; r != nil && r.said == nil && r.sent {
		r.said = &said{end: end, outcome: o, of: of}
	}
}

// ofCall gives an event the call's id, and says whether it is to be told: a call is told once and ends once.
func (s *Session) ofCall(e *event.Event) bool {
	theirs := e.Call
	c := s.calls[theirs]
	if b, ok := e.Body.(event.ToolCalled); ok {
		if c != nil && !c.ended {
			return false // told already
		}
		c = s.enter(theirs, b)
		c.agent = e.Agent
	}
	if c == nil {
		c = s.enter(theirs, event.ToolCalled{})
		c.agent = e.Agent
	}
	e.Call, e.Agent = c.id, c.agent
	switch b := e.Body.(type) {
	case event.GateDenied:
		if c.judged {
			return false // we know
		}
		c.judged, c.denied = true, b.Reason
		s.deny(b.Reason)
	case event.GateAllowed, event.GateAsked:
		return !c.judged
	}
	end, over := event.AsToolEnd(e.Body)
	if !over {
		return !c.ended
	}
	if c.ended {
		return false
	}
	c.ended = true
	if end.Name == "" {
		end.Name = c.name
	}
	e.Body = s.asEnded(c, end, e.Body)
	return true
}

// enter makes a call of ours of one of the guest's.
func (s *Session) enter(theirs string, b event.ToolCalled) *call {
	id := theirs
	if s.cfg.CallID != nil {
		id = s.cfg.CallID(theirs)
	}
	for n := 2; s.used[id]; n++ {
		id = fmt.Sprintf("%s-%d", theirs, n)
	}
	s.used[id] = true
	c := &call{id: id, number: len(s.calls), name: b.Name, input: b.Input, class: b.Class, order: len(s.calls)}
	s.calls[theirs] = c
	return c
}

// asEnded is how a call ended, by what we know of it: one that was denied did not fail, and one that ends after we stopped
// the reply was cancelled, whatever the guest calls it.
func (s *Session) asEnded(c *call, end event.ToolEnd, told event.Body) event.Body {
	_, done := told.(event.ToolDone)
	_, denied := told.(event.ToolDenied)
	halted := s.now != nil && s.now.halted != nil
	switch {
	case c.denied != "" && done:
		s.tellOf(c, event.Notice{Text: fmt.Sprintf("%s says that the call %s was done, which was denied", s.guest.name, c.id)})
		return event.ToolDone(end)
	case c.denied != "" || denied && !halted:
		if !c.judged {
			c.judged = true
			s.deny(end.Error)
		}
		end.Output, end.Error = "", first(c.denied, end.Error, end.Output)
		return event.ToolDenied(end)
	case halted:
		end.Error = s.now.halted.Reason
		return event.ToolCancelled(end)
	}
	switch told.(type) {
	case event.ToolDone:
		return event.ToolDone(end)
	case event.ToolFailed:
		return event.ToolFailed(end)
	}
	return event.ToolCancelled(end)
}

// closeCalls ends the calls of which the guest says nothing more: those that were denied, and in a reply that did not end well
// all the others.
func (s *Session) closeCalls(v outcome.Verdict) {
	open := slices.SortedFunc(maps.Values(s.calls), func(a, b *call) int { return a.number - b.number })
	for _, c := range open {
		switch {
		case c.ended:
		case c.denied != "":
			s.tellOf(c, event.ToolDenied{Name: c.name, Error: c.denied})
		case v.Outcome != event.Done:
			s.tellOf(c, event.ToolCancelled{Name: c.name, Error: v.Reason, Inferred: true})
		}
		c.ended = true
	}
}

// deny counts a call that was denied.
func (s *Session) deny(why string) {
	if s.denials++; s.denials == 1 {
		s.denied = why
	}
}

// first returns the first that is not empty.
func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
