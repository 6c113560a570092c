package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/wire"
)

// pi is the agent of that name, by its RPC mode: commands go in, and its events come out.
//
// It asks nobody before it acts, so it is only driven where everything may pass: see [bound].
//
// A reply is over when pi says agent_settled: agent_end may be followed by another try. Versions before 0.80.4 do not say it. They are
// asked how they are, a moment after agent_end; if they do nothing, and said nothing meanwhile, the reply is over.
type pi struct {
	*Session
	asked   int // commands so far
	open    bool
	warned  bool   // that it asks nobody was told
	session string // its name for the conversation

	pending string    // id of the prompt that is not answered; empty: none
	begun   bool      // it works on it, or has
	ended   bool      // its run is over, and maybe the reply
	busy    bool      // it goes on by itself: it tries again, or makes room
	settles bool      // it says when it is settled
	looking string    // id of the question how it is
	stirred bool      // it said something since
	idle    int       // how often it did nothing, with a prompt that it took
	look    time.Time // when it is to be asked; zero: never

	last    *piMessage // the last answer of the model
	usage   event.Usage
	cost    event.Cost
	blocks  map[int]bool      // of the answer that comes: those that have deltas
	block   int               // the last of them
	outputs map[string]string // of calls, so far
}

func newPi(s *Session, _ string) tongue { return &pi{Session: s, outputs: map[string]string{}} }

func piCommand(c Config, resume string) []string {
	args := flag([]string{"pi", "--mode", "rpc"}, "--model", c.Model)
	return flag(args, "--session", resume)
}

// piLine is a line as one may come, of any type.
type piLine struct {
	Type string `json:"type"`
	ID   string `json:"id"`

	Command string          `json:"command"` // of a response
	Success bool            `json:"success"`
	Error   string          `json:"error"`
	Data    json.RawMessage `json:"data"`

	Message json.RawMessage `json:"message"` // of a dialog a text
	Event   struct {
		Type  string `json:"type"`
		Index int    `json:"contentIndex"`
		Delta string `json:"delta"`
	} `json:"assistantMessageEvent"`

	Call    string          `json:"toolCallId"`
	Tool    string          `json:"toolName"`
	Args    event.Raw       `json:"args"`
	Partial json.RawMessage `json:"partialResult"`
	Result  json.RawMessage `json:"result"` // of a call or a compaction
	IsError bool            `json:"isError"`

	Retries  bool    `json:"willRetry"`
	Attempt  int     `json:"attempt"`
	Attempts int     `json:"maxAttempts"`
	Delay    float64 `json:"delayMs"`
	Problem  string  `json:"errorMessage"`
	Reason   string  `json:"reason"`

	Method string `json:"method"` // of a dialog
	Title  string `json:"title"`
}

// piState is the answer to get_state.
type piState struct {
	Session    string `json:"sessionId"`
	Streaming  bool   `json:"isStreaming"`
	Compacting bool   `json:"isCompacting"`
	Pending    int    `json:"pendingMessageCount"`
}

// command sends one, and returns its id.
func (p *pi) command(name string, more fields) string {
	p.asked++
	id := fmt.Sprintf("%s-%d", name, p.asked)
	c := fields{"id": id, "type": name}
	for k, v := range more {
		c[k] = v
	}
	p.link.send(wire.Append(nil, c))
	return id
}

func (p *pi) greet() {
	if p.cfg.Profile != "" {
		p.fail("pi has no agents and no modes of its own: leave --agent out")
		return
	}
	p.looking = p.command("get_state", nil)
}

func (p *pi) ready() bool { return p.open }

func (p *pi) prompt(text string, files []string) {
	if !p.warned {
		p.warned = true
		p.tell(event.Event{Body: event.Notice{Text: "pi asks nobody before it acts: no rule holds it, and nothing is protected from it"}})
	}
	for _, f := range files {
		text += "\n@" + f
	}
	p.begun, p.ended, p.busy, p.idle, p.look = false, false, false, 0, time.Time{}
	p.last, p.usage, p.cost, p.blocks = nil, event.Usage{}, event.Cost{}, nil
	clear(p.outputs)
	p.pending = p.command("prompt", fields{"message": text})
}

func (p *pi) interrupt() { p.command("abort", nil) }

func (p *pi) settle(*question, gate.Answer) {} // it asks nothing
func (p *pi) drop(*question)                {}
func (p *pi) end()                          {}

// lookTime is how long a pi that seems to be done has to say so, or to go on.
const lookTime = 300 * time.Millisecond

func (p *pi) lookSoon() { p.look = p.cfg.Now().Add(lookTime) }

func (p *pi) lookNow() {
	p.look, p.stirred = time.Time{}, false
	p.looking = p.command("get_state", nil)
}

func (p *pi) tick() time.Duration {
	if p.look.IsZero() || p.pending == "" {
		return 0
	}
	if left := p.look.Sub(p.cfg.Now()); left > 0 {
		return left
	}
	p.lookNow()
	return 0
}

// gist is a line without what it only repeats: older versions say with each piece of an answer all of it that came before, twice, and
// the journal of a long one would be a thousand times its text. Newer ones say it as it is kept here.
func (p *pi) gist(line []byte) []byte {
	if !bytes.HasPrefix(line, []byte(`{"type":"message_update"`)) || !bytes.Contains(line, []byte(`"partial":`)) || !wire.Valid(line) {
		return line
	}
	dst := []byte{'{'}
	for k, v := range wire.Span(line).Members() {
		switch k.Text() {
		case "message":
			continue
		case "assistantMessageEvent":
			v = wire.Span(less(json.RawMessage(v), "partial"))
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, k...), ':')
		dst = append(dst, v...)
	}
	return append(dst, '}')
}

