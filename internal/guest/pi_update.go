package guest

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file reads what pi tells of its work: answers of the model, calls, dialogs of its extensions.

// piMessage is a message of the conversation.
type piMessage struct {
	Role     string          `json:"role"`
	Content  json.RawMessage `json:"content"` // a list of blocks, or a text
	Provider string          `json:"provider"`
	Model    string          `json:"model"`
	Usage    piUsage         `json:"usage"`
	Stop     string          `json:"stopReason"`
	Raw      string          `json:"rawStopReason"`
	Problem  string          `json:"errorMessage"`
}

// piBlock is a piece of a message, or of what a tool says.
type piBlock struct {
	Type     string    `json:"type"`
	Text     string    `json:"text"`
	Thinking string    `json:"thinking"`
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Args     event.Raw `json:"arguments"`
	Kind     string    `json:"mimeType"` // of an image
}

type piUsage struct {
	Input      int64 `json:"input"`  // without what the cache served
	Output     int64 `json:"output"` // with the reasoning
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Reasoning  int64 `json:"reasoning"`
	Cost       struct {
		Input      float64 `json:"input"`
		Output     float64 `json:"output"`
		CacheRead  float64 `json:"cacheRead"`
		CacheWrite float64 `json:"cacheWrite"`
	} `json:"cost"`
}

// spent is what an answer took. A zero is pi's word for what it does not know, too.
func (u piUsage) spent() (event.Usage, event.Cost) {
	c := u.Cost
	return event.Usage{Input: some(u.Input), Output: some(u.Output - u.Reasoning), Reasoning: some(u.Reasoning), CacheRead: some(u.CacheRead), CacheWrite: some(u.CacheWrite)},
		event.Cost{Input: some(c.Input), Output: some(c.Output), CacheRead: some(c.CacheRead), CacheWrite: some(c.CacheWrite)}
}

// some is a number that says something.
func some[T int64 | float64](n T) *T {
	if n <= 0 {
		return nil
	}
	return &n
}

// delta tells a piece of an answer.
func (p *pi) delta(l piLine) {
	d := l.Event
	if d.Delta == "" || d.Type != "text_delta" && d.Type != "thinking_delta" {
		return
	}
	if p.blocks == nil {
		p.blocks = map[int]bool{}
	}
	p.blocks[d.Index], p.block = true, d.Index
	if d.Type == "text_delta" {
		p.tell(event.Event{Body: event.TextDelta{Text: d.Delta}})
		return
	}
	p.tell(event.Event{Body: event.ThoughtDelta{Text: d.Delta}})
}

var piFinish = map[string]event.Finish{
	"stop": event.FinishStop, "toolUse": event.FinishToolCalls, "length": event.FinishLength, "error": event.FinishError, "aborted": event.FinishError,
}

// message takes a whole message: an answer of the model ends its turn. A block whose deltas were followed by another's is whole
// already.
func (p *pi) message(raw json.RawMessage) {
	var m piMessage
	if _ = json.Unmarshal(raw, &m); m.Role != "assistant" {
		return
	}
	p.learn(p.session) // now there is something to go on with
	cut := m.Stop == "error" || m.Stop == "aborted"
	for i, b := range piBlocks(m.Content) {
		switch {
		case b.Type == "toolCall" && !cut && m.Stop != "length":
			p.called(b.ID, b.Name, b.Args)
		case p.blocks[i] && i != p.block:
		case b.Type == "text" && b.Text != "":
			p.tell(event.Event{Body: event.Text{Text: b.Text, Partial: cut}})
		case b.Type == "thinking" && b.Thinking != "":
			p.tell(event.Event{Body: event.Thought{Text: b.Thinking, Partial: cut}})
		}
	}
	end := event.TurnEnded{Provider: m.Provider, Model: m.Model, Finish: piFinish[m.Stop]}
	if end.Finish == "" {
		end.Finish, end.Said = event.FinishOther, m.Stop
	}
	if m.Raw != "" && m.Raw != string(end.Finish) {
		end.Said = m.Raw
	}
	end.Usage, end.Cost = m.Usage.spent()
	p.usage, p.cost, p.blocks = p.usage.Add(end.Usage), p.cost.Add(end.Cost), nil
	p.last = &m
	p.tell(event.Event{Body: end})
}

// piBlocks are those of a message.
func piBlocks(raw json.RawMessage) []piBlock {
	var list []piBlock
	if text, ok := wire.Unquote(raw); ok {
		return []piBlock{{Type: "text", Text: text}}
	}
	_ = json.Unmarshal(raw, &list)
	return list
}

func (p *pi) called(id, name string, args event.Raw) {
	p.tell(event.Event{Header: event.Header{Call: id}, Body: event.ToolCalled{Name: name, Class: classOf(name, ""), Input: args}})
}

