package dialect

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file is the client's half of the aionrs dialect: the commands that an agent takes on stdin, one to a line.

// A CommandError says why a line is no command. Its reason is one line, fit to be sent back as a protocol_error.
type CommandError struct{ Reason string }

func (e *CommandError) Error() string { return e.Reason }

// aionrsCommands is what commands look like.
var aionrsCommands = sync.OnceValue(func() *shapes {
	call := must("call_id", isString)
	return &shapes{
		key: "type", strict: true,
		lines: []shape{
			{name: "message", doc: "asks for a reply", fields: []field{
				must("msg_id", isString), must("input", isString), may("files", isArray|isNull).list(field{types: isString}),
			}},
			{name: "stop", doc: "ends the reply that goes on"},
			{name: "tool_approve", doc: "lets a pending call pass", fields: []field{call, may("scope", isString|isNull).in("once", "always")}},
			{name: "tool_deny", doc: "refuses a pending call", fields: []field{call, may("reason", isString|isNull)}},
			{name: "init_history", doc: "gives context from before the first message", fields: []field{must("text", isString)}},
			{name: "set_mode", doc: "changes the approval mode", fields: []field{must("mode", isString).in("default", "auto_edit", "yolo")}},
			// The document does not have these; its real clients send them.
			{name: "ping", doc: "asks whether anybody is there"},
			{name: "set_config", doc: "changes the model, or how it thinks, from the next message on", fields: []field{
				may("model", isString|isNull), may("thinking", isString|isNull).in("enabled", "disabled"), count("thinking_budget").optional().or(isNull),
				may("effort", isString|isNull).in("low", "medium", "high"),
			}},
			{name: "add_mcp_server", doc: "adds a server of tools", fields: []field{
				must("name", isString), must("transport", isString).in("stdio", "sse", "streamable-http", "streamable_http"),
				may("command", isString|isNull), may("args", isArray|isNull).list(field{types: isString}), may("env", isMap|isNull),
				may("url", isString|isNull), may("headers", isMap|isNull),
			}},
		},
	}
})

// CommandSchema returns the JSON Schema (2020-12) of the commands that [DecodeCommand] reads.
func CommandSchema() []byte {
	d := Dialect{Name: "aionrs-commands", Doc: "what a client tells an agent that speaks aionrs", shapes: aionrsCommands}
	return d.Schema()
}

// DecodeCommand reads one line, without its newline. Fields that it does not know are ignored, and content, as later clients
// say, is read as input. The error is a [*CommandError].
func DecodeCommand(line []byte) (event.Command, error) {
	var d wire.Doc
	line = trim(line, false)
	switch err := d.Parse(line); {
	case !utf8.Valid(line):
		return nil, &CommandError{"the command is not valid UTF-8"}
	case err != nil:
		return nil, &CommandError{"the command is not JSON: " + err.Error()}
	case d.Root().Kind() != wire.Object:
		return nil, &CommandError{"the command is not a JSON object"}
	}
	n := d.Root()
	switch n.Get("type").Kind() {
	case wire.String:
	case wire.Absent:
		return nil, &CommandError{"the command has no type"}
	default:
		return nil, &CommandError{"the command's type is not a string"}
	}
	typ := n.Get("type").Text()
	sh := aionrsCommands().find(typ)
	if sh == nil {
		return nil, &CommandError{"Unknown command type: " + oneLine(clip(typ))}
	}
	text := "input"
	fields := sh.fields
	if typ == "message" && n.Get(text).Kind() == wire.Absent && n.Get("content").Kind() != wire.Absent {
		text = "content"
		fields = []field{fields[0], must(text, isString), fields[2]}
	}
	var wrong error
	c := check{notes: commonNotes(), path: []step{{typ, -1}}, emit: func(x Diagnostic) {
		if wrong == nil && !x.Note {
			wrong = &CommandError{x.Message}
		}
	}}
	if c.fields(n, fields, "type"); wrong != nil {
		return nil, wrong
	}
	switch typ {
	case "message":
		m := event.Message{ID: n.Get("msg_id").Text(), Text: n.Get(text).Text()}
		if m.ID == "" {
			return nil, &CommandError{"message.msg_id is empty"}
		}
		for _, f := range n.Get("files").All() {
			m.Files = append(m.Files, f.Text())
		}
		return m, nil
	case "tool_approve":
		return event.Approve{Call: n.Get("call_id").Text(), Scope: first(n.Get("scope").Text(), "once")}, nil
	case "tool_deny":
		return event.Deny{Call: n.Get("call_id").Text(), Reason: n.Get("reason").Text()}, nil
	case "init_history":
		return event.History{Text: n.Get("text").Text()}, nil
	case "set_mode":
		return event.SetMode{Mode: n.Get("mode").Text()}, nil
	case "ping":
		return event.Ping{}, nil
	case "set_config":
		return event.SetConfig{Model: n.Get("model").Text(), Thinking: thinkingLevel(n)}, nil
	case "add_mcp_server":
		return addServer(n)
	}
	return event.Stop{}, nil
}

