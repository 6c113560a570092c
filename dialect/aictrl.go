package dialect

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// aictrl tells a run as whole blocks under an envelope of type, time and session: session_start, tool_catalog, steps with
// their text, reasoning and tool_use, message_complete for each answer of the model, session_complete. Of a sub-agent only
// its calls, decisions and errors are told, and its own sub-agents.
var aictrl = Dialect{
	Name:    "aictrl",
	Doc:     "blocks and results under an envelope of type, timestamp and sessionID, from session_start to session_complete; schema version 1",
	encoder: func(o Options) Encoder { return &aictrlEncoder{opt: o} },
	decoder: func(b bulk) Decoder { return &aictrlDecoder{bulk: b, lines: wire.NewReader[aictrlIn](b.care())} },
	shapes:  sync.OnceValue(aictrlShapes),
	checker: func() checker { return &aictrlChecker{} },
	rules:   aictrlRules,
	losses:  aictrlLosses,
	score:   aictrlScore,
}

func aictrlScore(n wire.Node) int {
	switch n.Get("type").Text() {
	case "session_start":
		if n.Get("permissions").Kind() == wire.Array || n.Get("schemaVersion").Kind() == wire.String {
			return 3
		}
	case "text", "reasoning", "tool_use", "step_start", "step_finish":
		if n.Get("part").Kind() == wire.Object {
			return 3
		}
	case "tool_catalog", "message_complete", "session_complete", "session_error", "subagent_start", "subagent_complete", "permission_granted",
		"permission_rejected", "skill_discovered", "skill_loaded", "skill_resource_loaded":
		return 3
	case "error":
		if n.Get("error").Kind() == wire.Object {
			return 2
		}
	case "invocation_start", "invocation_error", "invocation_complete":
		return 2
	}
	return 0
}

// aictrlEncoder remembers what is open, who has which session, and the counters.
type aictrlEncoder struct {
	opt   Options
	clock clock

	started    bool // session_start is told
	ended      bool // and session_complete
	catalogued bool // and tool_catalog
	run        event.RunStarted
	session    string // the top agent's, on every line but a sub-agent's decisions
	began      int64  // when
	agents     map[string]string
	numbers    map[string]int // the last sequenceNum by session
	untold     int            // thoughts of this run that nobody wants to see
	calls      map[aictrlKey]*aictrlCall
	skills     []aictrlKnown
	turn       turn
	partial    []event.Event // blocks that were cut: a retry voids them
	message    string        // of the last error
	answered   bool          // a message was told: an error before it did not end the run
	failed     bool          // a session_error stands among the lines that are kept
	metadata   wire.JSON     // of the call that is told: room for the next
}

// aictrlKey names a call: ids are an agent's own.
type aictrlKey struct{ agent, call string }

type aictrlCall struct {
	event.ToolCalled
	denied bool
}

// aictrlKnown is a skill that was found, and whether it was told for the turn to come.
type aictrlKnown struct {
	event.SkillFound
	told bool
}

func (a *aictrlEncoder) Encode(dst []byte, e event.Event) []byte {
	switch b := e.Body.(type) {
	case nil, event.Foreign, event.Unknown:
		return dst
	case event.Diag:
		if b.Text == aictrlEmpty && a.opt.told(e.Header) {
			a.catalogued = true // the line was kept
		}
		return dst
	case event.RunStarted:
		if a.started && !a.ended {
			return dst
		}
		return a.start(dst, e, b)
	}
	if a.ended {
		return dst
	}
	if !a.started {
		dst = a.start(dst, e, event.RunStarted{})
	}
	dst = a.common(dst, e)
	if e.Top() {
		dst = a.top(dst, e)
	}
	return dst
}

// common tells what is told of every agent.
func (a *aictrlEncoder) common(dst []byte, e event.Event) []byte {
	switch b := e.Body.(type) {
	case event.ToolCalled:
		a.calls[aictrlKey{e.Agent, e.Call}] = &aictrlCall{ToolCalled: b}
	case event.GateAllowed:
		dst = a.gate(dst, e, "permission_granted", event.GateAnswer(b))
	case event.GateDenied:
		dst = a.gate(dst, e, "permission_rejected", event.GateAnswer(b))
	case event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		dst = a.toolUse(dst, e)
	case event.AgentStarted:
		dst, _ = a.agent(dst, e, b.Title)
	case event.AgentEnded:
		if e.Top() {
			return dst
		}
		dst, child := a.agent(dst, e, "")
		l := aictrlAgent{aictrlHead: a.head("subagent_complete", e), SubagentSessionID: child, ParentSessionID: a.parent(e.Agent)}
		delete(a.agents, e.Agent)
		return a.line(dst, e, l)
	case event.Error:
		if e.Top() {
			dst = a.flush(dst) // what it cut stands before it
		}
		dst, source := a.agent(dst, e, "")
		a.message = b.Message
		l := aictrlError{aictrlHead: a.head("error", e), SourceSessionID: source}
		l.Error.Name, l.Error.Data = first(b.Name, "Unknown"), aictrlData(b)
		return a.line(dst, e, l)
	}
	return dst
}

