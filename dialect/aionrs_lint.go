package dialect

import (
	"strings"

	"github.com/sluice-dev/sluice/internal/pattern"
	"github.com/sluice-dev/sluice/internal/wire"
)

func aionrsShapes() *shapes {
	msg, call, tool := must("msg_id", isString), must("call_id", isString), must("tool_name", isString)
	text := must("text", isString)
	return &shapes{
		key: "type",
		lines: []shape{
			{name: "ready", doc: "the agent takes messages", fields: []field{
				must("version", isString), may("session_id", isString),
				must("capabilities", isMap).of(must("tool_approval", isBool), must("thinking", isBool), must("mcp", isBool)),
			}},
			{name: "stream_start", doc: "the reply to a message begins", fields: []field{msg}},
			{name: "text_delta", doc: "a piece of text", fields: []field{text, msg}},
			{name: "thinking", doc: "a piece of reasoning", fields: []field{text, msg}},
			{name: "tool_request", doc: "a call waits for the client's approval", fields: []field{
				msg, call, must("tool", isMap).of(
					must("name", isString), must("category", isString).in("info", "edit", "exec", "mcp"), must("args", isMap), must("description", isString),
				),
			}},
			{name: "tool_running", doc: "a call runs", fields: []field{msg, call, tool}},
			{name: "tool_result", doc: "a call is over", fields: []field{
				msg, call, tool, must("status", isString).in("success", "error"), must("output", isString),
				may("output_type", isString).in("text", "diff", "image"), may("metadata", isMap).of(may("file_path", isString)),
			}},
			{name: "tool_cancelled", doc: "a call was denied or cancelled", fields: []field{msg, call, must("reason", isString)}},
			{name: "stream_end", doc: "the reply is over", fields: []field{
				msg, must("usage", isMap).of(count("input_tokens"), count("output_tokens"), count("cache_read_tokens"), count("cache_write_tokens")),
			}},
			{name: "error", doc: "something went wrong", fields: []field{
				msg.or(isNull), must("error", isMap).of(
					must("code", isString).in("provider_error", "tool_error", "config_error", "protocol_error", "internal_error"),
					must("message", isString), must("retryable", isBool),
				),
			}},
			{name: "info", doc: "for a person to read", fields: []field{msg, must("message", isString)}},
		},
	}
}

var aionrsRules = []Rule{
	{"aionrs/ready-first", false, "ready comes first; only errors may come before it, or instead of it"},
	{"aionrs/ready-once", false, "ready comes once"},
	{"aionrs/version", false, "the version is a semantic version"},
	{"aionrs/stream-pair", false, "a stream is opened when none is open, and ended when it is"},
	{"aionrs/stream-open", false, "every stream is ended"},
	{"aionrs/outside-stream", false, "outside a stream there are only ready, info and error"},
	{"aionrs/msg-id", false, "what belongs to a stream has its msg_id"},
	{"aionrs/msg-reused", false, "a msg_id is used for one stream"},
	{"aionrs/call-order", false, "a call is requested before it runs, and runs before it has a result"},
	{"aionrs/call-open", false, "every call ends before its stream does"},
	{"aionrs/call-id", false, "a call's id is used once: nothing follows its end"},
	{"aionrs/tool-name", false, "a call has the same tool_name on all its lines"},
	{"aionrs/category", false, "a built-in tool has the category of the document's table"},
	{"aionrs/diff-path", false, "the result of an edit that is a diff names its file in metadata.file_path"},
	{"aionrs/edit-diff", true, "a successful Edit gives a diff"},
	{"aionrs/description", true, "the description of a request is one line"},
	{"aionrs/capability", true, "what ready does not announce does not come"},
	{"aionrs/system-event", true, "a msg_id is not empty"},
	{"aionrs/other-message", true, "an info or error inside a stream is about its message, or none"},
	{"aionrs/fatal-last", true, "a configuration error that is about no message is the last line"},
}

