package dialect

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// aictrlDecoder remembers what is open, and what it must hold back:
//
//   - a step_finish until the next line, since it and message_complete are one end of a turn;
//   - a session_error until session_complete, since the two are one end of the run;
//   - what a turn's calls tell before their step_start, which the program writes late;
//   - in the program's own streams, a decision that came while a sub-agent was at work, until its tool_use tells whose it was.
type aictrlDecoder struct {
	emit  func(event.Event)
	in    *aictrlIn // the line that is being read
	spare *aictrlIn // for the next one, if this one is held
	bulk  bulk
	lines *wire.Reader[aictrlIn]
	made  aictrlMade
	line  time.Time // when the last line was written
	at    time.Time // of what was told last: what was held back is told no earlier

	session string
	program bool // it is the program's stream: children's decisions are told under the top session
	agents  map[string]string
	skills  recent

	turns   int
	open    bool // a step is open
	refused bool // a call of this turn was denied
	ahead   []event.Event
	step    *aictrlIn       // a step_finish that waits for its message
	message *aictrlIn       // a message that came before its step_finish
	last    event.TurnEnded // of the last turn that ended
	lastID  string
	any     bool // one did

	calls  []aictrlOpen
	doubt  []aictrlDecision
	number int

	failure  *aictrlIn // the session_error
	trouble  string    // message of the last error
	troubled bool      // an error came since the model last finished
	ended    bool      // session_complete came
	status   string    // of an invocation_complete
}

// aictrlMade is where what comes in every turn is made.
type aictrlMade struct {
	starts place[event.TurnStarted]
	texts  place[event.Text]
	ends   place[event.TurnEnded]
}

// aictrlOpen is a call that was told and has not ended.
type aictrlOpen struct {
	agent, id, tool, input string
	denied                 bool
}

// aictrlDecision is a permission event that may be a sub-agent's.
type aictrlDecision struct {
	line aictrlIn
	h    event.Header
}

// aictrlEmpty is what an empty catalogue says: it must stand there also where nobody knows the tools.
const aictrlEmpty = "the catalogue is empty"

// aictrlMost bounds what may be open at once in a stream that never closes anything.
const aictrlMost = 1024

func (d *aictrlDecoder) Decode(line []byte, emit func(event.Event)) {
	d.emit = emit
	if d.in == nil {
		if d.in, d.spare = d.spare, nil; d.in == nil {
			d.in = new(aictrlIn)
		}
	}
	l := d.in
	*l = aictrlIn{}
	if err := d.lines.Read(line, l); isSyntax(err) {
		unread(emit, "aictrl", "not JSON")
		return
	}
	d.read(l)
	if l == d.step || l == d.message || l == d.failure {
		d.in = nil // it is held
	}
}

func (d *aictrlDecoder) read(l *aictrlIn) {
	d.program = d.program || len(l.InvocationID) > 0 || l.Part.MessageID != ""
	if d.session == "" && l.Type != "session_start" {
		d.session = l.SessionID
	}
	h := event.Header{Session: d.session, At: moment(l.Timestamp)}
	if h.At.After(d.line) {
		d.line = h.At
	}
	if d.step != nil && l.Type != "message_complete" {
		d.closeStep()
	}
	switch l.Type {
	case "permission_granted", "permission_rejected":
		d.permission(h, l)
	case "tool_use":
		d.toolUse(h, l)
	case "subagent_start":
		h := d.child(h, l.SubagentSessionID, l.ParentSessionID)
		if d.agents == nil || len(d.agents) >= aictrlMost {
			d.agents = map[string]string{}
		}
		d.agents[h.Session] = h.Agent
		d.tell(h, event.AgentStarted{Parent: first(l.ParentSessionID, d.session), Title: l.Title, Depth: strings.Count(h.Agent, "/") + 1})
	case "subagent_complete":
		h := d.child(h, l.SubagentSessionID, l.ParentSessionID)
		d.tell(h, event.AgentEnded{Parent: first(l.ParentSessionID, d.session)})
		delete(d.agents, h.Session)
		d.calls = slices.DeleteFunc(d.calls, func(c aictrlOpen) bool { return c.agent == h.Agent })
		if len(d.agents) == 0 {
			d.settle()
		}
	case "skill_loaded":
		d.tell(h, event.SkillLoaded{Name: l.Name, Location: l.Location})
	case "skill_resource_loaded":
		d.tell(h, event.SkillRead{Name: l.SkillName, File: l.FilePath})
	case "step_start":
		d.turns++
		d.open, d.refused = true, false
		d.told(h, d.made.starts.put(event.TurnStarted{Number: d.turns}, d.bulk))
		d.catchUp()
	default:
		d.catchUp()
		d.other(h, l)
	}
}

