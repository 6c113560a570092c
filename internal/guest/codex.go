package guest

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/rpc"
	"github.com/sluice-dev/sluice/internal/wire"
)

// codex is OpenAI's codex, by its app-server: JSON-RPC over lines, without the member that names its version.
//
// It is told to ask before everything, and to put nothing behind walls of its own: what is accepted there stays behind them, so
// that a write which our rules allow would fail all the same. So our gate is the only judge of what it asks about.
//
// One of its turns is one of our replies. Its threads beside ours are sub-agents.
type codex struct {
	*Session
	resume  string
	last    int // id of our last request
	waiting map[string]func(result json.RawMessage, err *rpc.Error)
	thread  string // ours, once it is open
	turn    string // the one that goes on, once it has a name
	stop    bool   // it is to be interrupted as soon as it has

	items   map[string]*codexItem // of this reply, by id
	turning map[string]bool       // agents whose model answers
	working map[string]bool       // agents whose model's answer made calls
	usage   event.Usage           // of this reply
	retries int
	trouble codexError // of the last retry
}

func newCodex(s *Session, resume string) tongue {
	return &codex{Session: s, resume: resume, waiting: map[string]func(json.RawMessage, *rpc.Error){}, items: map[string]*codexItem{}}
}

func codexCommand(Config, string) []string { return []string{"codex", "app-server"} }

// codexMessage is a line of ours.
type codexMessage struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params any             `json:"params,omitempty"`
	Result any             `json:"result,omitempty"`
	Error  *rpc.Error      `json:"error,omitempty"`
}

func (c *codex) send(m codexMessage) { c.link.send(wire.Append(nil, m)) }

// request sends a request; then is called with its answer.
func (c *codex) request(method string, params any, then func(result json.RawMessage, err *rpc.Error)) {
	c.last++
	id := strconv.Itoa(c.last)
	c.waiting[id] = then
	c.send(codexMessage{ID: json.RawMessage(id), Method: method, Params: params})
}

func (c *codex) greet() {
	if c.cfg.Profile != "" {
		c.fail("codex takes no profile when it is driven: leave --agent out, and set what you want in its config.toml")
		return
	}
	info := fields{"name": "sluice", "title": "Sluice", "version": "0"}
	c.request("initialize", fields{"clientInfo": info}, func(_ json.RawMessage, err *rpc.Error) {
		if c.refused("initialize", err) {
			return
		}
		c.send(codexMessage{Method: "initialized"})
		// Who reviews is said too: the user's settings may have another agent do it. The walls are taken away with each turn and not
		// here: codex writes down that the folder is trusted where a thread may write, and then does what the folder's own settings say.
		p := fields{"cwd": c.absolute(), "approvalPolicy": "untrusted", "approvalsReviewer": "user", "sandbox": "read-only"}
		if c.cfg.Model != "" {
			p["model"] = c.cfg.Model
		}
		if c.resume == "" {
			c.request("thread/start", p, c.opened)
			return
		}
		p["threadId"], p["excludeTurns"] = c.resume, true
		c.request("thread/resume", p, c.opened)
	})
}

func (c *codex) absolute() string {
	if dir, err := filepath.Abs(c.cfg.Workspace); err == nil {
		return dir
	}
	return c.cfg.Workspace
}

// refused says whether a request failed, and tells it.
func (c *codex) refused(what string, err *rpc.Error) bool {
	if err == nil {
		return false
	}
	c.fail(fmt.Sprintf("%s: %s: %s", c.guest.name, what, explain(err)))
	return true
}

func (c *codex) opened(result json.RawMessage, err *rpc.Error) {
	if c.refused("the thread cannot be opened", err) {
		return
	}
	var o struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	}
	_ = json.Unmarshal(result, &o)
	if c.thread = first(o.Thread.ID, c.resume); c.thread == "" {
		c.fail(c.guest.name + ": the thread has no id")
		return
	}
	c.learn(c.thread)
}

func (c *codex) ready() bool { return c.thread != "" }

func (c *codex) prompt(text string, files []string) {
	input := []fields{{"type": "text", "text": text}}
	for _, f := range files {
		abs, err := filepath.Abs(f)
		switch {
		case err != nil:
		case slices.Contains([]string{".png", ".jpg", ".jpeg", ".gif", ".webp"}, strings.ToLower(filepath.Ext(f))):
			input = append(input, fields{"type": "localImage", "path": abs})
		default:
			input[0]["text"] = input[0]["text"].(string) + "\n@" + abs
		}
	}
	c.turn, c.stop, c.usage, c.retries = "", false, event.Usage{}, 0
	c.items, c.turning, c.working = map[string]*codexItem{}, map[string]bool{}, map[string]bool{}
	walls := fields{"type": "dangerFullAccess"}
	c.request("turn/start", fields{"threadId": c.thread, "input": input, "sandboxPolicy": walls}, func(result json.RawMessage, err *rpc.Error) {
		var o struct {
			Turn codexTurn `json:"turn"`
		}
		if err != nil {
			c.tell(event.Event{Body: event.Error{Message: explain(err), Code: strconv.Itoa(err.Code)}})
			c.tell(event.Event{Body: event.ReplyFailed{Stop: "error"}})
			return
		}
		_ = json.Unmarshal(result, &o)
		c.named(o.Turn.ID)
	})
}

