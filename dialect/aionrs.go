package dialect

import (
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// aionrs tells a conversation with a client: ready, then for each message a stream of pieces and tool calls between
// stream_start and stream_end. The client's half is in aionrs_command.go.
var aionrs = Dialect{
	Name:    "aionrs",
	Doc:     "a conversation: ready, then a stream for each message, with pieces of text, tool requests, runs and results; lines have no times",
	encoder: func(o Options) Encoder { return &aionrsEncoder{starting: o.Starting} },
	decoder: func(b bulk) Decoder { return &aionrsDecoder{bulk: b, lines: wire.NewReader[aionrsIn](b.care())} },
	shapes:  sync.OnceValue(aionrsShapes),
	checker: func() checker { return &aionrsChecker{} },
	rules:   aionrsRules,
	losses:  aionrsLosses,
	score:   aionrsScore,
}

func aionrsScore(n wire.Node) int {
	switch n.Get("type").Text() {
	case "ready":
		if n.Get("capabilities").Kind() == wire.Object {
			return 4
		}
	case "stream_start", "stream_end", "text_delta", "thinking", "tool_request", "tool_running", "tool_result", "tool_cancelled", "info":
		if n.Get("msg_id").Kind() == wire.String {
			return 3
		}
	case "error":
		if e := n.Get("error"); e.Get("code").Kind() == wire.String && e.Get("retryable").Kind() == wire.Bool {
			return 3
		}
	}
	return 0
}

// aionrsVersion is the version of the protocol that we speak.
const aionrsVersion = "0.1.0"

// aionrsBuiltin is the documented category of each built-in tool.
var aionrsBuiltin = map[string]event.Class{
	"Read": event.ClassInfo, "Glob": event.ClassInfo, "Grep": event.ClassInfo,
	"Write": event.ClassEdit, "Edit": event.ClassEdit,
	"Bash": event.ClassExec, "Spawn": event.ClassExec,
}

// aionrsEncoder remembers the stream and the calls that are open.
type aionrsEncoder struct {
	session   string
	ephemeral bool
	can       event.Capabilities
	greeted   bool   // ready was told
	starting  bool   // ready waits for a status
	early     []byte // infos that wait for it

	open    bool
	msg     string // msg_id of the open stream
	prompt  string // id of the prompt that opened it
	implied bool   // that was inferred
	fresh   bool   // nothing has come since that prompt
	streams int    // of this run
	usage   event.Usage
	fault   bool // an error was told, and nothing has come since that shows it was survived

	text, thought int // bytes told of the block that goes on
	calls         []*aionrsCall
	msgs, ids     recent // that were used
}

func (a *aionrsEncoder) Encode(dst []byte, e event.Event) []byte {
	fresh := a.fresh
	switch e.Body.(type) {
	case nil, event.Foreign, event.Unknown, event.Diag:
		return dst
	}
	a.fresh = false
	if e.Top() && e.Session != "" && !a.greeted {
		a.session = e.Session
	}
	switch b := e.Body.(type) {
	case event.Prompt:
		if e.Top() {
			dst = a.prompted(dst, b, fresh)
		}
	case event.TextDelta, event.Text, event.ThoughtDelta, event.Thought:
		if e.Top() {
			dst = a.said(dst, b)
		}
	case event.ToolCalled:
		a.call(e, b)
	case event.GateAsked:
		dst = a.asked(dst, e, b)
	case event.ToolStarted:
		dst = a.running(dst, a.find(e, b.Name))
	case event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		dst = a.ended(dst, e)
	case event.TurnEnded:
		a.usage = a.usage.Add(b.Usage)
	case event.Error:
		dst = a.failure(dst, a.about(e, b.Prompt), aionrsFault{aionrsCode(b.Code, b.Class, b.Source), b.Message, b.Retryable != nil && *b.Retryable})
	case event.Notice:
		dst = a.info(dst, a.about(e, b.Prompt), b.Text)
	case event.Retry:
		dst = a.info(dst, nil, aionrsRetry(b))
	case event.Compacted:
		dst = a.info(dst, nil, aionrsCompacted(b))
	case event.Custom:
		dst = a.grown(dst, b)
	default:
		if e.Top() {
			dst = a.span(dst, e)
		}
	}
	return dst
}

// span tells what opens and closes the run and its replies.
func (a *aionrsEncoder) span(dst []byte, e event.Event) []byte {
	switch b := e.Body.(type) {
	case event.RunStarted:
		if a.greeted {
			return dst
		}
		a.session, a.ephemeral = e.Session, b.Ephemeral
		if b.Capabilities != nil {
			a.can = *b.Capabilities
		}
		if !b.Inferred && !a.starting { // else an error may be all there is, and stands alone
			dst = a.greet(dst)
		}
	case event.Status:
		if a.starting {
			dst = a.greet(dst)
		}
	case event.ReplyFailed:
		if a.open && !a.fault {
			why := "the reply failed"
			if b.Stop != "" {
				why += ": " + b.Stop
			}
			dst = a.failure(dst, &a.msg, aionrsFault{"internal_error", why, false})
		}
		dst = a.close(dst, b.Usage)
	case event.ReplyDone:
		dst = a.close(dst, b.Usage)
	case event.ReplyCancelled:
		dst = a.close(dst, b.Usage)
	case event.RunDone, event.RunFailed, event.RunCancelled:
		dst = a.close(dst, event.Usage{})
		switch c := b.(type) {
		case event.RunFailed:
			dst = a.fatal(dst, c)
		case event.RunCancelled:
			if a.starting && !a.greeted { // it never took a message
				dst = a.failure(dst, nil, aionrsFault{"internal_error", first(c.Reason, "cancelled"), false})
				break
			}
			dst = a.greet(dst)
		default:
			dst = a.greet(dst)
		}
		next := aionrsEncoder{starting: a.starting, msgs: a.msgs, ids: a.ids} // a run that goes on with the session greets again
		if a.starting {
			next.msgs = recent{} // it is another process, whose client may count anew
		}
		*a = next
	}
	return dst
}

// greet tells ready, if nobody has.
func (a *aionrsEncoder) greet(dst []byte) []byte {
	if a.greeted {
		return dst
	}
	a.greeted = true
	l := aionrsReady{Type: "ready", Version: aionrsVersion, SessionID: a.session, Capabilities: a.can}
	if a.ephemeral {
		l.SessionID = ""
	}
	dst = append(appendLine(dst, l), a.early...)
	a.early = nil
	return dst
}

// prompted opens a stream, unless the prompt goes on with the one before, belongs to the reply that goes on, or only gives
// context.
func (a *aionrsEncoder) prompted(dst []byte, b event.Prompt, fresh bool) []byte {
	switch {
	case b.Source == "history":
		return dst
	case a.open && b.Source == event.SourceSteer:
		return dst
	case a.open && fresh && (b.ID == a.prompt || a.implied):
		a.prompt, a.implied, a.fresh = b.ID, b.Inferred, true
		return dst
	}
	dst = a.close(dst, event.Usage{})
	dst = a.start(dst, b.ID)
	a.implied, a.fresh = b.Inferred, true
	return dst
}

// start opens a stream, if none is open.
func (a *aionrsEncoder) start(dst []byte, prompt string) []byte {
	if a.open {
		return dst
	}
	dst = a.greet(dst)
	a.streams++
	a.open, a.prompt, a.implied, a.fault, a.usage = true, prompt, false, false, event.Usage{}
	a.msg = unused(&a.msgs, first(prompt, numbered("m", a.streams)))
	return appendLine(dst, aionrsStream{Type: "stream_start", MsgID: a.msg})
}

// close ends the open stream. A client takes a call that is left pending for busy, so none is.
func (a *aionrsEncoder) close(dst []byte, used event.Usage) []byte {
	if !a.open {
		return dst
	}
	for _, c := range a.calls {
		if c.asked || c.running {
			dst = a.tool(dst, c, aionrsTool{Type: "tool_cancelled", Reason: "cancelled"})
		}
	}
	if used == (event.Usage{}) {
		used = a.usage
	}
	a.open, a.calls, a.text, a.thought = false, nil, 0, 0
	out, _ := used.OutputAll()
	return appendLine(dst, aionrsStream{Type: "stream_end", MsgID: a.msg, Usage: &aionrsUsage{
		Input: orZero(used.Input), Output: max(out, 0), CacheRead: orZero(used.CacheRead), CacheWrite: orZero(used.CacheWrite),
	}})
}

// said tells a piece, or of a block what its pieces have not.
func (a *aionrsEncoder) said(dst []byte, b event.Body) []byte {
	typ, text, told, whole := "text_delta", "", &a.text, false
	switch b := b.(type) {
	case event.TextDelta:
		text = b.Text
	case event.Text:
		text, whole = b.Text, true
	case event.ThoughtDelta:
		typ, text, told = "thinking", b.Text, &a.thought
	case event.Thought:
		typ, text, told, whole = "thinking", b.Text, &a.thought, true
	}
	if whole {
		text, *told = text[min(*told, len(text)):], 0
		if text == "" {
			return dst
		}
	} else {
		*told += len(text)
	}
	dst = a.start(dst, "")
	a.fault = false
	return appendLine(dst, aionrsText{Type: typ, Text: text, MsgID: a.msg})
}

// about returns the msg_id of what belongs to a prompt. What a sub-agent says belongs to the open stream.
func (a *aionrsEncoder) about(e event.Event, prompt string) *string {
	switch {
	case a.open && (prompt == a.prompt && prompt != "" || !e.Top()):
		return &a.msg
	case prompt != "":
		return &prompt
	}
	return nil
}

// failure tells an error.
func (a *aionrsEncoder) failure(dst []byte, msg *string, f aionrsFault) []byte {
	a.fault = a.fault || aionrsFatal(f.Code) && (msg == nil || !a.open || *msg == a.msg)
	return appendLine(dst, aionrsError{Type: "error", MsgID: msg, Error: f})
}

// fatal tells why a run failed, if no line has: nothing else would say that it did.
func (a *aionrsEncoder) fatal(dst []byte, b event.RunFailed) []byte {
	code := aionrsCode("", b.Class, "")
	switch b.Outcome {
	case event.Misuse:
		code = "config_error"
	case event.Unavailable:
		code = "provider_error"
		if a.streams > 0 {
			return dst
		}
	case event.Internal, event.Failed:
	default:
		if a.streams > 0 {
			return dst
		}
	}
	if a.fault {
		return dst
	}
	why := first(b.Reason, b.Detail, string(b.Outcome), "the run failed")
	return a.failure(dst, nil, aionrsFault{code, why, b.Outcome == event.Unavailable})
}

// info tells a message for a person; without a prompt of its own it belongs to the open stream, or to none.
func (a *aionrsEncoder) info(dst []byte, msg *string, text string) []byte {
	l := aionrsInfo{Type: "info", Message: text}
	if msg != nil {
		l.MsgID = *msg
	} else if a.open {
		l.MsgID = a.msg
	}
	if a.starting && !a.greeted {
		a.early = appendLine(a.early, l)
		return dst
	}
	return appendLine(a.greet(dst), l)
}
