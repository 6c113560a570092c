package dialect

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// claudeDecoder remembers what is open. A line is one block, so it must know which blocks are one answer; and a result need
// not be the end, so it must know which sub-agents still work.
type claudeDecoder struct {
	in    claudeIn
	bulk  bulk
	lines *wire.Reader[claudeIn]

	begun   bool
	session string
	qwen    bool // who writes like claude, but counts in its own way
	strands map[string]*claudeStrand
	calls   map[string]*claudeCall
	agents  map[string]*claudeAgent // by the call that started them

	held   *claudeEnd   // how the reply ends, unless something is still owed
	owed   bool         // a sub-agent's report that will be answered by another result
	ended  bool         // the last reply is over
	fatal  *event.Error // why the last reply failed
	told   string       // the last error that was told
	cost   float64      // so far
	total  event.Usage  // of qwen, so far
	denied int
	sum    event.Usage
	spent  event.Cost
	failed bool // the last reply
	cancel bool // the last reply was cancelled
}

// claudeStrand is the answer that one agent is at.
type claudeStrand struct {
	message string // its id
	model   string
	open    bool
	blocks  int // that were told
	calls   int
	stop    string
}

type claudeCall struct {
	name    string
	agent   string
	request string // a question about it, while that is open
	denied  bool
}

type claudeAgent struct {
	path       string
	background bool // its call ends before it does
}

// claudeEnd is what results said of a reply.
type claudeEnd struct {
	end       event.ReplyEnd
	failed    bool
	cancelled bool
}

func newClaudeDecoder(b bulk) *claudeDecoder {
	return &claudeDecoder{
		bulk: b, lines: wire.NewReader[claudeIn](b.care()), strands: map[string]*claudeStrand{}, calls: map[string]*claudeCall{},
		agents: map[string]*claudeAgent{},
	}
}

func (c *claudeDecoder) Decode(line []byte, emit func(event.Event)) {
	c.in = claudeIn{}
	l := &c.in
	if err := c.lines.Read(line, l); isSyntax(err) {
		unread(emit, "claude", "not JSON")
		return
	}
	if l.Session != "" {
		c.session = l.Session
	}
	h := event.Header{Session: c.session, At: claudeTime(l.Timestamp)}
	if l.Parent != "" {
		h.Agent = c.agent(l, h, emit)
	}
	switch l.Type {
	case "system":
		c.system(l, h, emit)
	case "assistant":
		c.assistant(l, h, emit)
	case "user":
		c.user(l, h, emit)
	case "stream_event":
		c.streamed(&l.Event, h, emit)
	case "result":
		c.result(l, h, emit)
	case "control_request":
		c.request(l, h, emit)
	case "control_response", "control_cancel_request", "keep_alive":
	default:
		unread(emit, "claude", "no line of type %q is known", clip(l.Type))
	}
}

// claudeTime reads a time of theirs; zero if it is none.
func claudeTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// system reads what the program says of itself.
func (c *claudeDecoder) system(l *claudeIn, h event.Header, emit func(event.Event)) {
	tell := func(b event.Body) { emit(event.Event{Header: h, Body: b}) }
	switch l.Subtype {
	case "init": // once before every reply
		if c.begun {
			return
		}
		c.begun, c.qwen = true, l.QwenVersed != ""
		tell(event.RunStarted{
			Format: event.Format, Program: "claude", Version: first(l.Version, l.QwenVersed), Cwd: l.Cwd, Model: l.Model,
			Mode: claudeMode(first(l.Mode, l.QwenMode)),
		})
		tell(claudeCatalog(l))
	case "api_retry":
		r := event.Retry{Attempt: whole(l.Attempt), Limit: whole(l.Limit), Wait: int64(whole(l.Delay)), Status: whole(l.ErrorStatus), Message: l.Error.Text()}
		r.Class, _ = claudeProblem(r.Status, l.Error.Text())
		tell(r)
	case "compact_boundary":
		tell(event.Compacted{Reason: l.Compact.Trigger, Before: tokens(l.Compact.Before)})
	case "informational":
		if text := l.Content.Text(); text != "" {
			tell(event.Notice{Text: text})
		}
	case "permission_denied":
		if call := c.calls[l.ToolUseID]; call != nil {
			call.denied = true // its result says why
		}
	case "task_started":
		c.task(l, h, emit)
	case "task_notification":
		c.taskOver(l, h, emit)
	}
}

func claudeCatalog(l *claudeIn) event.Catalog {
	b := event.Catalog{Tools: []event.CatalogTool{}, Skills: []event.CatalogSkill{}}
	for _, name := range l.Tools {
		t := event.CatalogTool{Name: name, Source: "builtin"}
		if parts := strings.SplitN(name, "__", 3); len(parts) == 3 && parts[0] == "mcp" {
			t.Source, t.Server = "mcp", parts[1]
		}
		b.Tools = append(b.Tools, t)
	}
	for _, name := range l.Skills {
		b.Skills = append(b.Skills, event.CatalogSkill{Name: name})
	}
	return b
}

