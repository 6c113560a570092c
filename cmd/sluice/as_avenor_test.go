//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

// An avenorRun is a run of avenor, as a process, against a scripted model behind a socket. Its events are in a file.
type avenorRun struct {
	*run
	file  string // where its events go
	lines []map[string]any
}

// newAvenor makes a run of "avenor run --prompt go" with a file for its events and a sentinel; args go behind.
func newAvenor(t *testing.T, text string, args ...string) *avenorRun {
	t.Helper()
	d, err := dialect.Lookup("avenor")
	if err != nil {
		t.Fatal(err)
	}
	a := &avenorRun{run: newRun(t, d)}
	a.file = a.path("events.ndjson")
	a.set("SLUICE_MODEL", "anthropic/scripted")
	a.set("SLUICE_RETRIES", "0")
	a.serve(text)
	a.program, a.args = "avenor", append([]string{"run", "--prompt", "go", "--on-event", a.file, "--sentinel-file", a.path("sentinel")}, args...)
	return a
}

// play runs it to its end, which must have this exit code, stop reason and kind of sentinel.
func (a *avenorRun) play(exit int, stop string) *avenorRun {
	a.Helper()
	a.start(nil)
	a.wait()
	return a.ended(exit, stop)
}

// awaitEvent waits until the journal has an event of a kind. Its session has a name of its own.
func (a *avenorRun) awaitEvent(kind event.Kind) {
	for end := time.Now().Add(patient); a.session == session && time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if list, _ := filepath.Glob(a.path("state/sluice/sessions/*/journal.ndjson")); len(list) == 1 {
			a.session = filepath.Base(filepath.Dir(list[0]))
		}
	}
	a.await(kind)
}

// ended checks a run that has ended: the stream, what it says of the end, and the sentinel.
func (a *avenorRun) ended(exit int, stop string) *avenorRun {
	a.Helper()
	stream, err := os.ReadFile(a.file)
	if err != nil {
		a.Fatal(err)
	}
	if a.exit != exit {
		a.Errorf("exit %d, want %d: %s", a.exit, exit, a.errs.Bytes())
	}
	a.lint(a.dialect, stream)
	a.strictly(stream)
	a.lines = a.parse(stream)
	a.once(a.lines, "event", "session.start")
	a.once(a.lines, "event", "session.end")
	last := a.lines[len(a.lines)-1]
	if last["event"] != "session.end" || last["stop_reason"] != stop {
		a.Errorf("the last event is %v, want session.end with %s", last, stop)
	}
	if before := lastOf(a.lines, "event", "agent.status"); before["phase"] != "done" || before["source"] != "avenor" {
		a.Errorf("the last status is %v", before)
	}
	said := a.out
	a.out = stream
	a.checkSentinel()
	a.out = said
	a.checkStrays()
	if a.Failed() {
		a.Logf("events:\n%s\nstdout:\n%s\nstderr:\n%s", clipped(stream), a.out, a.errs.Bytes())
	}
	return a
}

// strictly sees to it that each status comes before what it tells, which the linter only notes.
func (a *avenorRun) strictly(stream []byte) {
	l := dialect.NewLinter(a.dialect, func(g dialect.Diagnostic) {
		if g.Rule == "avenor/status-first" || g.Rule == "avenor/run-id" || g.Rule == "avenor/call-open" {
			a.Errorf("line %d: %s: %s", g.Line, g.Rule, g.Message)
		}
	})
	for line := range strings.Lines(string(stream)) {
		l.Line([]byte(strings.TrimSuffix(line, "\n")), false)
	}
	l.Close()
}

// only are the events of a name.
func (a *avenorRun) only(name string) (list []map[string]any) {
	for _, l := range a.lines {
		if l["event"] == name {
			list = append(list, l)
		}
	}
	return list
}

// names are the events in their order: a status with its phase, label and source.
func (a *avenorRun) names() (list []string) {
	for _, l := range a.lines {
		name := l["event"].(string)
		if name == "agent.status" {
			name = fmt.Sprintf("%v %v %v", l["phase"], l["label"], l["source"])
		}
		list = append(list, name)
	}
	return list
}

