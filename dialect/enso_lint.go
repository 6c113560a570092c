package dialect

import (
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/internal/wire"
)

func ensoShapes() *shapes {
	id, name, parent := must("id", isString), must("name", isString), must("parent_id", isString)
	return &shapes{
		key:    "type",
		strict: true,
		lines: []shape{
			{name: "session_start", doc: "the stream begins", fields: []field{id, must("model", isString), must("cwd", isString), must("resumed", isBool)}},
			{name: "user_message", doc: "the prompt", fields: []field{must("content", isString)}},
			{name: "reasoning_delta", doc: "a piece of reasoning", fields: []field{must("text", isString)}},
			{name: "assistant_delta", doc: "a piece of the visible reply", fields: []field{must("text", isString)}},
			{name: "assistant_done", doc: "the assistant's message is complete; its tool calls follow"},
			{name: "tool_call_start", doc: "a tool call is about to run", fields: []field{id, name, must("args", isMap)}},
			{name: "tool_call_end", doc: "a tool call finished", fields: []field{
				id, name, must("result", isString), must("error", isString).or(isNull), may("denied", isBool),
			}},
			{name: "compacted", doc: "the history was shortened", fields: []field{must("reason", isString), must("summary", isString)}},
			{name: "agent_start", doc: "a sub-agent started", fields: []field{id, parent, count("depth"), must("prompt", isString), may("role", isString)}},
			{name: "agent_end", doc: "a sub-agent ended", fields: []field{id, parent, must("error", isString)}},
			{name: "cancelled", doc: "the turn was cancelled"},
			{name: "error", doc: "the agent loop hit an error that is no tool's", fields: []field{must("message", isString)}},
			{name: "permission_auto_deny", doc: "nobody was there to be asked; the call is denied", fields: []field{must("tool", isString)}},
			{name: "session_end", doc: "the stream ends", fields: []field{must("tool_errors", isBool), may("error", isString)}},
		},
	}
}

var ensoRules = []Rule{
	{"enso/session-start", false, "session_start is the first line, and there is one"},
	{"enso/session-end", false, "session_end is the last line, and there is one"},
	{"enso/call-start", false, "a call that ends has started, and ends once"},
	{"enso/call-open", false, "a call that has started ends, before its agent does and before it starts again"},
	{"enso/call-name", false, "tool_call_start and tool_call_end of a call have the same name"},
	{"enso/message-open", false, "text is followed by assistant_done, unless its turn is cancelled or fails"},
	{"enso/auto-deny", false, "permission_auto_deny stands after the assistant_done of its message and before the denied end of a call of its tool"},
	{"enso/tool-errors", false, "tool_errors is true if a call had an error or was denied, and only then"},
	{"enso/error-told", false, "a run that ends on an error has it in session_end"},
	{"enso/agent-open", false, "each sub-agent starts and ends once"},
	{"enso/agent-parent", false, "parent_id is an open sub-agent, the session or empty, and the same at the end as at the start"},
	{"enso/agent-depth", false, "depth is one more than the parent's"},
	{"enso/summary-line", false, "the summary of a compaction is one line"},
	{"enso/cancelled", false, "a turn is cancelled once"},
	{"enso/after-cancelled", true, "after cancelled comes a prompt or the end"},
	{"enso/prompt-first", true, "user_message stands before what answers it"},
	{"enso/uuid", true, "the session's id is a UUID, or empty"},
	{"enso/cwd", true, "cwd is an absolute path"},
}

// ensoChecker is the order of lines, agent by agent.
type ensoChecker struct {
	begun, ended bool
	session      string
	prompted     bool
	agents       ensoNest
	parents      map[string]string // by path of the agent
	scopes       map[string]*ensoScope
	calls        []ensoOpen
	errors       bool // a call had an error or was denied
	cancelled    bool // since the last word of the model or the user
	answered     bool // the last message is complete and no call came after it
	failed       bool // an error came, and no word after it
	told         bool // session_end has an error
}

// An ensoScope is what one agent has open.
type ensoScope struct {
	said    bool           // text without assistant_done
	refused map[string]int // denials that wait for the end of a call, by tool
}

