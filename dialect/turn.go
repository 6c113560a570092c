package dialect

import "github.com/sluice-dev/sluice/event"

// A turn holds the end of a turn back until its calls are over: in our events the answer is complete before its calls run,
// in dialects with steps the step ends after them.
type turn struct {
	open  bool
	calls int // that were made
	over  int // and ended
	ended *event.Event
}

func (t *turn) start()  { *t = turn{open: true} }
func (t *turn) called() { t.calls++ }
func (t *turn) done()   { t.over++ }

// end keeps the turn's end.
func (t *turn) end(e event.Event) {
	kept := e // its own variable, or every event would be made for the heap
	t.ended = &kept
}

// stop says that the reply is over: a turn that did not say why it ended wanted nothing more.
func (t *turn) stop(h event.Header) {
	if !t.open {
		return
	}
	if t.ended == nil {
		t.ended = &event.Event{Header: h, Body: event.TurnEnded{}}
	}
	if b := t.ended.Body.(event.TurnEnded); b.Finish == "" {
		b.Finish = event.FinishStop
		t.ended.Body = b
	}
}

// ready says whether the turn's end may be told: the answer is complete and nothing of it can follow. Where the stream does
// not say why the model stopped, calls may still come, and only the next turn tells.
func (t *turn) ready() bool {
	if !t.open || t.ended == nil || t.calls > t.over {
		return false
	}
	switch t.ended.Body.(event.TurnEnded).Finish {
	case "":
		return false
	case event.FinishToolCalls:
		return t.calls > 0
	}
	return true
}

// finish is why the model stopped; where the stream does not say, what happened tells.
func (t *turn) finish(failed bool) event.Finish {
	if t.ended != nil {
		if f := t.ended.Body.(event.TurnEnded).Finish; f != "" {
			return f
		}
	}
	switch {
	case t.calls > 0:
		return event.FinishToolCalls
	case failed:
		return event.FinishError
	}
	return event.FinishStop
}
