package dialect

import (
	"math"

	"github.com/sluice-dev/sluice/internal/wire"
)

func aictrlShapes() *shapes {
	number := func(name string) field { return must(name, isNumber) }
	part := func(fields ...field) field { return must("part", isMap).of(fields...) }
	times := must("time", isMap).of(count("start"), count("end"))
	sequence := count("sequenceNum")
	anything := field{name: "input", types: isAny, need: true, signed: true}
	exit := field{name: "exit", types: isNumber, whole: true, signed: true}
	decision := []field{
		may("callID", isString), must("tool", isString), must("permission", isString), must("patterns", isArray).list(field{types: isString}), anything,
	}
	return &shapes{
		key:    "type",
		strict: true,
		time:   "timestamp",
		base:   []field{count("timestamp"), must("sessionID", isString)},
		lines: []shape{
			{name: "session_start", doc: "the session begins", fields: []field{
				must("schemaVersion", isString).in("1"), must("model", isString), must("agent", isString),
				must("permissions", isArray).list(field{types: isMap}.of(
					must("permission", isString), must("pattern", isString), must("action", isString).in("allow", "ask", "deny"))),
			}},
			{name: "tool_catalog", doc: "the tools and skills that the session has", fields: []field{
				must("tools", isArray).list(field{types: isMap}.of(
					must("name", isString), must("source", isString).in("builtin", "mcp"), may("server", isString))),
				must("skills", isArray).list(field{types: isMap}.of(must("name", isString), must("version", isString|isNull))),
			}},
			{name: "session_complete", doc: "the session is over", fields: []field{count("durationMs"), must("error", isString|isNull)}},
			{name: "session_error", doc: "the session was ended by an error", fields: []field{
				must("reason", isString).in("rate_limit", "auth", "timeout", "oom", "provider", "unknown"), may("code", isString), must("message", isString),
			}},
			{name: "message_complete", doc: "an answer of the model is complete", fields: []field{
				must("modelID", isString), must("providerID", isString), must("agent", isString),
				must("cost", isMap).of(number("input"), number("output"), must("cache", isMap).of(number("read"), number("write"))),
				must("tokens", isMap).of(count("input"), count("output"), count("reasoning"), must("cache", isMap).of(count("read"), count("write"))),
				must("context", isMap|isNull).of(count("used"), count("limit"), number("ratio")),
				must("finish", isString).in("tool-calls", "end_turn", "max_tokens"),
			}},
			{name: "text", doc: "a whole block of text", fields: []field{sequence, part(must("type", isString).in("text"), must("text", isString), times)}},
			{name: "reasoning", doc: "a whole block of reasoning", fields: []field{sequence, part(must("type", isString).in("reasoning"), must("text", isString), times)}},
			{name: "tool_use", doc: "a call that has ended, also a sub-agent's", fields: []field{sequence, part(
				must("type", isString).in("tool"), must("tool", isString), must("sessionID", isString),
				must("state", isMap).of(
					must("status", isString).in("completed", "error"), must("input", isMap), may("error", isString),
					may("metadata", isMap).of(exit, may("output", isString))),
			)}},
			{name: "step_start", doc: "a step begins", fields: []field{part(must("type", isString).in("step-start"))}},
			{name: "step_finish", doc: "a step is over", fields: []field{part(must("type", isString).in("step-finish"))}},
			{name: "skill_discovered", doc: "the model knows of a skill", fields: []field{must("name", isString), must("description", isString), must("location", isString)}},
			{name: "skill_loaded", doc: "a skill's text is in the context", fields: []field{must("name", isString), must("location", isString)}},
			{name: "skill_resource_loaded", doc: "a file of a skill was read", fields: []field{must("skillName", isString), must("filePath", isString)}},
			{name: "subagent_start", doc: "a sub-agent begins", fields: []field{
				must("subagentSessionID", isString), must("parentSessionID", isString), must("title", isString),
			}},
			{name: "subagent_complete", doc: "a sub-agent is over", fields: []field{must("subagentSessionID", isString), must("parentSessionID", isString)}},
			{name: "error", doc: "something went wrong", fields: []field{
				must("error", isMap).of(must("name", isString), must("data", isMap).of(must("message", isString))), must("sourceSessionID", isString),
			}},
			{name: "permission_rejected", doc: "a call may not run", fields: decision},
			{name: "permission_granted", doc: "a call may run", fields: decision},
		},
	}
}