func (k *ensoChecker) line(c *check, typ string, n wire.Node) {
	if k.ended {
		c.report("enso/session-end", n, "%s after session_end", typ)
		if typ == "error" && k.owner(n) == "" && !k.answered && !k.cancelled && !k.told {
			c.report("enso/error-told", n, "session_end has no error")
			k.told = true
		}
		return
	}
	switch {
	case k.begun && typ == "session_start":
		c.report("enso/session-start", n, "session_start is not the first line")
	case !k.begun && typ != "session_start":
		c.report("enso/session-start", n, "%s before session_start", typ)
	}
	k.begun = true
	path := k.owner(n)
	s := k.scope(path)
	switch typ {
	case "session_start":
		k.sessionStart(c, n)
	case "user_message":
		k.prompted, k.cancelled, k.answered, k.failed = true, false, false, false
		k.denials(c, n, path)
	case "reasoning_delta", "assistant_delta":
		k.word(c, typ, n, path)
		k.denials(c, n, path)
		s.said = s.said || typ == "assistant_delta"
	case "assistant_done":
		k.word(c, typ, n, path)
		k.denials(c, n, path)
		s.said = false
		k.answered = k.answered || path == ""
	case "tool_call_start":
		k.word(c, typ, n, path)
		s.said = false // the document's own example has no assistant_done here
		k.callStart(c, n, path)
	case "tool_call_end":
		k.callEnd(c, n, path)
	case "permission_auto_deny":
		if s.refused == nil {
			s.refused = map[string]int{}
		}
		s.refused[n.Get("tool").Text()]++
	case "compacted":
		if summary := n.Get("summary"); strings.ContainsAny(summary.Text(), "\r\n") {
			c.report("enso/summary-line", summary, "the summary has more than one line")
		}
	case "agent_start":
		k.word(c, typ, n, typ) // not the top agent's
		k.agentStart(c, n)
	case "agent_end":
		k.agentEnd(c, n)
	case "cancelled":
		if k.cancelled {
			c.report("enso/cancelled", n, "the turn was cancelled before")
		}
		k.cancelled = true
		for _, s := range k.scopes {
			s.said = false
		}
	case "error":
		s.said = false
		k.failed = k.failed || path == ""
	case "session_end":
		k.sessionEnd(c, n)
	}
}

// owner returns the path of the agent that the line belongs to.
func (k *ensoChecker) owner(n wire.Node) string {
	id := n.Get("agent_id").Text()
	if a := k.agents.owner(id, id != ""); a != nil {
		return a.path
	}
	return ensoElement(id)
}

// scope returns what an agent has open. Those that never started are not kept.
func (k *ensoChecker) scope(path string) *ensoScope {
	if s := k.scopes[path]; s != nil {
		return s
	}
	s := &ensoScope{}
	if k.scopes == nil {
		k.scopes, k.parents = map[string]*ensoScope{}, map[string]string{}
	}
	if path == "" || slices.ContainsFunc(k.agents, func(a ensoAgent) bool { return a.path == path }) {
		k.scopes[path] = s
	}
	return s
}

// word notes that an agent goes on: what was cancelled, failed or answered before is past.
func (k *ensoChecker) word(c *check, typ string, n wire.Node, path string) {
	if k.cancelled {
		c.report("enso/after-cancelled", n, "%s after cancelled", typ)
		k.cancelled = false
	}
	if path == "" {
		k.answered, k.failed = false, false
		if !k.prompted {
			c.report("enso/prompt-first", n, "%s before any user_message", typ)
			k.prompted = true
		}
	}
}

func (k *ensoChecker) sessionStart(c *check, n wire.Node) {
	id, cwd := n.Get("id"), n.Get("cwd")
	k.session = id.Text()
	if k.session != "" && !ensoUUID(k.session) {
		c.report("enso/uuid", id, "%q is not a UUID", clip(k.session))
	}
	if p := cwd.Text(); !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, `\\`) && !(len(p) > 2 && p[1] == ':') {
		c.report("enso/cwd", cwd, "%q is not an absolute path", clip(p))
	}
}

// ensoUUID says whether s is written as a UUID is.
func ensoUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch hyphen := i == 8 || i == 13 || i == 18 || i == 23; {
		case hyphen && s[i] != '-', !hyphen && !strings.ContainsRune("0123456789abcdefABCDEF", rune(s[i])):
			return false
		}
	}
	return true
}

// open counts the open calls of a tool in an agent.
func (k *ensoChecker) open(path, tool string) (count int) {
	for _, o := range k.calls {
		if o.agent == path && o.name == tool {
			count++
		}
	}
	return count
}

// denials checks that each denial has an open call, where no other call can come.
func (k *ensoChecker) denials(c *check, n wire.Node, path string) {
	s := k.scope(path)
	for tool, count := range s.refused {
		if count > k.open(path, tool) {
			c.report("enso/auto-deny", n, "no call of %s was denied in its place", clip(tool))
			delete(s.refused, tool)
		}
	}
}

func (k *ensoChecker) callStart(c *check, n wire.Node, path string) {
	id := n.Get("id").Text()
	if i := slices.IndexFunc(k.calls, func(o ensoOpen) bool { return o.agent == path && o.id == id }); i >= 0 {
		c.report("enso/call-open", n.Get("id"), "call %q starts again before it ended", clip(id))
		k.calls = slices.Delete(k.calls, i, i+1)
	}
	k.calls = append(k.calls, ensoOpen{path, id, n.Get("name").Text()})
}