// top tells what is told of the top agent alone.
func (a *aictrlEncoder) top(dst []byte, e event.Event) []byte {
	switch b := e.Body.(type) {
	case event.Catalog:
		dst = a.catalog(dst, e, b)
	case event.TurnStarted:
		dst = a.finish(a.flush(dst), e, false)
		dst = a.skillsAgain(dst, e)
		a.turn.start()
		dst = a.line(dst, e, aictrlBlock{aictrlHead: a.head("step_start", e), Part: aictrlPart{Type: "step-start"}})
	case event.Text:
		if b.Partial {
			a.partial = append(a.partial, e)
			return dst
		}
		dst = a.block(a.flush(dst), e, "text", b.Text, b.Start, b.End)
	case event.Thought:
		if b.Partial {
			a.partial = append(a.partial, e)
			return dst
		}
		dst = a.thought(a.flush(dst), e, b)
	case event.Retry:
		a.partial = nil // they belong to the attempt that was given up
	case event.ToolCalled:
		dst = a.flush(dst)
		a.turn.called()
	case event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		a.turn.done()
		if a.turn.ready() {
			dst = a.finish(dst, e, false)
		}
	case event.TurnEnded:
		dst = a.flush(dst)
		a.turn.end(e)
		if a.turn.ready() {
			dst = a.finish(dst, e, false)
		}
	case event.SkillFound:
		dst = a.skill(dst, e, b)
	case event.SkillLoaded:
		dst = a.line(dst, e, aictrlSkill{aictrlHead: a.head("skill_loaded", e), Name: b.Name, Location: b.Location})
	case event.SkillRead:
		dst = a.line(dst, e, aictrlResource{aictrlHead: a.head("skill_resource_loaded", e), SkillName: b.Name, FilePath: b.File})
	case event.ReplyDone:
		dst = a.finish(a.flush(dst), e, false)
	case event.ReplyFailed, event.ReplyCancelled:
		a.failed = a.opt.told(e.Header) // only a session_error says so before the run is over
		dst = a.finish(a.flush(dst), e, true)
	case event.RunDone, event.RunFailed, event.RunCancelled:
		dst = a.end(dst, e)
	}
	return dst
}

// start tells session_start. On resume counters go on; nothing else does. The run before may have told thoughts, with numbers that
// are not to be used again.
func (a *aictrlEncoder) start(dst []byte, e event.Event, b event.RunStarted) []byte {
	if a.untold > 0 {
		a.numbers[a.session] += a.untold
	}
	*a = aictrlEncoder{
		opt: a.opt, clock: a.clock, numbers: a.numbers, started: true, run: b, session: e.Session,
		agents: map[string]string{}, calls: map[aictrlKey]*aictrlCall{},
	}
	if a.numbers == nil {
		a.numbers = map[string]int{}
	}
	l := aictrlStart{
		aictrlHead: a.head("session_start", e), SchemaVersion: "1", Model: aictrlModel(b.Provider, b.Model), Agent: first(b.Profile, "default"),
		Permissions: []event.Rule{},
	}
	for _, r := range b.Rules {
		l.Permissions = append(l.Permissions, aictrlRule(r))
	}
	a.began = l.Timestamp
	return appendLine(dst, l)
}

func aictrlModel(provider, model string) string {
	if provider == "" {
		return model
	}
	return provider + "/" + model
}

// aictrlRule gives a rule one of the three actions; what does not allow, asks.
func aictrlRule(r event.Rule) event.Rule {
	if r.Action != "allow" && r.Action != "deny" {
		r.Action = "ask"
	}
	return r
}

func (a *aictrlEncoder) head(typ string, e event.Event) aictrlHead {
	return aictrlHead{typ, a.clock.millis(e.Header), a.session}
}

// line appends a line made of e. The catalogue stands before all others, also if nobody told it.
func (a *aictrlEncoder) line(dst []byte, e event.Event, l any) []byte {
	if !a.catalogued {
		l := aictrlHead{"tool_catalog", a.began, a.session}
		dst = appendLine(dst, aictrlCatalog{l, []event.CatalogTool{}, []aictrlVersion{}})
		a.catalogued = true
	}
	if a.opt.told(e.Header) {
		return dst
	}
	return appendLine(dst, l)
}