var aictrlRules = []Rule{
	{"aictrl/start", false, "session_start is the first line, and there once"},
	{"aictrl/catalog", false, "tool_catalog stands immediately after session_start, and once"},
	{"aictrl/catalog-server", false, "a tool has a server only if its source is mcp"},
	{"aictrl/complete", false, "session_complete is the last line, and there once"},
	{"aictrl/error-last", false, "session_error stands immediately before session_complete, and at most once"},
	{"aictrl/error-text", false, "session_complete.error is filled after a session_error"},
	{"aictrl/error-untold", false, "a session that an error ended before the model answered has a session_error"},
	{"aictrl/session", false, "sessionID is the top session's, but for a decision about a sub-agent"},
	{"aictrl/sequence", false, "sequenceNum rises within a session"},
	{"aictrl/sequence-gap", true, "sequenceNum leaves no number out"},
	{"aictrl/step-pair", false, "step_start and step_finish take turns"},
	{"aictrl/message-once", false, "there is one message_complete for each turn of the model"},
	{"aictrl/message-early", true, "a turn's message_complete comes after its step_finish"},
	{"aictrl/context-used", false, "context.used is tokens.input plus tokens.cache.read plus tokens.cache.write"},
	{"aictrl/context-ratio", false, "context.ratio is context.used divided by context.limit"},
	{"aictrl/tool-error", false, "state.error is there if, and only if, the status is error"},
	{"aictrl/rejected-ran", true, "a call that was rejected does not complete"},
	{"aictrl/permission-session", false, "a decision has the sessionID of the session that made the call"},
	{"aictrl/call-untold", true, "a call that was decided about has a tool_use"},
	{"aictrl/subagent", false, "a sub-agent starts before it is over or works, and has a parent that is there"},
	{"aictrl/subagent-open", true, "every sub-agent is over before the session is"},
	{"aictrl/skill-again", false, "every skill that is known is told again at the start of each turn"},
}

// aictrlChecker is the grammar of a session.
type aictrlChecker struct {
	lines    int
	begun    bool
	session  string
	before   string // the type of the line above
	catalogs int
	errors   int
	over     bool

	trouble  bool // an error came
	answered bool // and a message

	step     bool // one is open
	stepped  bool // there was one
	messages int  // in this turn

	numbers map[string]int64 // sequenceNum by session
	agents  map[string]bool  // that are open
	met     recent           // sub-agents that were
	calls   map[string]aictrlJudged

	skills  map[string]int // when each was told last, in turns
	turns   int
	missing bool // was said for this turn
}

// aictrlJudged is a call that was decided about.
type aictrlJudged struct {
	id          string
	tool, input string
	rejected    bool
	session     string // that asked
	ran         string // session of a call with the same id that ended
}

func (k *aictrlChecker) line(c *check, typ string, n wire.Node) {
	k.lines++
	k.order(c, typ, n)
	k.sessionOf(c, typ, n)
	switch typ {
	case "tool_catalog":
		for _, t := range n.Get("tools").All() {
			if t.Get("server").Kind() != wire.Absent && !t.Get("source").Is("mcp") {
				c.report("aictrl/catalog-server", t.Get("server"), "%s is not an MCP server's", clip(t.Get("name").Text()))
			}
		}
	case "step_start":
		if k.step {
			c.report("aictrl/step-pair", n, "the step before it is not finished")
		}
		k.step, k.stepped, k.messages = true, true, 0
		k.turns++
		k.missing = false
	case "step_finish":
		k.skillsTold(c, n)
		if !k.step {
			c.report("aictrl/step-pair", n, "no step is open")
		}
		k.step = false
	case "message_complete":
		k.message(c, n)
	case "text", "reasoning":
		k.skillsTold(c, n)
		k.sequence(c, n, k.session)
		k.said()
	case "tool_use":
		k.toolUse(c, n)
	case "permission_granted", "permission_rejected":
		if id := n.Get("callID").Text(); id != "" {
			if k.calls == nil || len(k.calls) >= aictrlMost {
				k.calls = map[string]aictrlJudged{}
			}
			k.calls[n.Get("sessionID").Text()+" "+id] = aictrlJudged{id, n.Get("tool").Text(), string(n.Get("input").Raw()), typ == "permission_rejected", n.Get("sessionID").Text(), ""}
		}
	case "skill_discovered":
		if k.skills == nil || len(k.skills) >= aictrlMost {
			k.skills = map[string]int{}
		}
		k.skills[n.Get("name").Text()] = k.turns
		if !k.step { // it is for the turn to come
			k.skills[n.Get("name").Text()] = k.turns + 1
		}
	case "subagent_start", "subagent_complete":
		k.subagent(c, typ, n)
	case "error":
		k.trouble = k.trouble || n.Get("sourceSessionID").Is(k.session)
	case "session_complete":
		text := n.Get("error")
		if k.before == "session_error" && text.Kind() == wire.Null {
			c.report("aictrl/error-text", text, "error is null after a session_error")
		}
		if k.errors == 0 && k.trouble && !k.answered && text.Kind() == wire.String {
			c.report("aictrl/error-untold", text, "there is no session_error")
		}
		k.left(c, n)
	}
	k.before = typ
}