// semver is the form of a semantic version.
var semver = pattern.Lazy(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// aionrsChecker is the grammar of streams and calls.
type aionrsChecker struct {
	ready, late   bool // ready has come; something came before it
	errors        bool
	fatal         bool // a fatal error has come
	approve, mind bool // ready has announced tool requests, thinking
	open          bool
	msg           string
	calls         map[string]*aionrsSeen // of the open stream
	msgs, ids     recent
}

type aionrsSeen struct {
	name    *string // nil until a line has said it
	running bool
}

func (a *aionrsChecker) line(c *check, typ string, n wire.Node) {
	if a.fatal {
		c.report("aionrs/fatal-last", n, "%s after a fatal error", typ)
		a.fatal = false
	}
	if msg := n.Get("msg_id"); msg.Is("") {
		c.report("aionrs/system-event", msg, "msg_id is empty")
	}
	if typ == "ready" {
		a.begin(c, n)
		return
	}
	if typ == "error" {
		a.errors = true
	} else if !a.ready && !a.late {
		a.late = true
		c.report("aionrs/ready-first", n, "%s before ready", typ)
	}
	switch typ {
	case "error", "info":
		a.aside(c, n)
	case "stream_start":
		if a.open {
			c.report("aionrs/stream-pair", n, "the stream of %q is not ended", clip(a.msg))
		}
		msg := n.Get("msg_id")
		if msg.Kind() == wire.String && a.msgs.add(msg.Text()) {
			c.report("aionrs/msg-reused", msg, "%q was used before", clip(msg.Text()))
		}
		a.open, a.msg, a.calls = true, msg.Text(), map[string]*aionrsSeen{}
	default:
		a.inside(c, typ, n)
	}
}

func (a *aionrsChecker) begin(c *check, n wire.Node) {
	if a.ready {
		c.report("aionrs/ready-once", n, "a second ready")
	}
	a.ready = true
	if v := n.Get("version"); v.Kind() == wire.String && !semver().MatchString(v.Text()) {
		c.report("aionrs/version", v, "%q is not a semantic version", clip(v.Text()))
	}
	a.approve, _ = n.Get("capabilities").Get("tool_approval").Bool()
	a.mind, _ = n.Get("capabilities").Get("thinking").Bool()
}

// aside checks an error or info, which may come anywhere.
func (a *aionrsChecker) aside(c *check, n wire.Node) {
	msg := n.Get("msg_id")
	if a.open && msg.Text() != "" && !msg.Is(a.msg) {
		c.report("aionrs/other-message", msg, "about %q in the stream of %q", clip(msg.Text()), clip(a.msg))
	}
	a.fatal = msg.Text() == "" && n.Get("error").Get("code").Is("config_error")
}

// inside checks what belongs to a stream.
func (a *aionrsChecker) inside(c *check, typ string, n wire.Node) {
	if !a.open {
		if typ == "stream_end" {
			c.report("aionrs/stream-pair", n, "no stream is open")
		} else {
			c.report("aionrs/outside-stream", n, "%s outside a stream", typ)
		}
		return
	}
	if msg := n.Get("msg_id"); msg.Kind() == wire.String && !msg.Is(a.msg) {
		c.report("aionrs/msg-id", msg, "%q in the stream of %q", clip(msg.Text()), clip(a.msg))
	}
	switch typ {
	case "thinking":
		if a.ready && !a.mind {
			c.report("aionrs/capability", n, "thinking was not announced")
		}
	case "stream_end":
		a.pending(c)
		a.open, a.calls = false, nil
	case "tool_request", "tool_running", "tool_result", "tool_cancelled":
		a.tool(c, typ, n)
	}
}

func (a *aionrsChecker) tool(c *check, typ string, n wire.Node) {
	call, name := n.Get("call_id"), n.Get("tool_name")
	if call.Kind() != wire.String {
		return // a missing field
	}
	id := call.Text()
	s := a.calls[id]
	if s == nil {
		s = &aionrsSeen{}
		if a.ids.add(id) {
			c.report("aionrs/call-id", call, "%q was used before, and has ended", clip(id))
			s.running = typ == "tool_result" // that it did not run says the same
		}
		a.calls[id] = s
	}
	if typ == "tool_request" {
		name = n.Get("tool").Get("name")
		a.request(c, n.Get("tool"))
	}
	if name.Kind() == wire.String {
		if s.name != nil && !name.Is(*s.name) {
			c.report("aionrs/tool-name", name, "%q was of %q before", clip(id), clip(*s.name))
		}
		s.name = new(name.Text())
	}
	switch typ {
	case "tool_request", "tool_running":
		if s.running {
			c.report("aionrs/call-order", n, "%s of %q, which is running", typ, clip(id))
		}
		s.running = typ == "tool_running"
	case "tool_result":
		if !s.running {
			c.report("aionrs/call-order", n, "%q has a result and was not running", clip(id))
		}
		a.result(c, n)
		delete(a.calls, id)
	case "tool_cancelled":
		delete(a.calls, id)
	}
}

func (a *aionrsChecker) request(c *check, tool wire.Node) {
	if a.ready && !a.approve {
		c.report("aionrs/capability", tool, "tool_approval was not announced")
	}
	if d := tool.Get("description"); strings.Contains(d.Text(), "\n") {
		c.report("aionrs/description", d, "the description has more than one line")
	}
	category := tool.Get("category")
	want, builtin := aionrsBuiltin[tool.Get("name").Text()]
	if builtin && category.Kind() == wire.String && !category.Is(string(want)) {
		c.report("aionrs/category", category, "%s is %s, not %s", tool.Get("name").Text(), want, clip(category.Text()))
	}
}

func (a *aionrsChecker) result(c *check, n wire.Node) {
	if !n.Get("status").Is("success") {
		return
	}
	diff := n.Get("output_type").Is("diff")
	if diff && n.Get("metadata").Get("file_path").Kind() != wire.String {
		c.report("aionrs/diff-path", n, "metadata.file_path is missing")
	}
	if !diff && n.Get("tool_name").Is("Edit") {
		c.report("aionrs/edit-diff", n, "the output of Edit is not a diff")
	}
}

// pending reports the calls that are open.
func (a *aionrsChecker) pending(c *check) {
	if n := len(a.calls); n > 0 {
		c.stream("aionrs/call-open", "%d of the stream's calls have not ended", n)
	}
}

func (a *aionrsChecker) close(c *check) {
	if a.open {
		a.pending(c)
		c.stream("aionrs/stream-open", "the stream of %q is not ended", clip(a.msg))
	}
	if !a.ready && !a.late && !a.errors {
		c.stream("aionrs/ready-first", "there is no ready")
	}
}
