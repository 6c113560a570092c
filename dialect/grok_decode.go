package dialect

import (
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// grokDecoder remembers how the stream may end: it has no line that says so.
type grokDecoder struct {
	in      grokIn
	bulk    bulk
	lines   *wire.Reader[grokIn]
	session string
	at      event.Header
	steps   int
	finish  event.Finish // of the last step, if it is closed
	open    bool         // a step is open
	failure *string      // message of the last error
	calls   int
}

// grokIn is a line as one may come: the specification's form, and what the program really writes.
type grokIn struct {
	Type      string       `json:"type"`
	SessionID string       `json:"sessionID"`
	Timestamp wire.Num     `json:"timestamp"`
	Text      wire.Passing `json:"text"`
	ToolCall  struct {
		ID       string    `json:"id"`
		Name     string    `json:"name"`
		Args     wire.Span `json:"args"`
		Function struct {
			Name      string    `json:"name"`
			Arguments wire.Span `json:"arguments"`
		} `json:"function"`
	} `json:"toolCall"`
	ToolResult struct {
		Success bool       `json:"success"`
		Output  wire.Prose `json:"output"`
		Error   wire.Prose `json:"error"`
	} `json:"toolResult"`
	Timing struct {
		StartedAt  wire.Num `json:"startedAt"`
		FinishedAt wire.Num `json:"finishedAt"`
	} `json:"timing"`
	FinishReason string `json:"finishReason"`
	Usage        *struct {
		InputTokens  *int64   `json:"inputTokens"`
		OutputTokens *int64   `json:"outputTokens"`
		CostUsdTicks wire.Num `json:"costUsdTicks"`
	} `json:"usage"`
	Message string `json:"message"`
}

func (g *grokDecoder) Decode(line []byte, emit func(event.Event)) {
	g.in = grokIn{}
	l := &g.in
	if err := g.lines.Read(line, l); isSyntax(err) {
		unread(emit, "grok", "not JSON")
		return
	}
	if l.SessionID != "" {
		g.session = l.SessionID
	}
	h := event.Header{Session: g.session, At: moment(l.Timestamp)}
	g.at = h
	tell := func(b event.Body) { emit(event.Event{Header: h, Body: b}) }
	switch l.Type {
	case "step_start":
		g.steps++
		g.open, g.failure = true, nil
		tell(event.TurnStarted{Number: g.steps})
	case "text":
		tell(event.Text{Text: l.Text.Value})
	case "tool_use":
		g.toolUse(h, l, emit)
	case "step_finish":
		g.open = false
		end := event.TurnEnded{Number: g.steps}
		end.Finish, end.Said = finish(l.FinishReason)
		g.finish = end.Finish
		if u := l.Usage; u != nil {
			end.Usage = event.Usage{Input: u.InputTokens, Output: u.OutputTokens}
			if u.CostUsdTicks.OK {
				end.Cost.Total = new(u.CostUsdTicks.Value / 1e6)
			}
		}
		tell(end)
	case "error":
		g.failure = new(l.Message)
		tell(event.Error{Message: l.Message})
	default:
		unread(emit, "grok", "no line of type %q is known", clip(l.Type))
	}
}

func (g *grokDecoder) toolUse(h event.Header, l *grokIn, emit func(event.Event)) {
	g.calls++
	c := l.ToolCall
	call := event.ToolCalled{Name: first(c.Function.Name, c.Name)}
	switch {
	case !g.bulk.inputs():
	case c.Function.Name != "":
		call.Input = tidy(wire.Span(parsed(c.Function.Arguments.Text())))
	default:
		call.Input = input(c.Args)
	}
	if h.Call = c.ID; h.Call == "" {
		h.Call = numbered("call", g.calls)
	}
	emit(event.Event{Header: h, Body: call})
	end := event.ToolEnd{
		Name: call.Name, Start: moment(l.Timing.StartedAt), End: moment(l.Timing.FinishedAt),
	}
	if g.bulk.outputs() || g.bulk.inputs() && !l.ToolResult.Success { // an output may be the error
		end.Output = l.ToolResult.Output.Text()
	}
	if l.ToolResult.Success {
		emit(event.Event{Header: h, Body: event.ToolDone(end)})
		return
	}
	if e := l.ToolResult.Error.Text(); e != end.Output {
		end.Error = e
	}
	emit(event.Event{Header: h, Body: event.ToolFailed(end)})
}

// Ended is true after an error, and after a step that is closed and wants no tools; a line with an error may still follow.
func (g *grokDecoder) Ended() bool {
	return g.failure != nil || g.steps > 0 && !g.open && g.finish != event.FinishToolCalls && g.finish != event.FinishError
}

func (g *grokDecoder) Close(emit func(event.Event)) {
	h := event.Header{Session: g.session, At: g.at.At}
	switch {
	case g.failure != nil && !g.open:
		emit(event.Event{Header: h, Body: event.ReplyFailed{Stop: "error"}})
		emit(event.Event{Header: h, Body: event.RunFailed{Outcome: event.Failed, Reason: *g.failure}})
	case g.failure != nil:
		emit(event.Event{Header: h, Body: event.RunFailed{Outcome: event.Failed, Reason: *g.failure}})
	case g.Ended():
		emit(event.Event{Header: h, Body: event.ReplyDone{Stop: stopOf(g.finish)}})
		emit(event.Event{Header: h, Body: event.RunDone{Outcome: event.Done}})
	}
}

// isSyntax says whether a line is not JSON; a field of another type is only left empty.
func isSyntax(err error) bool {
	_, ok := err.(*wire.SyntaxError)
	return ok
}