// thinkingLevel is how much the model shall think, in our words: a budget of tokens is the level that comes nearest.
func thinkingLevel(n wire.Node) string {
	if n.Get("thinking").Is("disabled") {
		return "off"
	}
	if effort := n.Get("effort").Text(); effort != "" || !n.Get("thinking").Is("enabled") {
		return effort
	}
	budget, ok := n.Get("thinking_budget").Int()
	switch {
	case !ok:
		return "medium"
	case budget <= 4096:
		return "low"
	case budget <= 10240:
		return "medium"
	}
	return "high"
}

// addServer reads the command that adds a server.
func addServer(n wire.Node) (event.Command, error) {
	a := event.AddServer{Name: n.Get("name").Text(), Transport: strings.ReplaceAll(n.Get("transport").Text(), "_", "-"), URL: n.Get("url").Text()}
	if program := n.Get("command").Text(); program != "" {
		a.Command = []string{program}
		for _, arg := range n.Get("args").All() {
			a.Command = append(a.Command, arg.Text())
		}
	}
	for field, into := range map[string]*map[string]string{"env": &a.Env, "headers": &a.Headers} {
		for k, v := range n.Get(field).All() {
			if v.Kind() != wire.String {
				return nil, &CommandError{"add_mcp_server." + field + " has values that are no strings"}
			}
			if *into == nil {
				*into = map[string]string{}
			}
			(*into)[k] = v.Text()
		}
	}
	return a, nil
}

// commonNotes says of the rules of all dialects which are notes.
var commonNotes = sync.OnceValue(func() map[string]bool {
	notes := map[string]bool{}
	for _, r := range commonRules {
		notes[r.ID] = r.Note
	}
	return notes
})

// AppendCommand appends a command as one line, with its newline.
func AppendCommand(dst []byte, c event.Command) []byte {
	switch c := c.(type) {
	case event.Message:
		return appendLine(dst, struct {
			Type  string   `json:"type"`
			MsgID string   `json:"msg_id"`
			Input string   `json:"input"`
			Files []string `json:"files,omitempty"`
		}{"message", c.ID, c.Text, c.Files})
	case event.Stop:
		return appendLine(dst, struct {
			Type string `json:"type"`
		}{"stop"})
	case event.Approve:
		return appendLine(dst, struct {
			Type   string `json:"type"`
			CallID string `json:"call_id"`
			Scope  string `json:"scope"`
		}{"tool_approve", c.Call, first(c.Scope, "once")})
	case event.Deny:
		return appendLine(dst, struct {
			Type   string `json:"type"`
			CallID string `json:"call_id"`
			Reason string `json:"reason"`
		}{"tool_deny", c.Call, c.Reason})
	case event.History:
		return appendLine(dst, struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{"init_history", c.Text})
	case event.SetMode:
		return appendLine(dst, struct {
			Type string `json:"type"`
			Mode string `json:"mode"`
		}{"set_mode", c.Mode})
	case event.Ping:
		return appendLine(dst, struct {
			Type string `json:"type"`
		}{"ping"})
	case event.SetConfig:
		l := struct {
			Type     string `json:"type"`
			Model    string `json:"model,omitempty"`
			Thinking string `json:"thinking,omitempty"`
			Effort   string `json:"effort,omitempty"`
		}{"set_config", c.Model, "", c.Thinking}
		if c.Thinking == "off" {
			l.Thinking, l.Effort = "disabled", ""
		}
		return appendLine(dst, l)
	case event.AddServer:
		l := aionrsServer{Type: "add_mcp_server", Name: c.Name, Transport: c.Transport, Env: c.Env, URL: c.URL, Headers: c.Headers}
		if len(c.Command) > 0 {
			l.Command, l.Args = c.Command[0], c.Command[1:]
		}
		return appendLine(dst, l)
	}
	return dst
}

type aionrsServer struct {
	Type      string            `json:"type"`
	Name      string            `json:"name"`
	Transport string            `json:"transport"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
}
