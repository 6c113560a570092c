//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var ensoUUID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ensoSees reads stdout, and closes seen when a line with this text came.
func ensoSees(text string) (read func(*run, *os.File) []byte, seen chan struct{}) {
	seen = make(chan struct{})
	return func(_ *run, in *os.File) (all []byte) {
		told := false
		buf := make([]byte, 4096)
		for {
			n, err := in.Read(buf)
			all = append(all, buf[:n]...)
			if !told && strings.Contains(string(all), text) {
				told = true
				close(seen)
			}
			if err != nil {
				return all
			}
		}
	}, seen
}

// until starts the run and waits until its stdout has a text.
func (e *ensoRun) until(text string) {
	e.Helper()
	read, seen := ensoSees(text)
	e.start(read)
	select {
	case <-seen:
	case <-time.After(patient):
		e.Fatalf("it never said %s", text)
	}
}

// The prompt is what the arguments say, or stdin, and not both.
func TestEnsoPrompts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args  []string
		stdin string
		want  string
	}{
		"arguments":           {[]string{"say", "hello"}, "", "say hello"},
		"stdin":               {nil, "from stdin\n", "from stdin"},
		"arguments and stdin": {[]string{"say hello"}, "not this", "say hello"},
		"skill":               {[]string{"/greet", "Ada"}, "", "Say hello to Ada."},
		"skill on stdin":      {nil, "/greet Bob", "Say hello to Bob."},
		"no skill":            {[]string{"/etc/passwd is what?"}, "", "/etc/passwd is what?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnso(t, "", c.args...)
			e.write("work/.sluice/skills/greet/SKILL.md", "---\nname: greet\ndescription: greets\n---\nSay hello to $ARGUMENTS.\n")
			if c.stdin != "" {
				e.write("work/stdin", c.stdin)
				e.shell = `exec enso "$@" <stdin`
			}
			e.play(0)
			said, _ := e.one("user_message")["content"].(string)
			if !strings.HasSuffix(said, c.want) || !strings.HasPrefix(name, "skill") && said != c.want {
				t.Errorf("user_message is %q, want %q", said, c.want)
			}
			if sent := e.sent()[0]; !strings.Contains(sent, ensoQuote(said)) {
				t.Errorf("the model was not sent it: %s", sent)
			}
		})
	}
}

// A session is gone on with by its id, by the beginning of it, or since it is the last one; what is ephemeral has no id.
func TestEnsoSessions(t *testing.T) {
	t.Parallel()
	const talk = `steps: [{text: One.}, {text: Two.}, {text: Three.}, {text: Four.}]`
	e := newEnso(t, talk, "first")
	e.play(0)
	id, _ := e.lines[0]["id"].(string)
	for _, args := range [][]string{{"--resume", id, "again"}, {"--session", id[:13], "again"}, {"--continue", "again"}} {
		next := e.again(args...).play(0)
		if l := next.lines[0]; l["id"] != id || l["resumed"] != true {
			t.Errorf("%v: %v", args, l)
		}
	}
	if got := strings.Count(e.sent()[3], `"role":"assistant"`); got != 3 {
		t.Errorf("the last request has %d answers: %s", got, e.sent()[3])
	}
	before, err := os.ReadDir(e.path("state/sluice/sessions"))
	if err != nil {
		t.Fatal(err)
	}
	gone := e.again("--ephemeral", "hi").play(0)
	if gone.lines[0]["id"] != "" || gone.lines[0]["resumed"] != false {
		t.Errorf("%v", gone.lines[0])
	}
	after, err := os.ReadDir(e.path("state/sluice/sessions"))
	if err != nil || len(after) != len(before) {
		t.Errorf("%d sessions, and then %d: %v", len(before), len(after), err)
	}
	for _, args := range [][]string{{"--resume", "nope", "x"}, {"--continue", "x"}} {
		other := newEnso(t, talk, args...).play(1)
		if text, _ := other.one("session_end")["error"].(string); !strings.Contains(text, "there is no session") {
			t.Errorf("%v: %q", args, text)
		}
	}
}

// What killed a run in a tool does not take the session with it: the call has an end, and the model is told.
func TestEnsoKilledAndResumed(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `steps: [{call: {id: c, tool: bash, input: {cmd: sleep 5}}}, {text: Gone on.}]`, "--yolo", "go")
	e.until("tool_call_start")
	e.signal(syscall.SIGKILL)
	e.wait()
	next := e.again("--yolo", "--continue", "and now?").play(0)
	if got := next.said("assistant_delta"); got != "Gone on." {
		t.Errorf("it says %q", got)
	}
	if len(e.sent()) != 2 || !strings.Contains(e.sent()[1], `"tool_result"`) {
		t.Errorf("the model was sent %v", e.sent())
	}
}

