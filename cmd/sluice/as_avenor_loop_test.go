//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newLoop makes a run of a loop against a scripted model.
func newLoop(t *testing.T, config, script string, args ...string) *avenorRun {
	t.Helper()
	a := newAvenor(t, script)
	a.put("loop.yaml", config)
	a.args = append([]string{"run", "--config", a.path("loop.yaml"), "--on-event", a.file, "--sentinel-file", a.path("sentinel"), "--retry-wait", "1ms"}, args...)
	return a
}

func (a *avenorRun) put(name, text string) {
	a.Helper()
	if err := os.MkdirAll(filepath.Dir(a.path(name)), 0o700); err != nil {
		a.Fatal(err)
	}
	if err := os.WriteFile(a.path(name), []byte(text), 0o600); err != nil {
		a.Fatal(err)
	}
}

// loops runs it to its end, which must have this exit code, exit reason and words in the sentinel.
func (a *avenorRun) loops(exit int, reason, sentinel string) *avenorRun {
	a.Helper()
	a.start(nil)
	a.wait()
	return a.looped(exit, reason, sentinel)
}

// looped checks a loop that has ended: its stream, each session's one end, one row of numbers, one run_id, and the sentinel.
func (a *avenorRun) looped(exit int, reason, sentinel string) *avenorRun {
	a.Helper()
	stream, err := os.ReadFile(a.file)
	if err != nil {
		a.Fatal(err)
	}
	if a.exit != exit {
		a.Errorf("exit %d, want %d", a.exit, exit)
	}
	a.lint(a.dialect, stream)
	if !strings.Contains(string(stream), `"backend":"claude"`) { // which does not tell when it is done
		a.strictly(stream)
	}
	a.lines = a.parse(stream)
	a.once(a.lines, "event", "avenor.loop.start")
	a.once(a.lines, "event", "avenor.loop.end")
	if first, last := a.lines[0], a.lines[len(a.lines)-1]; first["event"] != "avenor.loop.start" || last["event"] != "avenor.loop.end" || last["exit_reason"] != reason {
		a.Errorf("it goes from %v to %v, want avenor.loop.end with %s", first, last, reason)
	}
	run, open, over := a.lines[0]["run_id"], "", map[string]bool{}
	for _, l := range a.lines {
		if l["run_id"] != run || run == nil || l["ts"] == nil {
			a.Errorf("it has another run, or no time: %v", l)
		}
		name := l["event"].(string)
		switch id, _ := l["session_id"].(string); name {
		case "avenor.loop.start", "avenor.loop.end", "avenor.phase.start", "avenor.phase.end":
			if id != "" || open != "" {
				a.Errorf("%s in session %q, and %q is open", name, id, open)
			}
		case "session.start", "user.message_chunk":
			open, over[id] = id, false
		case "session.end":
			open, over[id] = "", true
		case "avenor.error":
			if ended, known := over[id]; id != "" && (ended || !known) {
				a.Errorf("%v is of a session that is over, or of none", l)
			}
		default:
			if open != "" && id != open {
				a.Errorf("%s is of %q, and %q is open", name, id, open)
			}
		}
	}
	data, err := os.ReadFile(a.path("sentinel"))
	for _, want := range append(strings.Fields(sentinel), "RUN="+fmt.Sprint(run)) {
		if !slices.Contains(strings.Split(strings.ReplaceAll(string(data), " ", "_"), "\n"), want) || err != nil {
			a.Errorf("the sentinel says %q, and not %s", data, want)
		}
	}
	a.checkStrays()
	a.oneTimeline()
	if a.Failed() {
		a.Logf("events:\n%s\nstdout:\n%s\nstderr:\n%s", clipped(stream), a.out, a.errs.Bytes())
	}
	return a
}

