package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/wire"
)

// claude is Claude Code, by stream-json both ways: prompts and answers go in, its stream and its questions come out.
type claude struct {
	*Session
	dec   dialect.Decoder
	open  bool
	asked int // control requests of ours
}

func newClaude(s *Session, _ string) tongue {
	d, err := dialect.Source("claude")
	if err != nil {
		panic(err) // it is in the table
	}
	return &claude{Session: s, dec: d.NewDecoder()}
}

// claudeControl is a line of the protocol around the stream.
type claudeControl struct {
	Type      string          `json:"type"`
	RequestID string          `json:"request_id,omitempty"`
	Request   *claudeRequest  `json:"request,omitempty"`
	Response  *claudeResponse `json:"response,omitempty"`
}

type claudeRequest struct {
	Subtype   string    `json:"subtype"`
	ToolName  string    `json:"tool_name,omitempty"`
	ToolUseID string    `json:"tool_use_id,omitempty"`
	Input     event.Raw `json:"input,omitempty"`
	Blocked   string    `json:"blocked_path,omitempty"`
}

type claudeResponse struct {
	Subtype   string `json:"subtype"`
	RequestID string `json:"request_id"`
	Response  any    `json:"response,omitempty"`
	Error     string `json:"error,omitempty"`
}

// claudeAnswer says whether a call may pass. What passes must be said again.
type claudeAnswer struct {
	Behavior string    `json:"behavior"`
	Input    event.Raw `json:"updatedInput,omitempty"`
	Message  string    `json:"message,omitempty"`
}

func (c *claude) send(v any) { c.link.send(wire.Append(nil, v)) }

// control asks for something. The answer has the same id.
func (c *claude) control(request map[string]any) {
	c.asked++
	c.send(map[string]any{"type": "control_request", "request_id": fmt.Sprintf("%s-%d", request["subtype"], c.asked), "request": request})
}

func (c *claude) greet()      { c.control(map[string]any{"subtype": "initialize", "hooks": nil}) }
func (c *claude) ready() bool { return c.open }
func (c *claude) interrupt()  { c.control(map[string]any{"subtype": "interrupt"}) }

func (c *claude) prompt(text string, files []string) {
	for _, f := range files {
		text += "\n@" + f
	}
	c.send(map[string]any{
		"type": "user", "message": map[string]string{"role": "user", "content": text}, "parent_tool_use_id": nil, "session_id": "",
	})
}

func (c *claude) line(line []byte) {
	var m claudeControl
	if bytes.Contains(line, []byte(`"control_`)) && json.Unmarshal(line, &m) == nil && strings.HasPrefix(m.Type, "control_") {
		c.controlled(m)
		return
	}
	c.dec.Decode(line, func(e event.Event) {
		c.learn(e.Session)
		e.Session = ""
		c.tell(e)
	})
}

// controlled takes a line of the protocol around the stream.
func (c *claude) controlled(m claudeControl) {
	switch {
	case m.Type == "control_response" && m.Response != nil && strings.HasPrefix(m.Response.RequestID, "initialize-"):
		if m.Response.Subtype != "success" {
			c.fail("claude does not want to begin: " + first(m.Response.Error, m.Response.Subtype))
			return
		}
		c.open = true
	case m.Type == "control_cancel_request":
		for _, q := range c.asks {
			if q.ref == m.RequestID {
				q.withdraw()
			}
		}
	case m.Type == "control_request" && m.Request != nil && m.Request.Subtype == "can_use_tool":
		r := m.Request
		told := event.ToolCalled{Name: r.ToolName, Class: classOf(r.ToolName, ""), Input: r.Input}
		c.judge(request{ref: m.RequestID, call: first(r.ToolUseID, m.RequestID), told: told, access: c.accesses(r.ToolName, "", r.Input)})
	case m.Type == "control_request":
		c.send(claudeControl{Type: "control_response", Response: &claudeResponse{Subtype: "error", RequestID: m.RequestID, Error: "this client does not do that"}})
	}
}

func (c *claude) answer(q *question, a claudeAnswer) {
	c.send(claudeControl{Type: "control_response", Response: &claudeResponse{Subtype: "success", RequestID: q.ref, Response: a}})
}

func (c *claude) settle(q *question, a gate.Answer) {
	if !a.Allow {
		c.answer(q, claudeAnswer{Behavior: "deny", Message: first(a.Reason, "denied")})
		return
	}
	in := q.told.Input
	if len(in) == 0 {
		in = event.Raw("{}")
	}
	c.answer(q, claudeAnswer{Behavior: "allow", Input: in})
}

func (c *claude) drop(q *question) {
	c.answer(q, claudeAnswer{Behavior: "deny", Message: "the request was cancelled"})
}

// end has a result that was held for a sub-agent told: nothing more will come.
func (c *claude) end() { c.dec.Close(c.tell) }

func (c *claude) tick() time.Duration { return 0 }