func (a *aictrlEncoder) catalog(dst []byte, e event.Event, b event.Catalog) []byte {
	if a.catalogued {
		return dst
	}
	a.catalogued = true
	l := aictrlCatalog{aictrlHead: a.head("tool_catalog", e), Tools: []event.CatalogTool{}, Skills: []aictrlVersion{}}
	for _, t := range b.Tools {
		l.Tools = append(l.Tools, aictrlTool(t))
	}
	for _, s := range b.Skills {
		l.Skills = append(l.Skills, aictrlVersion(s))
	}
	return a.line(dst, e, l)
}

// aictrlTool makes a tool one of the two kinds that the dialect has.
func aictrlTool(t event.CatalogTool) event.CatalogTool {
	if t.Source == "mcp" || t.Source == "" && t.Server != "" {
		return event.CatalogTool{Name: t.Name, Source: "mcp", Server: t.Server}
	}
	return event.CatalogTool{Name: t.Name, Source: "builtin"}
}

// skill tells a skill that was found, and remembers it: each turn tells all of them.
func (a *aictrlEncoder) skill(dst []byte, e event.Event, b event.SkillFound) []byte {
	i := slices.IndexFunc(a.skills, func(k aictrlKnown) bool { return k.Name == b.Name })
	if i < 0 {
		i = len(a.skills)
		a.skills = append(a.skills, aictrlKnown{})
	}
	a.skills[i] = aictrlKnown{b, !a.turn.open} // inside a turn it is told for that one
	l := aictrlSkill{aictrlHead: a.head("skill_discovered", e), Name: b.Name, Description: &b.Description, Location: b.Location}
	return a.line(dst, e, l)
}

func (a *aictrlEncoder) skillsAgain(dst []byte, e event.Event) []byte {
	for i := range a.skills {
		if !a.skills[i].told {
			dst = a.skill(dst, e, a.skills[i].SkillFound)
		}
		a.skills[i].told = false
	}
	return dst
}

// flush tells the blocks that were cut and that no retry voided.
func (a *aictrlEncoder) flush(dst []byte) []byte {
	for _, e := range a.partial {
		switch b := e.Body.(type) {
		case event.Text:
			dst = a.block(dst, e, "text", b.Text, b.Start, b.End)
		case event.Thought:
			dst = a.thought(dst, e, b)
		}
	}
	a.partial = nil
	return dst
}

func (a *aictrlEncoder) thought(dst []byte, e event.Event, b event.Thought) []byte {
	if a.opt.NoThoughts {
		a.untold++
		return dst
	}
	return a.block(dst, e, "reasoning", b.Text, b.Start, b.End)
}

func (a *aictrlEncoder) block(dst []byte, e event.Event, typ, text string, start, end time.Time) []byte {
	l := aictrlBlock{aictrlHead: a.head(typ, e), SequenceNum: a.number(a.session)}
	l.Part = aictrlPart{Type: typ, Text: &text, Time: &aictrlTime{aictrlMillis(start), aictrlMillis(end)}}
	if l.Part.Time.Start == nil {
		l.Part.Time.Start = &l.Timestamp
	}
	if l.Part.Time.End == nil {
		l.Part.Time.End = &l.Timestamp
	}
	return a.line(dst, e, l)
}

// number is the next sequenceNum of a session.
func (a *aictrlEncoder) number(session string) int {
	a.numbers[session]++
	return a.numbers[session]
}

func aictrlMillis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(max(0, t.UnixMilli()))
}

// agent returns the session of the agent that e is of. A sub-agent that nobody announced is announced.
func (a *aictrlEncoder) agent(dst []byte, e event.Event, title string) ([]byte, string) {
	if e.Top() {
		return dst, a.session
	}
	if s, ok := a.agents[e.Agent]; ok {
		return dst, s
	}
	_, name := aictrlPath(e.Agent)
	child := e.Session
	for i := 1; child == "" || a.taken(child); i++ {
		child = name
		if i > 1 {
			child = numbered(name, i)
		}
	}
	a.agents[e.Agent] = child
	l := aictrlAgent{aictrlHead: a.head("subagent_start", e), SubagentSessionID: child, ParentSessionID: a.parent(e.Agent), Title: &title}
	return a.line(dst, e, l), child
}

// taken says whether somebody else has the session: in some dialects sub-agents share the top agent's.
func (a *aictrlEncoder) taken(session string) bool {
	if session == a.session {
		return true
	}
	for _, s := range a.agents {
		if s == session {
			return true
		}
	}
	return false
}

func (a *aictrlEncoder) parent(path string) string {
	parent, _ := aictrlPath(path)
	if s, ok := a.agents[parent]; ok {
		return s
	}
	return a.session
}

// A sub-agent's path is made of the session ids of those above it and its own.

func aictrlPath(path string) (parent, session string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], strings.ReplaceAll(path[i+1:], "%2F", "/")
}

func aictrlChild(parent, session string) string {
	name := strings.ReplaceAll(session, "/", "%2F")
	if parent == "" {
		return name
	}
	return parent + "/" + name
}
