package dialect

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// ensoDecoder remembers whose lines come, which calls are open, and how the run stands.
type ensoDecoder struct {
	in      ensoIn
	bulk    bulk
	lines   *wire.Reader[ensoIn]
	deltas  place[event.TextDelta]
	session string
	agents  ensoNest
	calls   []ensoOpen // that are open, in all agents
	refused []ensoOpen // denials whose call is not known yet
	late    ensoOpen   // call that was denied on the line before, without a word why
	count   int        // ids that were made up

	reply     bool    // a reply is open
	spoken    bool    // something came after the last user_message
	answered  bool    // the last answer is complete, and no call came after it
	cancelled bool    // the last reply was
	failure   *string // message of an error that no answer followed
	end       *string // error of session_end
}

// An ensoOpen is a call, by the agent that made it.
type ensoOpen struct{ agent, id, name string }

// An ensoAgent is a sub-agent that is open. Its lines say so if it was started by a line that does.
type ensoAgent struct {
	id, path string
	depth    int64
	tagged   bool
}

// An ensoNest is the open sub-agents, in the order they started.
type ensoNest []ensoAgent

// owner returns the agent that a line belongs to, nil for the top one. The real program does not say whose a line is; there
// sub-agents run one inside the other, and it is the innermost.
func (n ensoNest) owner(id string, said bool) *ensoAgent {
	for i := len(n) - 1; i >= 0; i-- {
		if said && n[i].id == id || !said && !n[i].tagged {
			return &n[i]
		}
	}
	return nil
}

// remove takes an agent out, and all that started inside it.
func (n ensoNest) remove(path string) ensoNest {
	return slices.DeleteFunc(n, func(a ensoAgent) bool { return a.path == path || strings.HasPrefix(a.path, path+"/") })
}

// ensoIn is a line as one may come: the specification's form, and what the program really writes.
type ensoIn struct {
	Type     string       `json:"type"`
	ID       wire.Str     `json:"id"`
	Model    string       `json:"model"`
	Cwd      string       `json:"cwd"`
	Resumed  bool         `json:"resumed"`
	Content  string       `json:"content"`
	Text     wire.Passing `json:"text"`
	Name     string       `json:"name"`
	Args     wire.Span    `json:"args"`
	Result   wire.Prose   `json:"result"`
	Display  string       `json:"display"`
	Error    event.Raw    `json:"error"`
	Denied   bool         `json:"denied"`
	Reason   string       `json:"reason"`
	Summary  string       `json:"summary"`
	Before   wire.Num     `json:"before_tokens"`
	After    wire.Num     `json:"after_tokens"`
	ParentID string       `json:"parent_id"`
	Depth    wire.Num     `json:"depth"`
	Prompt   string       `json:"prompt"`
	Role     string       `json:"role"`
	Message  string       `json:"message"`
	Tool     string       `json:"tool"`
	AgentID  wire.Str     `json:"agent_id"`
}

func (l *ensoIn) id() string { return l.ID.Value }