// strand is the answer that an agent is at.
func (c *claudeDecoder) strand(agent string) *claudeStrand {
	s := c.strands[agent]
	if s == nil {
		s = &claudeStrand{}
		c.strands[agent] = s
	}
	return s
}

// speak makes sure that the answer with this id is the one that is open.
func (c *claudeDecoder) speak(id, model string, h event.Header, emit func(event.Event)) *claudeStrand {
	s := c.strand(h.Agent)
	if s.open && (id == "" || id == s.message) {
		return s
	}
	if !s.open && id != "" && id == s.message && s.blocks > 0 {
		// Its end was told already, and here is more of it: it can only be another one.
		s.message = ""
	}
	c.settle()
	c.endTurn(s, h, event.TurnEnded{}, emit)
	*s = claudeStrand{message: id, model: model, open: true}
	emit(event.Event{Header: h, Body: event.TurnStarted{}})
	return s
}

// settle says that the reply goes on, or another one begins.
func (c *claudeDecoder) settle() { c.ended, c.failed, c.cancel = false, false, false }

// endTurn ends the answer that is open, if there is one.
func (c *claudeDecoder) endTurn(s *claudeStrand, h event.Header, end event.TurnEnded, emit func(event.Event)) {
	if !s.open {
		return
	}
	s.open = false
	end.Model = s.model
	end.Finish, end.Said = finish(s.stop)
	if end.Finish == "" && s.calls > 0 {
		end.Finish = event.FinishToolCalls
	}
	h.Call = ""
	emit(event.Event{Header: h, Body: end})
}

// assistant reads one block of an answer, seldom more.
func (c *claudeDecoder) assistant(l *claudeIn, h event.Header, emit func(event.Event)) {
	m := &l.Message
	if l.APIError || m.Model == "<synthetic>" {
		// The program speaks in the model's place: no answer, but why there is none.
		e := event.Error{Message: first(claudeText(m.Content), "the model gave no answer"), Code: claudeCode(l.Status), Name: l.ErrorType}
		e.Class, e.Retryable = claudeProblem(whole(l.Status), l.Error.Text())
		c.fail(e, h, emit)
		return
	}
	s := c.speak(m.ID, m.Model, h, emit)
	if m.Stop != "" {
		s.stop = m.Stop
	}
	c.told = ""
	for b := range claudeBlocks(m.Content) {
		id := numbered(first(s.message, "msg"), s.blocks+1)
		switch b.Type {
		case "text":
			emit(event.Event{Header: h, Body: event.Text{ID: id, Text: b.Text.Text()}})
		case "thinking":
			emit(event.Event{Header: h, Body: event.Thought{ID: id, Text: b.Thinking.Text(), Signature: b.Signature}})
		case "tool_use", "server_tool_use", "mcp_tool_use":
			c.called(s, &b, h, emit)
		}
		s.blocks++
	}
}

// fail tells why there is no answer, once.
func (c *claudeDecoder) fail(e event.Error, h event.Header, emit func(event.Event)) {
	c.settle()
	if e.Message != c.told {
		emit(event.Event{Header: h, Body: e})
	}
	c.told, c.fatal = e.Message, &e
}

func (c *claudeDecoder) called(s *claudeStrand, b *claudeBlock, h event.Header, emit func(event.Event)) {
	s.calls++
	if b.ID == "" {
		b.ID = numbered(first(s.message, "call"), s.blocks+1)
	}
	c.calls[b.ID] = &claudeCall{name: b.Name, agent: h.Agent}
	h.Call = b.ID
	call := event.ToolCalled{Name: b.Name, Class: claudeClass(b.Name)}
	if c.bulk.inputs() {
		call.Input = tidy(b.Input)
	}
	emit(event.Event{Header: h, Body: call})
}

// streamed reads an event of the model's own stream, which comes before the block that it is a piece of.
func (c *claudeDecoder) streamed(e *claudeEvent, h event.Header, emit func(event.Event)) {
	s := c.strand(h.Agent)
	switch e.Type {
	case "message_start":
		c.speak(e.Message.ID, e.Message.Model, h, emit)
	case "content_block_delta":
		s = c.speak("", "", h, emit)
		id := numbered(first(s.message, "msg"), s.blocks+1)
		switch e.Delta.Type {
		case "text_delta":
			emit(event.Event{Header: h, Body: event.TextDelta{ID: id, Text: e.Delta.Text}})
		case "thinking_delta":
			emit(event.Event{Header: h, Body: event.ThoughtDelta{ID: id, Text: e.Delta.Thinking}})
		}
	case "message_delta":
		s.stop = first(e.Delta.Stop, s.stop)
	case "message_stop":
		if s.calls > 0 { // the last answer is ended by the result, which knows what it all cost
			c.endTurn(s, h, event.TurnEnded{}, emit)
		}
	}
}

