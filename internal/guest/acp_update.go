package guest

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/rpc"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file reads what an ACP agent tells of its session: a switch on the kind of update, and small structs with what we read. A
// kind that nobody knows stays what it is.

// acpUpdate is an update as one may come, of any kind; and the call in a permission request.
type acpUpdate struct {
	Update  string          `json:"sessionUpdate"`
	Content json.RawMessage `json:"content"` // of a chunk a block, of a call a list
	Message string          `json:"messageId"`

	ID        string    `json:"toolCallId"`
	Title     string    `json:"title"`
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`
	Status    string    `json:"status"`
	Input     event.Raw `json:"rawInput"`
	Output    event.Raw `json:"rawOutput"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
	Meta struct {
		Claude struct {
			Tool string `json:"toolName"`
			Kind string `json:"nonExecutionKind"`
		} `json:"claudeCode"`
	} `json:"_meta"`

	Cost *struct {
		Amount   float64 `json:"amount"`
		Currency string  `json:"currency"`
	} `json:"cost"`
}

// acpBlock is a piece of content.
type acpBlock struct {
	Type    string    `json:"type"`
	Text    string    `json:"text"`
	URI     string    `json:"uri"`
	Path    string    `json:"path"` // of a diff
	Content *acpBlock `json:"content"`
}

func (b *acpBlock) text() string {
	switch {
	case b == nil || *b == (acpBlock{}):
		return ""
	case b.Content != nil:
		return b.Content.text()
	case b.Type == "text" || b.Text != "":
		return b.Text
	case b.Type == "diff":
		return "[diff of " + b.Path + "]"
	}
	return "[" + strings.TrimSpace(b.Type+" "+b.URI) + "]"
}

// update reads one update.
func (a *acp) update(params json.RawMessage) {
	if a.replay {
		a.heard = a.cfg.Now()
		return // told before, in another run
	}
	var p struct {
		Update json.RawMessage `json:"update"`
	}
	var u acpUpdate
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p.Update, &u) != nil && u.Update == "" {
		a.tell(event.Event{Body: event.Diag{Text: "an update that cannot be read", Source: a.guest.name}})
		return
	}
	word := event.Raw(wire.AppendString(nil, u.Update))
	switch u.Update {
	case "agent_message_chunk", "agent_thought_chunk", "user_message_chunk":
		a.flush()
		var b acpBlock
		_ = json.Unmarshal(u.Content, &b)
		a.chunk(u, b.text(), word)
	case "tool_call", "tool_call_update":
		a.called(u, word)
	case "plan":
		a.flush()
		a.tell(event.Event{Body: event.Plan{Fields: less(p.Update, "sessionUpdate")}})
	default:
		a.flush()
		if u.Update == "usage_update" && u.Cost != nil && u.Cost.Currency == "USD" {
			spent := u.Cost.Amount - a.cost
			a.cost = u.Cost.Amount
			if a.spent != nil {
				spent += *a.spent
			}
			a.spent = &spent
		}
		a.tell(event.Event{Body: event.Custom{Name: "acp." + first(u.Update, "update"), Fields: less(p.Update, "sessionUpdate")}})
	}
}

// chunk tells a piece of text.
func (a *acp) chunk(u acpUpdate, text string, word event.Raw) {
	if text == "" {
		return
	}
	switch u.Update {
	case "agent_message_chunk":
		a.tell(event.Event{Body: event.TextDelta{ID: u.Message, Text: text, Update: word}})
	case "agent_thought_chunk":
		a.tell(event.Event{Body: event.ThoughtDelta{ID: u.Message, Text: text, Update: word}})
	default:
		a.tell(event.Event{Body: event.Prompt{Text: text, Source: event.SourceSteer, Update: word}})
	}
}

// An acpCall is a call as the updates so far say it.
type acpCall struct {
	acpUpdate
	input   event.Raw // the last that says something
	touched []string
	word    event.Raw
	of      uint64 // the line that announced it
	told    bool
	started bool
	output  string // so far
	over    bool
}

