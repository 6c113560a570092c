//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/internal/rpc"
)

// An editor is a client of the Agent Client Protocol, as editors are.
type editor struct {
	*run
	conn  *rpc.Conn
	cmd   *exec.Cmd
	grant func(options map[string]string) any // answers a question: option kind → id; nil: never

	mu      sync.Mutex
	updates []map[string]any
	asked   []map[string]any
	waits   []*waiter
}

type waiter struct {
	match func(map[string]any) bool
	found chan struct{}
}

// newEditor starts the server.
func newEditor(t *testing.T, r *run, flags ...string) *editor {
	e := &editor{run: r}
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	t.Cleanup(cancel)
	e.cmd = exec.CommandContext(ctx, "sluice", append([]string{"acp", "--model", "anthropic/scripted"}, flags...)...)
	e.cmd.Env, e.cmd.Dir, e.cmd.Stderr = r.env, r.path("work"), &r.errs
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := e.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.conn = rpc.New(out, in, rpc.Options{Handle: e.take, Stray: func(line []byte) { t.Errorf("stray line %s", line) }})
	go e.conn.Run()
	var hello struct {
		Version      int `json:"protocolVersion"`
		Capabilities struct {
			Load bool `json:"loadSession"`
		} `json:"agentCapabilities"`
	}
	e.call("initialize", map[string]any{"protocolVersion": 1, "clientCapabilities": map[string]any{}}, &hello)
	if hello.Version != 1 || !hello.Capabilities.Load {
		t.Fatalf("initialize says %+v", hello)
	}
	return e
}

func (e *editor) call(method string, params, result any) {
	e.Helper()
	if err := e.try(method, params, result); err != nil {
		e.Fatalf("%s: %v", method, err)
	}
}

func (e *editor) try(method string, params, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	return e.conn.Call(ctx, method, params, result)
}

// take hears what the server tells and asks.
func (e *editor) take(q *rpc.Request) {
	var p map[string]any
	if err := q.Decode(&p); err != nil {
		e.Error(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch q.Method {
	case "session/update":
		u, _ := p["update"].(map[string]any)
		e.updates = append(e.updates, u)
		e.wake(u)
	case "session/request_permission":
		e.asked = append(e.asked, p)
		e.wake(p)
		if e.grant == nil {
			return
		}
		options := map[string]string{}
		for _, o := range p["options"].([]any) {
			o := o.(map[string]any)
			options[o["kind"].(string)] = o["optionId"].(string)
		}
		q.Reply(map[string]any{"outcome": e.grant(options)})
	default:
		e.Errorf("the server asks for %s", q.Method)
	}
}

func (e *editor) wake(m map[string]any) {
	for _, w := range e.waits {
		if w.match != nil && w.match(m) {
			w.match = nil
			close(w.found)
		}
	}
}

// expect returns what ends when something like this was told.
func (e *editor) expect(match func(map[string]any) bool) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := &waiter{match, make(chan struct{})}
	e.waits = append(e.waits, w)
	return w.found
}

func selected(id string) any { return map[string]string{"outcome": "selected", "optionId": id} }

func (e *editor) open() string {
	e.Helper()
	var s struct {
		ID    string `json:"sessionId"`
		Modes struct {
			Current string `json:"currentModeId"`
		} `json:"modes"`
	}
	e.call("session/new", map[string]any{"cwd": e.path("work"), "mcpServers": []any{}}, &s)
	if s.ID == "" || s.Modes.Current != "default" {
		e.Fatalf("session/new says %+v", s)
	}
	e.session = s.ID
	return s.ID
}

func prompt(session, text string) map[string]any {
	return map[string]any{"sessionId": session, "prompt": []any{map[string]string{"type": "text", "text": text}}}
}

// ask asks, and returns why the reply ended.
func (e *editor) ask(session, text string) string {
	e.Helper()
	var end struct {
		Stop string `json:"stopReason"`
	}
	e.call("session/prompt", prompt(session, text), &end)
	return end.Stop
}

// told lists the updates of a kind.
func (e *editor) told(kind string) (list []map[string]any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, u := range e.updates {
		if u["sessionUpdate"] == kind {
			list = append(list, u)
		}
	}
	return list
}

func (e *editor) text(kind string) string {
	var b strings.Builder
	for _, u := range e.told(kind) {
		b.WriteString(u["content"].(map[string]any)["text"].(string))
	}
	return b.String()
}

// quit closes stdin, and sees to it that the server ends with this code, leaves nothing behind, and told all of it in journals.
func (e *editor) quit(code int) {
	e.Helper()
	e.conn.Close()
	e.cmd.Wait()
	if got := e.cmd.ProcessState.ExitCode(); got != code {
		e.Errorf("exit %d, want %d; stderr:\n%s", got, code, e.errs.String())
	}
	e.checkStrays()
	data, err := os.ReadFile(e.journal())
	if err != nil {
		e.Fatal(err)
	}
	d, err := dialect.Lookup("native")
	if err != nil {
		e.Fatal(err)
	}
	e.lint(d, data)
}

func newACPRun(t *testing.T, script string) *run {
	d, err := dialect.Lookup("native")
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, d)
	r.serve(script)
	return r
}