// user reads what the model is told: results of calls, and notes.
func (c *claudeDecoder) user(l *claudeIn, h event.Header, emit func(event.Event)) {
	if text, ok := wire.Unquote(l.Message.Content); ok {
		c.note(text, h, emit)
		return
	}
	for b := range claudeBlocks(l.Message.Content) {
		switch {
		case b.Type == "tool_result":
			c.toolEnd(l, &b, h, emit)
		case b.Type == "text":
			c.note(b.Text.Text(), h, emit)
		}
	}
}

// note is what the model is told beside results. It opens no reply.
func (c *claudeDecoder) note(text string, h event.Header, emit func(event.Event)) {
	if text != "" {
		emit(event.Event{Header: h, Body: event.Prompt{Text: text, Source: event.SourceSteer}})
	}
}

// toolEnd ends a call.
func (c *claudeDecoder) toolEnd(l *claudeIn, b *claudeBlock, h event.Header, emit func(event.Event)) {
	call := c.calls[b.ToolUseID]
	if call == nil {
		call = &claudeCall{agent: h.Agent}
	}
	delete(c.calls, b.ToolUseID)
	h.Agent, h.Call = call.agent, b.ToolUseID
	tell := func(b event.Body) { emit(event.Event{Header: h, Body: b}) }
	end := event.ToolEnd{Name: call.name}
	text := claudeText(b.Content)
	why, by := "", event.By("")
	for _, m := range l.Meta {
		if m.ID == b.ToolUseID {
			why = m.Kind
			if m.Decision.Decision == "reject" {
				why, by = "denied", event.ByRule
			}
			if m.Decision.Source == "user_reject" {
				by = event.ByClient
			}
		}
	}
	if c.bulk.outputs() {
		end.Output = text
	}
	switch {
	case call.denied || why == "denied" || why == "permission-rule":
		end.Error, end.Output = text, ""
		c.denied++
		if by == "" {
			by = event.ByRule
		}
		tell(event.GateDenied{Request: call.request, Tool: call.name, Reason: text, By: by})
		tell(event.ToolDenied(end))
	case why == "user-rejected":
		end.Error, end.Output = first(text, "interrupted"), "" // whether it ran by then, nobody says
		tell(event.ToolCancelled(end))
	case b.IsError:
		c.allow(call, tell)
		end.Exit = claudeExit(text)
		if end.Exit == nil {
			end.Error, end.Output = text, ""
		}
		tell(event.ToolFailed(end))
	default:
		c.allow(call, tell)
		tell(event.ToolDone(end))
	}
	if a := c.agents[b.ToolUseID]; a != nil && !a.background {
		failure := ""
		if b.IsError {
			failure = first(text, "it failed")
		}
		c.leave(b.ToolUseID, failure, h, emit)
	}
}

// allow answers the question about a call that ran.
func (c *claudeDecoder) allow(call *claudeCall, tell func(event.Body)) {
	if call.request != "" {
		tell(event.GateAllowed{Request: call.request, Tool: call.name, By: event.ByClient})
		call.request = ""
	}
}

// request reads a question about a call. What follows tells how it was answered.
func (c *claudeDecoder) request(l *claudeIn, h event.Header, emit func(event.Event)) {
	r := &l.Request
	if r.Subtype != "can_use_tool" {
		return
	}
	call := c.calls[r.ToolUseID]
	if call == nil {
		return
	}
	h.Agent, h.Call = call.agent, r.ToolUseID
	call.request = l.RequestID
	asked := event.GateAsked{Request: l.RequestID, Tool: r.ToolName, Question: r.About}
	if c.bulk.inputs() {
		asked.Input = tidy(r.Input)
	}
	emit(event.Event{Header: h, Body: asked})
}

// claudeBlocks gives the blocks of a content.
func claudeBlocks(content wire.Span) func(yield func(claudeBlock) bool) {
	return func(yield func(claudeBlock) bool) {
		var list []claudeBlock
		if len(content) == 0 || content[0] != '[' || isSyntax(wire.Unmarshal(content, &list)) {
			return
		}
		for _, b := range list {
			if !yield(b) {
				return
			}
		}
	}
}

// claudeText is the text of a content.
func claudeText(content wire.Span) string {
	if text, ok := wire.Unquote(content); ok {
		return text
	}
	var parts []string
	for b := range claudeBlocks(content) {
		switch b.Type {
		case "text":
			parts = append(parts, b.Text.Text())
		default:
			parts = append(parts, "["+clip(b.Type)+"]")
		}
	}
	return strings.Join(parts, "\n")
}

// claudeExit reads the exit code of a command that failed: its output begins with it.
func claudeExit(text string) *int {
	rest, ok := strings.CutPrefix(text, "Exit code ")
	if !ok {
		return nil
	}
	code, digits := 0, 0
	for digits < len(rest) && digits < 4 && rest[digits] >= '0' && rest[digits] <= '9' {
		code = code*10 + int(rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits < len(rest) && !slices.Contains([]byte("\n\r "), rest[digits]) {
		return nil
	}
	return &code
}
