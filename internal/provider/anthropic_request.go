package provider

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file writes what the Messages API is sent. Its one rule: what two requests of one conversation share, they share byte
// for byte, from the first byte on. Only cache_control moves: it stands on the last tool, on the system prompt, and on
// the last two user messages, so that a request finds what the one before it put into the cache.

const cacheControl = `,"cache_control":{"type":"ephemeral"}`

// request is the body of a request.
func (m *messagesModel) request(r Request) []byte {
	limit, thinking := messageLimits(m.Model, r)
	size := m.size.Load() // of the last one: this one will be a little longer
	b := append(make([]byte, 0, size+size/8+4<<10), '{')
	if m.version != "" { // then the address names the model
		b = append(b, `"anthropic_version":`...)
		b = wire.AppendString(b, m.version)
	} else {
		b = append(b, `"model":`...)
		b = wire.AppendString(b, m.Model)
	}
	if m.version != bedrockVersion {
		b = append(b, `,"stream":true`...)
	}
	b = append(b, `,"max_tokens":`...)
	b = strconv.AppendInt(b, int64(limit), 10)
	b = append(b, thinking...)
	b = appendMessageTools(b, r.Tools)
	if strings.TrimSpace(r.System) != "" {
		b = append(b, `,"system":[{"type":"text","text":`...)
		b = wire.AppendString(b, r.System)
		b = append(b, cacheControl+`}]`...)
	}
	b = append(b, `,"messages":[`...)
	w := messageWriter{buf: b}
	for _, e := range r.History {
		w.put(e)
	}
	if w.role != "user" { // newer models do not go on with an answer that is begun, so a user speaks last
		w.text("user", "Go on.")
	}
	b = append(w.finish(), `]}`...)
	m.size.Store(int64(len(b)))
	return b
}