const acpTools = `
steps:
  - thinking: Where am I?
    text: I will make it.
    call: {tool: bash, input: {command: "echo hi > made.txt"}}
  - call: {tool: edit, input: {file_path: made.txt, old_string: hi, new_string: ho}}
  - text: It is made.
`

func TestACPTalks(t *testing.T) {
	t.Parallel()
	e := newEditor(t, newACPRun(t, acpTools))
	e.grant = func(options map[string]string) any { return selected(options["allow_once"]) }
	if stop := e.ask(e.open(), "Make it."); stop != "end_turn" {
		t.Errorf("it stopped by %q", stop)
	}
	if got := e.text("agent_message_chunk"); got != "I will make it.It is made." {
		t.Errorf("it said %q", got)
	}
	if got := e.text("agent_thought_chunk"); got != "Where am I?" {
		t.Errorf("it thought %q", got)
	}
	if len(e.told("user_message_chunk")) > 0 {
		t.Error("the client is told what it said")
	}
	calls, ends := e.told("tool_call"), map[string]string{}
	for _, u := range e.told("tool_call_update") {
		if s := u["status"]; s == "completed" || s == "failed" {
			ends[u["toolCallId"].(string)] += s.(string)
		}
	}
	if len(calls) != 2 || calls[0]["kind"] != "execute" || calls[1]["kind"] != "edit" || calls[0]["status"] != "pending" {
		t.Fatalf("the calls are %v", calls)
	}
	if fmt.Sprint(calls[1]["locations"]) != fmt.Sprint([]any{map[string]any{"path": e.path("work/made.txt")}}) {
		t.Errorf("the edit is at %v", calls[1]["locations"])
	}
	for _, c := range calls {
		if ends[c["toolCallId"].(string)] != "completed" {
			t.Errorf("%v ended as %q", c["title"], ends[c["toolCallId"].(string)])
		}
	}
	diff, _ := json.Marshal(e.told("tool_call_update"))
	if !strings.Contains(string(diff), `"oldText":"hi"`) || !strings.Contains(string(diff), `"newText":"ho"`) {
		t.Errorf("no diff in %s", diff)
	}
	if len(e.asked) != 2 {
		t.Errorf("it asked %d times", len(e.asked))
	}
	for i, q := range e.asked {
		if call := q["toolCall"].(map[string]any); call["toolCallId"] != calls[i]["toolCallId"] || call["title"] == "" {
			t.Errorf("it asked about %v", call)
		}
	}
	if data, _ := os.ReadFile(e.path("work/made.txt")); string(data) != "ho\n" {
		t.Errorf("the file has %q", data)
	}
	e.quit(0)
}

func TestACPDenies(t *testing.T) {
	t.Parallel()
	e := newEditor(t, newACPRun(t, acpTools))
	e.grant = func(options map[string]string) any { return selected(options["reject_once"]) }
	if stop := e.ask(e.open(), "Make it."); stop != "end_turn" {
		t.Errorf("it stopped by %q", stop)
	}
	for _, u := range e.told("tool_call_update") {
		if u["status"] != "failed" {
			t.Errorf("a denied call has %v", u)
		}
	}
	if exists(e.path("work/made.txt")) {
		t.Error("it was done all the same")
	}
	e.quit(0)
}

func TestACPCancels(t *testing.T) {
	for _, pending := range []bool{false, true} {
		t.Run(fmt.Sprintf("pending %v", pending), func(t *testing.T) {
			t.Parallel()
			e := newEditor(t, newACPRun(t, `
steps:
  - call: {tool: bash, input: {command: "echo $$ > $STRAYS/one; sleep 600"}}
  - text: Never mind.
`))
			if !pending {
				e.grant = func(options map[string]string) any { return selected(options["allow_once"]) }
			}
			id := e.open()
			due := e.expect(func(m map[string]any) bool {
				return pending && m["toolCall"] != nil || !pending && m["status"] == "in_progress"
			})
			stopped := make(chan string)
			go func() { stopped <- e.ask(id, "Sleep.") }()
			<-due
			if !pending {
				e.awaitStray("one")
			}
			if err := e.conn.Notify(t.Context(), "session/cancel", map[string]string{"sessionId": id}); err != nil {
				t.Fatal(err)
			}
			if stop := <-stopped; stop != "cancelled" {
				t.Errorf("it stopped by %q", stop)
			}
			e.checkStrays() // the command is gone, and the session is not
			if stop := e.ask(id, "Go on."); stop != "end_turn" {
				t.Errorf("then it stopped by %q", stop)
			}
			e.quit(0)
		})
	}
}

