package dialect

import (
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file reads ends: of calls, turns and the run.

// aictrlFailed tells a call that failed from one that was denied or stopped. The program has no word for either, only texts.
func aictrlFailed(end event.ToolEnd, denied bool) event.Body {
	if end.Error == end.Output {
		end.Error = ""
	}
	bare := strings.TrimPrefix(end.Error, "Error: ")
	if why, ok := aictrlCutReason(bare, aictrlAborted); ok {
		end.Error = why
		return event.ToolCancelled(end)
	}
	if why, ok := aictrlCutReason(end.Error, aictrlDenied); ok {
		end.Error = why
		return event.ToolDenied(end)
	}
	if denied || strings.HasPrefix(bare, "The user rejected permission") || strings.HasPrefix(bare, "The user has specified a rule which prevents") {
		return event.ToolDenied(end)
	}
	return event.ToolFailed(end)
}

// aictrlCutReason is the way back from aictrlReasoned.
func aictrlCutReason(text, what string) (why string, ok bool) {
	rest, ok := strings.CutPrefix(text, what)
	if !ok || rest == "" {
		return "", ok
	}
	return strings.CutPrefix(rest, ": ")
}

func (d *aictrlDecoder) stepFinish(h event.Header, l *aictrlIn) {
	d.open = false
	if m := d.message; m != nil && m.MessageID == l.Part.MessageID {
		d.message = nil
		d.endTurn(h, m)
		d.spare = m
		return
	}
	d.step = l.keep()
}

// closeStep ends a turn whose message did not come: the model did not finish it, unless the step says otherwise.
func (d *aictrlDecoder) closeStep() {
	l := d.step
	d.step = nil
	b := l.Part.stepEnded()
	if b.Finish == "" {
		b.Finish = event.FinishError
	}
	d.turnEnded(event.Header{Session: d.session, At: moment(l.Timestamp)}, b)
	d.spare = l
}

// messageComplete ends the turn whose step was finished, or is about to be. Some versions tell a message twice, or a child's.
func (d *aictrlDecoder) messageComplete(h event.Header, l *aictrlIn) {
	if s := d.step; s != nil {
		if s.Part.MessageID == l.MessageID || s.Part.MessageID == "" || l.MessageID == "" {
			d.step, d.spare = nil, s
			d.endTurn(h, l)
			return
		}
		d.closeStep()
	}
	d.lateMessage()
	b := l.ended()
	switch {
	case b.Finish == event.FinishError:
		d.stray(h, l)
	case l.MessageID == "" && (len(d.agents) > 0 || d.open && d.any && d.last.Profile != b.Profile):
		unread(d.emit, "aictrl", "a message_complete of %s, which may be a sub-agent's", clip(l.Agent))
	case !d.open && d.any && d.lastID == l.MessageID && aictrlSame(d.last, b):
		unread(d.emit, "aictrl", "a message_complete that was told before")
	case d.open || l.MessageID != "":
		d.message = l.keep()
	default:
		d.stray(h, l)
	}
}

// lateMessage ends the turn of a message whose step never came.
func (d *aictrlDecoder) lateMessage() {
	if m := d.message; m != nil {
		d.message = nil
		d.stray(event.Header{Session: d.session, At: moment(m.Timestamp)}, m)
		d.spare = m
	}
}

// stray ends a turn that has no step_finish.
func (d *aictrlDecoder) stray(h event.Header, l *aictrlIn) {
	if !d.open {
		d.turns++
	}
	d.open = false
	d.endTurn(h, l)
}

func (d *aictrlDecoder) endTurn(h event.Header, l *aictrlIn) {
	d.last, d.lastID, d.any = l.ended(), l.MessageID, true
	d.turnEnded(h, d.last)
}

func (d *aictrlDecoder) turnEnded(h event.Header, b event.TurnEnded) {
	d.troubled = d.troubled && (b.Finish == event.FinishError || b.Finish == "" || b.Finish == event.FinishToolCalls)
	b.Number = d.turns
	d.told(h, d.made.ends.put(b, d.bulk))
}

func aictrlErrorOf(raw event.Raw) event.Error {
	var e struct {
		Name    string    `json:"name"`
		Message string    `json:"message"`
		Data    event.Raw `json:"data"`
	}
	if wire.Unmarshal(raw, &e); len(raw) == 0 || raw[0] != '{' {
		return event.Error{Message: text(raw)}
	}
	b := event.Error{Name: e.Name, Message: e.Message}
	var d wire.Doc
	if d.Parse(e.Data) != nil {
		return b
	}
	n := d.Root()
	b.Message = first(n.Get("message").Text(), b.Message)
	b.Code = string(n.Get("statusCode").Raw())
	if again, ok := n.Get("isRetryable").Bool(); ok {
		b.Retryable = &again
	}
	switch {
	case b.Code == "429":
		b.Class = "rate_limit"
	case b.Code == "401", b.Code == "403", b.Name == "ProviderAuthError":
		b.Class = "auth"
	case b.Name == "ContextOverflowError":
		b.Class = "overflow"
	case b.Name == "APIError":
		b.Class = "provider"
	}
	if n.Kind() != wire.Object || n.Len() > 1 || n.Get("message").Kind() != wire.String {
		b.Data = tidy(wire.Span(e.Data))
	}
	return b
}

// rest emits what is held back and belongs to nothing that can still come.
func (d *aictrlDecoder) rest() {
	if d.step != nil {
		d.closeStep()
	}
	d.lateMessage()
	d.settle()
	d.catchUp()
}

func (d *aictrlDecoder) complete(h event.Header, l *aictrlIn) {
	d.rest()
	text := text(l.Error)
	end := event.RunEnd{Duration: tokens(l.DurationMs)}
	d.ended = true
	if f := d.failure; f != nil {
		d.failure = nil
		if text != f.Message {
			end.Detail = text
		}
		d.end(h, f, end)
		return
	}
	for _, o := range []event.Outcome{event.Denied, event.Unverified} {
		if why, ok := aictrlCutReason(text, string(o)); ok {
			end.Outcome, end.Reason = o, why
			d.over(h, event.RunFailed(end))
			return
		}
	}
	if text != "" && d.troubled { // some versions fail without a session_error
		end.Outcome, end.Reason = event.Failed, text
		d.over(h, event.RunFailed(end))
		return
	}
	if text == "" && d.refused && d.any && d.last.Finish == event.FinishToolCalls { // the program stops there without a word
		end.Outcome, end.Reason = event.Denied, "a call was denied, and the model was not asked again"
		d.over(h, event.RunFailed(end))
		return
	}
	end.Outcome, end.Detail = event.Done, text
	d.over(h, event.RunDone(end))
}

// end tells a run that a session_error ended.
func (d *aictrlDecoder) end(h event.Header, f *aictrlIn, end event.RunEnd) {
	end.Reason, end.Code = f.Message, text(f.Code)
	if stopped := aictrlSignal(end.Code) || end.Code == aictrlStopped || f.Reason == "interrupted" || f.Reason == "terminated"; stopped {
		if end.Outcome = event.Cancelled; end.Code == aictrlStopped {
			end.Code = ""
		}
		d.over(h, event.RunCancelled(end))
		return
	}
	end.Outcome, end.Class = aictrlOutcome(f.Reason, end.Code)
	d.over(h, event.RunFailed(end))
}

// aictrlOutcome is the way back from aictrlReason.
func aictrlOutcome(reason, code string) (event.Outcome, string) {
	switch reason {
	case "rate_limit":
		return event.Unavailable, reason
	case "auth":
		if code == "" {
			return event.Misuse, reason // there was no key
		}
		return event.Failed, reason
	case "timeout":
		return event.Timeout, reason
	case "oom":
		return event.Failed, reason
	case "provider":
		if strings.HasPrefix(code, "4") {
			return event.Failed, reason
		}
		return event.Unavailable, reason
	}
	return event.Failed, ""
}

// over ends the reply, if there was one, and the run.
func (d *aictrlDecoder) over(h event.Header, b event.Body) {
	if d.turns > 0 {
		stop := event.ReplyEnd{Stop: "error"}
		switch b.(type) {
		case event.RunDone:
			stop.Stop = "end_turn"
			if d.any {
				stop.Stop = stopOf(d.last.Finish)
			}
			d.told(h, event.ReplyDone(stop))
		case event.RunCancelled:
			stop.Stop = "cancelled"
			d.told(h, event.ReplyCancelled(stop))
		default:
			d.told(h, event.ReplyFailed(stop))
		}
	}
	d.told(h, b)
}

// Close tells what the end of the stream says: a session_error without its session_complete, or an invocation that was over
// before there was a session.
func (d *aictrlDecoder) Close(emit func(event.Event)) {
	d.emit = emit
	if s := d.step; s != nil { // whether a message would have come nobody knows
		d.step = nil
		d.turnEnded(event.Header{Session: d.session, At: moment(s.Timestamp)}, s.Part.stepEnded())
	}
	d.rest()
	h := event.Header{Session: d.session, At: d.line}
	if !d.Ended() && !d.line.IsZero() {
		d.told(h, event.Diag{Text: "the last line is not session_complete", Source: "aictrl"})
	}
	switch {
	case d.ended:
	case d.failure != nil:
		d.turns = max(d.turns, 1) // the reply's end is what the session_error says; the run's is inferred
		d.end(h, d.failure, event.RunEnd{Inferred: true})
	case d.status == "error":
		d.over(h, event.RunFailed{Outcome: event.Failed, Reason: first(d.trouble, "the invocation failed")})
	case d.status == "completed":
		d.over(h, event.RunDone{Outcome: event.Done})
	}
}

// Ended says whether the session is over, or the program that never had one.
func (d *aictrlDecoder) Ended() bool { return d.ended || d.status != "" }
