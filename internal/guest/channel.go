package guest

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
)

// channel is claude on a terminal with a channel beside it: what claude reports by its tools comes through a broker, and a prompt
// goes the same way where claude takes it. Where it does not (channels are a preview, and want an account), the prompt is typed. It is
// delivered once: what was pushed is typed only if nothing shows that it arrived.
type channel struct {
	*tui
	broker *broker

	registered bool      // the sidecar is there
	opened     time.Time // when the terminal was ready
	confirmed  bool      // claude asked whether to load the channel, and was told yes
	refused    bool      // the screen says that there are no channels
	pushed     time.Time // when the prompt went through the channel; zero: it did not, or it arrived
	text       string    // of the prompt
	files      []string
	relays     []relay // questions whose calls the transcript does not have yet
	finished   *event.Finished
	since      time.Time // when that was said
}

const (
	channelReady = 10 * time.Second // until the sidecar is there; without it claude works all the same
	channelTaken = 15 * time.Second // until something shows that a pushed prompt arrived
)

func newChannel(s *Session, resume string) tongue {
	c := &channel{tui: newTUI(s, resume).(*tui), broker: s.link.broker}
	c.tui.hold = c.holds
	c.tui.last = c.concludes
	c.tui.elsewhere = c.asking
	c.tui.start = c.starts
	return c
}

// channelCommand is claude on a terminal, with the sidecar.
func channelCommand(c Config, resume string) []string {
	args := tuiCommand(c, resume)
	if c.broker == nil {
		return args
	}
	tools := make([]string, len(sidecarTools))
	for i, t := range sidecarTools {
		tools[i] = "mcp__" + c.broker.server + "__" + t["name"].(string)
	}
	return append(args, "--mcp-config="+c.broker.config(), "--allowedTools="+strings.Join(tools, ","),
		"--dangerously-load-development-channels", "server:"+c.broker.server)
}

// ready says whether it takes a prompt: the sidecar should be there first.
func (c *channel) ready() bool {
	return c.tui.ready() && (c.registered || c.cfg.Now().Sub(c.opened) > channelReady)
}

func (c *channel) prompt(text string, files []string) {
	c.text, c.files, c.finished, c.relays, c.pushed = text, files, nil, nil, time.Time{}
	if !c.registered || !c.confirmed || c.refused {
		c.tui.prompt(text, files)
		return
	}
	for _, f := range files {
		text += "\n@" + f
	}
	id := c.name("control")
	c.tui.reset(len(text))
	c.pushed = c.cfg.Now()
	c.put(event.Event{Body: event.ChannelQueued{Control: id, Type: "continue", Delivery: "channel", Length: len(text)}})
	c.broker.send("push", map[string]any{"content": text, "meta": map[string]string{"ctrl_id": id, "type": "continue"}})
}

func (c *channel) line(line []byte) {
	c.tui.line(line)
	if c.file.prompt {
		c.pushed = time.Time{} // it is in the transcript
	}
	c.relay()
}

func (c *channel) screen(text string) {
	if strings.Contains(text, "Channels are not currently available") || strings.Contains(text, "channels blocked by org policy") {
		c.refused = true
	}
	c.tui.screen(text)
	if c.tui.opened && c.opened.IsZero() {
		c.opened = c.cfg.Now()
	}
}

// starts says whether a dialog before the first prompt is one that is answered with yes: claude asks whether to load the channel
// that it was started with.
func (c *channel) starts(d *dialog) bool {
	if strings.Contains(strings.ToLower(d.question+d.about), "channel") {
		c.confirmed = true
		return true
	}
	return false
}

// heard takes what came through the channel.
func (c *channel) heard(m message) {
	if m.method == "register" {
		if !c.registered {
			c.registered = true
			c.put(event.Event{Body: event.ChannelReady{Server: c.broker.server, Source: "channel"}})
		}
		return
	}
	c.pushed = time.Time{} // whoever calls a tool has been told to do something
	if c.now == nil {
		return
	}
	c.submitted()
	c.file.prompt = true
	switch m.method {
	case "report":
		c.report(m.params)
	case "reply":
		var p struct {
			To      string    `json:"to"`
			Payload event.Raw `json:"payload"`
		}
		_ = json.Unmarshal(m.params, &p) // what is of another type is not there
		c.put(event.Event{Body: event.Answer{To: p.To, Payload: p.Payload, Source: "channel"}})
	case "finish":
		var p struct {
			Status  string    `json:"status"`
			Summary string    `json:"summary"`
			Files   []string  `json:"files_changed"`
			Details event.Raw `json:"details"`
		}
		_ = json.Unmarshal(m.params, &p)
		if c.finished == nil {
			c.finished = &event.Finished{Status: p.Status, Summary: p.Summary, Files: p.Files, Payload: p.Details, Source: "channel"}
			c.since = c.cfg.Now()
			c.put(event.Event{Body: *c.finished})
		}
	case "permission_request":
		r := relay{since: c.cfg.Now()}
		if json.Unmarshal(m.params, &r) == nil && r.ID != "" {
			c.relays = append(c.relays, r)
			c.relay()
		}
	}
}