// tell compares the stream with what it should be: an event a line, without session, run and time, which each event must have.
func (a *avenorRun) tell(session string, want ...string) {
	a.Helper()
	var got []string
	for _, l := range a.lines {
		if ts, ok := l["ts"].(float64); l["session_id"] != session || l["run_id"] != "run_1" || l["run_label"] != "nightly" || !ok || ts < 1.7e12 {
			a.Errorf("the envelope of %v is wrong", l)
		}
		for _, field := range []string{"session_id", "run_id", "run_label", "ts"} {
			delete(l, field)
		}
		line, err := json.Marshal(l)
		if err != nil {
			a.Fatal(err)
		}
		got = append(got, string(line))
	}
	for i, line := range want {
		var l map[string]any
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			a.Fatalf("%v: %s", err, line)
		}
		sorted, _ := json.Marshal(l) // it has just been read
		want[i] = string(sorted)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		a.Errorf("events (-want, +got):\n%s", diff)
	}
}

// Every event that a single run can have, with every field that its document names.
func TestAvenorEvents(t *testing.T) {
	t.Parallel()
	a := newAvenor(t, `
steps:
  - thinking: I should look.
    text: "Looking. [status: working | reading files] Now."
    call: {tool: bash, input: {command: echo hi}}
    usage: {input: 900, output: 480, reasoning: 20, cache_read: 100}
  - text: "All <ok> & done."
`, "--run-id", "run_1", "--label", "nightly", "--auto-approve").play(0, "end_turn")
	session, _ := a.lines[0]["session_id"].(string)
	work, err := filepath.EvalSymlinks(a.path("work"))
	if err != nil {
		t.Fatal(err)
	}
	a.tell(session,
		`{"event":"session.start","backend":"sluice","dir":"`+work+`"}`,
		`{"event":"user.message_chunk","content":{"text":"go"},"messageId":"m2"}`,
		`{"event":"agent.status","phase":"thinking","source":"avenor"}`,
		`{"event":"agent.thought_chunk","content":{"text":"I should look."},"messageId":"b3"}`,
		`{"event":"agent.status","phase":"working","label":"reading files","source":"agent"}`,
		`{"event":"agent.message_chunk","content":{"text":"Looking. [status: working | reading files] Now."},"messageId":"b4"}`,
		`{"event":"agent.status","phase":"working","label":"echo hi","source":"avenor"}`,
		`{"event":"tool.call","toolCallId":"call_1_1","title":"echo hi","kind":"bash","status":"pending","rawInput":{"command":"echo hi"}}`,
		`{"event":"agent.status","phase":"waiting","label":"allow bash echo hi?","source":"avenor"}`,
		`{"event":"permission.request","request_id":"q5","tool":"bash","question":"allow bash echo hi?","options":[{"optionId":"allow","kind":"allow","name":"allow once"},{"optionId":"reject","kind":"reject","name":"reject"},{"optionId":"allow_always","kind":"allow_always","name":"allow for the session"}]}`,
		`{"event":"permission.response","request_id":"q5","option_id":"allow","kind":"allow","source":"avenor"}`,
		`{"event":"agent.status","phase":"working","label":"reading files","source":"avenor"}`,
		`{"event":"tool.call_update","toolCallId":"call_1_1","kind":"bash","status":"completed"}`,
		`{"event":"agent.message_chunk","content":{"text":"All <ok> & done."},"messageId":"b6"}`,
		`{"event":"agent.status","phase":"done","source":"avenor"}`,
		`{"event":"session.end","stop_reason":"end_turn","usage":{"input_tokens":1000,"output_tokens":500,"total_tokens":1500,"cached_read_tokens":100}}`,
	)
	if string(a.out) != "All <ok> & done.\n" {
		t.Errorf("stdout is %q, want what the agent said last", a.out)
	}
	if raw, _ := os.ReadFile(a.file); !strings.Contains(string(raw), "All <ok> & done.") {
		t.Error("the text was escaped on its way")
	}
}

// An avenor.error has its source, its message and the stop reason that follows; a single run has no run_id if nobody gave one.
func TestAvenorError(t *testing.T) {
	t.Parallel()
	a := newAvenor(t, `steps: [{text: No., fault: {status: 401, message: who are you}}]`).play(1, "error")
	list := a.only("avenor.error")
	if len(list) != 1 || list[0]["source"] != "provider" || list[0]["stop_reason"] != "error" || !strings.Contains(fmt.Sprint(list[0]["message"]), "who are you") || list[0]["ts"] == nil {
		t.Errorf("the error is %v", list)
	}
	for _, l := range a.lines {
		if l["run_id"] != nil || l["run_label"] != nil {
			t.Errorf("nobody gave %v a run", l)
		}
	}
}