// other reads what is told at once, whatever is open.
func (d *aictrlDecoder) other(h event.Header, l *aictrlIn) {
	switch l.Type {
	case "session_start":
		d.start(h, l)
	case "tool_catalog":
		if !d.bulk.inputs() {
			d.told(h, event.Catalog{})
			return
		}
		var b event.Catalog
		var skills []aictrlVersion
		_ = wire.Unmarshal(l.Tools, &b.Tools)
		_ = wire.Unmarshal(l.Skills, &skills)
		if len(b.Tools)+len(skills) == 0 {
			unread(d.emit, "aictrl", aictrlEmpty)
			return
		}
		for _, s := range skills {
			b.Skills = append(b.Skills, event.CatalogSkill(s))
		}
		d.told(h, b)
	case "text":
		h = d.of(h, l.Part.SessionID)
		if l.Part.Synthetic {
			d.told(h, event.Prompt{Text: l.Part.Text.Value, Source: event.SourceSteer})
			return
		}
		d.told(h, d.made.texts.put(event.Text{
			ID: l.Part.ID.Value, Text: l.Part.Text.Value, Start: moment(l.Part.Time.Start), End: moment(l.Part.Time.End),
		}, d.bulk))
	case "reasoning":
		d.told(d.of(h, l.Part.SessionID), event.Thought{
			ID: l.Part.ID.Value, Text: l.Part.Text.Value, Start: moment(l.Part.Time.Start), End: moment(l.Part.Time.End), Signature: l.Part.Metadata.Anthropic.Signature,
		})
	case "step_finish":
		d.stepFinish(h, l)
	case "message_complete":
		d.messageComplete(h, l)
	case "skill_discovered":
		// Each turn tells every skill again, which says nothing new.
		if !d.skills.add(strings.Join([]string{l.Name, l.Description, l.Location}, "\x00")) {
			d.told(h, event.SkillFound{Name: l.Name, Description: l.Description, Location: l.Location})
		}
	case "error":
		d.troubleOf(d.of(h, l.SourceSessionID), aictrlErrorOf(l.Error))
	case "invocation_error":
		d.troubleOf(h, event.Error{Name: l.Type, Code: text(l.Code), Message: l.Message})
	case "tool_catalog_error":
		d.troubleOf(h, event.Error{Name: l.Type, Message: text(l.Error)})
	case "session_error":
		if d.failure != nil {
			unread(d.emit, "aictrl", "a second session_error: %s", clip(l.Message))
			return
		}
		d.failure = l
	case "session_complete":
		d.complete(h, l)
	case "invocation_complete":
		d.status = l.Status
	default:
		unread(d.emit, "aictrl", "no line of type %q is known", clip(l.Type))
	}
}

// told emits an event. Time does not go backwards because something was held back.
func (d *aictrlDecoder) told(h event.Header, b event.Body) {
	if h.At.Before(d.at) && !h.At.IsZero() {
		h.At = d.at
	}
	if !h.At.IsZero() {
		d.at = h.At
	}
	d.emit(event.Event{Header: h, Body: b})
}

// tell emits what calls tell, inside their step.
func (d *aictrlDecoder) tell(h event.Header, b event.Body) {
	if d.open || len(d.ahead) >= aictrlMost {
		d.catchUp()
		d.told(h, b)
		return
	}
	d.ahead = append(d.ahead, event.Event{Header: h, Body: b})
}

// catchUp emits what came before its step_start.
func (d *aictrlDecoder) catchUp() {
	for _, e := range d.ahead {
		d.told(e.Header, e.Body)
	}
	clear(d.ahead)
	d.ahead = d.ahead[:0]
}

func (d *aictrlDecoder) start(h event.Header, l *aictrlIn) {
	d.rest()
	*d = aictrlDecoder{emit: d.emit, in: d.in, spare: d.spare, made: d.made, bulk: d.bulk, lines: d.lines, line: d.line, at: d.at, program: d.program, session: l.SessionID}
	h.Session = l.SessionID
	b := event.RunStarted{Format: event.Format, Model: l.Model, Profile: l.Agent}
	if d.bulk.inputs() {
		var rules []event.Rule
		_ = wire.Unmarshal(l.Permissions, &rules)
		b.Rules = rules
	}
	if i := strings.IndexByte(l.Model, '/'); i > 0 {
		b.Provider, b.Model = l.Model[:i], l.Model[i+1:]
	}
	d.told(h, b)
}

// of returns the header of the agent that has the session.
func (d *aictrlDecoder) of(h event.Header, session string) event.Header {
	if session == "" || session == d.session {
		return h
	}
	return d.child(h, session, "")
}