// told is the stream in short: each event without the envelope, a session by its letter.
func (a *avenorRun) told(names ...string) (list []string) {
	sessions := map[any]string{}
	for _, l := range a.lines {
		if id := l["session_id"]; id != nil && sessions[id] == "" {
			sessions[id] = string(rune('A' + len(sessions)))
		}
		if len(names) > 0 && !slices.Contains(names, l["event"].(string)) {
			continue
		}
		fields := map[string]any{}
		for k, v := range l {
			if !slices.Contains([]string{"event", "session_id", "run_id", "run_label", "ts", "dir", "messageId"}, k) {
				fields[k] = v
			}
		}
		var text strings.Builder
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(fields) // it has just been read
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %v %s", sessions[l["session_id"]], l["event"], text.String())))
	}
	return list
}

func (a *avenorRun) tells(want string, names ...string) {
	a.Helper()
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(want), "\n"), a.told(names...)); diff != "" {
		a.Errorf("events (-want, +got):\n%s", diff)
	}
}

const planned = `
max_iterations: 3
pre: [{name: plan, prompt: "Plan {{.RunID}}"}]
loop:
  - {name: code, prompt: "Code {{.Iteration}}/{{.MaxIterations}} after: {{.LastOutput}}"}
  - {name: review, prompt: "Review {{.Iteration}}", resume_from_previous: true}
post: [{name: tidy, prompt: Tidy}]
`

