package fold

import (
	"slices"

	"github.com/sluice-dev/sluice/event"
)

// A Transcript is the history of one agent, as a model is to be told it. The zero Transcript is the top agent's.
//
// It holds prompts, texts, thoughts, and calls with their ends. What a model's answer holds comes first, then the ends of
// its calls in the order of the calls, whenever they arrived; then the next prompt or answer. Deltas and partial blocks
// are left out: a whole block follows the first, an attempt that was given up made the second; and so is all else that a
// turn said before a retry. A compaction replaces everything before it. A call that has not ended is given a cancelled end,
// marked inferred, since no provider takes a call without one; a real end that comes later takes its place. A prompt that is
// sent again because the reply to it failed is said once: the history still waits for the answer.
type Transcript struct {
	Agent   string // path of the agent; empty for the top one
	Session string // only events of this session, if set

	parts  []part
	turn   bool // a turn is open
	ended  bool // a call of the last part has ended
	again  bool // the reply failed, and is tried again
	called map[string]place
}

// A part is one prompt, or one answer with its calls.
type part struct {
	entries []event.Event
	ends    []event.Body // of the entries that are calls, in their order; nil while open
}

type place struct{ part, end int }

// Wants implements [Fold].
func (t *Transcript) Wants() []event.Body {
	return []event.Body{
		event.Prompt{}, event.Text{}, event.Thought{}, event.ToolCalled{},
		event.ToolDone{}, event.ToolFailed{}, event.ToolDenied{}, event.ToolCancelled{},
		event.Compacted{}, event.AgentStarted{},
	}
}

// Apply implements [Fold].
func (t *Transcript) Apply(e event.Event) {
	if e.Agent != t.Agent || t.Session != "" && e.Session != t.Session {
		return
	}
	switch e.Kind {
	case "turn.started":
		t.turn = true
		t.newPart()
	case "turn.ended":
		t.turn = false
	case "retry":
		t.void()
	case "phase.retry":
		t.again = true
	}
	switch b := e.Body.(type) {
	case event.AgentStarted:
		t.prompt(event.Prompt{Text: b.Prompt})
	case event.Prompt:
		t.prompt(b)
	case event.Text:
		if !b.Partial && b.Text != "" {
			t.say("", b)
		}
	case event.Thought:
		if !b.Partial && (b.Text != "" || b.Signature != "") {
			t.say("", b)
		}
	case event.ToolCalled:
		t.call(e.Call, b)
	case event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		t.end(e.Call, b)
	case event.Compacted:
		if b.Summary != "" { // else nobody knows what took the place of the history
			t.parts, t.called, t.ended = []part{{entries: []event.Event{entry("", b)}}}, nil, false
		}
	}
}

// newPart begins a part, if the last one has anything in it.
func (t *Transcript) newPart() *part {
	if n := len(t.parts); n == 0 || len(t.parts[n-1].entries) > 0 {
		t.parts = append(t.parts, part{})
	}
	t.ended = false
	return &t.parts[len(t.parts)-1]
}

// prompt adds a prompt; one with the id of the prompt just before goes on with its text.
func (t *Transcript) prompt(b event.Prompt) {
	again := t.again && t.waits()
	t.again = false
	if again || b.Text == "" && len(b.Files) == 0 {
		return
	}
	if n := len(t.parts); n > 0 && b.ID != "" {
		entries := t.parts[n-1].entries
		if k := len(entries); k > 0 {
			if last, ok := entries[k-1].Body.(event.Prompt); ok && last.ID == b.ID {
				last.Text += b.Text
				last.Files = slices.Concat(last.Files, b.Files)
				last.Attached = slices.Concat(last.Attached, b.Attached)
				entries[k-1].Body = last
				return
			}
		}
	}
	p := t.newPart()
	p.entries = append(p.entries, entry("", b))
}

// waits says whether the model has not answered what it was told last.
func (t *Transcript) waits() bool {
	for _, p := range slices.Backward(t.parts) {
		if len(p.entries) > 0 {
			return !p.answer() || len(p.ends) > 0
		}
	}
	return false
}

// say adds to the model's answer.
func (t *Transcript) say(call string, b event.Body) *part {
	n := len(t.parts)
	fresh := n == 0 || t.ended && !t.turn // where nobody tells turns, an end of a call ends the answer
	if fresh || !t.parts[n-1].answer() {
		t.newPart()
		n = len(t.parts)
	}
	p := &t.parts[n-1]
	p.entries = append(p.entries, entry(call, b))
	return p
}

// answer says whether the part is the model's, or nobody's yet.
func (p part) answer() bool {
	if len(p.entries) == 0 {
		return true
	}
	switch p.entries[0].Body.(type) {
	case event.Prompt, event.Compacted:
		return false
	}
	return true
}

// void forgets what an attempt said that was given up. Its calls were never told.
func (t *Transcript) void() {
	if n := len(t.parts); t.turn && n > 0 && t.parts[n-1].answer() && len(t.parts[n-1].ends) == 0 {
		t.parts[n-1].entries = nil
	}
}

func (t *Transcript) call(id string, b event.ToolCalled) {
	p := t.say(id, b)
	p.ends = append(p.ends, nil)
	if t.called == nil {
		t.called = map[string]place{}
	}
	t.called[id] = place{len(t.parts) - 1, len(p.ends) - 1}
}

// end ends a call. An end of a call that was never made is left out: no provider takes it.
func (t *Transcript) end(id string, b event.Body) {
	at, ok := t.called[id]
	if !ok {
		return
	}
	delete(t.called, id)
	t.parts[at.part].ends[at.end] = b
	if at.part == len(t.parts)-1 {
		t.ended = true
	}
}

// entry is one step of a transcript: of the header only the call and the kind are kept.
func entry(call string, b event.Body) event.Event {
	return event.Event{Header: event.Header{Call: call}, Body: b}.Stamp()
}

// Events returns the history so far: Compacted, Prompt, Text, Thought, ToolCalled and the ends of calls, with no header but
// their kind and the call that they are about.
func (t *Transcript) Events() []event.Event {
	var list []event.Event
	for _, p := range t.parts {
		list = append(list, p.entries...)
		n := 0
		for _, e := range p.entries {
			b, ok := e.Body.(event.ToolCalled)
			if !ok {
				continue
			}
			end := p.ends[n]
			if n++; end == nil {
				end = event.ToolCancelled{Name: b.Name, Error: "the call did not end", Inferred: true}
			}
			list = append(list, entry(e.Call, end))
		}
	}
	return list
}
