package provider

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file writes what the Chat Completions API is sent. What two requests of one conversation share, they share byte for
// byte, from the first byte on.

// request is the body of a request.
func (m *chatModel) request(r Request) []byte {
	b := append(m.body(), `,"stream_options":{"include_usage":true}`...)
	if r.MaxTokens > 0 {
		if m.own { // its newer models take no other
			b = append(b, `,"max_completion_tokens":`...)
		} else {
			b = append(b, `,"max_tokens":`...)
		}
		b = strconv.AppendInt(b, int64(r.MaxTokens), 10)
	}
	if effort := thinkingEffort(r.Thinking); effort != "" && (m.own || slices.Contains(takeEffort, m.Provider)) {
		b = append(b, `,"reasoning_effort":`...)
		b = wire.AppendString(b, effort)
	}
	b = appendFunctions(b, r.Tools, `{"type":"function","function":{`, `}}`)
	b = append(b, `,"messages":[`...)
	w := chatWriter{buf: b}
	if strings.TrimSpace(r.System) != "" {
		w.say("system", r.System)
	}
	for _, e := range r.History {
		w.put(e)
	}
	w.flush()
	return append(w.buf, `]}`...)
}

// takeEffort are those besides OpenAI that document reasoning_effort for all of their models. Others refuse what they do
// not know.
var takeEffort = []string{"gemini", "openrouter"}

// thinkingEffort is how hard to think, empty if nobody said.
func thinkingEffort(thinking string) string {
	switch thinking {
	case "low", "medium", "high":
		return thinking
	}
	return ""
}

// appendFunctions appends the tools, each between head and tail.
func appendFunctions(b []byte, tools []Tool, head, tail string) []byte {
	for i, t := range tools {
		if i == 0 {
			b = append(b, `,"tools":[`...)
		} else {
			b = append(b, ',')
		}
		b = append(b, head+`"name":`...)
		b = wire.AppendString(b, t.Name)
		if t.Description != "" {
			b = append(b, `,"description":`...)
			b = wire.AppendString(b, t.Description)
		}
		b = append(b, `,"parameters":`...)
		if len(t.Schema) == 0 {
			b = append(b, `{"type":"object","properties":{}}`...)
		} else {
			b = wire.AppendRaw(b, t.Schema)
		}
		b = append(b, tail...)
	}
	if len(tools) > 0 {
		b = append(b, ']')
	}
	return b
}

// A chatWriter writes a history. What the model said and called in one answer is one message; pictures that calls ended
// with follow the last of the answer's ends, in a message of their own, as an end can have only text.
type chatWriter struct {
	buf      []byte
	begun    bool // there is a message
	ids      callIDs
	text     []string // of the answer that is open
	calls    []chatCalled
	pictures []chatPicture
}

type chatCalled struct{ id, name, arguments string }

type chatPicture struct{ caption, mime, data string }

// put writes an entry of the history. Thoughts are not sent back: nobody asks for them here.
func (w *chatWriter) put(e event.Event) {
	switch b := e.Body.(type) {
	case event.Compacted:
		w.flush()
		w.say("user", summary(b))
	case event.Prompt:
		w.flush()
		w.prompt(b)
	case event.Text:
		w.show()
		if strings.TrimSpace(b.Text) != "" {
			w.text = append(w.text, b.Text)
		}
	case event.ToolCalled:
		w.show()
		w.calls = append(w.calls, chatCalled{short(w.ids.call(e.Call)), fit(b.Name), argumentText(b.Input)})
	default:
		if end, ok := event.AsToolEnd(b); ok {
			w.result(e.Call, end)
		}
	}
}

// argumentText is a call's arguments as the model gave them: JSON, or whatever it was.
func argumentText(input event.Raw) string {
	if text, ok := wire.Unquote(input); ok {
		return text
	}
	if len(input) == 0 {
		return "{}"
	}
	return string(input)
}