// Sub-agents three deep have their parents and their depth; a fourth is told that there is no such tool.
func TestEnsoSubAgentsInSubAgents(t *testing.T) {
	t.Parallel()
	const level = `{when: {prompt: ^level %d}, steps: [{call: {tool: spawn_agent, input: {prompt: level %d}}}, {text: "%d is done"}]}`
	e := newEnso(t, "conversations:\n- "+fmt.Sprintf(level, 1, 2, 1)+"\n- "+fmt.Sprintf(level, 2, 3, 2)+"\n- "+fmt.Sprintf(level, 3, 4, 3)+
		"\nsteps: [{call: {tool: spawn_agent, input: {prompt: level 1}}}, {text: All is done.}]", "--yolo", "go")
	e.play(0)
	var tree []string
	for _, l := range e.only("agent_start") {
		tree = append(tree, fmt.Sprint(l["id"], " of ", l["parent_id"], " at ", l["depth"], ": ", l["prompt"]))
	}
	if diff := cmp.Diff([]string{"task-1 of  at 1: level 1", "task-2 of task-1 at 2: level 2", "task-3 of task-2 at 3: level 3"}, tree); diff != "" {
		t.Error(diff)
	}
	tree = nil
	for _, l := range e.only("agent_end") {
		tree = append(tree, fmt.Sprint(l["id"], " of ", l["parent_id"], " ", l["error"]))
	}
	if diff := cmp.Diff([]string{"task-3 of task-2 ", "task-2 of task-1 ", "task-1 of  "}, tree); diff != "" {
		t.Error(diff)
	}
	last := e.only("tool_call_end")[0]
	if text, _ := last["error"].(string); last["agent_id"] != "task-3" || !strings.Contains(text, `there is no tool "spawn_agent"`) {
		t.Errorf("the deepest call is %v", last)
	}
	if e.one("session_end")["tool_errors"] != true {
		t.Error("tool_errors is not true")
	}
}

// A sub-agent that fails has its error in agent_end, and its call has one too; the parent goes on.
func TestEnsoSubAgentThatFails(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `
conversations: [{when: {prompt: ^Child}, steps: [{text: x, fault: {status: 400, message: not you}}]}]
steps: [{call: {tool: spawn_agent, input: {prompt: Child.}}}, {text: Alone then.}]`, "--yolo", "go")
	e.play(0)
	for _, text := range []any{e.one("agent_end")["error"], e.one("tool_call_end")["error"]} {
		if s, _ := text.(string); !strings.Contains(s, "not you") {
			t.Errorf("it says %q", text)
		}
	}
}

// What the model thought is shown, and never sent back to it: neither in the same run nor later.
func TestEnsoReasoningIsNotSentBack(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `steps: [{thinking: Deep thoughts., call: {tool: glob, input: {pattern: "*"}}}, {thinking: More of them., text: Done.}, {text: Again.}]`, "go")
	e.set("SLUICE_THINKING", "high")
	e.play(0)
	if got := e.said("reasoning_delta"); got != "Deep thoughts.More of them." {
		t.Errorf("it shows %q", got)
	}
	e.again("--continue", "more").play(0)
	if len(e.sent()) != 3 {
		t.Fatalf("%d requests", len(e.sent()))
	}
	for i, r := range e.sent() {
		if strings.Contains(r, "houghts") || strings.Contains(r, "More of them") {
			t.Errorf("request %d has thoughts in it: %s", i+1, r)
		}
	}
	if !strings.Contains(e.sent()[0], `"thinking"`) {
		t.Errorf("the model was not told to think: %s", e.sent()[0])
	}
}

// A profile has its own tools and its own words; one that is not there is told in the stream.
func TestEnsoAgent(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `steps: [{call: {tool: bash, input: {cmd: echo hi}}}, {text: Then not.}]`, "--yolo", "--agent", "reader", "go")
	e.write("work/.sluice/agents/reader.md", "---\nname: reader\ndescription: reads\ntools: [read, task]\n---\nYou only read.\n")
	e.play(0)
	if sent := e.sent()[0]; !strings.Contains(sent, "You only read.") || strings.Contains(sent, `"name":"bash"`) || !strings.Contains(sent, `"name":"spawn_agent"`) {
		t.Errorf("the model was sent %s", sent)
	}
	if text, _ := e.one("tool_call_end")["error"].(string); !strings.Contains(text, `there is no tool "bash"`) {
		t.Errorf("the call says %q", text)
	}
	none := newEnso(t, "", "--agent", "nope", "go").play(1)
	if text, _ := none.one("session_end")["error"].(string); !strings.Contains(text, `there is no agent "nope"`) {
		t.Errorf("it says %q", text)
	}
}

// --max-turns bounds the answers of the model; -1 does not, and 0 is what the configuration says.
func TestEnsoMaxTurns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		turns string
		exit  int
		asked int
	}{{"2", 3, 2}, {"-1", 0, 6}, {"0", 3, 3}} {
		e := newEnso(t, `steps: [{call: {tool: bash, input: {cmd: "echo $RANDOM$RANDOM"}}, repeat: 5}, {text: Done.}]`, "--yolo", "--max-turns", c.turns, "go")
		e.configure("max_turns = 3\n")
		e.play(c.exit)
		if len(e.sent()) != c.asked {
			t.Errorf("--max-turns %s: %d requests, want %d", c.turns, len(e.sent()), c.asked)
		}
		text, _ := e.one("session_end")["error"].(string)
		if (c.exit != 0) != strings.Contains(text, "turns") {
			t.Errorf("--max-turns %s: %q", c.turns, text)
		}
	}
}

// Twelve runs at once, in one store, are twelve sessions.
func TestEnsoRunsBesideEachOther(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `steps: [{call: {tool: bash, input: {cmd: echo hi}}}, {text: Done.}]`)
	runs := make([]*ensoRun, 12)
	var all sync.WaitGroup
	for i := range runs {
		runs[i] = e.again("--yolo", "go")
		all.Go(func() { runs[i].start(nil); runs[i].wait() })
	}
	all.Wait()
	ids := map[any]bool{}
	for _, r := range runs {
		r.ended(0)
		ids[r.lines[0]["id"]] = true
	}
	if list, err := filepath.Glob(e.path("state/sluice/sessions/*/journal.ndjson")); err != nil || len(list) != 12 || len(ids) != 12 {
		t.Errorf("%d journals, %d ids", len(list), len(ids))
	}
}
