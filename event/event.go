// Package event holds the one event that everything in Sluice is made of.
//
//	Body ──Source.Emit──▶ Event ──Append──▶ bytes ──Parse──▶ Line ──Body──▶ Body
//
// An agent, a guest or a decoder says what happened as a [Body]. A [Source], the run's one timeline, puts a [Header] in
// front of it: number, time, session, agent, call. [Append] writes the two as one line of JSON, header first:
//
//	{"seq":17,"at":"2026-08-22T10:11:12.345Z","session":"ses_7f3","call":"c9","kind":"tool.failed","body":{…}}
//
// [Parse] reads the header of such a line and leaves the body alone until [Line.Body] asks for it: who supervises a run
// decides by headers, and the bulk of a journal is bodies that nobody opens. Header keys stand in a fixed order and the
// body last, so that reading a header touches the first hundred bytes; any other order is read too, by a slower path.
//
// A stream has four nested spans: a run (run.*, once) holds replies (one per prompt), a reply holds turns (one answer of the
// model each), a turn holds blocks and calls. turn.ended says that the answer is complete; its calls may follow it. A
// [Mender] makes a stream that was cut, or that never had these spans, whole.
//
// The package is pure: no clock, no file, no goroutine.
package event

import (
	"encoding/json"
	"time"
)

// Format is the version of the line format. It grows only when an old reader would misread a new line; new kinds, fields
// and header keys do not count.
const Format = 1

// A Kind names what happened. Outcome is in the kind: nobody opens a body to learn it.
type Kind string

// A Header is what stands in front of every body. Empty fields are left out of the line.
type Header struct {
	Seq     uint64    // from 1, without gaps, for the life of a journal
	At      time.Time // when; zero where a foreign stream has no time
	Session string    // whose conversation; phases and sub-agents have their own
	Agent   string    // path of the sub-agent ("task-1/task-4"), empty for the top one
	Call    string    // the tool call it belongs to
	Of      uint64    // seq of the foreign line that it was read from
	Kind    Kind      // set from the body by [Append] and [Event.Stamp]
}

// An Event is a fact: a header and a body of the header's kind.
type Event struct {
	Header
	Body Body
}

// Raw is JSON that is carried as it stands: tool arguments, metadata, payloads. Text that is not JSON is carried as a JSON
// string.
type Raw = json.RawMessage

// A Body is what happened: one of the structs listed in [Kinds], or an [Unknown].
type Body interface {
	Kind() Kind
	body() // only this package declares bodies
}

// Stamp returns the event with its header's kind taken from the body.
func (e Event) Stamp() Event {
	if e.Body != nil {
		e.Kind = e.Body.Kind()
	}
	return e
}

// Top says whether the event is of the top agent, not of a sub-agent.
func (h Header) Top() bool { return h.Agent == "" }
