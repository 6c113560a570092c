package event

import (
	"encoding/base64"

	"github.com/sluice-dev/sluice/internal/wire"
)

// A Foreign is one line of another program's stream, as it was. The events that were read from it follow and carry its seq
// in their header's Of. Make one with [NewForeign]; get the line back with Bytes.
type Foreign struct {
	Dialect string `json:"dialect"`
	Line    string `json:"line,omitempty"`   // without its newline
	Base64  string `json:"base64,omitempty"` // instead of Line, where that is not UTF-8
	Torn    bool   `json:"torn,omitempty"`   // it had no newline: the stream was cut in it
}

// NewForeign keeps a line.
func NewForeign(dialect string, line []byte) Foreign {
	if wire.ValidUTF8(line) {
		return Foreign{Dialect: dialect, Line: string(line)}
	}
	return Foreign{Dialect: dialect, Base64: base64.StdEncoding.EncodeToString(line)}
}

// Bytes returns the line as it was, without its newline.
func (f Foreign) Bytes() []byte {
	if f.Base64 != "" {
		if line, err := base64.StdEncoding.DecodeString(f.Base64); err == nil {
			return line
		}
	}
	return []byte(f.Line)
}

// An Unknown is an event that this version cannot read: of a kind that it does not know, or with a field of a type that it
// does not expect. It travels on as it stands.
type Unknown struct {
	Name Kind
	Raw  Raw // an object
}

func (Foreign) Kind() Kind   { return "foreign" }
func (u Unknown) Kind() Kind { return u.Name }

func (Foreign) body() {}
func (Unknown) body() {}

// Inferred says whether somebody had to infer the event: it was not told, only needed.
func Inferred(b Body) bool {
	switch b := b.(type) {
	case TextDelta, ThoughtDelta, ToolStarted, ToolOutput, Foreign: // which come most
		return false
	case RunStarted:
		return b.Inferred
	case Prompt:
		return b.Inferred
	case TurnStarted:
		return b.Inferred
	case TurnEnded:
		return b.Inferred
	case Text:
		return b.Inferred
	case Thought:
		return b.Inferred
	case ToolCalled:
		return b.Inferred
	case GateAsked:
		return b.Inferred
	case AgentStarted:
		return b.Inferred
	case AgentEnded:
		return b.Inferred
	case LoopStarted:
		return b.Inferred
	case LoopEnded:
		return b.Inferred
	case PhaseStarted:
		return b.Inferred
	case PhaseEnded:
		return b.Inferred
	}
	if e, ok := AsToolEnd(b); ok {
		return e.Inferred
	}
	if a, ok := AsGateAnswer(b); ok {
		return a.Inferred
	}
	if r, ok := AsReplyEnd(b); ok {
		return r.Inferred
	}
	r, _ := AsRunEnd(b)
	return r.Inferred
}