// report tells what claude says it is at; where that is a status, as one too.
func (c *channel) report(params json.RawMessage) {
	var p struct {
		State   string    `json:"state"`
		Payload event.Raw `json:"payload"`
	}
	_ = json.Unmarshal(params, &p)
	c.put(event.Event{Body: event.Report{State: p.State, Payload: p.Payload, Source: "channel"}})
	switch p.State {
	case "thinking":
		c.status("thinking", "channel", "")
	case "started", "working":
		c.status("working", "channel", "")
	case "blocked", "permission_requested":
		c.status("waiting", "channel", "")
	}
}

// A relay is a question that claude passes on. The terminal shows it too; the first answer counts there.
type relay struct {
	ID    string `json:"request_id"`
	Tool  string `json:"tool_name"`
	About string `json:"description"`
	since time.Time
}

// relay judges what was passed on, once the transcript has the call. What it never has, the terminal asks about.
func (c *channel) relay() {
	var later []relay
	for _, r := range c.relays {
		id, call := c.pending()
		switch {
		case call != nil && call.name == r.Tool:
			c.status("waiting", "channel", r.About)
			c.judge(request{
				ref: relayed + r.ID, call: id, about: strings.TrimSpace(r.Tool + ": " + r.About),
				told: event.ToolCalled{Name: call.name, Class: call.class, Input: call.input}, access: c.accesses(call.name, "", call.input),
			})
		case c.cfg.Now().Sub(r.since) < tuiSettle:
			later = append(later, r)
		}
	}
	c.relays = later
}

// relayed marks a question that came through the channel.
const relayed = "channel:"

func (c *channel) settle(q *question, a gate.Answer) {
	id, ok := strings.CutPrefix(q.ref, relayed)
	if !ok {
		c.tui.settle(q, a)
		return
	}
	behavior := "deny"
	if a.Allow {
		behavior = "allow"
	}
	c.broker.send("permission", map[string]string{"request_id": id, "behavior": behavior})
	c.phase = ""
}

func (c *channel) drop(q *question) {
	if id, ok := strings.CutPrefix(q.ref, relayed); ok {
		c.broker.send("permission", map[string]string{"request_id": id, "behavior": "deny"})
		return
	}
	c.tui.drop(q)
}

// asking says whether the question on the screen is one that came through the channel.
func (c *channel) asking() bool {
	for _, call := range c.calls {
		if !call.ended && call.judged {
			return true
		}
	}
	return false
}

// holds says whether the reply is not over yet, although the transcript says so: claude may still say what came of it.
func (c *channel) holds() bool {
	return c.finished == nil && c.registered && c.cfg.Now().Sub(c.quiet) < tuiSettle
}

// concludes is the end of the reply as claude reported it.
func (c *channel) concludes(end event.ReplyEnd) (event.Body, *event.Error) {
	if c.finished == nil {
		return nil, nil
	}
	switch c.finished.Status {
	case "failed", "blocked":
		end.Stop = "error"
		if c.finished.Status == "blocked" {
			end.Stop = "blocked"
		}
		return event.ReplyFailed(end), &event.Error{
			Message: first(c.finished.Summary, "claude reports that it "+c.finished.Status), Name: "AgentError", Source: "backend", Stop: end.Stop, Retryable: new(false),
		}
	}
	end.Stop = "end_turn"
	return event.ReplyDone(end), nil
}

func (c *channel) tick() time.Duration {
	now := c.cfg.Now()
	if !c.pushed.IsZero() && now.Sub(c.pushed) > channelTaken {
		c.pushed = time.Time{}
		c.put(event.Event{Body: event.Notice{Text: "nothing shows that the prompt arrived through the channel: it is typed"}})
		c.tui.prompt(c.text, c.files)
	}
	if c.finished != nil && c.now != nil && c.now.said == nil && now.Sub(c.since) > tuiSettle { // the transcript is late, or not there
		c.file.over = true
	}
	return c.tui.tick()
}