// name is the tool's name: its own, where the agent says it somewhere, else the kind.
func (c *acpCall) name() string {
	if tool, _, ok := strings.Cut(c.ID, "__"); ok && c.Name == "" && kinds[tool] != "" {
		return tool // gemini
	}
	return first(c.Meta.Claude.Tool, c.Name, c.Kind, c.Title, "unknown")
}

// paths are those that the agent says it touches. For a command they say nothing that the command does not say.
func (c *acpCall) paths() []string { return c.touched }

func (c *acpCall) called() event.ToolCalled {
	return event.ToolCalled{Name: c.name(), Title: c.Title, Class: classOf(c.name(), c.Kind), Input: c.input, Update: c.word}
}

// call finds the call that an update is about, and adds what it says.
func (a *acp) call(u acpUpdate) *acpCall {
	c := a.known[u.ID]
	if c == nil {
		c = &acpCall{of: a.of}
		a.known[u.ID] = c
		if kinds[strings.ToLower(u.Title)] != "" {
			c.Name = u.Title // opencode, which later puts the command there
		}
		a.held = append(a.held, c)
		a.since = a.cfg.Now()
	}
	c.ID = u.ID
	c.Title, c.Kind, c.Name = first(u.Title, c.Title), first(u.Kind, c.Kind), first(u.Name, c.Name)
	c.Status = first(u.Status, c.Status)
	c.Meta.Claude.Tool = first(u.Meta.Claude.Tool, c.Meta.Claude.Tool)
	c.Meta.Claude.Kind = first(u.Meta.Claude.Kind, c.Meta.Claude.Kind)
	if len(u.Input) > 2 || len(c.input) == 0 { // more than {}
		c.input = u.Input
	}
	for _, l := range u.Locations {
		c.touched = append(c.touched, l.Path)
	}
	var list []acpBlock
	if json.Unmarshal(u.Content, &list) == nil {
		for _, b := range list {
			if b.Type == "diff" {
				c.touched = append(c.touched, b.Path)
			}
		}
	}
	return c
}

// flush tells the calls that were held, in the order in which they were made.
func (a *acp) flush() {
	held := a.held
	a.held = nil
	now := a.of
	for _, c := range held {
		c.told = true
		a.of = c.of
		a.tell(event.Event{Header: event.Header{Call: c.ID}, Body: c.called()})
	}
	a.of = now
}

// called reads an update of a call. It is told as soon as its input is known, or something else happens.
func (a *acp) called(u acpUpdate, word event.Raw) {
	c := a.call(u)
	if c.word == nil {
		c.word = event.Raw(`"tool_call"`)
	}
	if c.over {
		return
	}
	h := event.Header{Call: c.ID}
	text, has := contents(u.Content)
	switch c.Status {
	case "completed", "failed":
		a.flush()
		c.over = true
		a.ended(c, u, text, word)
	case "in_progress":
		a.flush()
		if !c.started {
			c.started = true
			a.tell(event.Event{Header: h, Body: event.ToolStarted{Name: c.name()}})
		}
		if more, ok := strings.CutPrefix(text, c.output); has && ok && more != "" { // each update has all of it
			c.output = text
			a.tell(event.Event{Header: h, Body: event.ToolOutput{Text: more}})
		}
	}
}