// short is an id that is not longer than OpenAI takes it.
func short(id string) string {
	const most, kept = 40, 23
	if len(id) <= most {
		return id
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return fmt.Sprintf("%s_%016x", id[:kept], h.Sum64())
}

// message begins a message.
func (w *chatWriter) message(role string) {
	if w.begun {
		w.buf = append(w.buf, ',')
	}
	w.begun = true
	w.buf = append(w.buf, `{"role":"`...)
	w.buf = append(w.buf, role...)
	w.buf = append(w.buf, '"')
}

func (w *chatWriter) string(name, value string) {
	w.buf = append(w.buf, `,"`...)
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, `":`...)
	w.buf = wire.AppendString(w.buf, value)
}

// say writes a message that is all text.
func (w *chatWriter) say(role, text string) {
	w.message(role)
	w.string("content", text)
	w.buf = append(w.buf, '}')
}

// prompt writes a prompt: its files, then its text. Only where there are pictures it becomes a list; not everybody reads one.
func (w *chatWriter) prompt(p event.Prompt) {
	var texts []string
	var pictures []chatPicture
	for _, a := range p.Attached {
		if a.Data != "" && seen(a.Type) {
			pictures = append(pictures, chatPicture{"The image " + a.Path + ":", a.Type, a.Data})
		} else {
			texts = append(texts, attachment(a))
		}
	}
	if strings.TrimSpace(p.Text) != "" {
		texts = append(texts, p.Text)
	}
	text := strings.Join(texts, "\n\n")
	switch {
	case len(pictures) > 0:
		w.gallery(pictures, text)
	case text != "":
		w.say("user", text)
	}
}

// gallery writes a message with pictures, and a text after them if there is one.
func (w *chatWriter) gallery(pictures []chatPicture, text string) {
	w.message("user")
	w.buf = append(w.buf, `,"content":[`...)
	for i, p := range pictures {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = append(w.buf, `{"type":"text"`...)
		w.string("text", p.caption)
		w.buf = append(w.buf, `},{"type":"image_url","image_url":{"url":`...)
		w.buf = wire.AppendString(w.buf, "data:"+p.mime+";base64,"+p.data)
		w.buf = append(w.buf, `}}`...)
	}
	if text != "" {
		w.buf = append(w.buf, `,{"type":"text"`...)
		w.string("text", text)
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, `]}`...)
}

// result writes the end of a call.
func (w *chatWriter) result(call string, end event.ToolEnd) {
	id := w.ids.end(call)
	if id == "" { // the end of no call
		return
	}
	w.answer()
	text := result(end)
	if mime, data, ok := picture(end); ok {
		text = "(an image: it follows)"
		w.pictures = append(w.pictures, chatPicture{"The image that " + end.Name + " gave:", mime, data})
	}
	w.message("tool")
	w.string("tool_call_id", short(id))
	w.string("content", text)
	w.buf = append(w.buf, '}')
}

// answer writes the answer that is open.
func (w *chatWriter) answer() {
	if len(w.text)+len(w.calls) == 0 {
		return
	}
	w.message("assistant")
	if len(w.text) > 0 {
		w.string("content", strings.Join(w.text, "\n\n"))
	} else {
		w.buf = append(w.buf, `,"content":null`...)
	}
	for i, c := range w.calls {
		if i == 0 {
			w.buf = append(w.buf, `,"tool_calls":[`...)
		} else {
			w.buf = append(w.buf, ',')
		}
		w.buf = append(w.buf, `{"type":"function"`...)
		w.string("id", c.id)
		w.buf = append(w.buf, `,"function":{"name":`...)
		w.buf = wire.AppendString(w.buf, c.name)
		w.string("arguments", c.arguments)
		w.buf = append(w.buf, `}}`...)
	}
	if len(w.calls) > 0 {
		w.buf = append(w.buf, ']')
	}
	w.buf = append(w.buf, '}')
	w.text, w.calls = nil, nil
}

// show writes the pictures that wait.
func (w *chatWriter) show() {
	if len(w.pictures) > 0 {
		w.gallery(w.pictures, "")
		w.pictures = nil
	}
}

// flush writes all that waits.
func (w *chatWriter) flush() {
	w.answer()
	w.show()
}