// Who answers, and how that ends.
func TestAvenorPermission(t *testing.T) {
	const calls = `steps: [{call: {tool: bash, input: {command: touch made}}}, {text: So be it.}]`
	for name, c := range map[string]struct {
		flags  []string
		exit   int
		stop   string
		option string // of the response; empty: there is no question
		kind   string
		made   bool
	}{
		"nobody is there":      {nil, 5, "blocked", "reject", "reject", false},
		"auto-approve":         {[]string{"--auto-approve"}, 0, "end_turn", "allow", "allow", true},
		"a rule allows":        {[]string{"--allow", "bash(touch *)", "--allow", "edit(made)"}, 0, "end_turn", "", "", true},
		"a rule denies":        {[]string{"--deny", "bash(touch *)"}, 5, "blocked", "", "", false},
		"a rule beats the yes": {[]string{"--auto-approve", "--deny", "bash(touch *)"}, 5, "blocked", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAvenor(t, calls, c.flags...).play(c.exit, c.stop)
			asked, answers := a.only("permission.request"), a.only("permission.response")
			if c.option == "" && len(asked)+len(answers) > 0 {
				t.Errorf("it was asked: %v, %v", asked, answers)
			}
			if c.option != "" && (len(asked) != 1 || len(answers) != 1 || answers[0]["option_id"] != c.option || answers[0]["kind"] != c.kind ||
				answers[0]["source"] != "avenor" || answers[0]["request_id"] != asked[0]["request_id"]) {
				t.Errorf("asked %v, answered %v", asked, answers)
			}
			if exists(filepath.Join(a.path("work"), "made")) != c.made {
				t.Errorf("made: %v, want %v", !c.made, c.made)
			}
			if why := a.only("avenor.error"); (c.exit == 5) != (len(why) == 1 && why[0]["source"] == "permission" && why[0]["stop_reason"] == "blocked") {
				t.Errorf("the error is %v", why)
			}
		})
	}
}

// Several questions may be open: each has its own answer, and the agent waits until the last of them is answered.
func TestAvenorFivePermissionsAtOnce(t *testing.T) {
	t.Parallel()
	a := newAvenor(t, `steps: [{calls: [{tool: bash, input: {command: echo 1}}, {tool: bash, input: {command: echo 2}}, {tool: bash, input: {command: echo 3}}, {tool: bash, input: {command: echo 4}}, {tool: bash, input: {command: echo 5}}]}, {text: Done.}]`, "--auto-approve").play(0, "end_turn")
	asked, answers := a.only("permission.request"), a.only("permission.response")
	if len(asked) != 5 || len(answers) != 5 || len(a.only("tool.call_update")) != 5 {
		t.Fatalf("asked %d times, answered %d times", len(asked), len(answers))
	}
	open := 0
	for _, l := range a.lines {
		switch {
		case l["event"] == "permission.request":
			open++
			if _, ok := l["toolCall"].(map[string]any)["toolCallId"].(string); !ok {
				t.Errorf("of five calls of one tool, which is meant by %v?", l)
			}
		case l["event"] == "permission.response":
			open--
		case l["event"] == "agent.status" && l["phase"] == "working" && open > 0:
			t.Errorf("it works, and %d questions are open", open)
		}
	}
}

// A sub-agent's question is the agent's: it waits. Its calls are told under its own session.
func TestAvenorSubAgent(t *testing.T) {
	t.Parallel()
	a := newAvenor(t, `
steps: [{call: {tool: task, input: {description: look, prompt: Child}}}, {text: Done.}]
conversations: [{when: {prompt: ^Child}, steps: [{call: {tool: bash, input: {command: echo hi}}}, {text: I looked.}]}]`, "--auto-approve").play(0, "end_turn")
	sessions := map[any]bool{}
	for _, l := range a.only("tool.call") {
		sessions[l["session_id"]] = true
	}
	if len(sessions) != 2 || len(a.only("permission.request")) != 2 {
		t.Errorf("the calls are in %d sessions", len(sessions))
	}
	if slices.Contains(a.names(), "working echo hi avenor") {
		t.Error("what a sub-agent does is told as what the agent does")
	}
}