// ended tells how a call ended.
func (a *acp) ended(c *acpCall, u acpUpdate, text string, word event.Raw) {
	var out struct {
		Output   string `json:"output"`
		Metadata struct {
			Exit *int `json:"exit"`
		} `json:"metadata"`
	}
	end := event.ToolEnd{Name: c.name(), Title: c.Title, Output: text, Update: word}
	if json.Unmarshal(u.Output, &out) == nil {
		end.Exit = out.Metadata.Exit
		end.Output = first(out.Output, end.Output)
	} else if s, ok := wire.Unquote(u.Output); ok {
		end.Output = first(s, end.Output)
	}
	h := event.Header{Call: c.ID}
	switch {
	case c.Status == "completed" && (end.Exit == nil || *end.Exit == 0):
		a.tell(event.Event{Header: h, Body: event.ToolDone(end)})
	case c.Meta.Claude.Kind == "permission-rule":
		end.Error, end.Output = end.Output, ""
		a.tell(event.Event{Header: h, Body: event.ToolDenied(end)})
	case c.Meta.Claude.Kind == "user-rejected":
		end.Error, end.Output = end.Output, ""
		a.tell(event.Event{Header: h, Body: event.ToolCancelled(end)})
	default:
		if end.Exit == nil {
			end.Error, end.Output = first(end.Output, "it failed"), ""
		}
		a.tell(event.Event{Header: h, Body: event.ToolFailed(end)})
	}
}

// contents is the text of a call's content.
func contents(raw json.RawMessage) (text string, has bool) {
	var list []acpBlock
	if json.Unmarshal(raw, &list) != nil {
		return "", false
	}
	var parts []string
	for i := range list {
		parts = append(parts, list[i].text())
	}
	return strings.Join(parts, "\n"), len(list) > 0
}

// acpReply is the answer to session/prompt.
type acpReply struct {
	Stop  string `json:"stopReason"`
	Usage *struct {
		Input      *int64 `json:"inputTokens"`
		Output     *int64 `json:"outputTokens"`
		Thought    *int64 `json:"thoughtTokens"`
		CacheRead  *int64 `json:"cachedReadTokens"`
		CacheWrite *int64 `json:"cachedWriteTokens"`
	} `json:"usage"`
	Meta struct {
		Quota struct {
			Count struct {
				Input  *int64 `json:"input_tokens"`
				Output *int64 `json:"output_tokens"`
			} `json:"token_count"`
		} `json:"quota"`
	} `json:"_meta"`
}

// replied takes the end of a reply.
func (a *acp) replied(result json.RawMessage, err *rpc.Error) {
	a.flush()
	end := event.ReplyEnd{Stop: "error"}
	if err != nil {
		e := event.Error{Message: explain(err), Code: strconv.Itoa(err.Code)}
		if err.Code == -32000 {
			e.Class = "auth"
		}
		a.tell(event.Event{Body: e})
		a.tell(event.Event{Body: event.ReplyFailed(end)})
		return
	}
	var r acpReply
	_ = json.Unmarshal(result, &r)
	if u := r.Usage; u != nil {
		end.Usage = event.Usage{Input: u.Input, Output: u.Output, Reasoning: u.Thought, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
	} else {
		end.Usage = event.Usage{Input: r.Meta.Quota.Count.Input, Output: r.Meta.Quota.Count.Output}
	}
	end.Cost.Total = a.spent
	end.Stop = first(r.Stop, "error")
	switch r.Stop {
	case "end_turn":
		a.tell(event.Event{Body: event.ReplyDone(end)})
	case "cancelled":
		a.tell(event.Event{Body: event.ReplyCancelled(end)})
	default: // max_tokens, max_turn_requests, refusal, and what nobody knows
		a.tell(event.Event{Body: event.ReplyFailed(end)})
	}
}

// object is raw if it is an object, and else one that has it.
func object(raw json.RawMessage) event.Raw {
	if len(raw) > 0 && raw[0] == '{' {
		return event.Raw(raw)
	}
	if len(raw) == 0 {
		return nil
	}
	return wire.Append(nil, map[string]json.RawMessage{"params": raw})
}

// less is an object without one of its members.
func less(raw json.RawMessage, key string) event.Raw {
	dst := []byte{'{'}
	for k, v := range wire.Span(raw).Members() {
		if k.Text() == key {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, k...), ':')
		dst = append(dst, v...)
	}
	return append(dst, '}')
}
