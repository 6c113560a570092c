package provider

import (
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// An answer puts a model's stream together: deltas go out as they come, and each block follows whole when it ends. At most
// one block is open. Every method says whether the reader still listens.
type answer struct {
	yield func(event.Event, error) bool
	gone  bool // the reader does not listen any more
	open  event.Kind
	block strings.Builder
}

const (
	textBlock    event.Kind = "text"
	thoughtBlock event.Kind = "thought"
)

func (a *answer) put(call string, b event.Body) bool {
	if !a.gone {
		a.gone = !a.yield(event.Event{Header: event.Header{Call: call}, Body: b}, nil)
	}
	return !a.gone
}

// text adds to the open text, or opens one.
func (a *answer) text(delta string) bool {
	if delta == "" {
		return !a.gone
	}
	a.begin(textBlock)
	a.block.WriteString(delta)
	return a.put("", event.TextDelta{Text: delta})
}

// thought adds to the open thought, or opens one.
func (a *answer) thought(delta string) bool {
	if delta == "" {
		return !a.gone
	}
	a.begin(thoughtBlock)
	a.block.WriteString(delta)
	return a.put("", event.ThoughtDelta{Text: delta})
}

func (a *answer) begin(kind event.Kind) {
	if a.open != kind {
		a.close("")
		a.open = kind
	}
}

// close ends the open block, a thought with its seal. A seal without a thought is a thought that is not shown.
func (a *answer) close(signature string) bool {
	kind, text := a.open, a.block.String()
	a.open = ""
	a.block = strings.Builder{}
	switch {
	case kind == textBlock:
		a.put("", event.Text{Text: text})
	case kind == thoughtBlock, signature != "":
		a.put("", event.Thought{Text: text, Signature: signature})
	}
	return !a.gone
}

// call ends the open block and tells a call. Arguments that are not a JSON object stay as they are, in a JSON string.
func (a *answer) call(id, name, arguments string) bool {
	a.close("")
	return a.put(id, event.ToolCalled{Name: name, Input: input(arguments)})
}

// end ends the answer.
func (a *answer) end(t event.TurnEnded) {
	a.close("")
	a.put("", t)
}

// fail ends the answer before its end: the open block is told as far as it came.
func (a *answer) fail(err error) {
	kind, text := a.open, a.block.String()
	a.open = ""
	switch kind {
	case textBlock:
		a.put("", event.Text{Text: text, Partial: true})
	case thoughtBlock:
		a.put("", event.Thought{Text: text, Partial: true})
	}
	if !a.gone {
		a.gone = true
		a.yield(event.Event{}, err)
	}
}

// input is a call's arguments as an event carries them. A call without any has an empty object.
func input(arguments string) event.Raw {
	if strings.TrimSpace(arguments) == "" {
		return event.Raw("{}")
	}
	if wire.Valid([]byte(arguments)) {
		return event.Raw(arguments)
	}
	return wire.AppendString(nil, arguments)
}