func (d *ensoDecoder) Decode(line []byte, emit func(event.Event)) {
	d.in = ensoIn{}
	l := &d.in
	if err := d.lines.Read(line, l); isSyntax(err) {
		unread(emit, "enso", "not JSON")
		return
	}
	h := d.header(l)
	tell := func(b event.Body) { emit(event.Event{Header: h, Body: b}) }
	late := d.late
	d.late = ensoOpen{}
	if d.settles(l.Type) {
		d.release(h.Agent, emit)
	}
	switch l.Type {
	case "session_start":
		if d.Ended() {
			d.Close(emit) // another run follows
		}
		id := l.id()
		d.session = id
		emit(event.Event{Header: event.Header{Session: id}, Body: event.RunStarted{
			Format: event.Format, Model: l.Model, Cwd: l.Cwd, Resumed: l.Resumed, Ephemeral: l.ID.OK && id == "",
		}})
	case "user_message":
		d.userMessage(l.Content, emit)
	case "reasoning_delta":
		d.spoke(h)
		tell(event.ThoughtDelta{Text: l.Text.Value})
	case "assistant_delta":
		d.spoke(h)
		tell(d.deltas.put(event.TextDelta{Text: l.Text.Value}, d.bulk))
	case "assistant_done":
		d.spoke(h)
		d.answered = d.answered || h.Top()
		tell(event.TurnEnded{})
	case "tool_call_start":
		d.callStart(h, l, emit)
	case "tool_call_end":
		d.callEnd(h, l, emit)
	case "permission_auto_deny":
		if late.name == l.Tool && late.agent == h.Agent && late.id != "" {
			tell(event.GateDenied{Tool: l.Tool, By: event.ByNobody}) // too late for its call
			return
		}
		d.refused = append(d.refused, ensoOpen{agent: h.Agent, name: l.Tool})
	case "compacted":
		tell(event.Compacted{Reason: l.Reason, Summary: l.Summary, Before: tokens(l.Before), After: tokens(l.After)})
	case "agent_start":
		d.agentStart(l, emit)
	case "agent_end":
		d.agentEnd(l, emit)
	case "cancelled":
		d.forget()
		d.reply, d.cancelled, d.failure = false, true, nil
		emit(event.Event{Header: event.Header{Session: d.session}, Body: event.ReplyCancelled{}})
	case "error":
		if h.Top() {
			d.failure = new(l.Message)
		}
		tell(event.Error{Message: l.Message})
	case "session_end":
		// The real program may say why it failed only after this: the ends are told when the stream ends.
		if d.end == nil {
			d.end = new(text(l.Error))
		}
	default:
		unread(emit, "enso", "no line of type %q is known", clip(l.Type))
	}
}

// header says whose the line is.
func (d *ensoDecoder) header(l *ensoIn) event.Header {
	said := l.AgentID.Value != ""
	id := ""
	if said {
		id = l.AgentID.Value
	}
	if a := d.agents.owner(id, said); a != nil {
		return event.Header{Agent: a.path}
	}
	if said {
		return event.Header{Agent: ensoElement(id)}
	}
	return event.Header{Session: d.session}
}

// ensoElement makes an element of a path of an id.
func ensoElement(id string) string { return strings.ReplaceAll(id, "/", "_") }

// spoke notes that an agent goes on: what was cancelled, failed or answered before is past.
func (d *ensoDecoder) spoke(h event.Header) {
	d.reply, d.spoken, d.cancelled = true, true, false
	if h.Top() {
		d.answered, d.failure = false, nil
	}
}

// forget drops what a reply had open.
func (d *ensoDecoder) forget() { d.agents, d.calls, d.refused = nil, nil, nil }

// userMessage opens a reply, and so ends the one before. Said between the calls of a reply it goes on with it.
func (d *ensoDecoder) userMessage(content string, emit func(event.Event)) {
	h := event.Header{Session: d.session}
	prompt := event.Prompt{Text: content}
	switch {
	case !d.reply:
	case d.answered:
		d.forget()
		emit(event.Event{Header: h, Body: event.ReplyDone{}})
	case d.failure != nil:
		d.forget()
		emit(event.Event{Header: h, Body: event.ReplyFailed{}})
	case d.spoken:
		prompt.Source = event.SourceSteer
	}
	d.reply, d.spoken, d.answered, d.cancelled, d.failure = true, false, false, false, nil
	emit(event.Event{Header: h, Body: prompt})
}

func (d *ensoDecoder) callStart(h event.Header, l *ensoIn, emit func(event.Event)) {
	d.spoke(h)
	h.Call = l.id()
	if h.Call == "" {
		h.Call = d.made("call")
	}
	d.drop(h.Agent, h.Call)
	d.calls = append(d.calls, ensoOpen{h.Agent, h.Call, l.Name})
	called := event.ToolCalled{Name: l.Name}
	if d.bulk.inputs() {
		called.Input = input(l.Args)
	}
	emit(event.Event{Header: h, Body: called})
	if d.wasRefused(h.Agent, l.Name) {
		emit(event.Event{Header: h, Body: event.GateDenied{Tool: l.Name, By: event.ByNobody}})
	}
	emit(event.Event{Header: h, Body: event.ToolStarted{Name: l.Name}})
}