// Every event of a loop with every field: a prompt of the command line first, pre, two iterations, an exit with a label, post.
func TestAvenorLoop(t *testing.T) {
	t.Parallel()
	a := newLoop(t, planned, `
conversations:
  - {when: {prompt: ^Begin}, steps: [{text: Begun.}]}
  - {when: {prompt: ^Plan}, steps: [{text: "A plan.\n[exit]"}]}
  - {when: {prompt: ^Code 1}, steps: [{call: {id: c1, tool: bash, input: {command: echo hi}}}, {text: Coded.}, {text: Not yet.}]}
  - {when: {prompt: ^Code 2}, steps: [{text: Better.}, {text: "All good.\n<|workflow: exit | tests green|>"}]}
  - {when: {prompt: ^Tidy}, steps: [{text: Tidied.}]}
`, "--run-id", "run_1", "--label", "nightly", "--prompt", "Begin", "--allow", "bash(echo *)").loops(0, "exit", "DONE STOP_REASON=end_turn")
	a.tells(`
avenor.loop.start {"loop_phase_count":2,"max_iterations":3,"post_phase_count":1,"pre_phase_count":2}
avenor.phase.start {"iteration":0,"kind":"pre","phase":"(initial)"}
A session.start {"backend":"sluice"}
A user.message_chunk {"content":{"text":"Begin"}}
A agent.message_chunk {"content":{"text":"Begun."}}
A agent.status {"phase":"done","source":"avenor"}
A session.end {"stop_reason":"end_turn","usage":{"cached_read_tokens":0,"input_tokens":0,"output_tokens":0,"total_tokens":0}}
avenor.phase.end {"iteration":0,"phase":"(initial)","stop_reason":"end_turn"}
avenor.phase.start {"iteration":0,"kind":"pre","phase":"plan"}
B session.start {"backend":"sluice"}
B user.message_chunk {"content":{"text":"Plan run_1"}}
B agent.message_chunk {"content":{"text":"A plan.\n[exit]"}}
B agent.status {"phase":"done","source":"avenor"}
B session.end {"stop_reason":"end_turn","usage":{"cached_read_tokens":0,"input_tokens":0,"output_tokens":0,"total_tokens":0}}
avenor.phase.end {"exit_marker":true,"iteration":0,"phase":"plan","stop_reason":"end_turn"}
avenor.phase.start {"iteration":1,"kind":"loop","phase":"code"}
C session.start {"backend":"sluice"}
C user.message_chunk {"content":{"text":"Code 1/3 after: A plan.\n[exit]"}}
C agent.status {"label":"echo hi","phase":"working","source":"avenor"}
C tool.call {"kind":"bash","rawInput":{"command":"echo hi"},"status":"pending","title":"echo hi","toolCallId":"c1"}
C tool.call_update {"kind":"bash","status":"completed","toolCallId":"c1"}
C agent.message_chunk {"content":{"text":"Coded."}}
C agent.status {"phase":"done","source":"avenor"}
C session.end {"stop_reason":"end_turn","usage":{"cached_read_tokens":0,"input_tokens":0,"output_tokens":0,"total_tokens":0}}
avenor.phase.end {"iteration":1,"phase":"code","stop_reason":"end_turn"}
avenor.phase.start {"iteration":1,"kind":"loop","phase":"review"}
C session.start {"backend":"sluice"}
C user.message_chunk {"content":{"text":"Review 1"}}
C agent.message_chunk {"content":{"text":"Not yet."}}
C agent.status {"phase":"done","source":"avenor"}
C session.end {"stop_reason":"end_turn","usage":{"cached_read_tokens":0,"input_tokens":0,"output_tokens":0,"total_tokens":0}}
avenor.phase.end {"iteration":1,"phase":"review","stop_reason":"end_turn"}
avenor.phase.start {"iteration":2,"kind":"loop","phase":"code"}
D session.start {"backend":"sluice"}
D user.message_chunk {"content":{"text":"Code 2/3 after: Not yet."}}
D agent.message_chunk {"content":{"text":"Better."}}
D agent.status {"phase":"done","source":"avenor"}
D session.end {"stop_reason":"end_turn","usage":{"cached_read_tokens":0,"input_tokens":0,"output_tokens":0,"total_tokens":0}}
avenor.phase.end {"iteration":2,"phase":"code","stop_reason":"end_turn"}
avenor.phase.start {"iteration":2,"kind":"loop","phase":"review"}
D session.start {"backend":"sluice"}
D user.message_chunk {"content":{"text":"Review 2"}}
D agent.message_chunk {"content":{"text":"All good.\n<|workflow: exit | tests green|>"}}
D agent.status {"phase":"done","source":"avenor"}
D session.end {"stop_reason":"end_turn","usage":{"cached_read_tokens":0,"input_tokens":0,"output_tokens":0,"total_tokens":0}}
avenor.phase.end {"exit_marker":true,"exit_marker_label":"tests green","iteration":2,"phase":"review","stop_reason":"end_turn"}
avenor.phase.start {"iteration":0,"kind":"post","phase":"tidy"}
E session.start {"backend":"sluice"}
E user.message_chunk {"content":{"text":"Tidy"}}
E agent.message_chunk {"content":{"text":"Tidied."}}
E agent.status {"phase":"done","source":"avenor"}
E session.end {"stop_reason":"end_turn","usage":{"cached_read_tokens":0,"input_tokens":0,"output_tokens":0,"total_tokens":0}}
avenor.phase.end {"iteration":0,"phase":"tidy","stop_reason":"end_turn"}
avenor.loop.end {"exit_label":"tests green","exit_reason":"exit","iterations_completed":2}`)
	if string(a.out) != "Tidied.\n" || a.lines[0]["run_id"] != "run_1" || a.lines[0]["run_label"] != "nightly" {
		t.Errorf("stdout %q, first %v", a.out, a.lines[0])
	}
}