// named takes the name of the turn that was begun.
func (c *codex) named(turn string) {
	if c.turn = turn; c.stop && turn != "" {
		c.interrupt()
	}
}

// interrupt stops the turn. One that has no name yet is stopped when it has.
func (c *codex) interrupt() {
	if c.stop = c.turn == ""; c.stop {
		return
	}
	c.request("turn/interrupt", fields{"threadId": c.thread, "turnId": c.turn}, func(json.RawMessage, *rpc.Error) {}) // if it is over already, that is told
}

func (c *codex) line(line []byte) {
	m, err := rpc.Parse(line)
	if then := c.waiting[string(m.ID)]; err != nil && m.Method == "" && then != nil { // its error may be a bare word
		m.Error, err = rpc.Errorf(rpc.CodeInvalid, "an answer that cannot be read: %s", oneLine(line)), nil
	}
	switch {
	case err != nil:
		c.noise(line, "stdout")
	case m.Method == "": // its requests and ours have the same ids
		then := c.waiting[string(m.ID)]
		if then == nil {
			c.noise(line, "stdout")
			return
		}
		delete(c.waiting, string(m.ID))
		then(m.Result, m.Error)
	case m.ID != nil:
		if !c.asked(m) {
			c.send(codexMessage{ID: m.ID, Error: rpc.Errorf(rpc.CodeMethod, "there is no method %q", m.Method)})
		}
	default:
		c.notified(m.Method, m.Params)
	}
}

// A codexAsk is a request for an approval, of any kind: the fields of each have names of their own.
type codexAsk struct {
	Item    string          `json:"itemId"`
	Call    string          `json:"callId"` // in the older forms
	Kind    string          `json:"kind"`
	Command json.RawMessage `json:"command"`
	Cwd     string          `json:"cwd"`
	Root    string          `json:"grantRoot"`
	Wants   json.RawMessage `json:"permissions"`
	Network *struct {
		Host string `json:"host"`
	} `json:"networkApprovalContext"`
	Files map[string]codexChange `json:"fileChanges"` // by path

	Server  string `json:"serverName"` // an MCP server's
	Message string `json:"message"`
	Meta    struct {
		Kind   string          `json:"codex_approval_kind"`
		Params json.RawMessage `json:"tool_params"`
	} `json:"_meta"`
}

// asked brings a request of codex's to the gate. It says whether it knows the request.
func (c *codex) asked(m rpc.Message) bool {
	var p codexAsk
	_ = json.Unmarshal(m.Params, &p) // what has another type is not what we look for
	r := request{ref: m.Method + " " + string(m.ID), call: first(p.Item, p.Call, "ask-"+string(m.ID))}
	item := c.items[r.call]
	if item == nil {
		item = &codexItem{ID: r.call}
	}
	switch m.Method {
	case "item/commandExecution/requestApproval", "execCommandApproval":
		item.Type = "commandExecution"
		command := unwrapped(commandOf(p.Command))
		in := wire.Append(nil, fields{"command": first(command, item.command()), "cwd": first(p.Cwd, item.Cwd)})
		r.told = event.ToolCalled{Name: item.name(), Class: event.ClassExec, Title: first(command, item.command()), Input: in}
		switch {
		case p.Network != nil:
			r.access = []gate.Access{{Permission: "network", Target: p.Network.Host, Class: event.ClassExec}}
		case p.Kind != "" && p.Kind != "command":
			r.access = []gate.Access{{Permission: "bash", Class: event.ClassExec, Opaque: true, Why: "it writes to a command that runs"}}
		default: // not what was announced: what is asked about
			r.access = c.accesses(item.name(), "", wire.Append(nil, fields{"command": command, "cwd": first(p.Cwd, item.Cwd)}))
		}
	case "item/fileChange/requestApproval", "applyPatchApproval":
		item.Type = "fileChange"
		for _, path := range slices.Sorted(maps.Keys(p.Files)) {
			item.Changes = append(item.Changes, codexChange{Path: path, Kind: p.Files[path].Kind, Move: p.Files[path].Move})
		}
		r.told = item.called()
		r.access = c.accesses(item.name(), "", nil, item.paths()...)
		if p.Root != "" {
			r.access = append(r.access, gate.Access{Permission: "edit", Class: event.ClassEdit, Opaque: true, Why: "it asks for all that is in a folder"})
		}
	case "mcpServer/elicitation/request":
		if p.Meta.Kind != "mcp_tool_call" {
			return false // a server asks a person for something
		}
		if item = c.meant(p); item == nil {
			return false
		}
		item.asked = true
		r.call, r.told = item.ID, item.called()
		r.access = c.accesses(item.name(), "", object(item.Arguments))
	case "item/permissions/requestApproval":
		r.told = event.ToolCalled{Name: "request_permissions", Class: event.ClassExec, Input: object(p.Wants)}
		r.access = c.wants(p.Wants, p.Cwd)
	default:
		return false
	}
	c.judge(r)
	return true
}

