package provider

import (
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file writes what the Responses API is sent. Nothing is kept there (store is false), so thoughts go back and forth in
// their encrypted form. What two requests of one conversation share, they share byte for byte, from the first byte on.

// request is the body of a request.
func (m *responsesModel) request(r Request) []byte {
	b := append(m.body(), `,"store":false`...)
	if reasons(m.Model) {
		b = append(b, `,"include":["reasoning.encrypted_content"]`...)
	}
	if r.MaxTokens > 0 {
		b = append(b, `,"max_output_tokens":`...)
		b = strconv.AppendInt(b, int64(r.MaxTokens), 10)
	}
	if effort := thinkingEffort(r.Thinking); effort != "" {
		b = append(b, `,"reasoning":{"effort":`...)
		b = wire.AppendString(b, effort)
		b = append(b, `,"summary":"auto"}`...)
	}
	b = appendFunctions(b, r.Tools, `{"type":"function","strict":false,`, `}`)
	if strings.TrimSpace(r.System) != "" {
		b = append(b, `,"instructions":`...)
		b = wire.AppendString(b, r.System)
	}
	b = append(b, `,"input":[`...)
	w := responsesWriter{buf: b}
	for _, e := range r.History {
		w.put(e)
	}
	return append(w.buf, `]}`...)
}

// reasons says whether a model thinks before it speaks. Those that do not refuse to be asked for their thoughts.
func reasons(model string) bool {
	for _, old := range []string{"gpt-3", "gpt-4", "chatgpt-"} {
		if strings.HasPrefix(model, old) {
			return false
		}
	}
	return true
}

// A responsesWriter writes a history.
type responsesWriter struct {
	buf      []byte
	begun    bool // there is an item
	ids      callIDs
	thoughts []event.Thought // of the answer that is open: they are sent with what follows them, or not at all
}

// put writes an entry of the history.
func (w *responsesWriter) put(e event.Event) {
	switch b := e.Body.(type) {
	case event.Compacted:
		w.thoughts = nil
		w.say("user", "input_text", summary(b))
	case event.Prompt:
		w.thoughts = nil
		w.prompt(b)
	case event.Thought:
		w.thoughts = append(w.thoughts, b)
	case event.Text:
		if strings.TrimSpace(b.Text) != "" {
			w.think()
			w.say("assistant", "output_text", b.Text)
		}
	case event.ToolCalled:
		w.think()
		w.begin("function_call")
		w.string("call_id", w.ids.call(e.Call))
		w.string("name", fit(b.Name))
		w.string("arguments", argumentText(b.Input))
		w.end()
	default:
		w.thoughts = nil
		if end, ok := event.AsToolEnd(b); ok {
			w.result(e.Call, end)
		}
	}
}

// begin begins an item, a part or an image.
func (w *responsesWriter) begin(kind string) {
	if w.begun {
		w.buf = append(w.buf, ',')
	}
	w.begun = true
	w.buf = append(w.buf, `{"type":"`...)
	w.buf = append(w.buf, kind...)
	w.buf = append(w.buf, '"')
}

func (w *responsesWriter) end() {
	w.buf = append(w.buf, '}')
	w.begun = true
}

func (w *responsesWriter) string(name, value string) {
	w.buf = append(w.buf, `,"`...)
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, `":`...)
	w.buf = wire.AppendString(w.buf, value)
}

// list begins a list as the value of a name.
func (w *responsesWriter) list(name string) {
	w.buf = append(w.buf, `,"`...)
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, `":[`...)
	w.begun = false
}

func (w *responsesWriter) endList() { w.buf = append(w.buf, ']') }

// part writes a part of a list that is text.
func (w *responsesWriter) part(kind, text string) {
	w.begin(kind)
	w.string("text", text)
	w.end()
}

func (w *responsesWriter) image(mime, data string) {
	w.begin("input_image")
	w.string("image_url", "data:"+mime+";base64,"+data)
	w.end()
}

func (w *responsesWriter) message(role string) {
	w.begin("message")
	w.string("role", role)
	w.list("content")
}

func (w *responsesWriter) endMessage() {
	w.endList()
	w.end()
}

// say writes a message that is all text.
func (w *responsesWriter) say(role, kind, text string) {
	w.message(role)
	w.part(kind, text)
	w.endMessage()
}

// prompt writes a prompt: its files, then its text.
func (w *responsesWriter) prompt(p event.Prompt) {
	blank := strings.TrimSpace(p.Text) == ""
	if len(p.Attached) == 0 && blank {
		return
	}
	w.message("user")
	for _, a := range p.Attached {
		if a.Data != "" && seen(a.Type) {
			w.part("input_text", "The image "+a.Path+":")
			w.image(a.Type, a.Data)
		} else {
			w.part("input_text", attachment(a))
		}
	}
	if !blank {
		w.part("input_text", p.Text)
	}
	w.endMessage()
}

// think writes the thoughts that wait, if they are this API's own.
func (w *responsesWriter) think() {
	for _, t := range w.thoughts {
		sealed, ok := unseal(responsesSeal, t.Signature)
		id, encrypted, whole := strings.Cut(sealed, ":")
		if !ok || !whole {
			continue
		}
		w.begin("reasoning")
		w.string("id", id)
		w.list("summary")
		if t.Text != "" {
			w.part("summary_text", t.Text)
		}
		w.endList()
		w.string("encrypted_content", encrypted)
		w.end()
	}
	w.thoughts = nil
}

// result writes the end of a call.
func (w *responsesWriter) result(call string, end event.ToolEnd) {
	id := w.ids.end(call)
	if id == "" { // the end of no call
		return
	}
	w.begin("function_call_output")
	w.string("call_id", id)
	if mime, data, ok := picture(end); ok {
		w.list("output")
		w.image(mime, data)
		w.endList()
	} else {
		w.string("output", result(end))
	}
	w.end()
}
