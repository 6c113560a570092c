package dialect

import (
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// aionrsDecoder remembers what is open, and how the stream may end: it has no line that says so.
type aionrsDecoder struct {
	in      aionrsIn
	bulk    bulk
	lines   *wire.Reader[aionrsIn]
	deltas  place[event.TextDelta]
	session string
	begun   bool // ready, or a message
	open    bool
	msg     string                 // msg_id of the open stream
	failed  *string                // the error that the open or the last stream did not survive
	fatal   *event.RunFailed       // what the last line says, if it ends the run
	cut     bool                   // the last line is the beginning of one
	calls   map[string]*aionrsOpen // of the open stream
	running bool                   // usage counts from the start of the session
	total   event.Usage
}

type aionrsOpen struct {
	name    string
	asked   bool
	request string // id of the question: the call's, or one made of it if it is asked again
	asks    int
}

// aionrsIn is a line as one may come: the specification's form, and what the program really writes.
type aionrsIn struct {
	Type         string `json:"type"`
	Version      string `json:"version"`
	SessionID    string `json:"session_id"`
	Capabilities *struct {
		event.Capabilities
		CurrentMode string `json:"current_mode"`
	} `json:"capabilities"`
	MsgID  string       `json:"msg_id"`
	Text   wire.Passing `json:"text"`
	CallID string       `json:"call_id"`
	Tool   struct {
		Name        string      `json:"name"`
		Category    event.Class `json:"category"`
		Args        wire.Span   `json:"args"`
		Description string      `json:"description"`
	} `json:"tool"`
	ToolName   string     `json:"tool_name"`
	Status     string     `json:"status"`
	Output     wire.Prose `json:"output"`
	OutputType string     `json:"output_type"`
	Metadata   wire.Span  `json:"metadata"`
	Reason     string     `json:"reason"`
	Usage      struct {
		Input      *int64 `json:"input_tokens"`
		Output     *int64 `json:"output_tokens"`
		CacheRead  *int64 `json:"cache_read_tokens"`
		CacheWrite *int64 `json:"cache_write_tokens"`
	} `json:"usage"`
	Error   event.Raw `json:"error"`
	Message string    `json:"message"`
	Name    string    `json:"name"`
	Tools   []string  `json:"tools"`
}

func (a *aionrsDecoder) Decode(line []byte, emit func(event.Event)) {
	a.in = aionrsIn{}
	l := &a.in
	a.cut, a.fatal = false, nil
	if err := a.lines.Read(line, l); isSyntax(err) {
		a.cut = len(line) > 0 && line[0] == '{'
		unread(emit, "aionrs", "not JSON")
		return
	}
	if l.Type == "ready" && l.SessionID != "" {
		a.session = l.SessionID
	}
	h := event.Header{Session: a.session}
	tell := func(b event.Body) { emit(event.Event{Header: h, Body: b}) }
	if !a.open && l.MsgID != "" && aionrsInside(l.Type) { // the line knows which stream it misses
		a.start(l.MsgID)
		tell(event.Prompt{ID: l.MsgID, Inferred: true})
	}
	switch l.Type {
	case "ready":
		a.ready(l, tell)
	case "stream_start":
		a.start(l.MsgID)
		tell(event.Prompt{ID: l.MsgID})
	case "text_delta":
		a.failed = nil
		tell(a.deltas.put(event.TextDelta{Text: l.Text.Value}, a.bulk))
	case "thinking":
		a.failed = nil
		tell(event.ThoughtDelta{Text: l.Text.Value})
	case "tool_request", "tool_running", "tool_result", "tool_cancelled":
		h.Call = l.CallID
		if l.Type != "tool_cancelled" {
			a.failed = nil
		}
		a.tool(l, tell)
	case "stream_end":
		end := event.ReplyEnd{Prompt: l.MsgID, Usage: a.used(l)}
		if a.failed != nil && a.open {
			tell(event.ReplyFailed(end))
		} else {
			a.failed = nil
			tell(event.ReplyDone(end))
		}
		a.begun, a.open, a.calls = true, false, nil
	case "error":
		a.error(l, tell)
	case "info":
		tell(event.Notice{Text: l.Message, Prompt: l.MsgID})
	case "pong": // from here on what later versions say
		unread(emit, "aionrs", "pong")
	case "config_changed":
		mode := "unknown"
		if l.Capabilities != nil {
			mode = first(l.Capabilities.CurrentMode, mode)
		}
		unread(emit, "aionrs", "capabilities changed; the mode is %s", clip(mode))
	case "mcp_ready":
		unread(emit, "aionrs", "MCP server %s is ready, its tools are: %s", clip(l.Name), strings.Join(l.Tools, ", "))
	default:
		unread(emit, "aionrs", "no line of type %q is known", clip(l.Type))
	}
}

// aionrsInside says whether lines of this type belong to a stream.
func aionrsInside(typ string) bool {
	switch typ {
	case "text_delta", "thinking", "tool_request", "tool_running", "tool_result", "tool_cancelled", "stream_end":
		return true
	}
	return false
}

// start opens a stream.
func (a *aionrsDecoder) start(msg string) {
	a.begun, a.open, a.msg, a.failed, a.calls = true, true, msg, nil, nil
}

func (a *aionrsDecoder) ready(l *aionrsIn, tell func(event.Body)) {
	a.begun = true
	// Later versions than the document's count usage from the start of the session; they say their own version here.
	a.running = l.Version != "" && !strings.HasPrefix(l.Version, "0.1.")
	b := event.RunStarted{Format: event.Format, Program: "aionrs", Version: l.Version, Ephemeral: l.SessionID == ""}
	if c := l.Capabilities; c != nil {
		b.Capabilities, b.Mode = &c.Capabilities, c.CurrentMode
	}
	tell(b)
}

// tool reads a line about a call. That the client has answered is told by what follows its question.
func (a *aionrsDecoder) tool(l *aionrsIn, tell func(event.Body)) {
	c := a.calls[l.CallID]
	fresh := c == nil
	if fresh {
		c = &aionrsOpen{name: first(l.Tool.Name, l.ToolName)}
		if a.calls == nil {
			a.calls = map[string]*aionrsOpen{}
		}
		a.calls[l.CallID] = c
	}
	allowed := event.GateAllowed{Request: c.request, Tool: c.name, By: event.ByClient}
	asked := c.asked
	c.asked = false
	switch l.Type {
	case "tool_request":
		var in event.Raw
		if a.bulk.inputs() {
			in = input(l.Tool.Args)
		}
		switch {
		case fresh:
			tell(event.ToolCalled{Name: l.Tool.Name, Class: l.Tool.Category, Input: in, Description: l.Tool.Description})
		case asked:
			tell(allowed)
		}
		c.asked, c.request = true, l.CallID
		if c.asks++; c.asks > 1 {
			c.request = numbered(l.CallID, c.asks)
		}
		tell(event.GateAsked{Request: c.request, Tool: c.name, Input: in})
	case "tool_running":
		switch {
		case fresh:
			tell(event.ToolCalled{Name: c.name, Class: aionrsBuiltin[c.name]})
		case asked:
			tell(allowed)
		}
		tell(event.ToolStarted{Name: c.name})
	case "tool_result":
		delete(a.calls, l.CallID)
		end := event.ToolEnd{Name: c.name, Type: l.OutputType}
		if a.bulk.outputs() {
			end.Output, end.Metadata = l.Output.Text(), tidy(l.Metadata)
		}
		if asked {
			tell(allowed)
		}
		if l.Status == "success" || l.Status == "" {
			tell(event.ToolDone(end))
		} else {
			tell(event.ToolFailed(end))
		}
	case "tool_cancelled":
		delete(a.calls, l.CallID)
		end := event.ToolEnd{Name: c.name, Error: l.Reason}
		if asked {
			tell(event.GateDenied{Request: c.request, Tool: c.name, By: event.ByClient, Reason: l.Reason})
			tell(event.ToolDenied(end))
		} else {
			tell(event.ToolCancelled(end))
		}
	}
}

// error reads an error. One of the open stream, or of no message while one is open, is why its reply fails, unless the model
// goes on; one outside may be why the run does.
func (a *aionrsDecoder) error(l *aionrsIn, tell func(event.Body)) {
	var f struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Retryable *bool  `json:"retryable"`
	}
	wire.Unmarshal(l.Error, &f) // what is not an object has no code
	if f.Message == "" {
		if s, ok := wire.Unquote(l.Error); ok {
			f.Message = s
		}
		f.Message = first(f.Message, l.Message)
	}
	tell(event.Error{Code: f.Code, Message: f.Message, Retryable: f.Retryable, Prompt: l.MsgID})
	switch mine := a.open && l.MsgID == a.msg; {
	case !aionrsFatal(f.Code) || l.MsgID != "" && !mine:
		return
	case a.open:
		a.failed = &f.Message
		return
	}
	end := event.RunFailed{Outcome: event.Failed, Reason: f.Message}
	switch f.Code {
	case "config_error":
		end.Outcome = event.Misuse
	case "internal_error":
		end.Outcome = event.Internal
	case "provider_error":
		end.Class = "provider"
	default:
		if a.begun { // the program's own code for all that goes wrong
			return
		}
	}
	a.fatal = &end
}

