package guest

import (
	"encoding/json"
	"strings"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file reads what codex tells of the items in its turns. What nobody here knows stays a line that is kept.

// A codexItem is one of any type, as far as it is read.
type codexItem struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status string `json:"status"`

	Text    string   `json:"text"`    // agentMessage, plan
	Summary []string `json:"summary"` // reasoning
	Content []any    `json:"content"` // reasoning: texts; userMessage: parts

	Command string  `json:"command"`
	Cwd     string  `json:"cwd"`
	Process *string `json:"processId"`
	Output  *string `json:"aggregatedOutput"`
	Exit    *int    `json:"exitCode"`

	Changes []codexChange `json:"changes"`

	Server    string          `json:"server"` // mcpToolCall
	Tool      string          `json:"tool"`   // of it, and of others
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`

	Query  string `json:"query"`  // webSearch
	Path   string `json:"path"`   // imageView
	Prompt string `json:"prompt"` // collabAgentToolCall

	thought string // the kind of deltas that its text comes by
	asked   bool   // whether it may pass
}

// A codexChange is one of a file. Its kind is an object, or in the older forms a word beside it.
type codexChange struct {
	Path string          `json:"path"`
	Kind json.RawMessage `json:"kind,omitempty"`
	Diff string          `json:"diff,omitempty"`
	Move string          `json:"move_path,omitempty"`
}

// paths are the files that an item changes, and those that they become.
func (i *codexItem) paths() (list []string) {
	for _, c := range i.Changes {
		var kind struct {
			Move string `json:"move_path"`
		}
		_ = json.Unmarshal(c.Kind, &kind)
		for _, path := range []string{c.Path, kind.Move, c.Move} {
			if path != "" {
				list = append(list, path)
			}
		}
	}
	return list
}

func (i *codexItem) command() string { return unwrapped(i.Command) }

// name is the tool's, as its model knows it; empty for an item that is no call.
func (i *codexItem) name() string {
	switch i.Type {
	case "commandExecution":
		return "shell"
	case "fileChange":
		return "apply_patch"
	case "mcpToolCall":
		return "mcp__" + i.Server + "__" + i.Tool
	case "webSearch":
		return "web_search"
	case "imageView":
		return "view_image"
	case "dynamicToolCall", "collabAgentToolCall":
		return first(i.Tool, i.Type)
	case "imageGeneration", "sleep":
		return i.Type
	}
	return ""
}

func (i *codexItem) called() event.ToolCalled {
	b := event.ToolCalled{Name: i.name(), Class: classOf(i.name(), "")}
	switch i.Type {
	case "commandExecution":
		b.Title, b.Input = i.command(), wire.Append(nil, fields{"command": i.command(), "cwd": i.Cwd})
	case "fileChange":
		b.Title, b.Input = strings.Join(i.paths(), ", "), wire.Append(nil, fields{"changes": i.Changes})
	case "webSearch":
		b.Title, b.Input, b.Class = i.Query, wire.Append(nil, fields{"query": i.Query}), event.ClassInfo
	case "imageView":
		b.Title, b.Input, b.Class = i.Path, wire.Append(nil, fields{"path": i.Path}), event.ClassInfo
	case "collabAgentToolCall":
		b.Title, b.Input = i.Prompt, wire.Append(nil, fields{"prompt": i.Prompt})
	default:
		b.Input = object(i.Arguments)
	}
	return b
}

// codexNote is a notification of any kind.
type codexNote struct {
	Thread string     `json:"threadId"`
	Turn   string     `json:"turnId"`
	Item   *codexItem `json:"item"`
	ID     string     `json:"itemId"`
	Delta  string     `json:"delta"`
	Part   int        `json:"summaryIndex"`

	Changes []codexChange `json:"changes"`

	Ended   codexTurn       `json:"turn"`
	Error   *codexError     `json:"error"`
	Retry   bool            `json:"willRetry"`
	Message string          `json:"message"`
	Request json.RawMessage `json:"requestId"`
	Usage   struct {
		Last   *codexUsage `json:"last"`
		Window int64       `json:"modelContextWindow"`
	} `json:"tokenUsage"`
}

// notified reads a notification.
func (c *codex) notified(method string, params json.RawMessage) {
	var n codexNote
	_ = json.Unmarshal(params, &n) // what has another type is not what we look for
	switch method {
	case "serverRequest/resolved":
		c.resolved(n.Request)
		return
	case "turn/started":
		if n.Thread == c.thread && c.turn == "" {
			c.named(n.Ended.ID)
		}
		return
	case "warning", "configWarning", "deprecationNotice":
		if n.Message != "" {
			c.tell(event.Event{Body: event.Diag{Text: oneLine([]byte(n.Message)), Source: c.guest.name}})
		}
		return
	}
	if c.now == nil || c.turn == "" {
		return // nobody asked
	}
	agent := n.Thread
	if n.Thread == c.thread || n.Thread == "" {
		if agent = ""; n.Turn != c.turn && n.Ended.ID != c.turn {
			return // of another turn
		}
	}
	h := event.Header{Agent: agent}
	switch method {
	case "item/started":
		if n.Item != nil {
			c.begun(n.Item, agent)
		}
	case "item/completed":
		if n.Item != nil {
			c.ended(n.Item, agent)
		}
	case "item/agentMessage/delta":
		if n.Delta != "" {
			c.tell(event.Event{Header: h, Body: event.TextDelta{ID: n.ID, Text: n.Delta}})
		}
	case "item/reasoning/summaryTextDelta", "item/reasoning/textDelta", "item/reasoning/summaryPartAdded":
		c.think(method, n, h)
	case "item/commandExecution/outputDelta":
		if n.Delta != "" && c.items[n.ID] != nil {
			c.tell(event.Event{Header: event.Header{Agent: agent, Call: n.ID}, Body: event.ToolOutput{Text: n.Delta}})
		}
	case "item/fileChange/patchUpdated": // what is asked about is what it is by then
		if i := c.items[n.ID]; i != nil {
			i.Changes = n.Changes
		}
	case "turn/plan/updated":
		c.tell(event.Event{Header: h, Body: event.Plan{Fields: less(json.RawMessage(less(params, "threadId")), "turnId")}})
	case "thread/tokenUsage/updated":
		c.counted(n, h)
	case "error":
		if n.Error != nil {
			c.troubled(n, h)
		}
	case "turn/completed":
		c.over(n.Ended, agent)
	}
}

// think tells a piece of a thought: of its summary, or of itself where there is none.
func (c *codex) think(method string, n codexNote, h event.Header) {
	item := c.items[n.ID]
	if item == nil {
		item = &codexItem{ID: n.ID}
		c.items[n.ID] = item
	}
	kind := "summary"
	if method == "item/reasoning/textDelta" {
		kind = "text"
	}
	if method == "item/reasoning/summaryPartAdded" {
		if n.Delta = ""; n.Part > 0 && item.thought == kind {
			n.Delta = "\n\n"
		}
	}
	if n.Delta == "" || item.thought != "" && item.thought != kind {
		return
	}
	item.thought = kind
	c.tell(event.Event{Header: h, Body: event.ThoughtDelta{ID: n.ID, Text: n.Delta}})
}

// begun takes an item that was begun: a call is told.
func (c *codex) begun(i *codexItem, agent string) {
	if c.items[i.ID] == nil || i.name() != "" {
		c.items[i.ID] = i
	}
	call := i.name() != ""
	if (call || i.Type == "agentMessage" || i.Type == "reasoning") && !c.turning[agent] { // or a call alone would belong to the answer before
		c.turning[agent] = true
		c.tell(event.Event{Header: event.Header{Agent: agent}, Body: event.TurnStarted{Inferred: true}})
	}
	if !call {
		return
	}
	c.working[agent] = true
	h := event.Header{Agent: agent, Call: i.ID}
	c.tell(event.Event{Header: h, Body: i.called()})
	if i.Process != nil { // it was not asked about
		c.tell(event.Event{Header: h, Body: event.ToolStarted{Name: i.name()}})
	}
}

// ended takes an item that is complete.
func (c *codex) ended(i *codexItem, agent string) {
	h := event.Header{Agent: agent}
	old := c.items[i.ID]
	switch i.Type {
	case "userMessage":
	case "agentMessage":
		if i.Text != "" {
			c.tell(event.Event{Header: h, Body: event.Text{ID: i.ID, Text: i.Text}})
		}
	case "reasoning":
		text := strings.Join(i.Summary, "\n\n")
		for _, part := range i.Content {
			if s, ok := part.(string); ok && len(i.Summary) == 0 {
				text += s
			}
		}
		if old != nil && old.thought != "" {
			text = "" // what came by deltas stands
		} else if text == "" {
			return
		}
		c.tell(event.Event{Header: h, Body: event.Thought{ID: i.ID, Text: text}})
	case "plan":
		c.tell(event.Event{Header: h, Body: event.Plan{Fields: wire.Append(nil, fields{"text": i.Text})}})
	case "contextCompaction":
		c.tell(event.Event{Header: h, Body: event.Compacted{}})
	default:
		if i.name() == "" {
			c.tell(event.Event{Header: h, Body: event.Custom{Name: "codex." + i.Type}})
			return
		}
		if old == nil {
			c.begun(i, agent)
		}
		c.finished(i, event.Header{Agent: agent, Call: i.ID})
	}
}

// finished tells how a call ended.
func (c *codex) finished(i *codexItem, h event.Header) {
	end := event.ToolEnd{Name: i.name(), Exit: i.Exit}
	if i.Output != nil {
		end.Output = *i.Output
	}
	if i.Type == "mcpToolCall" {
		end.Output = resultText(i.Result)
	}
	if i.Error != nil {
		end.Error = i.Error.Message
	}
	switch {
	case i.Status == "declined":
		end.Error, end.Output = first(end.Error, "codex declined it"), ""
		c.tell(event.Event{Header: h, Body: event.ToolDenied(end)})
	case i.Status == "interrupted":
		c.tell(event.Event{Header: h, Body: event.ToolCancelled(end)})
	case i.Status == "failed" || end.Error != "" || i.Exit != nil && *i.Exit != 0:
		if i.Exit == nil {
			end.Error, end.Output = first(end.Error, end.Output, "it failed"), ""
		}
		c.tell(event.Event{Header: h, Body: event.ToolFailed(end)})
	default:
		c.tell(event.Event{Header: h, Body: event.ToolDone(end)})
	}
}

// resultText is the text of an MCP tool's result.
func resultText(raw json.RawMessage) string {
	var r struct {
		Content []acpBlock `json:"content"`
	}
	_ = json.Unmarshal(raw, &r)
	var parts []string
	for i := range r.Content {
		parts = append(parts, r.Content[i].text())
	}
	return strings.Join(parts, "\n")
}