// callEnd ends a call. The real program gives a denied one neither a start nor an id.
func (d *ensoDecoder) callEnd(h event.Header, l *ensoIn, emit func(event.Event)) {
	d.reply, d.spoken = true, true
	open := slices.IndexFunc(d.calls, func(c ensoOpen) bool {
		return c.agent == h.Agent && (c.id == l.id() || l.id() == "" && c.name == l.Name)
	})
	if open < 0 && !l.AgentID.OK && l.id() != "" {
		open = slices.IndexFunc(d.calls, func(c ensoOpen) bool { return c.id == l.id() }) // of another agent
	}
	if open >= 0 {
		h.Agent, h.Call = d.calls[open].agent, d.calls[open].id
	} else if h.Call = l.id(); h.Call == "" {
		h.Call = d.made("call")
	}
	if h.Top() {
		h.Session, d.answered = d.session, false
	} else {
		h.Session = ""
	}
	d.drop(h.Agent, h.Call)
	end := event.ToolEnd{Name: l.Name, Error: text(l.Error), Title: l.Display}
	if d.bulk.outputs() {
		end.Output = l.Result.Text()
	}
	told := func(b event.Body) { emit(event.Event{Header: h, Body: b}) }
	reason, cancelled := strings.CutPrefix(end.Error, ensoCancelled)
	switch {
	case l.Denied:
		if d.wasRefused(h.Agent, l.Name) {
			told(event.GateDenied{Tool: l.Name, By: event.ByNobody})
		} else {
			d.late = ensoOpen{h.Agent, h.Call, l.Name}
		}
		told(event.ToolDenied(end))
	case cancelled && (reason == "" || strings.HasPrefix(reason, ": ")):
		end.Error = strings.TrimPrefix(reason, ": ")
		told(event.ToolCancelled(end))
	case end.Error != "":
		if code, ok := strings.CutPrefix(end.Error, ensoExit); ok {
			if n, err := strconv.Atoi(code); err == nil && ensoExit+strconv.Itoa(n) == end.Error {
				end.Exit, end.Error = &n, ""
			}
		}
		told(event.ToolFailed(end))
	default:
		told(event.ToolDone(end))
	}
}

func (d *ensoDecoder) made(what string) string {
	d.count++
	return numbered(what, d.count)
}

// drop forgets an open call.
func (d *ensoDecoder) drop(agent, id string) {
	d.calls = slices.DeleteFunc(d.calls, func(c ensoOpen) bool { return c.agent == agent && c.id == id })
}

// wasRefused takes the first denial of that tool that waits for its call.
func (d *ensoDecoder) wasRefused(agent, tool string) bool {
	i := slices.IndexFunc(d.refused, func(c ensoOpen) bool { return c.agent == agent && c.name == tool })
	if i < 0 {
		return false
	}
	d.refused = slices.Delete(d.refused, i, i+1)
	return true
}

// settles says whether no call of the denials before a line of that type can follow it. That assistant_done may stand
// between the two is a fault of the real program.
func (d *ensoDecoder) settles(typ string) bool {
	switch typ {
	case "permission_auto_deny", "assistant_done", "tool_call_start", "tool_call_end":
		return false
	}
	return len(d.refused) > 0
}