// How loops end: what the last event says, the exit code, and the sentinel.
func TestAvenorLoopEnds(t *testing.T) {
	const one = "max_iterations: 2\nloop: [{name: a, prompt: go}]\n"
	for name, c := range map[string]struct {
		config, script   string
		flags            []string
		exit             int
		reason, sentinel string
		ends             string // of phases and the loop
	}{
		"only pre": {"pre: [{name: a, prompt: go}]\n", greets, nil, 0, "end_turn", "DONE STOP_REASON=end_turn",
			`avenor.phase.end {"iteration":0,"phase":"a","stop_reason":"end_turn"}
avenor.loop.end {"exit_reason":"end_turn","iterations_completed":0}`},
		"abort": {one, `steps: [{text: "Hm.\n[abort | no database]"}]`, nil, 5, "abort", "BLOCKED STOP_REASON=blocked REASON=no_database",
			`avenor.phase.end {"abort_marker":true,"abort_marker_label":"no database","iteration":1,"phase":"a","stop_reason":"end_turn"}
avenor.loop.end {"exit_label":"no database","exit_reason":"abort","iterations_completed":0}`},
		"max iterations": {one, greets, nil, 4, "max_iterations", "FAILED STOP_REASON=max_iterations EXIT_CODE=4",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"end_turn"}
avenor.phase.end {"iteration":2,"phase":"a","stop_reason":"end_turn"}
avenor.loop.end {"exit_reason":"max_iterations","iterations_completed":2}`},
		"a phase fails": {one, `steps: [{text: No., fault: {status: 401}}]`, nil, 1, "phase_failure", "FAILED STOP_REASON=error EXIT_CODE=1",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"error"}
avenor.loop.end {"exit_reason":"phase_failure","iterations_completed":0}`},
		"refusal": {one, `steps: [{text: No., finish: refusal}]`, nil, 2, "phase_failure", "FAILED STOP_REASON=refusal EXIT_CODE=2",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"refusal"}
avenor.loop.end {"exit_reason":"phase_failure","iterations_completed":0}`},
		"max tokens": {one, `steps: [{text: And, finish: length}]`, nil, 3, "phase_failure", "FAILED STOP_REASON=max_tokens EXIT_CODE=3",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"max_tokens"}
avenor.loop.end {"exit_reason":"phase_failure","iterations_completed":0}`},
		"denied": {one, `steps: [{call: {tool: bash, input: {command: make}}}, {text: So be it.}]`, nil, 5, "phase_failure", "BLOCKED STOP_REASON=blocked",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"blocked"}
avenor.loop.end {"exit_reason":"phase_failure","iterations_completed":0}`},
		"a phase takes too long": {"loop: [{name: a, prompt: go, timeout: 300ms}]\n", `steps: [{text: And, fault: {hang: text}}]`, nil, 124, "timeout", "TIMEOUT STOP_REASON=timeout",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"timeout"}
avenor.loop.end {"exit_reason":"timeout","iterations_completed":0}`},
		"the run takes too long": {one, `steps: [{text: And, fault: {hang: text}}]`, []string{"--timeout", "500ms"}, 124, "timeout", "TIMEOUT STOP_REASON=timeout",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"timeout"}
avenor.loop.end {"exit_reason":"timeout","iterations_completed":0}`},
		"no progress": {one, `steps: [{text: And, fault: {hang: text}}]`, []string{"--progress-timeout", "500ms"}, 124, "timeout", "TIMEOUT STOP_REASON=timeout",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"timeout"}
avenor.loop.end {"exit_reason":"timeout","iterations_completed":0}`},
		"files are missing": {"loop: [{name: a, prompt: go, requires: {files: [x]}}]\n", `steps: [{text: Done.}, {text: Done again.}]`, nil, 1, "phase_failure", "FAILED STOP_REASON=error",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"error"}
