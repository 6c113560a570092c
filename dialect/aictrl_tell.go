package dialect

import (
	"strconv"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file tells what ends: decisions, calls, turns and the run.

// What state.error says of a call that did not fail by itself; the words of the program, where it has them, so that its
// readers know them.
const (
	aictrlAborted = "Tool execution aborted"
	aictrlDenied  = "the call was denied"
)

func (a *aictrlEncoder) gate(dst []byte, e event.Event, typ string, b event.GateAnswer) []byte {
	dst, session := a.agent(dst, e, "")
	l := aictrlPermission{aictrlHead: a.head(typ, e), CallID: e.Call, Tool: b.Tool, Patterns: append([]string{}, b.Patterns...), Input: b.Input}
	if c := a.calls[aictrlKey{e.Agent, e.Call}]; c != nil {
		c.denied = typ == "permission_rejected"
		l.Tool = first(l.Tool, c.Name)
		if len(l.Input) == 0 {
			l.Input = c.Input
		}
	}
	l.SessionID = session
	l.Tool, l.Permission = first(l.Tool, b.Permission), first(b.Permission, l.Tool)
	if len(l.Input) == 0 {
		l.Input = event.Raw("null")
	}
	return a.line(dst, e, l)
}

func (a *aictrlEncoder) toolUse(dst []byte, e event.Event) []byte {
	dst, session := a.agent(dst, e, "")
	end, _ := event.AsToolEnd(e.Body)
	key := aictrlKey{e.Agent, e.Call}
	call := a.calls[key]
	if call == nil {
		call = &aictrlCall{}
	}
	delete(a.calls, key)
	a.metadata = appendAictrlMetadata(a.metadata[:0], end)
	state := aictrlState{Status: "completed", Input: arguments(call.Input), Metadata: a.metadata, Title: end.Title}
	if text, failed := aictrlWhy(e.Body, call.denied); failed {
		state.Status, state.Error = "error", text
	}
	if start, stop := aictrlMillis(end.Start), aictrlMillis(end.End); start != nil || stop != nil {
		state.Time = &aictrlTime{start, stop}
	}
	l := aictrlBlock{aictrlHead: a.head("tool_use", e), SequenceNum: a.number(session)}
	l.Part = aictrlPart{Type: "tool", Tool: new(first(call.Name, end.Name)), CallID: e.Call, SessionID: &session, State: &state}
	return a.line(dst, e, l)
}

// aictrlWhy returns the error of a call that has one. A command that exits with another code than 0 has none.
func aictrlWhy(b event.Body, denied bool) (text string, failed bool) {
	end, _ := event.AsToolEnd(b)
	switch b.(type) {
	case event.ToolDone:
		return "", false
	case event.ToolDenied:
		if denied {
			return first(end.Error, aictrlDenied), true
		}
		return aictrlReasoned(aictrlDenied, end.Error), true
	case event.ToolCancelled:
		return aictrlReasoned(aictrlAborted, end.Error), true
	}
	if aictrlExited(end) {
		return "", false
	}
	return first(end.Error, end.Output, "the tool failed"), true
}

// aictrlExited says whether a call failed only in that its command ended with another code than 0.
func aictrlExited(end event.ToolEnd) bool {
	return end.Exit != nil && *end.Exit != 0 && (end.Error == "" || end.Error == "exit status "+strconv.Itoa(*end.Exit))
}

// aictrlReasoned puts a reason behind what happened, if there is one.
func aictrlReasoned(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// appendAictrlMetadata puts what the document shows in front of the tool's own.
func appendAictrlMetadata(dst wire.JSON, end event.ToolEnd) wire.JSON {
	dst = append(dst, '{')
	from := len(dst)
	add := func(key string) {
		if len(dst) > from {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendString(dst, key), ':')
	}
	if end.Exit != nil {
		add("exit")
		dst = strconv.AppendInt(dst, int64(*end.Exit), 10)
	}
	if end.Exit != nil || end.Output != "" {
		add("output")
		dst = wire.AppendString(dst, end.Output)
	}
	if end.Truncated {
		add("truncated")
		dst = append(dst, "true"...)
	}
	var d wire.Doc
	if d.Parse(end.Metadata) == nil && d.Root().Kind() == wire.Object {
		for key, v := range d.Root().All() {
			if !aictrlOwn(key) {
				add(key)
				dst = wire.AppendRaw(dst, v.Raw())
			}
		}
	}
	return append(dst, '}')
}

// aictrlOwn says whether a member of the metadata has a field of its own in our events.
func aictrlOwn(key string) bool { return key == "exit" || key == "output" || key == "truncated" }

// aictrlData is an error's data with its message in it.
func aictrlData(b event.Error) event.Raw {
	dst := append([]byte(`{"message":`), wire.AppendString(nil, b.Message)...)
	var d wire.Doc
	if d.Parse(b.Data) == nil && d.Root().Kind() == wire.Object {
		if d.Root().Get("message").Kind() == wire.String {
			return b.Data
		}
		for key, v := range d.Root().All() {
			if key != "message" {
				dst = append(wire.AppendString(append(dst, ','), key), ':')
				dst = append(dst, v.Raw()...)
			}
		}
	}
	return append(dst, '}')
}

// finish closes the open step, if there is one, after its calls. Of a turn that the model did not finish there is no
// message.
func (a *aictrlEncoder) finish(dst []byte, e event.Event, failed bool) []byte {
	if !a.turn.open {
		return dst
	}
	a.turn.open = false
	var b event.TurnEnded
	if a.turn.ended != nil {
		e = *a.turn.ended
		b = e.Body.(event.TurnEnded)
	}
	dst = a.line(dst, e, aictrlBlock{aictrlHead: a.head("step_finish", e), Part: aictrlPart{Type: "step-finish"}})
	if b.Finish == event.FinishError || b.Finish == "" && failed {
		return dst
	}
	l := aictrlMessage{
		aictrlHead: a.head("message_complete", e), ModelID: first(b.Model, a.run.Model), ProviderID: first(b.Provider, a.run.Provider),
		Agent: first(b.Profile, a.run.Profile, "default"), Finish: aictrlFinish(a.turn.finish(failed)),
	}
	l.Cost.Input, l.Cost.Output, l.Cost.Total = aictrlPositive(b.Cost.Input), aictrlPositive(b.Cost.Output), b.Cost.Total
	l.Cost.Cache.Read, l.Cost.Cache.Write = aictrlPositive(b.Cost.CacheRead), aictrlPositive(b.Cost.CacheWrite)
	l.Tokens.Input, l.Tokens.Output, l.Tokens.Reasoning = aictrlPositive(b.Usage.Input), aictrlPositive(b.Usage.Output), aictrlPositive(b.Usage.Reasoning)
	l.Tokens.Cache.Read, l.Tokens.Cache.Write = aictrlPositive(b.Usage.CacheRead), aictrlPositive(b.Usage.CacheWrite)
	if _, known := b.Usage.InputAll(); known && b.Context.Limit > 0 {
		used := l.Tokens.Input + l.Tokens.Cache.Read + l.Tokens.Cache.Write
		l.Context = &aictrlContext{used, b.Context.Limit, float64(used) / float64(b.Context.Limit)}
	}
	a.answered = true
	return a.line(dst, e, l)
}

// aictrlPositive is a number that is demanded: 0 where it is not known.
func aictrlPositive[T int64 | float64](n *T) T {
	if n == nil {
		return 0
	}
	return max(0, *n)
}

func aictrlFinish(f event.Finish) string {
	switch f {
	case event.FinishToolCalls:
		return "tool-calls"
	case event.FinishLength:
		return "max_tokens"
	}
	return "end_turn"
}

// end tells how the run ended: session_error if something stopped it, then session_complete.
func (a *aictrlEncoder) end(dst []byte, e event.Event) []byte {
	end, _ := event.AsRunEnd(e.Body)
	_, done := e.Body.(event.RunDone)
	dst = a.finish(a.flush(dst), e, !done)
	l := aictrlEnd{aictrlHead: a.head("session_complete", e)}
	l.DurationMs = l.Timestamp - a.began
	if end.Duration != nil {
		l.DurationMs = max(0, *end.Duration)
	}
	fine := a.answered || a.message == ""
	reason := first(end.Reason, a.message, string(end.Outcome), "the run failed")
	switch {
	case done && fine && end.Detail != "":
		l.Error = &end.Detail
	case done:
	case aictrlQuiet(end.Outcome) && fine:
		l.Error = new(aictrlReasoned(string(end.Outcome), end.Reason))
	default:
		if failed := (aictrlFailure{a.head("session_error", e), aictrlReason(end), aictrlCode(e.Body), reason}); !a.failed {
			dst = a.line(dst, e, failed)
		}
		l.Error = new(first(end.Detail, reason))
	}
	a.ended = true
	return a.line(dst, e, l)
}

// aictrlQuiet says whether an outcome is no abnormal end: the agent finished, but somebody wanted more of it.
func aictrlQuiet(o event.Outcome) bool { return o == event.Denied || o == event.Unverified }

// aictrlReason is the dialect's word for why a run failed.
func aictrlReason(end event.RunEnd) string {
	switch end.Class {
	case "auth", "rate_limit", "timeout", "oom":
		return end.Class
	case "provider", "overload", "connection", "cut", "invalid", "overflow":
		return "provider"
	}
	switch end.Outcome {
	case event.Timeout, event.Stalled:
		return "timeout"
	case event.Unavailable:
		return "provider"
	}
	return "unknown"
}

// aictrlStopped is the code of a run that was stopped, and not by a signal.
const aictrlStopped = "cancelled"

func aictrlCode(b event.Body) string {
	end, _ := event.AsRunEnd(b)
	if _, ok := b.(event.RunCancelled); ok && !aictrlSignal(end.Code) {
		return aictrlStopped
	}
	return end.Code
}

// aictrlSignal says whether a code is the exit code of a process that a signal ended.
func aictrlSignal(code string) bool {
	switch code {
	case "129", "130", "141", "143":
		return true
	}
	return false
}