// release tells the denials of an agent whose call is not told: the only open call of that tool, or one of its own.
func (d *ensoDecoder) release(agent string, emit func(event.Event)) {
	d.refused = slices.DeleteFunc(d.refused, func(r ensoOpen) bool {
		if r.agent != agent {
			return false
		}
		h := event.Header{Agent: agent}
		if h.Top() {
			h.Session = d.session
		}
		var open []string
		for _, c := range d.calls {
			if c.agent == agent && c.name == r.name {
				open = append(open, c.id)
			}
		}
		if len(open) == 1 {
			h.Call = open[0]
			emit(event.Event{Header: h, Body: event.GateDenied{Tool: r.name, By: event.ByNobody}})
			return true
		}
		d.reply = true
		h.Call = d.made("call")
		emit(event.Event{Header: h, Body: event.GateDenied{Tool: r.name, By: event.ByNobody}})
		emit(event.Event{Header: h, Body: event.ToolDenied{Name: r.name, Inferred: true}})
		return true
	})
}

func (d *ensoDecoder) agentStart(l *ensoIn, emit func(event.Event)) {
	id := l.id()
	if id == "" {
		id = d.made("agent")
	}
	a := ensoAgent{id: id, path: ensoElement(id), depth: 1, tagged: l.AgentID.OK}
	if p := d.parent(l); p != nil {
		a.path, a.depth = p.path+"/"+a.path, p.depth+1
	}
	d.agents = append(d.agents.remove(a.path), a)
	d.cancelled = false
	emit(event.Event{Header: event.Header{Agent: a.path}, Body: event.AgentStarted{
		Parent: l.ParentID, Role: l.Role, Prompt: l.Prompt, Depth: int(a.depth),
	}})
}

// parent finds who started an agent: the one that the line names, else the last one that is as deep as it must be.
func (d *ensoDecoder) parent(l *ensoIn) *ensoAgent {
	if p := d.agents.owner(l.ParentID, true); p != nil || !l.Depth.OK {
		return p
	}
	for i := len(d.agents) - 1; i >= 0; i-- {
		if float64(d.agents[i].depth) == l.Depth.Value-1 {
			return &d.agents[i]
		}
	}
	return nil
}

func (d *ensoDecoder) agentEnd(l *ensoIn, emit func(event.Event)) {
	path := ensoElement(l.id())
	if a := d.agents.owner(l.id(), true); a != nil {
		path = a.path
	} else if path == "" {
		path = d.made("agent")
	}
	d.release(path, emit)
	inside := func(c ensoOpen) bool { return c.agent == path || strings.HasPrefix(c.agent, path+"/") }
	d.calls = slices.DeleteFunc(d.calls, inside)
	d.refused = slices.DeleteFunc(d.refused, inside)
	d.agents = d.agents.remove(path)
	emit(event.Event{Header: event.Header{Agent: path}, Body: event.AgentEnded{Parent: l.ParentID, Error: text(l.Error)}})
}

// Ended says whether session_end came.
func (d *ensoDecoder) Ended() bool { return d.end != nil }

// Close tells how the run ended: as session_end says, or as an error or a cancellation after which nothing came.
func (d *ensoDecoder) Close(emit func(event.Event)) {
	for len(d.refused) > 0 {
		d.release(d.refused[0].agent, emit)
	}
	h := event.Header{Session: d.session}
	told := func(b event.Body) { emit(event.Event{Header: h, Body: b}) }
	failed := d.failure != nil && !d.answered
	reason := ""
	switch {
	case d.end != nil && *d.end != "":
		reason, failed = *d.end, true
	case failed:
		reason = *d.failure
	}
	switch cut := d.end == nil; {
	case d.cancelled:
		if cut {
			reason = first(reason, "cancelled, and the stream ended without its end")
		}
		told(event.RunCancelled{Outcome: event.Cancelled, Reason: reason, Inferred: cut})
	case failed:
		if d.reply && !cut {
			told(event.ReplyFailed{})
		}
		told(event.RunFailed{Outcome: event.Failed, Reason: reason, Inferred: cut})
	case !cut:
		if d.reply {
			told(event.ReplyDone{})
		}
		told(event.RunDone{Outcome: event.Done})
	}
	d.forget()
	d.reply, d.answered, d.cancelled, d.failure, d.end = false, false, false, nil, nil
}
