package cli

import (
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// A narrator is a filter that says what the agent is at: one status before each event that shows it, as a supervisor's readers
// expect. What the agent says of itself, with a marker in its text, counts as well. A thought sets nothing but that it thinks.
type narrator struct {
	session string
	own     bool // the backend says itself what it is at

	now     event.Status // as it was told last
	label   string       // of the last marker
	open    map[string]bool
	over    bool         // done was told, and nothing has come since
	failed  *event.Event // the end of a reply, until it is known whether that is tried again
	text    fold.Markers
	pieces  bool // of the text that is being told, something came
	thought bool // likewise
}

// Put passes an event on, behind the status that it shows.
func (n *narrator) Put(e event.Event, emit func(event.Event)) {
	if n.own {
		n.meet(e)
		emit(e)
		return
	}
	if n.failed != nil {
		switch e.Body.(type) {
		case event.Notice, event.Diag, event.Custom, event.Unknown: // these decide nothing
			emit(e)
			return
		case event.PhaseRetry:
			emit(*n.failed)
			n.failed = nil
		default:
			n.Close(emit)
		}
	}
	n.meet(e)
	switch b := e.Body.(type) {
	case event.GateAsked:
		n.ask(b, emit)
	case event.GateAllowed, event.GateDenied:
		emit(e)
		n.answer(b, emit)
		return
	}
	if end, ends := event.AsRunEnd(e.Body); ends {
		if _, failed := e.Body.(event.RunFailed); failed && !n.over && avenorStop(end, outcome.Verdict{}) == "error" { // nobody began to work, so nobody has said why
			emit(event.Event{Header: event.Header{Session: n.session}, Body: event.Error{Name: "AvenorError", Message: end.Reason, Source: "backend", Retryable: new(false)}})
		}
		n.done(emit)
	} else if e.Top() && !n.work(e, emit) {
		return
	}
	emit(e)
}

// Close passes on what was kept back.
func (n *narrator) Close(emit func(event.Event)) {
	if n.failed != nil {
		n.done(emit)
		emit(*n.failed)
		n.failed = nil
	}
}

// meet takes note of who speaks.
func (n *narrator) meet(e event.Event) {
	if !e.Top() {
		return
	}
	backend, opens := "", false
	switch b := e.Body.(type) {
	case event.RunStarted:
		backend, opens = b.Backend, true
	case event.SessionStarted:
		backend, opens = b.Backend, true
	}
	if opens {
		*n = narrator{session: e.Session, own: backend == "claude"}
	}
}

// work tells what an event of the top agent shows, and says whether the event is to be passed on now.
func (n *narrator) work(e event.Event, emit func(event.Event)) bool {
	switch b := e.Body.(type) {
	case event.Prompt:
		if b.Source != event.SourceHistory && b.Source != event.SourceSteer {
			n.session, n.now, n.label, n.over = e.Session, event.Status{}, "", false
		}
	case event.ThoughtDelta:
		n.thought = n.thought || b.Text != ""
		n.think(b.Text, emit)
	case event.Thought:
		if !n.thought {
			n.think(b.Text, emit)
		}
		n.thought = false
	case event.TextDelta:
		n.pieces = true
		n.text.Write(b.Text, n.mark(emit))
	case event.Text:
		if !n.pieces {
			n.text.Write(b.Text, n.mark(emit))
		}
		n.pieces = false
		n.text.Close(n.mark(emit))
	case event.ToolCalled:
		if len(n.open) == 0 {
			n.say("working", first(b.Title, b.Description, b.Name), "avenor", emit)
		}
	case event.ReplyDone, event.ReplyCancelled:
		n.done(emit)
	case event.ReplyFailed:
		n.failed = &e
		return false
	case event.PhaseRetry:
		n.now, n.label, n.over = event.Status{}, "", false
	}
	return true
}

func (n *narrator) think(text string, emit func(event.Event)) {
	if text != "" && len(n.open) == 0 && n.now.Phase != "thinking" {
		n.say("thinking", "", "avenor", emit)
	}
}

// mark tells what the agent says of itself.
func (n *narrator) mark(emit func(event.Event)) func(fold.Marker) {
	return func(m fold.Marker) {
		if m.Of == "status" {
			n.label = m.Label
			n.say(m.Word, m.Label, "agent", emit)
		}
	}
}

// ask says that it waits, for each question: the label says for what.
func (n *narrator) ask(b event.GateAsked, emit func(event.Event)) {
	if n.open == nil {
		n.open = map[string]bool{}
	}
	n.open[b.Request] = true
	n.now = event.Status{}
	n.say("waiting", first(b.Question, b.Tool), "avenor", emit)
}

// answer says that it goes on, once nothing is open any more.
func (n *narrator) answer(b event.Body, emit func(event.Event)) {
	a, _ := event.AsGateAnswer(b)
	if !n.open[a.Request] {
		return
	}
	if delete(n.open, a.Request); len(n.open) == 0 && !n.over {
		n.say("working", n.label, "avenor", emit)
	}
}

// done says that the session is over, once.
func (n *narrator) done(emit func(event.Event)) {
	if !n.over {
		n.say("done", "", "avenor", emit)
		n.over, n.open = true, nil
	}
}

// say tells a status, unless it was the last that was told.
func (n *narrator) say(phase, label, source string, emit func(event.Event)) {
	if s := (event.Status{Phase: phase, Label: label, Source: source}); s != n.now {
		n.now = s
		emit(event.Event{Header: event.Header{Session: n.session}, Body: s})
	}
}