func appendMessageTools(b []byte, tools []Tool) []byte {
	if len(tools) == 0 {
		return b
	}
	b = append(b, `,"tools":[`...)
	for i, t := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = wire.AppendString(b, t.Name)
		if t.Description != "" {
			b = append(b, `,"description":`...)
			b = wire.AppendString(b, t.Description)
		}
		b = append(b, `,"input_schema":`...)
		if len(t.Schema) == 0 {
			b = append(b, `{"type":"object"}`...)
		} else {
			b = wire.AppendRaw(b, t.Schema)
		}
		if i == len(tools)-1 {
			b = append(b, cacheControl...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// A messageWriter writes a history. Neighbours of one role become one message.
type messageWriter struct {
	buf   []byte
	role  string // of the open message
	users []int  // where the last block of each user message ends, before its brace
	ids   callIDs
}

// put writes an entry of the history.
func (w *messageWriter) put(e event.Event) {
	switch b := e.Body.(type) {
	case event.Compacted:
		w.text("user", summary(b))
	case event.Prompt:
		for _, a := range b.Attached {
			w.attach(a)
		}
		w.text("user", b.Text)
	case event.Text:
		w.text("assistant", b.Text)
	case event.Thought:
		w.thought(b)
	case event.ToolCalled:
		w.begin("assistant", "tool_use")
		w.string("id", w.ids.call(e.Call))
		w.string("name", fit(b.Name))
		w.raw("input", arguments(b.Input))
		w.end()
	default:
		if end, ok := event.AsToolEnd(b); ok {
			w.result(e.Call, b, end)
		}
	}
}

func (w *messageWriter) text(role, text string) {
	if strings.TrimSpace(text) == "" { // the API refuses it
		return
	}
	w.begin(role, "text")
	w.string("text", text)
	w.end()
}

func (w *messageWriter) thought(t event.Thought) {
	if signature, ok := unseal(anthropicSeal, t.Signature); ok {
		w.begin("assistant", "thinking")
		w.string("thinking", t.Text)
		w.string("signature", signature)
		w.end()
	} else if data, ok := unseal(redactedSeal, t.Signature); ok {
		w.begin("assistant", "redacted_thinking")
		w.string("data", data)
		w.end()
	}
}

func (w *messageWriter) attach(a event.Attachment) {
	switch {
	case a.Data != "" && seen(a.Type):
		w.begin("user", "image")
		w.source(a.Type, a.Data)
		w.end()
	case a.Data != "" && a.Type == "application/pdf":
		w.begin("user", "document")
		w.source(a.Type, a.Data)
		w.string("title", a.Path)
		w.end()
	default:
		w.text("user", attachment(a))
	}
}

func (w *messageWriter) result(call string, b event.Body, e event.ToolEnd) {
	id := w.ids.end(call)
	if id == "" { // the end of no call
		return
	}
	_, done := b.(event.ToolDone)
	w.begin("user", "tool_result")
	w.string("tool_use_id", id)
	if mime, data, ok := picture(e); ok && done {
		w.buf = append(w.buf, `,"content":[{"type":"image"`...)
		w.source(mime, data)
		w.buf = append(w.buf, `}]`...)
	} else {
		w.string("content", result(e))
	}
	if !done {
		w.raw("is_error", []byte("true"))
	}
	w.end()
}

func (w *messageWriter) source(mime, data string) {
	w.buf = append(w.buf, `,"source":{"type":"base64"`...)
	w.string("media_type", mime)
	w.string("data", data)
	w.buf = append(w.buf, '}')
}

// begin begins a block.
func (w *messageWriter) begin(role, kind string) {
	switch {
	case w.role == role:
		w.buf = append(w.buf, ',')
	case w.role != "":
		w.buf = append(w.buf, `]},`...)
		w.open(role)
	case role == "assistant": // a user speaks first
		w.text("user", "(the beginning of the conversation is not shown)")
		w.buf = append(w.buf, `]},`...)
		w.open(role)
	default:
		w.open(role)
	}
	w.buf = append(w.buf, `{"type":"`...)
	w.buf = append(w.buf, kind...)
	w.buf = append(w.buf, '"')
}

func (w *messageWriter) open(role string) {
	w.role = role
	w.buf = append(w.buf, `{"role":"`...)
	w.buf = append(w.buf, role...)
	w.buf = append(w.buf, `","content":[`...)
	if role == "user" {
		w.users = append(w.users, 0)
	}
}

// end ends a block.
func (w *messageWriter) end() {
	if w.role == "user" {
		w.users[len(w.users)-1] = len(w.buf)
	}
	w.buf = append(w.buf, '}')
}

func (w *messageWriter) string(name, value string) {
	w.buf = append(w.buf, `,"`...)
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, `":`...)
	w.buf = wire.AppendString(w.buf, value)
}

func (w *messageWriter) raw(name string, value []byte) {
	w.buf = append(w.buf, `,"`...)
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, `":`...)
	w.buf = wire.AppendRaw(w.buf, value)
}

// finish ends the last message and returns everything, with the places marked up to which it is worth to be cached.
func (w *messageWriter) finish() []byte {
	if w.role != "" {
		w.buf = append(w.buf, `]}`...)
	}
	for _, at := range slices.Backward(w.users[max(len(w.users)-2, 0):]) {
		w.buf = slices.Insert(w.buf, at, []byte(cacheControl)...)
	}
	return w.buf
}

// callIDs are the ids of calls as the API takes them: of letters, digits, _ and -, and each used once.
type callIDs struct {
	used map[string]bool
	open map[string][]string // by our id, in the order of the calls: the API's
}

// call is the id of a new call.
func (c *callIDs) call(id string) string {
	if c.used == nil {
		c.used, c.open = map[string]bool{}, map[string][]string{}
	}
	base := fit(id)
	to := base
	for n := 2; c.used[to]; n++ {
		to = base + "_" + strconv.Itoa(n)
	}
	c.used[to] = true
	c.open[id] = append(c.open[id], to)
	return to
}

// end is the id of the first call by that id that has not ended; empty if there is none.
func (c *callIDs) end(id string) string {
	list := c.open[id]
	if len(list) == 0 {
		return ""
	}
	c.open[id] = list[1:]
	return list[0]
}

// fit makes an id or a name fit: what the API does not take becomes _.
func fit(s string) string {
	if s == "" {
		return "_"
	}
	b := []byte(s)
	for i, c := range b {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			b[i] = '_'
		}
	}
	return string(b[:min(len(b), 64)])
}
