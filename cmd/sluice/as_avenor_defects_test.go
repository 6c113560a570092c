//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What the program that is called avenor got wrong; each test is named by its number in our list. Numbers 6 to 9 and 27 are in
// control_test.go and control_steer_test.go, 28 is in internal/guest.

func TestAvenorDefect01SessionEndOnceAndLast(t *testing.T) {
	asks := `steps: [{calls: [{tool: bash, input: {command: echo 1}}, {tool: bash, input: {command: echo 2}}]}, {text: Done.}]`
	for name, c := range map[string]struct {
		script string
		flags  []string
		env    string
		exit   int
		stop   string
	}{
		"normal":             {greets, nil, "", 0, "end_turn"},
		"it cannot start":    {greets, nil, "SLUICE_MODEL", 1, "error"},
		"the prompt fails":   {`steps: [{text: No., fault: {status: 500}}]`, nil, "", 1, "error"},
		"handler too late":   {asks, []string{"--permission-handler", "file:ask", "--permission-timeout", "50ms"}, "", 5, "blocked"},
		"a second question":  {asks, []string{"--auto-approve"}, "", 0, "end_turn"},
		"the backend leaves": {greets, []string{"--backend", "acp:true"}, "", 1, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAvenor(t, c.script, c.flags...)
			if c.env != "" {
				a.set(c.env, "nobody/knows")
			}
			a.play(c.exit, c.stop)
		})
	}
	t.Run("SIGTERM", func(t *testing.T) {
		t.Parallel()
		a := newAvenor(t, `steps: [{text: Hello., fault: {hang: text}}]`)
		a.start(nil)
		a.awaitEvent("text.delta")
		a.signal(syscall.SIGTERM)
		a.wait()
		a.ended(143, "cancelled")
	})
}

