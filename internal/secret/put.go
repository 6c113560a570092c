package secret

import (
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// A block is what deltas belong to: a text or a thought of an agent, or the output of a call.
type block struct {
	agent string
	kind  event.Kind // of the deltas
	id    string     // of the block, or of the call
}

// said says whether the block is a part of the model's answer. An agent has one such block at a time; calls may run side by
// side.
func (b block) said() bool { return b.kind != "tool.output" }

// within says whether the block is of this agent, or of one below it. The top agent is above all.
func (b block) within(agent string) bool {
	return agent == "" || b.agent == agent || strings.HasPrefix(b.agent, agent+"/")
}

// A held is the end of a block that may be the beginning of a secret.
type held struct {
	block
	text string
	last event.Event // the delta that it came in
}

// Put passes an event on without the secrets in it. Of a delta it may keep an end for the next one of its block, or all of it;
// what it kept comes out before whatever ends the block.
func (r *Redactor) Put(e event.Event, emit func(event.Event)) {
	f := r.finder
	if f == nil {
		emit(e)
		return
	}
	e = e.Stamp()
	e.Session, e.Agent, e.Call = f.whole(e.Session), f.whole(e.Agent), f.whole(e.Call)
	switch b := e.Body.(type) {
	case event.TextDelta:
		id, update := f.whole(b.ID), f.raw(b.Update)
		if id != b.ID || len(update) != len(b.Update) {
			b.ID, b.Update = id, update
			e.Body = b
		}
		r.delta(e, block{e.Agent, e.Kind, id}, b.Text, emit)
	case event.ThoughtDelta:
		id, update := f.whole(b.ID), f.raw(b.Update)
		if id != b.ID || len(update) != len(b.Update) {
			b.ID, b.Update = id, update
			e.Body = b
		}
		r.delta(e, block{e.Agent, e.Kind, id}, b.Text, emit)
	case event.ToolOutput:
		r.delta(e, block{e.Agent, e.Kind, e.Call}, b.Text, emit)
	default:
		if len(r.held) > 0 {
			r.release(ends(e), emit)
		}
		e.Body = f.body(e.Body)
		emit(e.Stamp())
	}
}

// Close passes on whatever is held: the stream was cut.
func (r *Redactor) Close(emit func(event.Event)) {
	r.release(func(block) bool { return true }, emit)
}

// delta passes on as much of a delta as is clear.
func (r *Redactor) delta(e event.Event, of block, text string, emit func(event.Event)) {
	if len(r.held) > 0 && of.said() {
		r.release(func(b block) bool { return b.agent == of.agent && b.said() && b != of }, emit)
	}
	at := slices.IndexFunc(r.held, func(h *held) bool { return h.block == of })
	all := text
	if at >= 0 {
		all = r.held[at].text + text
	}
	out, rest := r.finder.scan(all, false)
	switch {
	case rest == "" && at >= 0:
		r.held = slices.Delete(r.held, at, at+1)
	case at >= 0:
		r.held[at].text, r.held[at].last = rest, e
	case rest != "":
		r.held = append(r.held, &held{of, rest, e})
	}
	if at < 0 && out == text {
		emit(e) // as it was, be it empty
	} else if out != "" {
		emit(saying(e, out))
	}
}

// saying returns a delta with another text.
func saying(e event.Event, text string) event.Event {
	switch b := e.Body.(type) {
	case event.TextDelta:
		b.Text = text
		e.Body = b
	case event.ThoughtDelta:
		b.Text = text
		e.Body = b
	case event.ToolOutput:
		b.Text = text
		e.Body = b
	}
	return e
}

// release passes on what is held of these blocks: nothing more of them comes.
func (r *Redactor) release(over func(block) bool, emit func(event.Event)) {
	kept := r.held[:0]
	for _, h := range r.held {
		if over(h.block) {
			emit(saying(h.last, r.finder.whole(h.text)))
		} else {
			kept = append(kept, h)
		}
	}
	clear(r.held[len(kept):])
	r.held = kept
}

// ends says which blocks an event ends; it is what a [event.Mender] takes for an end.
func ends(e event.Event) func(block) bool {
	answer := func(b block) bool { return b.agent == e.Agent && b.said() }
	output := func(b block) bool { return b.agent == e.Agent && !b.said() && b.id == e.Call }
	all := func(b block) bool { return b.within(e.Agent) }
	switch e.Kind {
	case "text", "thought", "turn.started", "turn.ended", "retry", "phase.retry", "session.started":
		return answer
	case "tool.called":
		return func(b block) bool { return answer(b) || output(b) }
	case "tool.done", "tool.failed", "tool.denied", "tool.cancelled":
		return output
	case "prompt":
		if p, ok := e.Body.(event.Prompt); ok && (p.Source == event.SourceSteer || p.Source == event.SourceHistory) {
			break
		}
		return all
	case "reply.done", "reply.failed", "reply.cancelled", "agent.started", "agent.ended":
		return all
	case "run.started", "run.done", "run.failed", "run.cancelled", "loop.started", "loop.ended", "phase.started", "phase.ended":
		return func(block) bool { return true }
	}
	return func(block) bool { return false }
}
