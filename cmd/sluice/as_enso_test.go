//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
)

// An ensoRun is a run of enso, as a process, against a scripted model behind a socket.
type ensoRun struct {
	*run
	mu       sync.Mutex
	requests []string // what the model was sent
	lines    []map[string]any
}

// newEnso makes a run of "enso run --format json"; args go behind.
func newEnso(t *testing.T, text string, args ...string) *ensoRun {
	t.Helper()
	d, err := dialect.Lookup("enso")
	if err != nil {
		t.Fatal(err)
	}
	e := &ensoRun{run: newRun(t, d)}
	e.program, e.args = "enso", append([]string{"run", "--format", "json"}, args...)
	e.set("SLUICE_MODEL", "anthropic/scripted")
	e.serve(text)
	return e
}

func (e *ensoRun) serve(text string) {
	e.Helper()
	if text == "" {
		text = greets
	}
	s, err := script.Parse([]byte(text))
	if err != nil {
		e.Fatalf("%v in %s", err, text)
	}
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{Key: key, Record: func(r modelserver.Recorded) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.requests = append(e.requests, string(r.Body))
	}}))
	e.Cleanup(server.Close)
	e.set("ANTHROPIC_BASE_URL", server.URL)
}

// sent is what the model was sent, request by request.
func (e *ensoRun) sent() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.requests)
}

// again is another run in the same world, against the same model.
func (e *ensoRun) again(args ...string) *ensoRun {
	r := *e.run
	r.args, r.gone, r.errs = append([]string{"run", "--format", "json"}, args...), make(chan struct{}), bytes.Buffer{}
	return &ensoRun{run: &r}
}

// play runs it to its end, which must have this exit code. The stream must be what its document says.
func (e *ensoRun) play(exit int) *ensoRun {
	e.Helper()
	e.start(nil)
	e.wait()
	return e.ended(exit)
}

// ended checks a run that has ended.
func (e *ensoRun) ended(exit int) *ensoRun {
	e.Helper()
	if e.exit != exit {
		e.Errorf("exit %d, want %d: %s", e.exit, exit, e.errs.Bytes())
	}
	e.lint(e.dialect, e.out)
	e.lines = e.parse(e.out)
	if n := len(e.lines); n < 2 || e.lines[0]["type"] != "session_start" || e.lines[n-1]["type"] != "session_end" {
		e.Errorf("it does not go from session_start to session_end")
	}
	e.once(e.lines, "type", "session_start")
	e.once(e.lines, "type", "session_end")
	e.checkStrays()
	if e.Failed() {
		e.Logf("stdout:\n%s\nstderr:\n%s", clipped(e.out), e.errs.Bytes())
	}
	return e
}

// only are the lines of some types.
func (e *ensoRun) only(types ...string) (list []map[string]any) {
	for _, l := range e.lines {
		if slices.Contains(types, l["type"].(string)) {
			list = append(list, l)
		}
	}
	return list
}

// one is the only line of a type.
func (e *ensoRun) one(typ string) map[string]any {
	e.Helper()
	list := e.only(typ)
	if len(list) != 1 {
		e.Fatalf("%d lines are %s, want one:\n%s", len(list), typ, clipped(e.out))
	}
	return list[0]
}

// order is the types of the lines, each with what it is about.
func (e *ensoRun) order() (list []string) {
	for _, l := range e.lines {
		about := l["name"]
		for _, field := range []string{"tool", "depth"} {
			if about == nil {
				about = l[field]
			}
		}
		if about != nil {
			list = append(list, fmt.Sprint(l["type"], " ", about))
		} else {
			list = append(list, l["type"].(string))
		}
	}
	return list
}

// said is all that was said.
func (e *ensoRun) said(typ string) (text string) {
	for _, l := range e.only(typ) {
		text += l["text"].(string)
	}
	return text
}

func (e *ensoRun) is(line map[string]any, want string) {
	e.Helper()
	got, err := json.Marshal(line)
	if err != nil {
		e.Fatal(err)
	}
	var w map[string]any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		e.Fatal(err)
	}
	if diff := cmp.Diff(w, line); diff != "" {
		e.Errorf("%s (-want +got)\n%s", got, diff)
	}
}

