package guest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/rpc"
	"github.com/sluice-dev/sluice/internal/wire"
)

// acp is any agent that speaks the Agent Client Protocol.
//
// The greeting is a chain: initialize, then session/new or session/load, then the model and the mode. Neither files nor
// terminals of ours are offered: what the agent does it does itself, and asks before.
type acp struct {
	*Session
	resume  string
	last    int // id of our last request
	waiting map[string]func(result json.RawMessage, err *rpc.Error)
	open    bool
	session string
	replay  bool      // the agent tells an old conversation again
	heard   time.Time // when it was last heard to

	held  []*acpCall          // calls that were not yet told, since their input may still come
	since time.Time           // of the last one
	known map[string]*acpCall // of this reply, by the agent's id
	cost  float64             // so far
	spent *float64
}

func newACP(s *Session, resume string) tongue {
	return &acp{Session: s, resume: resume, waiting: map[string]func(json.RawMessage, *rpc.Error){}, known: map[string]*acpCall{}}
}

// acpWelcome is the answer to initialize.
type acpWelcome struct {
	Version int `json:"protocolVersion"`
	Agent   struct {
		Load    bool `json:"loadSession"`
		Session struct {
			Resume *struct{} `json:"resume"`
		} `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
}

// acpSession is the answer to session/new and session/load.
type acpSession struct {
	ID    string `json:"sessionId"`
	Modes struct {
		Current string `json:"currentModeId"`
		Modes   []struct {
			ID string `json:"id"`
		} `json:"availableModes"`
	} `json:"modes"`
	Models struct {
		Models []struct {
			ID string `json:"modelId"`
		} `json:"availableModels"`
	} `json:"models"`
	Options []struct {
		ID       string `json:"id"`
		Category string `json:"category"`
	} `json:"configOptions"`
}

// ask sends a request; then is called with its answer.
func (a *acp) request(method string, params any, then func(result json.RawMessage, err *rpc.Error)) {
	a.last++
	id := strconv.Itoa(a.last)
	a.waiting[id] = then
	a.send(rpc.Message{ID: json.RawMessage(id), Method: method, Params: wire.Append(nil, params)})
}

func (a *acp) send(m rpc.Message) { a.link.send(m.Line()) }

type fields map[string]any

func (a *acp) greet() {
	a.request("initialize", fields{
		"protocolVersion":    1,
		"clientCapabilities": fields{"fs": fields{"readTextFile": false, "writeTextFile": false}, "terminal": false},
		"clientInfo":         fields{"name": "sluice", "version": "0"},
	}, func(result json.RawMessage, err *rpc.Error) {
		var w acpWelcome
		if a.refused("initialize", err) {
			return
		}
		_ = json.Unmarshal(result, &w) // what it can do beyond the rest, it does not say
		place := fields{"cwd": a.absolute(), "mcpServers": []any{}}
		switch {
		case a.resume == "":
			a.request("session/new", place, a.opened)
		case w.Agent.Load:
			place["sessionId"], a.replay = a.resume, true
			a.request("session/load", place, a.opened)
		case w.Agent.Session.Resume != nil:
			place["sessionId"] = a.resume
			a.request("session/resume", place, a.opened)
		default:
			a.fail(a.guest.name + " cannot go on with a session: begin a new one")
		}
	})
}

func (a *acp) absolute() string {
	if dir, err := filepath.Abs(a.cfg.Workspace); err == nil {
		return dir
	}
	return a.cfg.Workspace
}

// refused says whether a request failed, and tells it.
func (a *acp) refused(what string, err *rpc.Error) bool {
	if err == nil {
		return false
	}
	a.fail(fmt.Sprintf("%s: %s: %s", a.guest.name, what, explain(err)))
	return true
}

// explain is what an error says, with its details where the message is only a name.
func explain(err *rpc.Error) string {
	text := first(err.Message, "error "+strconv.Itoa(err.Code))
	var data struct {
		Details string `json:"details"`
		Message string `json:"message"`
	}
	if json.Unmarshal(err.Data, &data) == nil && first(data.Details, data.Message) != "" {
		text += " (" + first(data.Details, data.Message) + ")"
	}
	return text
}

// opened goes on when the session is there: first the model, then the mode.
func (a *acp) opened(result json.RawMessage, err *rpc.Error) {
	a.heard = a.cfg.Now()
	if a.refused("the session cannot be opened", err) {
		return
	}
	var o acpSession
	_ = json.Unmarshal(result, &o)
	a.session = first(o.ID, a.resume)
	a.learn(a.session)
	steps := slices.Concat(a.model(o), a.mode(o))
	var next func()
	next = func() {
		if len(steps) == 0 {
			a.open = true
			return
		}
		step := steps[0]
		steps = steps[1:]
		a.request(step.method, step.params, func(_ json.RawMessage, err *rpc.Error) {
			if !a.refused(step.method, err) {
				next()
			}
		})
	}
	next()
}

// A step is a request whose answer says nothing.
type step struct {
	method string
	params fields
}

// model sets the model, in whichever way the agent offers.
func (a *acp) model(o acpSession) []step {
	if a.cfg.Model == "" || slices.Contains(a.guest.command(a.cfg, ""), a.cfg.Model) {
		return nil
	}
	for _, option := range o.Options {
		if option.ID == "model" || option.Category == "model" {
			return []step{{"session/set_config_option", fields{"sessionId": a.session, "configId": option.ID, "value": a.cfg.Model}}}
		}
	}
	return []step{{"session/set_model", fields{"sessionId": a.session, "modelId": a.cfg.Model}}}
}

// mode sets the mode that was asked for; and else the one in which the agent asks, if it is in another: what it does unasked, no
// rule of ours can forbid.
func (a *acp) mode(o acpSession) []step {
	want := a.cfg.Profile
	if want == "" && o.Modes.Current != "default" {
		for _, m := range o.Modes.Modes {
			if m.ID == "default" {
				want = m.ID
			}
		}
	}
	if want == "" || want == o.Modes.Current {
		return nil
	}
	return []step{{"session/set_mode", fields{"sessionId": a.session, "modeId": want}}}
}

// ready: an agent may answer that the old conversation is there before it has told all of it.
func (a *acp) ready() bool { return a.open && !a.replay }

func (a *acp) prompt(text string, files []string) {
	content := []fields{{"type": "text", "text": text}}
	for _, f := range files {
		if abs, err := filepath.Abs(f); err == nil {
			content = append(content, fields{"type": "resource_link", "uri": (&url.URL{Scheme: "file", Path: abs}).String(), "name": filepath.Base(f)})
		}
	}
	a.known, a.held, a.spent = map[string]*acpCall{}, nil, nil
	a.request("session/prompt", fields{"sessionId": a.session, "prompt": content}, a.replied)
}

func (a *acp) interrupt() {
	a.send(rpc.Message{Method: "session/cancel", Params: wire.Append(nil, fields{"sessionId": a.session})})
}

func (a *acp) line(line []byte) {
	m, err := rpc.Parse(line)
	if then := a.waiting[string(m.ID)]; err != nil && m.Method == "" && then != nil { // its error may be a bare word
		m.Error, err = rpc.Errorf(rpc.CodeInvalid, "an answer that cannot be read: %s", oneLine(line)), nil
	}
	if err != nil {
		a.noise(line, "stdout")
		return
	}
	switch {
	case m.Method == "":
		then := a.waiting[string(m.ID)]
		if then == nil {
			a.noise(line, "stdout")
			return
		}
		delete(a.waiting, string(m.ID))
		then(m.Result, m.Error)
	case m.Method == "session/update":
		a.update(m.Params)
	case m.Method == "session/request_permission" && m.ID != nil:
		a.permission(m)
	case m.ID != nil:
		a.send(rpc.Message{ID: m.ID, Error: rpc.Errorf(rpc.CodeMethod, "there is no method %q", m.Method)})
	default: // a notification of the agent's own
		a.tell(event.Event{Body: event.Custom{Name: m.Method, Fields: object(m.Params)}})
	}
}

// acpAsk is a permission request.
type acpAsk struct {
	Call    acpUpdate `json:"toolCall"`
	Options []struct {
		ID   string `json:"optionId"`
		Name string `json:"name"`
		Kind string `json:"kind"`
	} `json:"options"`
}

// permission brings a request to the gate. The call is told first; one that was never announced is made of the request.
func (a *acp) permission(m rpc.Message) {
	var p acpAsk
	if err := json.Unmarshal(m.Params, &p); err != nil || p.Call.ID == "" {
		a.send(rpc.Message{ID: m.ID, Error: rpc.Errorf(rpc.CodeParams, "the request names no call")})
		return
	}
	c := a.call(p.Call)
	a.flush()
	r := request{ref: string(m.ID), call: p.Call.ID, told: c.called(), about: "", options: []event.Option{}}
	for _, o := range p.Options {
		r.options = append(r.options, event.Option{ID: o.ID, Name: o.Name, Kind: o.Kind})
	}
	input := first(string(p.Call.Input), string(c.input))
	r.access = a.accesses(c.name(), c.Kind, event.Raw(input), c.paths()...)
	a.judge(r)
}

func (a *acp) outcome(q *question, outcome fields) {
	a.send(rpc.Message{ID: json.RawMessage(q.ref), Result: wire.Append(nil, fields{"outcome": outcome})})
}

func (a *acp) settle(q *question, answer gate.Answer) {
	option := q.option(answer)
	if option == "" { // it offers no way to say this
		a.drop(q)
		return
	}
	a.outcome(q, fields{"outcome": "selected", "optionId": option})
}

func (a *acp) drop(q *question) { a.outcome(q, fields{"outcome": "cancelled"}) }

// end tells what was held.
func (a *acp) end() { a.flush() }

// holdTime is how long a call waits for its input to be told with it, and a prompt for the end of an old conversation.
const holdTime = 300 * time.Millisecond

// tick tells calls that have waited long enough, and sees when an old conversation has come to its end.
func (a *acp) tick() time.Duration {
	if a.open && a.replay {
		if left := holdTime - a.cfg.Now().Sub(a.heard); left > 0 {
			return left
		}
		a.replay = false
		return time.Millisecond // now it can be asked
	}
	if len(a.held) == 0 {
		return 0
	}
	if left := holdTime - a.cfg.Now().Sub(a.since); left > 0 {
		return left
	}
	a.flush()
	return 0
}