// meant is the call of an MCP tool that a question is about: it says which server and what for, and the tool only in its words.
func (c *codex) meant(p codexAsk) *codexItem {
	var params any
	_ = json.Unmarshal(p.Meta.Params, &params)
	for _, i := range c.items {
		var args any
		_ = json.Unmarshal(i.Arguments, &args)
		if i.Type == "mcpToolCall" && !i.asked && i.Server == p.Server && strings.Contains(p.Message, strconv.Quote(i.Tool)) && reflect.DeepEqual(args, params) {
			return i
		}
	}
	return nil
}

// wants says what permissions that are asked for would let it do.
func (c *codex) wants(raw json.RawMessage, cwd string) (list []gate.Access) {
	var p struct {
		Files *struct {
			Read    []string `json:"read"`
			Write   []string `json:"write"`
			Entries []struct {
				Access string `json:"access"`
				Path   struct {
					Path string `json:"path"`
				} `json:"path"`
			} `json:"entries"`
		} `json:"fileSystem"`
		Network *struct {
			Enabled *bool `json:"enabled"`
		} `json:"network"`
	}
	if json.Unmarshal(raw, &p) != nil {
		return []gate.Access{{Permission: "bash", Class: event.ClassExec, Opaque: true, Why: "it does not say what it wants"}}
	}
	if f := p.Files; f != nil {
		for _, e := range f.Entries {
			switch e.Access {
			case "read":
				f.Read = append(f.Read, e.Path.Path) // empty: no path but a pattern
			case "write":
				f.Write = append(f.Write, e.Path.Path)
			}
		}
		in := wire.Append(nil, fields{"cwd": cwd})
		for _, path := range f.Read {
			list = append(list, c.accesses("read", "", in, path)...)
		}
		for _, path := range f.Write {
			list = append(list, c.accesses("edit", "", in, path)...)
		}
	}
	if p.Network != nil || len(list) == 0 {
		list = append(list, gate.Access{Permission: "network", Target: "*", Class: event.ClassExec})
	}
	return list
}

// answer answers a request, in the words of its kind.
func (c *codex) answer(q *question, word, old string) {
	method, id, _ := strings.Cut(q.ref, " ")
	var result any = fields{"decision": word}
	switch method {
	case "execCommandApproval", "applyPatchApproval":
		result = fields{"decision": old}
		if old == "denied" {
			result = fields{"decision": fields{"denied": fields{"rejection": first(q.call.denied, "it was denied")}}}
		}
	case "mcpServer/elicitation/request":
		result = fields{"action": word}
		if word == "accept" {
			result = fields{"action": word, "content": fields{}}
		}
	case "item/permissions/requestApproval":
		granted := event.Raw("{}")
		if word == "accept" {
			granted = q.told.Input
		}
		result = fields{"permissions": granted, "scope": "turn"}
	}
	c.send(codexMessage{ID: json.RawMessage(id), Result: result})
}

func (c *codex) settle(q *question, a gate.Answer) {
	if !a.Allow {
		c.answer(q, "decline", "denied")
		return
	}
	c.answer(q, "accept", "approved")
	h := event.Header{Call: q.request.call}
	if q.told.Name == "request_permissions" {
		c.tell(event.Event{Header: h, Body: event.ToolDone{Name: q.told.Name}}) // of which nothing more is told
		return
	}
	c.tell(event.Event{Header: h, Body: event.ToolStarted{Name: q.told.Name}})
}

func (c *codex) drop(q *question) { c.answer(q, "cancel", "abort") }

// resolved closes a question that codex no longer asks: it has another answer, or none is needed.
func (c *codex) resolved(id json.RawMessage) {
	for key, q := range c.asks {
		if strings.HasSuffix(q.ref, " "+string(id)) {
			q.withdraw()
			delete(c.asks, key)
			c.tellOf(q.call, gate.Answer{Reason: "codex does not ask any more", By: event.ByNobody}.Event(q.asked))
		}
	}
}

func (c *codex) end()                {}
func (c *codex) tick() time.Duration { return 0 }

// unwrapped is the command inside a shell that is only there to run it, as codex writes it: /bin/bash -lc '…'. Any other is what it is.
func unwrapped(command string) string {
	list, err := words(command)
	if err != nil || len(list) != 3 || list[1] != "-lc" && list[1] != "-c" || !slices.Contains(shells, list[0]) {
		return command
	}
	return list[2]
}

// shells are those that a command may be given to. Another of such a name may be anybody's program.
var shells = []string{"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash", "/usr/bin/sh", "/usr/bin/zsh"}
