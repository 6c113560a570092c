package dialect

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file has the lines of the aionrs dialect, and its words for things that it has no line for.

type aionrsReady struct {
	Type         string             `json:"type"`
	Version      string             `json:"version"`
	SessionID    string             `json:"session_id,omitempty"`
	Capabilities event.Capabilities `json:"capabilities"`
}

type aionrsText struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	MsgID string `json:"msg_id"`
}

type aionrsTool struct {
	Type       string         `json:"type"`
	MsgID      string         `json:"msg_id"`
	CallID     string         `json:"call_id"`
	Tool       *aionrsRequest `json:"tool,omitempty"`
	ToolName   *string        `json:"tool_name,omitempty"`
	Status     string         `json:"status,omitempty"`
	Output     *string        `json:"output,omitempty"`
	OutputType string         `json:"output_type,omitempty"`
	Metadata   event.Raw      `json:"metadata,omitempty"`
	Reason     string         `json:"reason,omitempty"`
}

type aionrsRequest struct {
	Name        string      `json:"name"`
	Category    event.Class `json:"category"`
	Args        event.Raw   `json:"args"`
	Description string      `json:"description"`
}

type aionrsStream struct {
	Type  string       `json:"type"`
	MsgID string       `json:"msg_id"`
	Usage *aionrsUsage `json:"usage,omitempty"`
}

type aionrsUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
}

type aionrsError struct {
	Type  string      `json:"type"`
	MsgID *string     `json:"msg_id"` // null where it is about no message
	Error aionrsFault `json:"error"`
}

type aionrsFault struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
}

type aionrsInfo struct {
	Type    string `json:"type"`
	MsgID   string `json:"msg_id"`
	Message string `json:"message"`
}

// aionrsGrown are the lines that the document does not have, and later versions do. Each answers a command that the document
// does not have either, so that a client who keeps to it never sees one.
var aionrsGrown = map[string]string{"aionrs.pong": "pong", "aionrs.config_changed": "config_changed", "aionrs.mcp_ready": "mcp_ready"}

// grown tells such a line. Its fields are the event's.
func (a *aionrsEncoder) grown(dst []byte, b event.Custom) []byte {
	typ, ok := aionrsGrown[b.Name]
	if !ok {
		return dst
	}
	dst = wire.AppendString(append(a.greet(dst), `{"type":`...), typ)
	for k, v := range wire.Span(b.Fields).Members() {
		if k.Text() != "type" {
			dst = append(append(append(append(dst, ','), k...), ':'), v...)
		}
	}
	return append(dst, '}', '\n')
}

func aionrsRetry(b event.Retry) string {
	s := "the request failed"
	if why := first(b.Message, b.Class); why != "" {
		s += ": " + why
	}
	s += "; retrying"
	if b.Wait > 0 {
		s += " in " + (time.Duration(b.Wait) * time.Millisecond).String()
	}
	if b.Limit > 0 {
		return fmt.Sprintf("%s (%d/%d)", s, b.Attempt, b.Limit)
	}
	return fmt.Sprintf("%s (%d)", s, b.Attempt)
}

func aionrsCompacted(b event.Compacted) string {
	s := "the history was shortened"
	if b.Before != nil && b.After != nil {
		s += fmt.Sprintf(" from %d to %d tokens", *b.Before, *b.After)
	}
	if b.Reason != "" {
		s += ": " + b.Reason
	}
	return s
}

// aionrsCode is the document's word for an error.
func aionrsCode(code, class, source string) string {
	switch code {
	case "provider_error", "tool_error", "config_error", "protocol_error", "internal_error":
		return code
	}
	for _, word := range []string{class, source} {
		switch word {
		case "auth", "rate_limit", "provider", "connection", "timeout", "overload", "cut", "overflow", "invalid":
			return "provider_error"
		case "config", "usage":
			return "config_error"
		case "tool", "protocol":
			return word + "_error"
		case "mcp":
			return "tool_error" // a server that is not there is no reason for a run to fail
		}
	}
	return "internal_error"
}

// aionrsFatal says whether an error of this code can be why a reply or a run failed: a client's mistake and a tool's are not.
func aionrsFatal(code string) bool { return code != "protocol_error" && code != "tool_error" }

// unused returns id, or one made of it that was not used before.
func unused(r *recent, id string) string {
	name := id
	for n := 2; r.add(name); n++ {
		name = numbered(id, n)
	}
	return name
}

// orZero returns the number, or 0 where the dialect demands one and nobody knows it.
func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return max(*n, 0)
}

// oneLine makes one line of a text.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.Join(strings.Fields(s), " ")
}