// child returns the header of a sub-agent, which need not be known.
func (d *aictrlDecoder) child(h event.Header, session, parent string) event.Header {
	session = first(session, "subagent")
	path, ok := d.agents[session]
	if !ok {
		path = aictrlChild(d.agents[parent], session)
	}
	h.Session, h.Agent = session, path
	return h
}

// permission reads a decision. If it names a call that nobody told yet, it tells that too.
func (d *aictrlDecoder) permission(h event.Header, l *aictrlIn) {
	if d.program && len(d.agents) > 0 && l.CallID != "" && (l.SessionID == "" || l.SessionID == d.session) && len(d.doubt) < aictrlMost {
		held := aictrlDecision{*l, h}
		held.line.Input = slices.Clone(l.Input) // the line will be gone
		d.doubt = append(d.doubt, held)
		return
	}
	d.decide(d.of(h, l.SessionID), l)
}

func (d *aictrlDecoder) decide(h event.Header, l *aictrlIn) {
	a := event.GateAnswer{Tool: first(l.Tool, l.Permission), Permission: first(l.Permission, l.Tool), Patterns: l.Patterns}
	given := []byte(l.Input)
	if d.bulk.inputs() {
		a.Input = tidy(l.Input)
		given = a.Input
	}
	rejected := l.Type == "permission_rejected"
	if h.Call = l.CallID; h.Call != "" {
		c := d.call(h, a.Tool, given)
		c.denied = c.denied || rejected
	}
	if rejected {
		a.By = event.ByNobody
		d.tell(h, event.GateDenied(a))
		return
	}
	a.By = event.ByRule
	d.tell(h, event.GateAllowed(a))
}

// call returns the open call that the header names, and tells it if it is new.
func (d *aictrlDecoder) call(h event.Header, tool string, input []byte) *aictrlOpen {
	for i := range d.calls {
		if c := &d.calls[i]; c.agent == h.Agent && c.id == h.Call {
			return c
		}
	}
	if len(d.calls) >= aictrlMost {
		d.calls = d.calls[1:]
	}
	d.calls = append(d.calls, aictrlOpen{agent: h.Agent, id: h.Call, tool: tool, input: string(input)})
	b := event.ToolCalled{Name: tool}
	if d.bulk.inputs() {
		b.Input = input
	}
	d.tell(h, b)
	return &d.calls[len(d.calls)-1]
}

// settle gives decisions that nobody claimed to the top agent.
func (d *aictrlDecoder) settle() {
	doubt := d.doubt
	d.doubt = nil
	for _, p := range doubt {
		d.decide(p.h, &p.line)
	}
}

// claim gives an agent the decisions about its call; of two about the same, two agents have one each.
func (d *aictrlDecoder) claim(h event.Header, tool string) {
	var mine []aictrlDecision
	d.doubt = slices.DeleteFunc(d.doubt, func(p aictrlDecision) bool {
		if p.line.CallID != h.Call || p.line.Tool != tool {
			return false
		}
		for _, m := range mine {
			if m.line.Permission == p.line.Permission && slices.Equal(m.line.Patterns, p.line.Patterns) {
				return false
			}
		}
		mine = append(mine, p)
		return true
	})
	for _, p := range mine {
		at := h
		at.At = p.h.At
		d.decide(at, &p.line)
	}
}

func (d *aictrlDecoder) toolUse(h event.Header, l *aictrlIn) {
	p := &l.Part
	h = d.of(h, p.SessionID)
	var given event.Raw
	if h.Call = p.CallID; d.bulk.inputs() || h.Call == "" {
		given = input(p.State.Input)
	}
	if h.Call == "" {
		h.Call = d.nameless(h, p.Tool, given)
	}
	d.claim(h, p.Tool)
	c := d.call(h, p.Tool, given)
	denied := c.denied
	d.calls = slices.DeleteFunc(d.calls, func(o aictrlOpen) bool { return o.agent == h.Agent && o.id == h.Call })
	end := p.toolEnd(denied, d.bulk)
	d.tell(h, end)
	if h.Top() {
		if _, ok := end.(event.ToolDenied); ok {
			d.refused = true
		}
		d.catchUp()
	}
}

// nameless returns the id of a call that is told without one: that of an open call of the same tool and input, or a number.
func (d *aictrlDecoder) nameless(h event.Header, tool string, input event.Raw) string {
	for _, c := range d.calls {
		if c.agent == h.Agent && c.tool == tool && c.input == string(input) {
			return c.id
		}
	}
	d.number++
	return numbered("call", d.number)
}

func (d *aictrlDecoder) troubleOf(h event.Header, b event.Error) {
	if h.Top() {
		d.trouble, d.troubled = b.Message, true
	}
	d.told(h, b)
}