avenor.loop.end {"exit_reason":"phase_failure","iterations_completed":0}`},
		"it goes nowhere": {one, `{chunk: 1, steps: [{thinking: "` + strings.Repeat("a1b2c3d4", 64) + `", text: Done.}]}`, []string{"--max-retries", "2"}, 1, "phase_failure", "FAILED STOP_REASON=degenerate_reasoning_stream EXIT_CODE=1",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"degenerate_reasoning_stream"}
avenor.loop.end {"exit_reason":"phase_failure","iterations_completed":0}`},
		"a program that is not there": {"loop: [{name: a, prompt: go, backend: 'acp:no-such-program'}]\n", greets, nil, 1, "phase_failure", "FAILED STOP_REASON=error",
			`avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"error"}
avenor.loop.end {"exit_reason":"phase_failure","iterations_completed":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newLoop(t, c.config, c.script, c.flags...).loops(c.exit, c.reason, c.sentinel)
			a.tells(c.ends, "avenor.phase.end", "avenor.loop.end")
			if n := len(a.only("avenor.retry")); n > 0 {
				t.Errorf("%d retries", n)
			}
			if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(fmt.Sprint(a.lines[0]["run_id"])) {
				t.Errorf("the run is called %v", a.lines[0]["run_id"])
			}
			if failed := slices.Contains([]string{"error", "blocked"}, fmt.Sprint(lastOf(a.lines, "event", "avenor.phase.end")["stop_reason"])); failed && len(a.only("avenor.error")) == 0 {
				t.Error("nothing says why")
			}
		})
	}
}

// A loop that is stopped in the middle of a phase closes everything: the call, the session, the phase and the loop.
func TestAvenorLoopStopped(t *testing.T) {
	for signal, exit := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			a := newLoop(t, "loop: [{name: a, prompt: go}]\npost: [{name: b, prompt: go}]\n", `steps: [{call: {tool: bash, input: {command: "stray one; sleep 60"}}}, {text: Done.}]`, "--auto-approve")
			a.start(nil)
			a.awaitStray("one")
			a.signal(signal)
			a.wait()
			a.looped(exit, "cancelled", fmt.Sprint("KILLED STOP_REASON=cancelled EXIT_CODE=", exit))
			a.tells(`
A tool.call_update {"kind":"bash","status":"failed","toolCallId":"call_1_1"}
avenor.phase.end {"iteration":1,"phase":"a","stop_reason":"cancelled"}
avenor.loop.end {"exit_reason":"cancelled","iterations_completed":0}`, "tool.call_update", "avenor.phase.end", "avenor.loop.end")
		})
	}
}

// A loop that is stopped while a phase waits to be tried again: its session, the phase and the loop end for the same reason.
func TestAvenorLoopStoppedBetweenAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		flags          []string
		signal         syscall.Signal
		exit           int
		stop, sentinel string
	}{
		"SIGINT":  {nil, syscall.SIGINT, 130, "cancelled", "KILLED EXIT_CODE=130"},
		"timeout": {[]string{"--timeout", "1s"}, 0, 124, "timeout", "TIMEOUT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newLoop(t, "loop: [{name: a, prompt: go}]\n", `steps: [{text: No., fault: {status: 500}}]`, append(c.flags, "--max-retries", "3", "--retry-wait", "1m")...)
			a.start(nil)
			if c.signal != 0 {
				a.awaitEvent("phase.retry")
				a.signal(c.signal)
			}
			a.wait()
			a.looped(c.exit, c.stop, c.sentinel+" STOP_REASON="+c.stop)
			a.tells(fmt.Sprintf(`
A avenor.retry {"attempt":1,"max_retries":3}
A session.end {"stop_reason":%[1]q}
avenor.phase.end {"iteration":1,"phase":"a","stop_reason":%[1]q}
avenor.loop.end {"exit_reason":%[1]q,"iterations_completed":0}`, c.stop), "avenor.retry", "session.end", "avenor.phase.end", "avenor.loop.end")
		})
	}
}

// A phase that failed for a reason that may pass is tried again: one session, one end, the tokens of all attempts.
func TestAvenorLoopRetries(t *testing.T) {
	t.Parallel()
	a := newLoop(t, "max_iterations: 1\nloop: [{name: a, prompt: go}]\n", `steps: [{text: "Well.\n[exit]", usage: {input: 5, output: 2}, fault: {status: 529, times: 2}}]`, "--max-retries", "3").loops(0, "exit", "DONE")
	a.tells(`
A session.start {"backend":"sluice"}
A avenor.retry {"attempt":1,"max_retries":3}
A avenor.retry {"attempt":2,"max_retries":3}
A session.end {"stop_reason":"end_turn","usage":{"cached_read_tokens":0,"input_tokens":5,"output_tokens":2,"total_tokens":7}}
avenor.phase.end {"exit_marker":true,"iteration":1,"phase":"a","stop_reason":"end_turn"}`, "session.start", "avenor.retry", "session.end", "avenor.phase.end")
	if n := len(a.only("avenor.error")); n != 2 {
		t.Errorf("%d errors of two failures", n)
	}
}

// Each phase by its own backend, model and agent; questions of all of them are answered; a guest's session goes on in the next phase.
func TestAvenorLoopBackends(t *testing.T) {
	t.Parallel()
	a := newLoop(t, `
max_iterations: 1
pre: [{name: own, prompt: go, agent: helper}]
loop:
  - {name: asks, prompt: run make, backend: 'acp:acp-agent'}
  - {name: goes on, prompt: who, backend: 'acp:acp-agent', resume_from_previous: true, model: big, agent: plan}
  - {name: asks again, prompt: run make, backend: 'acp:acp-agent'}
  - {name: stream, prompt: hello, backend: claude-stream}
  - {name: terminal, prompt: go, backend: claude}
  - {name: model, prompt: go, model: anthropic/other}
`, `steps: [{call: {tool: bash, input: {command: echo hi}}}, {text: "Said.\n[exit]"}]`, "--auto-approve")
	a.put("work/.sluice/agents/helper.md", "---\nname: helper\ndescription: helps\n---\nYou help.\n")
	a.set("STAGE", "say:Hello.")
	a.set("CLAUDE_CONFIG_DIR", a.path("home"))
	a.loops(0, "exit", "DONE")
	a.tells(`
A session.start {"backend":"sluice"}
B session.start {"backend":"acp"}
B session.start {"backend":"acp"}
C session.start {"backend":"acp"}
D session.start {"backend":"claude-stream"}
E session.start {"backend":"claude","dangerously_load":false}
F session.start {"backend":"sluice"}`, "session.start")
	if said := fmt.Sprint(a.told("agent.message_chunk")); !strings.Contains(said, "acp-1 plan big") {
		t.Errorf("the guest was not who it was: %s", said)
	}
	if asked := len(a.only("permission.request")); asked != 4 || asked != len(a.only("permission.response")) {
		t.Errorf("%d questions, %d answers", asked, len(a.only("permission.response")))
	}
	ids := map[any]int{}
	for _, l := range a.only("tool.call") {
		ids[l["toolCallId"]]++
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%d calls are %v", n, id)
		}
	}
}

// What is wrong with a configuration is told before anything runs: in the stream, in the sentinel, on stderr.
func TestAvenorLoopConfig(t *testing.T) {
	for words, config := range map[string]string{
		`loop.yaml:1: there is no key "max_iteration" here: is max_iterations meant?`: "max_iteration: 3\nloop: [{name: a, prompt: go, backend: claud}]\n",
		`phase b: there is no agent "nobody"`:                                         "loop: [{name: a, prompt: go}, {name: b, prompt: go, agent: nobody}]\n",
		`phase b: there is no provider "nosuch"`:                                      "loop: [{name: a, prompt: go}]\npost: [{name: b, prompt: go, model: nosuch/x}]\n",
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			a := newLoop(t, config, greets, "--max-retries", "2")
			a.start(nil)
			a.wait()
			stream, _ := os.ReadFile(a.file)
			sentinel, _ := os.ReadFile(a.path("sentinel"))
			if a.exit != 1 || !strings.Contains(a.errs.String(), words) || !strings.HasPrefix(string(sentinel), "FAILED\n") {
				t.Errorf("exit %d, %s, %s", a.exit, a.errs.String(), sentinel)
			}
			a.lint(a.dialect, stream)
			lines := a.parse(stream)
			if last := lines[len(lines)-1]; last["event"] != "session.end" || last["stop_reason"] != "error" || lastOf(lines, "event", "avenor.error") == nil || lastOf(lines, "event", "user.message_chunk") != nil {
				t.Errorf("%s", stream)
			}
		})
	}
}