// order checks what stands first and last.
func (k *aictrlChecker) order(c *check, typ string, n wire.Node) {
	if k.over {
		c.report("aictrl/complete", n, "%s after session_complete", typ)
	}
	if k.before == "session_error" && typ != "session_complete" {
		c.report("aictrl/error-last", n, "%s after session_error", typ)
	}
	if k.before == "session_start" && typ != "tool_catalog" {
		c.report("aictrl/catalog", n, "%s after session_start", typ)
	}
	switch typ {
	case "session_start":
		if k.lines > 1 {
			c.report("aictrl/start", n, "session_start is line %d", c.number)
		}
		k.begun = true
	case "tool_catalog":
		if k.catalogs++; k.catalogs > 1 || k.before != "session_start" && k.begun {
			c.report("aictrl/catalog", n, "tool_catalog is not the line after session_start")
		}
	case "session_error":
		if k.errors++; k.errors > 1 {
			c.report("aictrl/error-last", n, "there was a session_error before")
		}
	case "session_complete":
		k.over = true
	}
	if k.lines == 1 && typ != "session_start" {
		c.report("aictrl/start", n, "the first line is %s", typ)
	}
}

// sessionOf checks whose line it is.
func (k *aictrlChecker) sessionOf(c *check, typ string, n wire.Node) {
	id := n.Get("sessionID")
	if id.Kind() != wire.String {
		return
	}
	if k.lines == 1 {
		k.session = id.Text()
	}
	switch {
	case id.Is(k.session):
	case typ == "permission_granted" || typ == "permission_rejected":
		k.known(c, id)
	default:
		c.report("aictrl/session", id, "the session was %s", clip(k.session))
	}
}

// known checks that a session is the top one or a sub-agent's.
func (k *aictrlChecker) known(c *check, id wire.Node) {
	if id.Kind() == wire.String && !id.Is(k.session) && !k.agents[id.Text()] && !k.met.ids[id.Text()] {
		c.report("aictrl/subagent", id, "no sub-agent %s was started", clip(id.Text()))
	}
}

func (k *aictrlChecker) subagent(c *check, typ string, n wire.Node) {
	child := n.Get("subagentSessionID")
	k.known(c, n.Get("parentSessionID"))
	if typ == "subagent_complete" {
		if child.Kind() == wire.String && !k.agents[child.Text()] {
			c.report("aictrl/subagent", child, "no sub-agent %s is open", clip(child.Text()))
		}
		delete(k.agents, child.Text())
		return
	}
	if k.agents[child.Text()] || child.Is(k.session) {
		c.report("aictrl/subagent", child, "%s is open already", clip(child.Text()))
	}
	if k.agents == nil || len(k.agents) >= aictrlMost {
		k.agents = map[string]bool{}
	}
	k.agents[child.Text()] = true
	k.met.add(child.Text())
}

// sequence checks the counter of a session.
func (k *aictrlChecker) sequence(c *check, n wire.Node, session string) {
	num, ok := n.Get("sequenceNum").Int()
	if !ok {
		return
	}
	last, seen := k.numbers[session]
	switch {
	case seen && num <= last:
		c.report("aictrl/sequence", n.Get("sequenceNum"), "%d after %d", num, last)
	case seen && num > last+1:
		c.report("aictrl/sequence-gap", n.Get("sequenceNum"), "%d after %d", num, last)
	}
	if k.numbers == nil || len(k.numbers) >= aictrlMost {
		k.numbers = map[string]int64{}
	}
	k.numbers[session] = num
}