func TestACPLoads(t *testing.T) {
	t.Parallel()
	r := newACPRun(t, `steps: [{text: One.}, {text: Two.}]`)
	e := newEditor(t, r)
	id := e.open()
	e.ask(id, "First?")
	e.quit(0)

	e = newEditor(t, r)
	var loaded struct {
		Modes map[string]any `json:"modes"`
	}
	e.call("session/load", map[string]any{"sessionId": id, "cwd": r.path("work"), "mcpServers": []any{}}, &loaded)
	if e.text("user_message_chunk") != "First?" || e.text("agent_message_chunk") != "One." || loaded.Modes == nil {
		t.Errorf("it tells %q and %q of before", e.text("user_message_chunk"), e.text("agent_message_chunk"))
	}
	e.ask(id, "Second?")
	if got := e.text("agent_message_chunk"); got != "One.Two." {
		t.Errorf("it said %q", got)
	}
	if err := e.try("session/load", map[string]any{"sessionId": "nobody", "cwd": r.path("work")}, nil); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a session that is not there: %v", err)
	}
	for _, name := range []string{"", "latest"} { // the client would not know which one it got
		if err := e.try("session/load", map[string]any{"sessionId": name, "cwd": r.path("work")}, nil); err == nil || !strings.Contains(err.Error(), "names no session") {
			t.Errorf("session %q was loaded: %v", name, err)
		}
	}
	e.quit(0)
}

func TestACPModes(t *testing.T) {
	t.Parallel()
	e := newEditor(t, newACPRun(t, acpTools))
	id := e.open()
	seen := e.expect(func(m map[string]any) bool { return m["currentModeId"] == "yolo" })
	e.call("session/set_mode", map[string]string{"sessionId": id, "modeId": "yolo"}, nil)
	<-seen
	if stop := e.ask(id, "Make it."); stop != "end_turn" || len(e.asked) > 0 {
		t.Errorf("it stopped by %q, and asked %v", stop, e.asked)
	}
	if err := e.try("session/set_mode", map[string]string{"sessionId": id, "modeId": "nonsense"}, nil); err == nil {
		t.Error("a mode that is none is taken")
	}
	e.quit(0)
}

func TestACPFails(t *testing.T) {
	t.Parallel()
	r := newACPRun(t, `steps: [{fault: {status: 401}}]`)
	e := newEditor(t, r)
	id := e.open()
	if err := e.try("session/prompt", prompt(id, "Hello?"), nil); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a provider that refuses: %v", err)
	}
	for _, params := range []any{prompt("nobody", "Hello?"), prompt(id, " "), map[string]any{"sessionId": id, "prompt": []any{map[string]string{"type": "smell"}}}} {
		if err := e.try("session/prompt", params, nil); err == nil {
			t.Errorf("%v is taken", params)
		}
	}
	if err := e.try("session/dance", nil, nil); err == nil {
		t.Error("it dances")
	}
	if err := e.try("session/new", map[string]any{"cwd": r.path("nowhere")}, nil); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a folder that is not there: %v", err)
	}
	e.quit(0)
}

// TestACPGoes: a client that goes, or a signal, in the middle of a call leaves nothing running.
func TestACPGoes(t *testing.T) {
	for _, signalled := range []bool{false, true} {
		t.Run(fmt.Sprintf("signalled %v", signalled), func(t *testing.T) {
			t.Parallel()
			e := newEditor(t, newACPRun(t, `steps: [{call: {tool: bash, input: {command: "echo $$ > $STRAYS/one; sleep 600"}}}]`), "--mode", "yolo")
			var s struct {
				ID string `json:"sessionId"`
			}
			e.call("session/new", map[string]any{"cwd": e.path("work"), "mcpServers": []any{}}, &s)
			e.session = s.ID
			go e.try("session/prompt", prompt(s.ID, "Sleep."), nil)
			e.awaitStray("one")
			if !signalled {
				e.quit(0)
				return
			}
			e.cmd.Process.Signal(syscall.SIGTERM)
			<-e.conn.Done()
			e.quit(143)
		})
	}
}
