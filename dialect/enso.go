package dialect

import (
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// enso tells a run as it goes, between session_start and session_end: text in pieces, assistant_done after each answer of the
// model, then the calls of that answer.
var enso = Dialect{
	Name:    "enso",
	Doc:     "flat events between session_start and session_end: deltas, assistant_done, tool_call_start and _end, agent_start and _end",
	encoder: func(o Options) Encoder { return &ensoEncoder{opt: o} },
	decoder: func(b bulk) Decoder { return &ensoDecoder{bulk: b, lines: wire.NewReader[ensoIn](b.care())} },
	shapes:  sync.OnceValue(ensoShapes),
	checker: func() checker { return &ensoChecker{} },
	rules:   ensoRules,
	losses:  ensoLosses,
	score:   ensoScore,
}

func ensoScore(n wire.Node) int {
	if n.Get("timestamp").Kind() != wire.Absent || n.Get("sessionID").Kind() != wire.Absent {
		return 0 // aictrl and grok share words with this dialect, but stamp their lines
	}
	switch n.Get("type").Text() {
	case "session_start":
		if n.Get("resumed").Kind() == wire.Bool {
			return 3
		}
	case "user_message", "reasoning_delta", "assistant_delta", "assistant_done", "tool_call_start", "tool_call_end",
		"agent_start", "agent_end", "permission_auto_deny", "session_end":
		return 3
	case "compacted", "cancelled":
		return 1
	case "error":
		if n.Get("message").Kind() == wire.String {
			return 1
		}
	}
	return 0
}

// ensoEncoder remembers what is open in each agent, and what session_end must say.
type ensoEncoder struct {
	opt       Options
	running   bool
	session   string // as session_start told it
	strands   map[string]*ensoStrand
	errors    bool   // a call failed, was denied or cancelled
	cancelled bool   // since the last word of the model or the user
	answered  bool   // the model's last answer is complete and no call came after it
	failure   string // message of an error that no answer followed
}

// An ensoStrand is what is open in one agent.
type ensoStrand struct {
	id, parent string
	depth      int
	text       int  // bytes of the open block of text that deltas told
	thought    int  // likewise
	turn       bool // a turn is open
	closed     bool // and its assistant_done is told
	said       bool // something was said since the last assistant_done
	broken     bool // and an error came after it
	whole      bool // and the last of it is a block of text that is complete
	cut        bool // the last block was cut by the end of the stream
	calls      []*ensoCall
}

type ensoCall struct {
	id, name string
	input    event.Raw
	started  bool // tool_call_start is told
	refused  bool // permission_auto_deny is told
}

func (n *ensoEncoder) Encode(dst []byte, e event.Event) []byte {
	if b, ok := e.Body.(event.RunStarted); ok {
		return n.start(dst, e, b)
	}
	if !n.running {
		return dst
	}
	s := n.strand(e.Agent)
	switch b := e.Body.(type) {
	case event.Prompt:
		if e.Top() && b.Text != "" && b.Source != event.SourceHistory {
			if s.whole = false; b.Source != event.SourceSteer {
				dst = n.finish(dst, s)
				s.said = false
			}
			n.cancelled, n.answered, n.failure = false, false, ""
			dst = appendLine(dst, ensoUserMessage{"user_message", b.Text})
		}
	case event.TurnStarted:
		dst = n.done(dst, s)
		s.turn, s.closed = true, false
	case event.TextDelta:
		dst = n.next(dst, s)
		s.text += len(b.Text)
		dst = n.delta(dst, s, "assistant_delta", b.Text)
	case event.Text:
		if s.text == 0 && b.Text != "" {
			dst = n.next(dst, s)
		}
		dst = n.rest(dst, s, "assistant_delta", b.Text, s.text)
		s.text, s.whole, s.cut = 0, s.said, b.Partial && b.Inferred
	case event.ThoughtDelta:
		s.thought += len(b.Text)
		dst = n.delta(dst, s, "reasoning_delta", b.Text)
	case event.Thought:
		dst = n.rest(dst, s, "reasoning_delta", b.Text, s.thought)
		s.thought, s.cut = 0, b.Partial && b.Inferred
	case event.Retry:
		if s.text+s.thought == 0 { // no block is open: what was said belongs to the attempt that was given up
			dst = n.done(dst, s)
		}
	case event.TurnEnded:
		dst = n.turnEnded(dst, s, b)
	case event.ToolCalled:
		s.calls = append(s.calls, &ensoCall{id: e.Call, name: b.Name, input: b.Input})
	case event.GateDenied:
		if c := s.call(e.Call); c != nil && b.By == event.ByNobody && !b.Inferred && !c.refused {
			dst = n.refuse(dst, s, c, e)
		}
	case event.ToolStarted:
		if c := s.call(e.Call); c != nil {
			dst = n.callStart(dst, s, c)
		}
	case event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		dst = n.callEnd(dst, s, e)
	case event.AgentStarted:
		dst = n.agentStarted(dst, s, e, b)
	case event.AgentEnded:
		dst = n.agentEnded(dst, s, e, b)
	case event.Compacted:
		dst = appendLine(dst, ensoCompacted{"compacted", b.Reason, ensoSummary(b.Summary), b.Before, b.After, s.id})
	case event.Error:
		s.broken = s.said
		if e.Top() {
			n.failure = first(b.Message, "error")
		}
		dst = appendLine(dst, ensoError{"error", b.Message, s.id})
	case event.ReplyDone:
		dst = n.finish(dst, n.strand(""))
	case event.ReplyCancelled:
		dst = n.cancel(dst)
	case event.RunDone, event.RunFailed, event.RunCancelled:
		dst = n.end(dst, b)
	}
	return dst
}

func (n *ensoEncoder) start(dst []byte, e event.Event, b event.RunStarted) []byte {
	*n = ensoEncoder{opt: n.opt, running: true, session: e.Session, strands: map[string]*ensoStrand{}}
	if b.Ephemeral {
		n.session = ""
	}
	return appendLine(dst, ensoSessionStart{"session_start", n.session, b.Model, b.Cwd, b.Resumed})
}

// strand returns the strand of an agent.
func (n *ensoEncoder) strand(path string) *ensoStrand {
	s := n.strands[path]
	if s == nil {
		s = &ensoStrand{}
		n.strands[path] = s
	}
	return s
}

func (s *ensoStrand) call(id string) *ensoCall {
	for _, c := range s.calls {
		if c.id == id {
			return c
		}
	}
	return nil
}

// spoke notes that an agent goes on: what was cancelled, failed or answered before is past.
func (n *ensoEncoder) spoke(s *ensoStrand) {
	n.cancelled = false
	if s == n.strands[""] {
		n.answered, n.failure = false, ""
	}
}

func (n *ensoEncoder) delta(dst []byte, s *ensoStrand, typ, text string) []byte {
	s.said, s.broken, s.whole = true, false, false
	n.spoke(s)
	return appendLine(dst, ensoDelta{typ, text, s.id})
}

// next closes a block of text that another one follows: they are not one message.
func (n *ensoEncoder) next(dst []byte, s *ensoStrand) []byte {
	if !s.whole {
		return dst
	}
	return n.done(dst, s)
}

// rest tells what no delta told of a block.
func (n *ensoEncoder) rest(dst []byte, s *ensoStrand, typ, text string, told int) []byte {
	if told >= len(text) {
		return dst
	}
	return n.delta(dst, s, typ, text[told:])
}

// done closes what was said, if anything was.
func (n *ensoEncoder) done(dst []byte, s *ensoStrand) []byte {
	if !s.said {
		return dst
	}
	return n.assistantDone(dst, s)
}

// finish closes what was said at the end of a span. What an error cut has no end.
func (n *ensoEncoder) finish(dst []byte, s *ensoStrand) []byte {
	if s.broken {
		return dst
	}
	return n.done(dst, s)
}

// answer closes the open turn's message, before its calls.
func (n *ensoEncoder) answer(dst []byte, s *ensoStrand) []byte {
	if !s.said && (!s.turn || s.closed) {
		return dst
	}
	return n.assistantDone(dst, s)
}

func (n *ensoEncoder) assistantDone(dst []byte, s *ensoStrand) []byte {
	s.said, s.broken, s.whole, s.closed = false, false, false, true
	n.spoke(s)
	n.answered = n.answered || s == n.strands[""]
	return appendLine(dst, ensoWord{"assistant_done", s.id})
}

// turnEnded tells the end of an answer, unless its calls did already. An answer that the end of the stream cut has none; how
// the reply ends decides. Neither has one that never came.
func (n *ensoEncoder) turnEnded(dst []byte, s *ensoStrand, b event.TurnEnded) []byte {
	cut := b.Inferred && s.cut || b.Finish == event.FinishError && s.broken
	absent := s.closed || b.Inferred || b.Finish == event.FinishError
	if s.said && !cut || !s.said && !absent {
		dst = n.assistantDone(dst, s)
	}
	s.turn, s.closed, s.cut, s.text, s.thought = false, false, false, 0, 0
	return dst
}

// refuse tells that nobody was there to be asked, and which call it was about.
func (n *ensoEncoder) refuse(dst []byte, s *ensoStrand, c *ensoCall, e event.Event) []byte {
	c.refused = true
	if n.opt.told(e.Header) {
		return dst // the call's own lines are kept too, if there are any
	}
	dst = n.answer(dst, s)
	dst = appendLine(dst, ensoAutoDeny{"permission_auto_deny", c.name, s.id})
	return n.callStart(dst, s, c)
}

func (n *ensoEncoder) callStart(dst []byte, s *ensoStrand, c *ensoCall) []byte {
	if c.started {
		return dst
	}
	c.started = true
	dst = n.answer(dst, s)
	n.spoke(s)
	return appendLine(dst, ensoCallStart{"tool_call_start", c.id, c.name, arguments(c.input), s.id})
}

func (n *ensoEncoder) callEnd(dst []byte, s *ensoStrand, e event.Event) []byte {
	end, _ := event.AsToolEnd(e.Body)
	c := s.call(e.Call)
	if c == nil {
		c = &ensoCall{id: e.Call, name: end.Name}
		s.calls = append(s.calls, c)
	}
	dst = n.callStart(dst, s, c)
	l := ensoCallEnd{Type: "tool_call_end", ID: c.id, Name: c.name, Result: end.Output, Denied: c.refused, AgentID: s.id}
	switch e.Body.(type) {
	case event.ToolFailed:
		l.Error = new(ensoFailure(end))
	case event.ToolDenied:
		l.Denied = true
		if end.Error != "" {
			l.Error = &end.Error
		}
	case event.ToolCancelled:
		l.Error = new(ensoCancelled)
		if end.Error != "" {
			*l.Error += ": " + end.Error
		}
	}
	if _, denied := e.Body.(event.ToolDenied); l.Denied && !denied {
		n.opt.lose(e, "", Approximated, "a call that nobody allowed is denied, however it ended")
	}
	n.errors = n.errors || l.Denied || l.Error != nil
	n.answered = n.answered && s != n.strands[""]
	for i := range s.calls {
		if s.calls[i] == c {
			s.calls = append(s.calls[:i], s.calls[i+1:]...)
			break
		}
	}
	return appendLine(dst, l)
}

// ensoCancelled begins the error of a call that was cancelled, ensoExit that of a command of which only the exit is known.
const ensoCancelled, ensoExit = "cancelled", "exit "

// ensoFailure is why a call failed.
func ensoFailure(end event.ToolEnd) string {
	if end.Error == "" && end.Exit != nil {
		return ensoExit + strconv.Itoa(*end.Exit)
	}
	return first(end.Error, end.Output, "failed")
}

// settle ends calls that nobody ended.
func (n *ensoEncoder) settle(dst []byte, s *ensoStrand) []byte {
	for len(s.calls) > 0 {
		c := s.calls[0]
		dst = n.callEnd(dst, s, event.Event{Header: event.Header{Call: c.id}, Body: event.ToolCancelled{Name: c.name}})
	}
	return dst
}

func (n *ensoEncoder) agentStarted(dst []byte, s *ensoStrand, e event.Event, b event.AgentStarted) []byte {
	if s.depth > 0 || e.Top() {
		return dst // it goes on
	}
	s.depth = 1
	above, id := "", e.Agent
	if i := strings.LastIndexByte(e.Agent, '/'); i >= 0 {
		above, id = e.Agent[:i], e.Agent[i+1:]
	}
	if p := n.strands[above]; p != nil && p.depth > 0 {
		s.depth, s.parent = p.depth+1, p.id
	} else {
		s.parent = n.known(b.Parent)
	}
	for id == "" || n.taken(id) {
		id += "'"
	}
	s.id = id
	n.spoke(s)
	return appendLine(dst, ensoAgentStart{"agent_start", id, s.parent, s.depth, ensoCut(b.Prompt), b.Role, id})
}

// known returns a parent that is no agent, if a reader can know it: the session, or anything where that has no id.
func (n *ensoEncoder) known(parent string) string {
	if n.session != "" && parent != n.session || n.taken(parent) {
		return ""
	}
	return parent
}

// taken says whether an open agent has that id.
func (n *ensoEncoder) taken(id string) bool {
	for _, s := range n.strands {
		if s.depth > 0 && s.id == id {
			return true
		}
	}
	return false
}

func (n *ensoEncoder) agentEnded(dst []byte, s *ensoStrand, e event.Event, b event.AgentEnded) []byte {
	if s.depth == 0 {
		return dst
	}
	dst = n.settle(dst, s)
	if b.Error == "" {
		dst = n.finish(dst, s)
	}
	delete(n.strands, e.Agent)
	parent := s.parent
	if parent == "" {
		parent = n.known(b.Parent)
	}
	return appendLine(dst, ensoAgentEnd{"agent_end", s.id, parent, b.Error, s.id})
}

func (n *ensoEncoder) cancel(dst []byte) []byte {
	for _, s := range n.strands {
		s.said, s.broken, s.whole = false, false, false
	}
	if n.cancelled {
		return dst
	}
	n.cancelled = true
	return appendLine(dst, ensoWord{Type: "cancelled"})
}

func (n *ensoEncoder) end(dst []byte, b event.Body) []byte {
	top := n.strand("")
	dst = n.settle(dst, top)
	end, _ := event.AsRunEnd(b)
	l := ensoSessionEnd{Type: "session_end"}
	switch b.(type) {
	case event.RunDone:
		dst = n.finish(dst, top)
		if !n.answered && !n.cancelled {
			l.Error = n.failure
		}
	case event.RunFailed:
		l.Error = first(end.Reason, n.failure, string(end.Outcome), "the run failed")
	case event.RunCancelled:
		dst = n.cancel(dst)
		l.Error = end.Reason
	}
	l.ToolErrors = n.errors
	n.running = false
	return appendLine(dst, l)
}

// ensoSummary cuts a text to its first line.
func ensoSummary(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return strings.TrimSpace(s[:i]) + "…"
	}
	return s
}

// ensoCut cuts an agent's prompt as the real program does, but not in the middle of a character.
func ensoCut(prompt string) string {
	const most = 80
	runes := 0
	for i := range prompt {
		if runes == most {
			return prompt[:i] + "…"
		}
		runes++
	}
	return prompt
}