func (k *ensoChecker) callEnd(c *check, n wire.Node, path string) {
	id, name := n.Get("id"), n.Get("name").Text()
	i := slices.IndexFunc(k.calls, func(o ensoOpen) bool { return o.agent == path && id.Is(o.id) })
	if i < 0 && n.Get("agent_id").Kind() == wire.Absent {
		i = slices.IndexFunc(k.calls, func(o ensoOpen) bool { return id.Is(o.id) })
	}
	if i < 0 {
		c.report("enso/call-start", n, "the call of %s did not start, or has ended", clip(name))
	} else {
		if o := k.calls[i]; o.name != name && n.Get("name").Kind() == wire.String {
			c.report("enso/call-name", n.Get("name"), "the call is of %s, its end of %s", clip(o.name), clip(name))
		}
		path = k.calls[i].agent
		k.calls = slices.Delete(k.calls, i, i+1)
	}
	if path == "" {
		k.answered = false
	}
	denied, _ := n.Get("denied").Bool()
	k.errors = k.errors || denied || n.Get("error").Kind() == wire.String && !n.Get("error").Is("")
	s := k.scope(path)
	switch waiting := s.refused[name]; {
	case waiting > 0 && denied:
		s.refused[name]--
	case waiting > k.open(path, name):
		c.report("enso/auto-deny", n, "the call of %s was not denied", clip(name))
		delete(s.refused, name)
	}
	if s.refused[name] == 0 {
		delete(s.refused, name)
	}
}

func (k *ensoChecker) agentStart(c *check, n wire.Node) {
	id, parent := n.Get("id").Text(), n.Get("parent_id")
	if k.agents.owner(id, true) != nil {
		c.report("enso/agent-open", n.Get("id"), "sub-agent %q is open already", clip(id))
		return
	}
	a := ensoAgent{id: id, path: ensoElement(id), depth: 1, tagged: n.Get("agent_id").Kind() != wire.Absent}
	known := true
	if p := k.agents.owner(parent.Text(), true); p != nil {
		a.path, a.depth = p.path+"/"+a.path, p.depth+1
	} else if known = parent.Text() == "" || k.session == "" || parent.Is(k.session); !known {
		c.report("enso/agent-parent", parent, "no open sub-agent has the id %q", clip(parent.Text()))
	}
	if d, ok := n.Get("depth").Int(); ok && known && d != a.depth {
		c.report("enso/agent-depth", n.Get("depth"), "depth is %d, its place says %d", d, a.depth)
	}
	k.agents = append(k.agents, a)
	k.scope(a.path)
	k.parents[a.path] = parent.Text()
}

func (k *ensoChecker) agentEnd(c *check, n wire.Node) {
	id := n.Get("id")
	a := k.agents.owner(id.Text(), true)
	if a == nil {
		c.report("enso/agent-open", id, "sub-agent %q did not start, or has ended", clip(id.Text()))
		return
	}
	path := a.path
	if p := n.Get("parent_id"); p.Text() != "" && k.parents[path] != "" && !p.Is(k.parents[path]) {
		c.report("enso/agent-parent", p, "the parent was %q", clip(k.parents[path]))
	}
	k.closing(c, n, path, n.Get("error").Text() != "")
	for _, inner := range k.agents {
		if strings.HasPrefix(inner.path, path+"/") {
			c.report("enso/agent-open", n, "sub-agent %q inside it is open", clip(inner.id))
			delete(k.scopes, inner.path)
			delete(k.parents, inner.path)
		}
	}
	delete(k.scopes, path)
	delete(k.parents, path)
	k.calls = slices.DeleteFunc(k.calls, func(o ensoOpen) bool { return o.agent == path || strings.HasPrefix(o.agent, path+"/") })
	k.agents = k.agents.remove(path)
}

// closing checks that an agent has nothing open at its end. Broken off says that it ended in the middle.
func (k *ensoChecker) closing(c *check, n wire.Node, path string, brokenOff bool) {
	for _, o := range k.calls {
		if o.agent == path {
			c.report("enso/call-open", n, "call %q did not end", clip(o.id))
		}
	}
	if brokenOff {
		return
	}
	k.calls = slices.DeleteFunc(k.calls, func(o ensoOpen) bool { return o.agent == path })
	k.denials(c, n, path)
	if k.scope(path).said {
		c.report("enso/message-open", n, "text came, and no assistant_done after it")
	}
}

func (k *ensoChecker) sessionEnd(c *check, n wire.Node) {
	k.told = n.Get("error").Text() != ""
	k.closing(c, n, "", k.told || k.cancelled)
	for _, a := range k.agents {
		c.report("enso/agent-open", n, "sub-agent %q did not end", clip(a.id))
	}
	if e, ok := n.Get("tool_errors").Bool(); ok && e != k.errors {
		c.report("enso/tool-errors", n.Get("tool_errors"), "tool_errors is %t, the calls say %t", e, k.errors)
	}
	if k.failed && !k.answered && !k.cancelled && !k.told {
		c.report("enso/error-told", n, "an error came last, and session_end has none")
		k.told = true
	}
	k.ended = true
	k.agents, k.calls, k.scopes = nil, nil, nil
}

func (k *ensoChecker) close(c *check) {
	if !k.begun {
		c.stream("enso/session-start", "there is no session_start")
	}
	if !k.ended {
		c.stream("enso/session-end", "there is no session_end")
	}
}