// said notes that the model spoke: where there are no steps, that is how turns are known.
func (k *aictrlChecker) said() {
	if !k.stepped {
		k.messages = 0
	}
}

func (k *aictrlChecker) toolUse(c *check, n wire.Node) {
	part := n.Get("part")
	state := part.Get("state")
	session := k.session
	if id := part.Get("sessionID"); id.Kind() == wire.String {
		k.known(c, id)
		session = id.Text()
	}
	k.sequence(c, n, session)
	if session == k.session {
		k.skillsTold(c, n)
		k.said()
	}
	text, failed := state.Get("error"), state.Get("status").Is("error")
	switch {
	case failed && text.Kind() == wire.Absent:
		c.report("aictrl/tool-error", state, "the status is error, and there is no error")
	case !failed && text.Kind() != wire.Absent:
		c.report("aictrl/tool-error", text, "there is an error, and the status is not")
	}
	k.judged(c, part, session, failed)
}

// judged settles the decision about a call. One that has only the id, and was taken for another session, may be of another
// call that is still to come: the end tells.
func (k *aictrlChecker) judged(c *check, part wire.Node, session string, failed bool) {
	id, state := part.Get("callID").Text(), part.Get("state")
	for key, j := range k.calls {
		if j.id != id && !(id == "" && part.Get("tool").Is(j.tool) && string(state.Get("input").Raw()) == j.input) {
			continue
		}
		if j.session != session && j.session != "" {
			j.ran = session
			k.calls[key] = j
			continue
		}
		if j.rejected && !failed {
			c.report("aictrl/rejected-ran", state, "%s was rejected, and completed", clip(j.id))
		}
		delete(k.calls, key)
		return
	}
}

func (k *aictrlChecker) message(c *check, n wire.Node) {
	k.skillsTold(c, n)
	k.answered = true
	if k.messages++; k.messages > 1 {
		c.report("aictrl/message-once", n, "it is the turn's message_complete number %d", k.messages)
	}
	if k.step {
		c.report("aictrl/message-early", n, "the step is not finished")
	}
	tokens, context := n.Get("tokens"), n.Get("context")
	used, ok := context.Get("used").Float()
	if !ok {
		return
	}
	in, ok1 := tokens.Get("input").Float()
	read, ok2 := tokens.Get("cache").Get("read").Float()
	write, ok3 := tokens.Get("cache").Get("write").Float()
	if ok1 && ok2 && ok3 && used != in+read+write {
		c.report("aictrl/context-used", context.Get("used"), "used is %.0f, the input adds up to %.0f", used, in+read+write)
	}
	limit, ok := context.Get("limit").Float()
	ratio, ok1 := context.Get("ratio").Float()
	if ok && ok1 && (limit <= 0 || math.Abs(ratio-used/limit) > 1e-6*max(1, ratio)) {
		c.report("aictrl/context-ratio", context.Get("ratio"), "ratio is %g, used / limit is %g", ratio, used/limit)
	}
}

// skillsTold checks, when the model first speaks in a turn, that every skill was told for it.
func (k *aictrlChecker) skillsTold(c *check, n wire.Node) {
	if !k.step || k.missing {
		return
	}
	k.missing = true
	for name, turn := range k.skills {
		if turn < k.turns {
			c.report("aictrl/skill-again", n, "skill %s was not told for this turn", clip(name))
			return
		}
	}
}

// left notes what is open when the session is over.
func (k *aictrlChecker) left(c *check, n wire.Node) {
	if len(k.agents) > 0 {
		c.report("aictrl/subagent-open", n, "%d sub-agents are not over", len(k.agents))
	}
	untold := 0
	for _, j := range k.calls {
		if j.ran == "" {
			untold++
			continue
		}
		c.report("aictrl/permission-session", n, "%s is of %s, and was decided about for %s", clip(j.id), clip(j.ran), clip(j.session))
	}
	if untold > 0 {
		c.report("aictrl/call-untold", n, "%d calls were decided about and have no tool_use", untold)
	}
	if k.step {
		c.report("aictrl/step-pair", n, "a step is not finished")
	}
}

func (k *aictrlChecker) close(c *check) {
	if !k.over {
		c.stream("aictrl/complete", "there is no session_complete")
	}
	if k.lines == 0 {
		c.stream("aictrl/start", "there is no session_start")
	}
	if k.before == "session_start" {
		c.stream("aictrl/catalog", "there is no tool_catalog")
	}
}
