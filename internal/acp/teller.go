package acp

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/sluice-dev/sluice/event"
)

// A Teller makes updates of the events of one session. It is a pure function of what it has seen.
type Teller struct {
	Cwd string // that paths in calls are relative to

	said string // the block that deltas have told of
	open map[string]event.ToolCalled
}

// Tell returns the updates that an event is told by; often there are none.
func (t *Teller) Tell(e event.Event) []any {
	if e.Agent != "" { // of a sub-agent its calls are told, as it is in their titles; what it says goes to its parent
		switch e.Body.(type) {
		case event.ToolCalled, event.ToolStarted, event.ToolDone, event.ToolFailed, event.ToolDenied, event.ToolCancelled:
		default:
			return nil
		}
	}
	switch b := e.Body.(type) {
	case event.Prompt:
		if b.Source != event.SourceHistory && b.Source != event.SourceSteer {
			return chunk("user_message_chunk", b.ID, b.Text)
		}
	case event.TextDelta:
		t.said = "text " + b.ID
		return chunk("agent_message_chunk", b.ID, b.Text)
	case event.Text:
		return t.whole("agent_message_chunk", "text "+b.ID, b.ID, b.Text)
	case event.ThoughtDelta:
		t.said = "thought " + b.ID
		return chunk("agent_thought_chunk", b.ID, b.Text)
	case event.Thought:
		return t.whole("agent_thought_chunk", "thought "+b.ID, b.ID, b.Text)
	case event.ToolCalled:
		if t.open == nil {
			t.open = map[string]event.ToolCalled{}
		}
		t.open[e.Call] = b
		c := t.Call(e.Call)
		c.Update, c.Status = "tool_call", "pending"
		if e.Agent != "" {
			c.Title = e.Agent + ": " + c.Title
		}
		return []any{c}
	case event.ToolStarted:
		return []any{ToolCall{Update: "tool_call_update", ID: e.Call, Status: "in_progress"}}
	case event.TurnEnded:
		if b.Context.Limit > 0 {
			return []any{UsageUpdate{Kind: "usage_update", Used: b.Context.Used, Size: b.Context.Limit}}
		}
	}
	if end, ok := event.AsToolEnd(e.Body); ok {
		return []any{t.end(e, end)}
	}
	return nil
}

// whole tells a block that no deltas came of.
func (t *Teller) whole(kind, key, id, text string) []any {
	if t.said == key {
		t.said = ""
		return nil
	}
	return chunk(kind, id, text)
}

func chunk(kind, id, text string) []any {
	if text == "" {
		return nil
	}
	return []any{Chunk{Kind: kind, Content: ContentBlock{Type: "text", Text: text}, Message: id}}
}

// Call is what is known of a call that is open.
func (t *Teller) Call(id string) ToolCall {
	b := t.open[id]
	c := ToolCall{ID: id, Title: b.Description, Kind: kind(b), RawInput: object(b.Input)}
	if c.Title == "" {
		c.Title = b.Name
	}
	if path := t.path(b.Input); path != "" {
		c.Locations = []Location{{Path: path}}
	}
	return c
}

// end tells how a call ended. The protocol knows only two ways.
func (t *Teller) end(e event.Event, end event.ToolEnd) ToolCall {
	called := t.open[e.Call]
	delete(t.open, e.Call)
	c := ToolCall{Update: "tool_call_update", ID: e.Call, Status: "completed"}
	if _, done := e.Body.(event.ToolDone); !done {
		c.Status = "failed"
	}
	switch {
	case c.Status == "completed" && end.Type == "diff":
		c.Content = t.change(called)
	case end.Type == "image":
		var about struct {
			Mime string `json:"mime"`
		}
		_ = json.Unmarshal(end.Metadata, &about) // an image without a type is one all the same
		c.Content = []CallContent{{Type: "content", Content: &ContentBlock{Type: "image", Data: end.Output, MimeType: about.Mime}}}
	}
	text := end.Output
	if end.Type == "image" {
		text = ""
	}
	if end.Error != "" && end.Error != text {
		text = strings.TrimSpace(text + "\n" + end.Error)
	}
	if c.Content == nil && text != "" {
		c.Content = []CallContent{{Type: "content", Content: &ContentBlock{Type: "text", Text: text}}}
	}
	out := map[string]any{"output": end.Output}
	if end.Error != "" {
		out["error"] = end.Error
	}
	if end.Exit != nil {
		out["exit"] = *end.Exit
	}
	if end.Type != "image" {
		c.RawOutput, _ = json.Marshal(out) // strings and a number
	}
	return c
}

// change shows what an edit changed, as editors want it.
func (t *Teller) change(b event.ToolCalled) []CallContent {
	var in struct {
		Old     *string `json:"old_string"`
		New     *string `json:"new_string"`
		Content *string `json:"content"`
	}
	path := t.path(b.Input)
	if json.Unmarshal(b.Input, &in) != nil || path == "" {
		return nil
	}
	switch {
	case in.Content != nil:
		return []CallContent{{Type: "diff", Path: path, NewText: *in.Content}}
	case in.New != nil && in.Old != nil:
		return []CallContent{{Type: "diff", Path: path, OldText: in.Old, NewText: *in.New}}
	}
	return nil
}

// path is the file that a call works on.
func (t *Teller) path(input event.Raw) string {
	var in struct {
		Path string `json:"file_path"`
	}
	if json.Unmarshal(input, &in) != nil || in.Path == "" {
		return ""
	}
	if filepath.IsAbs(in.Path) {
		return in.Path
	}
	return filepath.Join(t.Cwd, in.Path)
}

// object is an input as the protocol wants it: what a model wrote that is no JSON object is put into one.
func object(in event.Raw) json.RawMessage {
	if len(in) == 0 {
		return nil
	}
	if strings.HasPrefix(string(in), "{") {
		return json.RawMessage(in)
	}
	out, err := json.Marshal(map[string]json.RawMessage{"_raw": json.RawMessage(in)})
	if err != nil {
		return nil
	}
	return out
}

// kind is the protocol's word for what a tool does.
func kind(b event.ToolCalled) string {
	switch b.Name {
	case "read", "skill":
		return "read"
	case "glob", "grep":
		return "search"
	case "write", "edit":
		return "edit"
	case "bash":
		return "execute"
	case "task", "todo":
		return "think"
	}
	switch b.Class {
	case event.ClassEdit:
		return "edit"
	case event.ClassExec:
		return "execute"
	case event.ClassInfo:
		return "read"
	}
	return "other"
}