func TestAvenorDefect02WatchFollows(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.ndjson")
	cmd := exec.Command("avenor", "watch", "--follow", file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(patient, func() { cmd.Process.Kill() })
	defer stop.Stop()
	buf := make([]byte, 4096)
	add := func(text string) {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(want string) {
		t.Helper()
		n, err := out.Read(buf)
		if got := string(buf[:n]); !strings.Contains(got, want) {
			t.Fatalf("it shows %q, %v; want %q", got, err, want)
		}
	}
	add(`{"event":"session.start","session_id":"s"}` + "\n")
	sees("EVENT session.start s")
	add(`{"event":"tool.call","session_id":"s","kind":"ba`)
	add(`sh","title":"ls","status":"pending"}` + "\n")
	sees("EVENT tool.call s bash:ls [pending]")
	add(`{"event":"session.end","session_id":"s","stop_reason":"end_turn"}` + "\n")
	sees("stop_reason=end_turn")
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// readsBack runs a command that reads a stream, and returns what it says.
func readsBack(t *testing.T, stream string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(file, []byte(stream), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("avenor", append(args, file)...).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestAvenorDefect03ClassifyKeepsTheLine(t *testing.T) {
	t.Parallel()
	line := `{"event":"deploy","z":1,"a":9007199254740993,"s":"<&>"`
	for _, args := range [][]string{{"watch", "--format", "json", "--classify"}, {"digest", "--classify"}} {
		if got := readsBack(t, line+"}\n", args...); !strings.HasPrefix(got, line) {
			t.Errorf("%q: %s", args, got)
		}
	}
}

func TestAvenorDefect04TheCommandsExist(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"digest", "--help"}, {"emit", "--help"}, {"verify", "--help"}, {"run", "--help"}} {
		out, err := exec.Command("avenor", args...).CombinedOutput()
		if err != nil || args[0] == "run" && !bytes.Contains(out, []byte("--config")) {
			t.Errorf("%q: %v %s", args, err, out)
		}
	}
}

func TestAvenorDefect05Findings(t *testing.T) {
	t.Parallel()
	chunk := func(event, text string) string {
		return fmt.Sprintf(`{"event":%q,"session_id":"s","messageId":"m","content":{"text":%q}}`+"\n", event, text)
	}
	for text, want := range map[string]bool{
		chunk("agent.message_chunk", "The review") + chunk("agent.message_chunk", "er flagged it."): true,
		`{"event":"agent.message_chunk","session_id":"s","delta":"correction needed"}` + "\n":       true,
		chunk("agent.message_chunk", "0 failed tests"):                                              false,
		chunk("user.message_chunk", "say so if the reviewer flagged it: [finding]"):                 false,
	} {
		if got := readsBack(t, text, "watch", "--classify"); strings.Contains(got, "FINDING") != want {
			t.Errorf("%s is told as %s", text, got)
		}
	}
}

func TestAvenorDefect10RetryAndResume(t *testing.T) {
	t.Run("claude is resumed", func(t *testing.T) {
		t.Parallel()
		a := newLoop(t, "max_iterations: 1\npre: [{name: a, prompt: go}, {name: b, prompt: more, resume_from_previous: true}]\n", greets, "--backend", "claude")
		a.set("STAGE", "say:Hello.")
		a.set("CLAUDE_CONFIG_DIR", a.path("home"))
		a.loops(0, "end_turn", "DONE")
		if files, _ := filepath.Glob(a.path("home/projects/*/*.jsonl")); len(files) != 1 {
			t.Errorf("it had %d conversations, want one", len(files))
		}
	})
	t.Run("claude is tried again", func(t *testing.T) {
		t.Parallel()
		a := newLoop(t, "max_iterations: 1\nloop: [{name: a, prompt: go}]\n", greets, "--backend", "claude-stream", "--max-retries", "1")
		a.put("loop.yaml", "max_iterations: 1\nloop: [{name: a, prompt: broke}]\n")
		a.loops(1, "phase_failure", "FAILED STOP_REASON=error")
		if n := len(a.only("avenor.retry")); n != 1 {
			t.Errorf("%d retries", n)
		}
	})
	t.Run("an ACP agent is who it was", func(t *testing.T) {
		t.Parallel()
		a := newLoop(t, "pre: [{name: a, prompt: hello}, {name: b, prompt: who, resume_from_previous: true}]\n", greets, "--backend", "acp:acp-agent", "--model", "big", "--agent", "plan")
		a.loops(0, "end_turn", "DONE")
		if said := fmt.Sprint(a.told("agent.message_chunk")); !strings.Contains(said, "acp-1 plan big") {
			t.Errorf("it says %s", said)
		}
	})
}

func TestAvenorDefect11DeltaHasCommitsAndNewFiles(t *testing.T) {
	t.Parallel()
	a := newLoop(t, "pre:\n  - {name: a, prompt: Work}\n  - {name: b, prompt: 'Changed: {{range .ChangedFiles}}<{{.}}>{{end}}'}\n", `
conversations:
  - when: {prompt: ^Work}
    steps: [{call: {tool: bash, input: {command: "echo x > committed && git add committed && git -c user.name=a -c user.email=a@b commit -qm x && echo y > untracked"}}}, {text: Done.}]
steps: [{text: Seen.}]`, "--auto-approve")
	if out, err := exec.Command("sh", "-c", "cd "+a.path("work")+" && git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a.loops(0, "end_turn", "DONE")
	if said := fmt.Sprint(a.told("user.message_chunk")); !strings.Contains(said, "<committed>") || !strings.Contains(said, "<untracked>") {
		t.Errorf("it was told %s", said)
	}
}

func TestAvenorDefect12NeverConvergedIsNoSuccess(t *testing.T) {
	t.Parallel()
	const config = "max_iterations: 1\nloop: [{name: a, prompt: go}]\n"
	newLoop(t, config, `steps: [{text: "[exit]"}]`).loops(0, "exit", "DONE")
	newLoop(t, config, greets).loops(4, "max_iterations", "FAILED EXIT_CODE=4")
	newLoop(t, config, `steps: [{text: And, fault: {hang: text}}]`, "--timeout", "300ms").loops(124, "timeout", "TIMEOUT")
}

func TestAvenorDefect13StopReasonIsKept(t *testing.T) {
	t.Parallel()
	a := newLoop(t, "loop: [{name: a, prompt: go}]\n", `{chunk: 1, steps: [{thinking: "`+strings.Repeat("a1b2c3d4", 64)+`", text: Done.}]}`)
	a.loops(1, "phase_failure", "FAILED STOP_REASON=degenerate_reasoning_stream")
	if end := a.only("avenor.phase.end")[0]; end["stop_reason"] != "degenerate_reasoning_stream" {
		t.Errorf("%v", end)
	}
}

// exits says whether what a model says ends the loop.
func exits(t *testing.T, script string) bool {
	t.Helper()
	a := newLoop(t, "max_iterations: 1\nloop: [{name: a, prompt: go}]\n", script)
	a.start(nil)
	a.wait()
	return a.exit == 0
}

func TestAvenorDefect14ThoughtsDirectNothing(t *testing.T) {
	t.Parallel()
	if exits(t, `steps: [{thinking: "[exit]\n", text: Hm.}]`) {
		t.Error("a thought ended the loop")
	}
}

func TestAvenorDefect15MarkersAreWholeLines(t *testing.T) {
	t.Parallel()
	if exits(t, `{chunk: 6, steps: [{text: "[exit] is what I would say\nif it were."}]}`) {
		t.Error("prose ended the loop")
	}
}

func TestAvenorDefect16LongLabels(t *testing.T) {
	t.Parallel()
	if !exits(t, `{chunk: 5, steps: [{thinking: "No line break here", text: "[exit | `+strings.Repeat("long ", 400)+`]"}]}`) {
		t.Error("the marker was not seen")
	}
}

func TestAvenorDefect17Fences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"```\\n" + strings.Repeat("code\\n", 300) + "[exit]\\n```\\n": false,
		"````\\n```\\n[exit]\\n```\\n````\\n":                         false,
		"```\\ncode\\n```\\n[exit]\\n":                                true,
	} {
		if exits(t, `steps: [{text: "`+text+`"}]`) != want {
			t.Errorf("%.40s…: want %v", text, want)
		}
	}
}

func TestAvenorDefect18EveryStatusIsSeen(t *testing.T) {
	t.Parallel()
	a := newAvenor(t, `steps: [{text: "[status: working | a] and [status: thinking | b]"}]`).play(0, "end_turn")
	if names := a.names(); !slices.Contains(names, "working a agent") || !slices.Contains(names, "thinking b agent") {
		t.Errorf("%q", names)
	}
}

func TestAvenorDefect19DetectorOnEveryBackend(t *testing.T) {
	t.Parallel()
	newAvenor(t, `{chunk: 3, steps: [{thinking: "<|channel|>analysis", text: Done.}]}`).play(1, "degenerate_reasoning_stream")
	newAvenor(t, "steps: [{text: \"see <tool_calls> below, and `<|start|>`, and <|endless\"}]").play(0, "end_turn")
	a := newAvenor(t, greets, "--backend", "claude-stream", "--max-retries", "2")
	a.args[slices.Index(a.args, "--prompt")+1] = "who" // it says where its configuration is
	a.set("CLAUDE_CONFIG_DIR", "x\n<|channel|>analysis")
	a.play(1, "degenerate_reasoning_stream")
	why := a.only("avenor.error")
	if len(why) != 1 || why[0]["kind"] != "degenerate_reasoning_stream" || why[0]["source"] != "loop" || len(a.only("avenor.retry")) > 0 {
		t.Fatalf("%v", why)
	}
	for _, field := range []string{"abort_signal", "observed_total", "hex_total", "hex_in_window", "window_size", "consecutive_hex", "progress_in_window"} {
		if d, _ := why[0]["diagnostics"].(map[string]any); d[field] == nil {
			t.Errorf("there is no %s in %v", field, d)
		}
	}
}

func TestAvenorDefect20NoShell(t *testing.T) {
	t.Parallel()
	for _, terminal := range []string{"pty", "tmux"} {
		a := newHosted(t, "claude", "say:Hello.", "--terminal", terminal, "--label", "$(touch one)", "--agent", "`touch two`", "--model", "m; touch three")
		a.start(nil)
		a.wait()
		a.hosted(0, "end_turn")
		if left, _ := filepath.Glob(filepath.Join(a.path("work"), "*")); len(left) > 0 {
			t.Errorf("%s: a shell read it: %q", terminal, left)
		}
	}
}

func TestAvenorDefect21TheUsersFilesStay(t *testing.T) {
	t.Parallel()
	a := newHosted(t, "claude-channel", "dev mcp finish:done say:Bye.")
	const mine = `{"mcpServers":{"mine":{"command":"x"}}}`
	a.put("work/.mcp.json", mine)
	a.start(nil)
	a.wait()
	if data, err := os.ReadFile(a.path("work/.mcp.json")); string(data) != mine || err != nil {
		t.Errorf("it is %s now: %v", data, err)
	}
	os.Remove(a.path("work/.mcp.json"))
	a.hosted(0, "end_turn")
	if n := len(a.only("agent.prompt_queued")) + len(a.only("agent.prompt_submitted")); n != 1 {
		t.Errorf("the prompt was delivered %d times", n)
	}
}

func TestAvenorDefect22TheTranscriptIsRead(t *testing.T) {
	t.Parallel()
	a := newHosted(t, "claude", "side say:Hello.", "--dir", "link")
	if err := os.Mkdir(a.path("work/real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", a.path("work/link")); err != nil {
		t.Fatal(err)
	}
	a.start(nil)
	a.wait()
	a.hosted(0, "end_turn")
	list, _ := filepath.Glob(a.path("state/sluice/sessions/*/journal.ndjson"))
	if data, err := os.ReadFile(list[0]); err != nil || !bytes.Contains(data, []byte(`"kind":"reply.done"`)) || !bytes.Contains(data, []byte(`"input":10`)) {
		t.Errorf("nothing was counted: %s", data)
	}
	cut := newHosted(t, "claude", "cut")
	cut.start(nil)
	cut.wait()
	cut.hosted(3, "max_tokens")
}

func TestAvenorDefect23WaitingIsToldOnce(t *testing.T) {
	t.Parallel()
	a := newHosted(t, "claude", "bash:touch_made say:Done.", "--permission-handler", "file:ask", "--permission-timeout", "2s")
	a.start(nil)
	a.wait()
	n := 0
	for _, l := range a.parse(must(os.ReadFile(a.file))) {
		if l["event"] == "agent.status" && l["phase"] == "waiting" {
			n++
		}
	}
	if n != 1 || a.exit != 5 {
		t.Errorf("told %d times, exit %d", n, a.exit)
	}
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

func TestAvenorDefect24ACP(t *testing.T) {
	for prompt, c := range map[string]struct{ has, stop string }{
		"noise": {"agent.message_chunk", "end_turn"}, "kinds": {"session.plan", "end_turn"}, "order": {"agent.message_chunk", "end_turn"},
	} {
		t.Run(prompt, func(t *testing.T) {
			t.Parallel()
			a := newHosted(t, "acp:acp-agent", "", "--auto-approve")
			a.args[slices.Index(a.args, "--prompt")+1] = prompt
			a.start(nil)
			a.wait()
			a.hosted(0, c.stop)
			if !slices.Contains(strings.Fields(a.events()), c.has) {
				t.Errorf("there is no %s", c.has)
			}
		})
	}
}

func TestAvenorDefect25FlagsAnywhere(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(file, []byte(`{"event":"session.end","session_id":"s","stop_reason":"end_turn"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("avenor", "watch", file, "--classify").Output()
	if err != nil || !bytes.HasPrefix(out, []byte("MILESTONE EVENT session.end")) {
		t.Errorf("%v %s", err, out)
	}
}

func TestAvenorDefect26UnknownKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "max_iteration: 3\nloop: [{name: a, prompt: go}]\n",
		"a.json": "{\"max_iteration\": 3,\n\"loop\": [{\"name\": \"a\", \"prompt\": \"go\"}]}\n",
		"a.toml": "max_iteration = 3\n[[loop]]\nname = \"a\"\nprompt = \"go\"\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("avenor", "verify", file).Output()
		if err == nil || string(out) != "error: "+file+":1: there is no key \"max_iteration\" here: is max_iterations meant?\n" {
			t.Errorf("%v %s", err, out)
		}
	}
}

func TestAvenorDefect29ClaudeIsGone(t *testing.T) {
	for _, terminal := range []string{"pty", "tmux"} {
		t.Run(terminal, func(t *testing.T) {
			t.Parallel()
			label := fmt.Sprintf("gone-%s-%d", terminal, os.Getpid())
			a := newHosted(t, "claude", "say:Hello.", "--terminal", terminal, "--label", label)
			a.start(nil)
			a.wait()
			a.hosted(0, "end_turn")
			out, err := exec.Command("ps", "-axww", "-o", "command").Output()
			if err != nil || bytes.Contains(out, []byte(label)) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}