// used is what a reply used.
func (a *aionrsDecoder) used(l *aionrsIn) event.Usage {
	u := event.Usage{Input: l.Usage.Input, Output: l.Usage.Output, CacheRead: l.Usage.CacheRead, CacheWrite: l.Usage.CacheWrite}
	if !a.running {
		return u
	}
	before := a.total
	a.total = u
	u = event.Usage{
		Input: since(before.Input, u.Input), Output: since(before.Output, u.Output),
		CacheRead: since(before.CacheRead, u.CacheRead), CacheWrite: since(before.CacheWrite, u.CacheWrite),
	}
	cached := orZero(u.CacheRead) + orZero(u.CacheWrite) // is part of their input
	u.Input = since(&cached, u.Input)
	return u
}

// since is how much a counter has grown; one that has shrunk began anew.
func since(before, now *int64) *int64 {
	if before == nil || now == nil || *now < *before {
		return now
	}
	return new(*now - *before)
}

// Ended is true after a fatal error; after a stream another message may come.
func (a *aionrsDecoder) Ended() bool { return a.fatal != nil }

// Close tells how the run ended. A client may leave whenever no stream is open; a fatal error comes last.
func (a *aionrsDecoder) Close(emit func(event.Event)) {
	h := event.Header{Session: a.session}
	switch {
	case a.cut || a.open:
	case a.fatal != nil:
		emit(event.Event{Header: h, Body: *a.fatal})
	case a.failed != nil:
		emit(event.Event{Header: h, Body: event.RunFailed{Outcome: event.Failed, Reason: *a.failed}})
	case a.begun:
		emit(event.Event{Header: h, Body: event.RunDone{Outcome: event.Done}})
	}
}