// piResult is what a tool says, so far or at its end.
type piResult struct {
	Content json.RawMessage `json:"content"`
	Details event.Raw       `json:"details"`
}

// text is what a tool says, in words.
func (r piResult) text() string {
	var parts []string
	for _, b := range piBlocks(r.Content) {
		if b.Type != "text" {
			b.Text = "[" + strings.TrimSpace(b.Type+" "+b.Kind) + "]"
		}
		parts = append(parts, b.Text)
	}
	return strings.Join(parts, "\n")
}

// execution tells how a call goes.
func (p *pi) execution(l piLine) {
	h := event.Header{Call: l.Call}
	var r piResult
	switch l.Type {
	case "tool_execution_start":
		p.called(l.Call, l.Tool, l.Args) // if it was not
		p.tell(event.Event{Header: h, Body: event.ToolStarted{Name: l.Tool}})
	case "tool_execution_update":
		_ = json.Unmarshal(l.Partial, &r)
		text := r.text()
		if more, ok := strings.CutPrefix(text, p.outputs[l.Call]); ok && more != "" { // each update has all of it
			p.outputs[l.Call] = text
			p.tell(event.Event{Header: h, Body: event.ToolOutput{Text: more}})
		}
	case "tool_execution_end":
		_ = json.Unmarshal(l.Result, &r)
		delete(p.outputs, l.Call)
		end := event.ToolEnd{Name: l.Tool, Output: r.text()}
		if len(r.Details) > 2 && r.Details[0] == '{' {
			end.Metadata = r.Details
		}
		if !l.IsError {
			p.tell(event.Event{Header: h, Body: event.ToolDone(end)})
			return
		}
		if end.Exit = piExit(l.Tool, end.Output); end.Exit == nil {
			end.Error, end.Output = first(end.Output, "it failed"), ""
		}
		p.tell(event.Event{Header: h, Body: event.ToolFailed(end)})
	}
}

// piExit is the exit code of a command that failed: it is said in words, behind all that the command itself has said.
func piExit(tool, output string) *int {
	const words = "Command exited with code "
	i := strings.LastIndex(output, words)
	if i < 0 || tool != "bash" {
		return nil
	}
	n, err := strconv.Atoi(output[i+len(words):])
	if err != nil {
		return nil
	}
	return &n
}

// compacted tells that the conversation was shortened, or that this failed.
func (p *pi) compacted(l piLine) {
	if l.Problem != "" {
		p.tell(event.Event{Body: event.Notice{Text: "pi could not make room: " + l.Problem}})
		return
	}
	var r *struct {
		Summary string   `json:"summary"`
		Before  *int64   `json:"tokensBefore"`
		After   *int64   `json:"estimatedTokensAfter"`
		Usage   *piUsage `json:"usage"`
	}
	if _ = json.Unmarshal(l.Result, &r); r == nil {
		return
	}
	c := event.Compacted{Reason: l.Reason, Summary: r.Summary, Before: r.Before, After: r.After}
	if r.Usage != nil {
		c.Usage, c.Cost = r.Usage.spent()
		p.usage, p.cost = p.usage.Add(c.Usage), p.cost.Add(c.Cost)
	}
	p.tell(event.Event{Body: c})
}

// dialog answers an extension that asks somebody: nobody is there. What it only says is told.
func (p *pi) dialog(l piLine, line []byte) {
	text, _ := wire.Unquote(l.Message)
	switch l.Method {
	case "select", "confirm", "input", "editor":
		p.link.send(wire.Append(nil, fields{"type": "extension_ui_response", "id": l.ID, "cancelled": true}))
		p.tell(event.Event{Body: event.Notice{Text: strings.TrimSpace("an extension of pi asks, and nobody answers: " + l.Title + " " + text)}})
	case "notify":
		p.tell(event.Event{Body: event.Notice{Text: text}})
	default:
		p.tell(event.Event{Body: event.Custom{Name: "pi." + first(l.Method, l.Type), Fields: less(line, "type")}})
	}
}

// piProblem says what kind of trouble an error is: it begins with the server's status, if that answered.
func piProblem(text string) (status int, class string, passing *bool) {
	word, _, _ := strings.Cut(text, " ")
	status, _ = strconv.Atoi(strings.TrimSuffix(word, ":"))
	switch {
	case status == 401 || status == 403:
		return status, "auth", new(false)
	case status == 429:
		return status, "rate_limit", new(true)
	case status >= 500 && status < 600:
		return status, "provider", new(true)
	case status >= 400 && status < 500:
		return status, "provider", new(false)
	case strings.HasPrefix(text, "Connection error"), strings.HasPrefix(text, "fetch failed"):
		return 0, "connection", new(true)
	}
	return 0, "", nil
}