func (p *pi) line(line []byte) {
	var l piLine
	_ = json.Unmarshal(line, &l) // what has another type is not what we look for
	if l.Type == "" {
		p.noise(line, "stdout")
		return
	}
	if l.Type == "response" {
		p.responded(l)
		return
	}
	p.stirred = true
	switch l.Type {
	case "session", "message_start", "turn_end": // said elsewhere
	case "agent_start":
		p.begun, p.ended, p.busy, p.look = true, false, false, time.Time{}
		if p.now != nil && p.now.halted != nil { // it was stopped before it began
			p.interrupt()
		}
	case "agent_end":
		p.over(l.Retries)
	case "agent_settled":
		p.settles = true
		p.finish()
	case "turn_start":
		p.blocks = nil
		p.tell(event.Event{Body: event.TurnStarted{}})
	case "message_update":
		p.delta(l)
	case "message_end":
		p.message(l.Message)
	case "tool_execution_start", "tool_execution_update", "tool_execution_end":
		p.execution(l)
	case "auto_retry_start":
		p.busy = true
		status, class, _ := piProblem(l.Problem)
		p.tell(event.Event{Body: event.Retry{Attempt: l.Attempt, Limit: l.Attempts, Wait: int64(l.Delay), Class: class, Status: status, Message: l.Problem}})
	case "auto_retry_end":
		if !l.Success {
			p.over(false)
		}
	case "compaction_start":
		p.busy = true
	case "compaction_end":
		p.compacted(l)
		if p.ended {
			p.over(l.Retries)
		} else {
			p.busy = false
		}
	case "extension_ui_request":
		p.dialog(l, line)
	case "extension_error":
		p.tell(event.Event{Body: event.Notice{Text: "an extension of pi failed: " + l.Error}})
	default:
		p.tell(event.Event{Body: event.Custom{Name: "pi." + l.Type, Fields: less(line, "type")}})
	}
}

// over takes the end of a run of pi's. It may go on all the same.
func (p *pi) over(again bool) {
	p.ended, p.busy = true, again
	if !again && !p.settles {
		p.lookSoon()
	}
}

// responded takes the answer to a command.
func (p *pi) responded(l piLine) {
	switch {
	case l.Command == "get_state" && l.ID == p.looking:
		p.looking = ""
		p.seen(l)
	case l.Command == "prompt" && l.ID == p.pending && !l.Success:
		p.pending = ""
		p.tell(event.Event{Body: event.Error{Message: first(l.Error, "pi does not take the prompt")}})
		p.tell(event.Event{Body: event.ReplyFailed{Stop: "error"}})
	case l.Command == "prompt" && l.ID == p.pending && !p.begun:
		p.lookSoon() // a command of its own asks no model
	case l.Command == "abort" && p.pending != "":
		p.lookNow()
	case !l.Success:
		p.tell(event.Event{Body: event.Diag{Text: fmt.Sprintf("pi: %s: %s", l.Command, l.Error), Source: p.guest.name}})
	}
}

// seen takes how pi says it is.
func (p *pi) seen(l piLine) {
	var s piState
	_ = json.Unmarshal(l.Data, &s)
	switch {
	case !p.open && !l.Success:
		p.fail("pi does not want to begin: " + l.Error)
	case !p.open:
		p.open, p.session = true, s.Session
	case p.pending == "" || p.busy:
	case s.Streaming || s.Compacting || s.Pending > 0:
		if p.ended || !p.begun {
			p.lookSoon()
		}
	case p.stirred:
		p.lookNow()
	case !p.begun && p.idle < 2 && p.now != nil && p.now.halted == nil:
		p.idle++
		p.lookSoon()
	default:
		p.finish()
	}
}

// finish ends the reply: pi does nothing more. How it went is what the last answer says; its exit code says nothing.
func (p *pi) finish() {
	if p.pending == "" {
		return
	}
	p.pending, p.look = "", time.Time{}
	end := event.ReplyEnd{Usage: p.usage, Cost: p.cost}
	stop := "error"
	if p.last != nil {
		stop = p.last.Stop
	}
	switch halted := p.now != nil && p.now.halted != nil; {
	case stop == "stop", !p.begun && !halted:
		end.Stop = "end_turn"
		p.tell(event.Event{Body: event.ReplyDone(end)})
		return
	case halted || stop == "aborted":
		end.Stop = "cancelled"
		p.tell(event.Event{Body: event.ReplyCancelled(end)})
		return
	case p.last == nil:
		p.tell(event.Event{Body: event.Error{Message: "pi stopped without an answer"}})
	case stop == "error":
		status, class, passing := piProblem(p.last.Problem)
		e := event.Error{Message: first(p.last.Problem, "pi says that it failed"), Class: class, Retryable: passing}
		if status > 0 {
			e.Code = fmt.Sprint(status)
		}
		p.tell(event.Event{Body: e})
	}
	end.Stop = first(map[string]string{"length": "max_tokens", "toolUse": "tool_use"}[stop], stop, "error")
	p.tell(event.Event{Body: event.ReplyFailed(end)})
}
