package cli

import (
	"strconv"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// eraseLine empties the terminal's last line.
const eraseLine = "\r\x1b[K"

// A textStatus is the last line of a terminal: what goes on while nothing is said. It is drawn when events come.
type textStatus struct {
	drawn string // what stands there

	now       time.Time // of the last event
	turn      time.Time // when the model was asked; zero: it is not
	thinking  bool
	retry     bool                // the next request waits
	questions map[string]struct{} // not answered
	over      bool
}

// erase takes the line away, if there is one.
func (t *textStatus) erase(out []byte) []byte {
	if t.drawn == "" {
		return out
	}
	return append(out, eraseLine...)
}

func (t *textStatus) see(e event.Event) {
	if !e.At.IsZero() {
		t.now = e.At
	}
	if e.Top() {
		_, t.retry = e.Body.(event.Retry)
		_, t.thinking = e.Body.(event.ThoughtDelta)
	}
	switch b := e.Body.(type) {
	case event.TurnStarted:
		if e.Top() {
			t.turn = t.now
		}
	case event.TurnEnded:
		if e.Top() {
			t.turn = time.Time{}
		}
	case event.GateAsked:
		if t.questions == nil {
			t.questions = map[string]struct{}{}
		}
		t.questions[b.Request] = struct{}{}
	}
	if a, ok := event.AsGateAnswer(e.Body); ok {
		delete(t.questions, a.Request)
	}
	if _, ok := event.AsReplyEnd(e.Body); ok && e.Top() {
		t.turn = time.Time{}
	}
	if _, ok := event.AsRunEnd(e.Body); ok {
		t.over = true
	}
}

// statusLine is what the last line should say; empty where there should be none.
func (s *textSink) statusLine() string {
	t := &s.status
	if !s.o.Live || s.mid || t.over {
		return ""
	}
	what, since := "", time.Time{}
	switch call, running := s.newest(); {
	case len(t.questions) > 0:
		what = "waiting for an answer"
	case call != nil:
		what, since = call.what(), call.began
		if running > 1 {
			what = cut(what, s.o.Width/2) + " and " + strconv.Itoa(running-1) + " more"
		}
	case t.retry:
		what = "waiting to try again"
	case t.turn.IsZero():
		return ""
	case t.thinking:
		what, since = "thinking", t.turn
	default:
		what, since = "waiting for the model", t.turn
	}
	elapsed := ""
	if d := t.now.Sub(since); !since.IsZero() && d >= time.Second {
		elapsed = " · " + humanSpan(d)
	}
	if s.o.ASCII {
		what = string(ascii([]byte(what)))
	}
	// A line that wraps could not be taken away again.
	return s.paint(dim, indent(0)+"… "+cut(what, s.o.Width-20)+elapsed)
}
