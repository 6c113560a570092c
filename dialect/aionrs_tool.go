package dialect

import (
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file is how aionrs tells tool calls: a request if the client is asked, then that it runs and its result, or that it was
// cancelled.

// An aionrsCall is a call that has not ended.
type aionrsCall struct {
	agent, id string
	name      string // its call_id: the id, unless that was used before
	called    event.ToolCalled
	asked     bool
	request   string
	running   bool
}

// call remembers a call.
func (a *aionrsEncoder) call(e event.Event, b event.ToolCalled) *aionrsCall {
	c := &aionrsCall{agent: e.Agent, id: e.Call, name: unused(&a.ids, first(e.Call, "call")), called: b}
	a.calls = append(a.calls, c)
	return c
}

// find returns the call that e is about, newest first.
func (a *aionrsEncoder) find(e event.Event, name string) *aionrsCall {
	for i := len(a.calls) - 1; i >= 0; i-- {
		if c := a.calls[i]; c.id == e.Call && c.agent == e.Agent {
			if !c.running && !c.asked { // once it was told its name stays
				c.called.Name = first(c.called.Name, name)
			}
			return c
		}
	}
	return a.call(e, event.ToolCalled{Name: name})
}

// asked tells that a call waits for the client.
func (a *aionrsEncoder) asked(dst []byte, e event.Event, b event.GateAsked) []byte {
	if e.Call == "" {
		return dst
	}
	c := a.find(e, b.Tool)
	if c.running || c.asked && c.request == b.Request {
		return dst
	}
	c.asked, c.request = true, b.Request
	in := c.called.Input
	if len(in) == 0 {
		in = b.Input
	}
	about := first(c.called.Description, c.called.Title, b.Question, c.called.Name)
	return a.tool(dst, c, aionrsTool{Type: "tool_request", Tool: &aionrsRequest{
		Name: c.called.Name, Category: aionrsCategory(c.called), Args: arguments(in), Description: oneLine(about),
	}})
}

// aionrsCategory is what the document says of a built-in tool, else what we know, else the most careful one.
func aionrsCategory(c event.ToolCalled) event.Class {
	if class, ok := aionrsBuiltin[c.Name]; ok {
		return class
	}
	switch c.Class {
	case event.ClassInfo, event.ClassEdit, event.ClassMCP:
		return c.Class
	}
	return event.ClassExec
}

func (a *aionrsEncoder) running(dst []byte, c *aionrsCall) []byte {
	if c.running {
		return dst
	}
	c.running = true
	return a.tool(dst, c, aionrsTool{Type: "tool_running", ToolName: &c.called.Name})
}

// ended tells how a call ended.
func (a *aionrsEncoder) ended(dst []byte, e event.Event) []byte {
	end, _ := event.AsToolEnd(e.Body)
	c := a.find(e, end.Name)
	for i := range a.calls {
		if a.calls[i] == c {
			a.calls = append(a.calls[:i:i], a.calls[i+1:]...)
			break
		}
	}
	switch e.Body.(type) {
	case event.ToolDenied:
		return a.tool(dst, c, aionrsTool{Type: "tool_cancelled", Reason: first(end.Error, end.Output, "denied")})
	case event.ToolCancelled:
		return a.tool(dst, c, aionrsTool{Type: "tool_cancelled", Reason: first(end.Error, end.Output, "cancelled")})
	}
	l := aionrsTool{Type: "tool_result", ToolName: &c.called.Name, Status: "success", OutputType: "text"}
	if _, failed := e.Body.(event.ToolFailed); failed {
		l.Status = "error"
		switch {
		case end.Output == "":
			end.Output = end.Error
		case end.Error != "" && end.Error != end.Output:
			end.Output += "\n" + end.Error
		}
	}
	l.Output = &end.Output
	if len(end.Metadata) > 0 && string(end.Metadata) != "null" {
		l.Metadata = arguments(end.Metadata)
	}
	switch end.Type {
	case "image":
		l.OutputType = end.Type
	case "diff":
		if l.Metadata = withPath(l.Metadata, c.called.Input); l.Status == "error" || hasPath(l.Metadata) {
			l.OutputType = end.Type
		}
	}
	return a.tool(a.running(dst, c), c, l)
}

// tool appends a line about a call.
func (a *aionrsEncoder) tool(dst []byte, c *aionrsCall, l aionrsTool) []byte {
	dst = a.start(dst, "")
	l.MsgID, l.CallID = a.msg, c.name
	a.fault = a.fault && l.Type == "tool_cancelled"
	return appendLine(dst, l)
}

// hasPath says whether metadata names the file that a diff is of.
func hasPath(metadata event.Raw) bool {
	var d wire.Doc
	return len(metadata) > 0 && d.Parse(metadata) == nil && d.Root().Get("file_path").Kind() == wire.String
}

// withPath puts the file that a call was about into metadata that does not name it.
func withPath(metadata, input event.Raw) event.Raw {
	var d wire.Doc
	if hasPath(metadata) || len(input) == 0 || d.Parse(input) != nil {
		return metadata
	}
	for _, key := range []string{"file_path", "path", "filePath"} {
		n := d.Root().Get(key)
		if n.Kind() != wire.String {
			continue
		}
		dst := wire.AppendString([]byte(`{"file_path":`), n.Text())
		for k, v := range wire.Span(metadata).Members() {
			if k.Text() != "file_path" {
				dst = append(append(append(dst, ','), k...), ':')
				dst = append(dst, v...)
			}
		}
		return append(dst, '}')
	}
	return metadata
}
