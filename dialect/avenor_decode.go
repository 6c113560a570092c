package dialect

import (
	"slices"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// avenorDecoder remembers what is open: answers and updates name only an id, and no line says how the run ended.
type avenorDecoder struct {
	in      avenorIn
	bulk    bulk
	lines   *wire.Reader[avenorIn]
	deltas  place[event.TextDelta]
	started bool
	block   avenorSpeech
	calls   []avenorOpen
	asks    []avenorQuestion
	made    int // ids of calls that have none

	open    bool   // a reply is
	session string // of it
	prompt  string // id of its prompt
	said    bool   // the line before was its prompt
	moved   bool   // another session goes on with it
	again   bool   // it is tried again

	agents []string // sessions of sub-agents in it

	looping bool
	end     *avenorVerdict // how the run ended, if nothing follows
	failure string         // message of the last error
}

// An avenorSpeech is a block whose pieces come. What they say together is told by none of the lines: who mends the stream knows it.
type avenorSpeech struct {
	kind string // the event that brings them; empty for none
	id   string
	h    event.Header // of the last one
	from time.Time
}

type avenorOpen struct {
	session, id, name string
	denied            bool
}

type avenorQuestion struct {
	session, request, call, tool string
	options                      []event.Option
}

type avenorVerdict struct {
	h    event.Header
	body event.Body
}

func (d *avenorDecoder) Decode(line []byte, emit func(event.Event)) {
	d.in = avenorIn{}
	l := &d.in
	if err := d.lines.Read(line, l); isSyntax(err) {
		unread(emit, "avenor", "not JSON")
		return
	}
	if l.Event == "" {
		unread(emit, "avenor", "the line names no event")
		return
	}
	h := event.Header{Session: l.SessionID}
	if l.Ts.Value > 0 {
		h.At = moment(l.Ts)
	}
	tell := func(b event.Body) { emit(event.Event{Header: h, Body: b}) }
	if !d.started {
		d.started = true
		if l.Event == "session.start" {
			tell(event.RunStarted{
				Format: event.Format, Program: "avenor", Backend: l.Backend, Cwd: l.Dir, DangerouslyLoad: l.DangerouslyLoad, Run: l.RunID, Label: l.RunLabel,
			})
			return
		}
		tell(event.RunStarted{Format: event.Format, Program: "avenor", Run: l.RunID, Label: l.RunLabel, Inferred: true})
	}
	said := d.said
	d.said = false
	h.Agent = d.agent(l)
	d.hush(l, emit)
	switch l.Event {
	case "session.start":
		d.end, d.moved = nil, true
		tell(event.SessionStarted{Backend: l.Backend, Cwd: l.Dir, Model: l.Model, DangerouslyLoad: l.DangerouslyLoad})
	case "user.message_chunk":
		tell(d.userSays(l, said))
	case "agent.message_chunk":
		d.speak(h, l)
		tell(d.deltas.put(event.TextDelta{ID: l.MessageID, Text: l.text(), Update: tidy(l.Update)}, d.bulk))
	case "agent.thought_chunk":
		d.speak(h, l)
		tell(event.ThoughtDelta{ID: l.MessageID, Text: l.text(), Update: tidy(l.Update)})
	case "tool.call":
		h.Call = d.callID(l)
		call := event.ToolCalled{Name: l.Kind, Title: l.Title, Update: tidy(l.Update)}
		if d.bulk.inputs() {
			call.Input = l.input()
		}
		if l.ToolUseID != "" && (l.Kind == "tool" || l.Kind == "") { // the title is the tool's name there
			call.Name = l.Title
		}
		if call.Title == call.Name {
			call.Title = ""
		}
		d.begin(l)
		d.calls = append(d.calls, avenorOpen{session: h.Session, id: h.Call, name: call.Name})
		tell(call)
	case "tool.call_update":
		d.update(h, l, emit)
	case "permission.request":
		d.ask(h, l, emit)
	case "permission.response":
		d.answer(h, l, emit)
	case "session.end":
		d.closeSession(h, l, emit)
	case "avenor.error":
		d.failure = l.Message
		tell(event.Error{
			Message: l.Message, Source: l.Source, Type: l.Kind, Stop: l.StopReason, Model: l.Model, Diagnostics: tidy(l.Diagnostics),
		})
	default:
		d.around(h, l, line, emit)
	}
}

// around reads what is said around sessions, and everything else.
func (d *avenorDecoder) around(h event.Header, l *avenorIn, line []byte, emit func(event.Event)) {
	tell := func(b event.Body) { emit(event.Event{Header: h, Body: b}) }
	switch l.Event {
	case "avenor.loop.start":
		d.looping, d.end = true, nil
		tell(event.LoopStarted{MaxIterations: whole(l.MaxIterations), Pre: whole(l.PrePhaseCount), Loop: whole(l.LoopPhaseCount), Post: whole(l.PostPhaseCount)})
	case "avenor.phase.start":
		d.looping, d.end = true, nil
		tell(event.PhaseStarted{Phase: l.Phase, Iteration: whole(l.Iteration), Part: l.Kind})
	case "avenor.retry":
		d.end, d.moved, d.again = nil, true, true
		tell(event.PhaseRetry{Attempt: whole(l.Attempt), Limit: whole(l.MaxRetries)})
	case "avenor.phase.end":
		d.closeReply(h, l.StopReason, emit)
		end := event.PhaseEnded{Phase: l.Phase, Iteration: whole(l.Iteration), Stop: l.StopReason}
		switch {
		case l.AbortMarker:
			end.Marker, end.Label = "abort", l.AbortMarkerLabel
		case l.ExitMarker:
			end.Marker, end.Label = "exit", l.ExitMarkerLabel
		}
		tell(end)
	case "avenor.loop.end":
		reason := l.ExitReason
		if reason == "marker" {
			reason = "exit" // the document's word
		}
		d.closeReply(h, reason, emit)
		d.looping = true
		d.end = &avenorVerdict{h, d.loopEnd(reason)}
		tell(event.LoopEnded{Reason: reason, Iterations: whole(l.IterationsCompleted), Label: l.ExitLabel})
	case "agent.status":
		tell(event.Status{Phase: l.Phase, Label: l.Label, Source: l.Source})
	case "session.plan":
		tell(event.Plan{Fields: fieldsOf(line)})
	case "agent.channel_ready":
		tell(event.ChannelReady{Server: l.ServerName, Source: l.Source})
	case "agent.prompt_queued":
		d.end = nil
		tell(event.ChannelQueued{Control: l.ControlID, Type: l.MessageType, Delivery: l.Delivery, Length: whole(l.PromptLength)})
	case "agent.prompt_submitted":
		d.end = nil
		tell(event.ChannelSubmitted{Delivery: l.Delivery, Length: whole(l.PromptLength)})
	case "agent.report":
		tell(event.Report{State: l.State, Payload: tidy(l.Payload), Source: l.Source})
	case "agent.reply":
		tell(event.Answer{To: l.To, Payload: tidy(l.Payload), Source: l.Source})
	case "agent.finish":
		tell(event.Finished{Status: l.Status, Summary: l.Summary, Files: l.FilesChanged, Payload: tidy(l.Payload), Source: l.Source})
	default:
		tell(event.Custom{Name: l.Event, Fields: fieldsOf(line)})
	}
}

// begin notes that a reply goes on.
func (d *avenorDecoder) begin(l *avenorIn) {
	d.end = nil
	if !d.open {
		d.open, d.session, d.prompt = true, l.SessionID, ""
	}
	if d.moved {
		d.session, d.moved = l.SessionID, false
	}
	d.again = false
}

// speak takes a piece of a block.
func (d *avenorDecoder) speak(h event.Header, l *avenorIn) {
	d.begin(l)
	if d.block.kind == "" {
		d.block = avenorSpeech{kind: l.Event, id: l.MessageID, from: h.At}
	}
	d.block.h = h
}

// hush tells the block that is over, if the line says so: what stands beside a conversation does not.
func (d *avenorDecoder) hush(l *avenorIn, emit func(event.Event)) {
	b := &d.block
	partial := l.Event == "avenor.retry"
	switch l.Event {
	case "agent.message_chunk", "agent.thought_chunk":
		if b.kind == l.Event && b.id == l.MessageID {
			return
		}
	case "session.end":
		partial = isCancelled(l.StopReason) || l.StopReason == "timeout"
	case "session.start", "user.message_chunk", "tool.call", "tool.call_update", "permission.request", "permission.response",
		"avenor.retry", "avenor.phase.start", "avenor.phase.end", "avenor.loop.start", "avenor.loop.end":
	default:
		return
	}
	switch b.kind {
	case "agent.message_chunk":
		emit(event.Event{Header: b.h, Body: event.Text{ID: b.id, Start: b.from, End: b.h.At, Partial: partial}})
	case "agent.thought_chunk":
		emit(event.Event{Header: b.h, Body: event.Thought{ID: b.id, Start: b.from, End: b.h.At, Partial: partial}})
	}
	*b = avenorSpeech{}
}

// agent says which sub-agent a line is of: what works under another session than the one that talks is one.
func (d *avenorDecoder) agent(l *avenorIn) string {
	if !d.open || d.moved || l.SessionID == "" || l.SessionID == d.session {
		return ""
	}
	switch l.Event {
	case "tool.call", "permission.request":
		if !slices.Contains(d.agents, l.SessionID) {
			d.agents = append(d.agents, l.SessionID)
		}
	case "tool.call_update", "permission.response", "avenor.error":
	case "agent.message_chunk", "agent.thought_chunk":
		d.session = l.SessionID
		return ""
	default:
		return ""
	}
	if slices.Contains(d.agents, l.SessionID) {
		return l.SessionID
	}
	return ""
}

// userSays reads a prompt: a new one, more of it, or one that is said while the session goes on.
func (d *avenorDecoder) userSays(l *avenorIn, said bool) event.Prompt {
	p := event.Prompt{ID: l.MessageID, Text: l.text(), Update: tidy(l.Update)}
	more := said && l.MessageID == d.prompt
	if d.open && (d.session == l.SessionID || d.again) && !more {
		p.Source = event.SourceSteer
		d.begin(l)
		return p
	}
	d.end, d.said, d.moved = nil, true, false
	d.open, d.session, d.prompt = true, l.SessionID, l.MessageID
	return p
}

func (d *avenorDecoder) callID(l *avenorIn) string {
	if id := first(l.ToolCallID, l.ToolUseID); id != "" {
		return id
	}
	d.made++
	return numbered("call", d.made)
}

func (d *avenorDecoder) update(h event.Header, l *avenorIn, emit func(event.Event)) {
	h.Call = first(l.ToolCallID, l.ToolUseID)
	d.begin(l)
	name, denied := l.Kind, false
	i := slices.IndexFunc(d.calls, func(c avenorOpen) bool { return c.id == h.Call && c.session == h.Session })
	if i >= 0 {
		denied = d.calls[i].denied
		if name == "" || l.ToolUseID != "" {
			name = d.calls[i].name
		}
	}
	end := event.ToolEnd{Name: name, Update: tidy(l.Update)}
	if d.bulk.outputs() {
		end.Output = l.Delta.Value
	}
	var body event.Body
	switch {
	case l.Status == "completed":
		body = event.ToolDone(end)
	case l.Status == "failed" && denied:
		body = event.ToolDenied(end)
	case l.Status == "failed":
		body = event.ToolFailed(end)
	default:
		emit(event.Event{Header: h, Body: event.ToolStarted{Name: name}})
		return
	}
	if i >= 0 {
		d.calls = slices.Delete(d.calls, i, i+1)
	}
	emit(event.Event{Header: h, Body: body})
}

// ask reads a question. It is about the call that it names, or else the only open one of its tool.
func (d *avenorDecoder) ask(h event.Header, l *avenorIn, emit func(event.Event)) {
	d.begin(l)
	b := event.GateAsked{
		Request: l.RequestID, Tool: first(l.Tool, l.ToolCall.Kind), Question: first(l.Question, l.Description, l.Message, l.ToolCall.Title),
	}
	if d.bulk.inputs() {
		b.Input = tidy(l.ToolCall.RawInput)
	}
	for _, o := range l.Options {
		b.Options = append(b.Options, event.Option{ID: first(o.OptionID, o.ID), Kind: o.Kind, Name: first(o.Name, o.Label)})
	}
	if h.Call = l.ToolCall.ToolCallID; h.Call == "" {
		var of []avenorOpen
		for _, c := range d.calls {
			if c.session == h.Session && c.name == b.Tool {
				of = append(of, c)
			}
		}
		if len(of) == 1 {
			h.Call = of[0].id
		}
	}
	d.asks = append(d.asks, avenorQuestion{h.Session, b.Request, h.Call, b.Tool, b.Options})
	emit(event.Event{Header: h, Body: b})
}

func (d *avenorDecoder) answer(h event.Header, l *avenorIn, emit func(event.Event)) {
	b := event.GateAnswer{Request: l.RequestID, Option: l.OptionID}
	kind := side(l.Kind)
	i := slices.IndexFunc(d.asks, func(q avenorQuestion) bool { return q.request == l.RequestID && q.session == h.Session })
	if i >= 0 {
		q := d.asks[i]
		d.asks = slices.Delete(d.asks, i, i+1)
		h.Call, b.Tool = q.call, q.tool
		for _, o := range q.options {
			if kind == "" && o.ID == l.OptionID {
				kind = side(first(o.Kind, guessed(o)))
			}
		}
	}
	switch l.Source {
	case "avenor":
		if b.By = event.ByNobody; kind == "allow" {
			b.By = event.ByAuto
		}
	case "control":
		b.By = event.ByControl
	case "file":
		b.By = event.ByFile
	}
	if kind == "allow" {
		emit(event.Event{Header: h, Body: event.GateAllowed(b)})
		return
	}
	for i := range d.calls {
		if c := &d.calls[i]; c.id == h.Call && c.session == h.Session && h.Call != "" {
			c.denied = true
		}
	}
	emit(event.Event{Header: h, Body: event.GateDenied(b)})
}

// closeSession reads session.end.
func (d *avenorDecoder) closeSession(h event.Header, l *avenorIn, emit func(event.Event)) {
	r := event.ReplyEnd{Prompt: d.prompt, Stop: l.StopReason}
	if u := l.Usage; u != nil {
		r.Usage = event.Usage{Input: tokens(u.InputTokens), Output: tokens(u.OutputTokens), CacheRead: tokens(u.CachedReadTokens)}
		if r.Usage.Input != nil && r.Usage.CacheRead != nil { // cached input is counted inside input
			*r.Usage.Input = max(0, *r.Usage.Input-*r.Usage.CacheRead)
		}
	}
	body := replyEnd(r)
	if end := d.runEnd(body, l.StopReason); !d.looping {
		d.end = &avenorVerdict{h, end}
	}
	d.over()
	emit(event.Event{Header: h, Body: body})
}

// closeReply ends the reply that is open where the stream says that its phase is over and has not said session.end.
func (d *avenorDecoder) closeReply(h event.Header, stop string, emit func(event.Event)) {
	if d.open {
		h.Session = first(h.Session, d.session)
		body := replyEnd(event.ReplyEnd{Prompt: d.prompt, Stop: stop, Inferred: true})
		d.over()
		emit(event.Event{Header: h, Body: body})
	}
}

func (d *avenorDecoder) over() {
	d.open, d.moved, d.again, d.prompt, d.agents, d.calls, d.asks = false, false, false, "", nil, nil, nil
}

func replyEnd(r event.ReplyEnd) event.Body {
	switch {
	case isDone(r.Stop):
		return event.ReplyDone(r)
	case isCancelled(r.Stop):
		return event.ReplyCancelled(r)
	}
	return event.ReplyFailed(r)
}

// runEnd is how a run ends whose last session ended so.
func (d *avenorDecoder) runEnd(reply event.Body, stop string) event.Body {
	switch reply.(type) {
	case event.ReplyDone:
		d.failure = ""
		return event.RunDone{Outcome: event.Done}
	case event.ReplyCancelled:
		return event.RunCancelled{Outcome: event.Cancelled, Reason: stop}
	}
	end := event.RunFailed{Outcome: event.Failed, Reason: first(d.failure, stop, "error")}
	switch stop {
	case "timeout":
		end.Outcome = event.Timeout
	case "progress_timeout":
		end.Outcome = event.Stalled
	}
	return end
}

// loopEnd is how a run ends whose loop ended so.
func (d *avenorDecoder) loopEnd(reason string) event.Body {
	switch reason {
	case "end_turn", "exit":
		return event.RunDone{Outcome: event.Done}
	case "cancelled":
		return event.RunCancelled{Outcome: event.Cancelled, Reason: reason}
	}
	return d.runEnd(event.ReplyFailed{}, reason)
}

// Ended is true after session.end, in a loop after avenor.loop.end.
func (d *avenorDecoder) Ended() bool { return d.end != nil }

// Close tells how the run ended, if its last session or its loop said so.
func (d *avenorDecoder) Close(emit func(event.Event)) {
	if d.end != nil {
		emit(event.Event{Header: d.end.h, Body: d.end.body})
	}
}