// Every event of the document, with every field that it has there and no other than agent_id. A line that is not shown here in
// full is in one of the tests below.
func TestEnsoEveryEventAndField(t *testing.T) {
	t.Parallel()
	t.Run("a run with all that goes well", func(t *testing.T) {
		t.Parallel()
		e := newEnso(t, `
chunk: 10
steps:
  - {thinking: The user wants to see., text: "I look, then I ask.", call: {id: call_1, tool: glob, input: {pattern: "**/*.go"}}}
  - {call: {id: call_2, tool: spawn_agent, input: {prompt: "Count the lines.", role: counter}}}
  - {text: One file.}
conversations:
  - {when: {prompt: ^Count}, steps: [{text: None.}]}
`, "--yolo", "list .go files in cmd/")
		e.write("work/cmd/main.go", "package main\n")
		e.write("work/.sluice/agents/counter.md", "---\nname: counter\ndescription: counts\n---\nCount.\n")
		e.play(0)
		id, _ := e.lines[0]["id"].(string)
		work, err := filepath.EvalSymlinks(e.path("work"))
		if err != nil {
			t.Fatal(err)
		}
		if !ensoUUID.MatchString(id) {
			t.Errorf("id %q is no UUID", id)
		}
		for i, want := range []string{
			`{"type":"session_start","id":"` + id + `","model":"scripted","cwd":"` + work + `","resumed":false}`,
			`{"type":"user_message","content":"list .go files in cmd/"}`,
			`{"type":"reasoning_delta","text":"The user w"}`,
			`{"type":"reasoning_delta","text":"ants to se"}`,
			`{"type":"reasoning_delta","text":"e."}`,
			`{"type":"assistant_delta","text":"I look, th"}`,
			`{"type":"assistant_delta","text":"en I ask."}`,
			`{"type":"assistant_done"}`,
			`{"type":"tool_call_start","id":"call_1","name":"glob","args":{"pattern":"**/*.go"}}`,
			`{"type":"tool_call_end","id":"call_1","name":"glob","result":"cmd/main.go\n","error":null}`,
			`{"type":"assistant_done"}`,
			`{"type":"tool_call_start","id":"call_2","name":"spawn_agent","args":{"prompt":"Count the lines.","role":"counter"}}`,
			`{"type":"agent_start","id":"task-1","parent_id":"","depth":1,"prompt":"Count the lines.","role":"counter","agent_id":"task-1"}`,
			`{"type":"assistant_delta","text":"None.","agent_id":"task-1"}`,
			`{"type":"assistant_done","agent_id":"task-1"}`,
			`{"type":"agent_end","id":"task-1","parent_id":"","error":"","agent_id":"task-1"}`,
			`{"type":"tool_call_end","id":"call_2","name":"spawn_agent","result":"None.","error":null}`,
			`{"type":"assistant_delta","text":"One file."}`,
			`{"type":"assistant_done"}`,
			`{"type":"session_end","tool_errors":false}`,
		} {
			if i >= len(e.lines) {
				t.Fatalf("there are only %d lines", i)
			}
			e.is(e.lines[i], want)
		}
	})
	t.Run("error, and an end with one", func(t *testing.T) {
		t.Parallel()
		e := newEnso(t, `steps: [{text: Hi., fault: {status: 400, message: no such thing}}]`, "go").play(3)
		message, _ := e.one("error")["message"].(string)
		if !strings.Contains(message, "no such thing") {
			t.Errorf("error says %q", message)
		}
		end, _ := e.one("session_end")["error"].(string)
		if end == "" || !strings.Contains(end, "no such thing") {
			t.Errorf("session_end says %q", end)
		}
		e.is(e.one("error"), `{"type":"error","message":`+ensoQuote(message)+`}`)
		e.is(e.one("session_end"), `{"type":"session_end","tool_errors":false,"error":`+ensoQuote(end)+`}`)
	})
	t.Run("denied for want of somebody to ask", func(t *testing.T) {
		t.Parallel()
		e := newEnso(t, `steps: [{call: {id: c, tool: bash, input: {cmd: touch x}}}, {text: No.}]`, "go").play(5)
		e.is(e.one("permission_auto_deny"), `{"type":"permission_auto_deny","tool":"bash"}`)
		e.is(e.one("tool_call_start"), `{"type":"tool_call_start","id":"c","name":"bash","args":{"cmd":"touch x"}}`)
		e.is(e.one("tool_call_end"), `{"type":"tool_call_end","id":"c","name":"bash","result":"","denied":true,`+
			`"error":"nobody is there to allow it; to let it pass: --allow 'bash(touch *)'"}`)
		if e.one("session_end")["tool_errors"] != true {
			t.Error("tool_errors is not true")
		}
	})
	t.Run("compacted", func(t *testing.T) {
		t.Parallel()
		e := newEnso(t, ensoFull, "--yolo", "go")
		e.configure(ensoWindow)
		e.play(0)
		c := e.one("compacted")
		e.is(c, `{"type":"compacted","reason":"the window is nearly full","summary":"Folded: half is done.…","before_tokens":`+
			fmt.Sprint(c["before_tokens"])+`,"after_tokens":`+fmt.Sprint(c["after_tokens"])+`}`)
	})
}

// ensoFull fills a window, and goes on after it was folded.
const ensoFull = `
conversations:
- {when: {last: about to be shortened}, steps: [{text: "Folded: half is done.", repeat: 9}]}
- {when: {prompt: Folded}, steps: [{text: The other half.}]}
steps:
- {call: {tool: bash, input: {cmd: echo x}}, usage: {input: 9000, output: 10}}
`

// ensoWindow is a configuration with a window of ten thousand tokens.
const ensoWindow = "[prices.\"anthropic/scripted\"]\nwindow = 10000\n"

func ensoQuote(s string) string {
	q, _ := json.Marshal(s) // a string
	return string(q)
}
