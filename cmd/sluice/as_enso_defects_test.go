//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What the real program does wrong, and this one must not: a test each, named after what is right.

func TestEnsoFailedToolIsTold(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `steps: [{call: {tool: read, input: {path: nope.txt}}}, {text: It is not there.}]`, "go").play(0)
	if text, _ := e.one("tool_call_end")["error"].(string); !strings.Contains(text, "there is no such file") {
		t.Errorf("the call says %q", text)
	}
	if e.one("session_end")["tool_errors"] != true {
		t.Error("tool_errors is not true")
	}
}

func TestEnsoProviderErrorsAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault string
		exit  int
		says  string
	}{
		"400":         {"{status: 400, message: bad thing}", 3, "bad thing"},
		"401":         {"{status: 401, message: who are you}", 3, "who are you"},
		"429":         {"{status: 429, message: slow down}", 2, "slow down"},
		"500":         {"{status: 500, message: oops}", 2, "oops"},
		"cut":         {"{cut: text}", 2, ""},
		"unreachable": {"{cut: start}", 2, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnso(t, "steps: [{text: Hello there., fault: "+c.fault+"}]", "go")
			e.set("SLUICE_RETRIES", "0")
			if name == "unreachable" {
				e.set("ANTHROPIC_BASE_URL", "http://"+e.closed())
			}
			e.play(c.exit)
			for _, text := range []any{e.one("error")["message"], e.one("session_end")["error"]} {
				if s, _ := text.(string); s == "" || !strings.Contains(s, c.says) {
					t.Errorf("it says %q, want %q", text, c.says)
				}
			}
		})
	}
}

// In a thousand runs, eight at a time: the first line is session_start, the last is session_end. Runs that are stopped and
// readers that are slow have tests of their own, which look at the same.
func TestEnsoFirstAndLastLine(t *testing.T) {
	t.Parallel()
	runs := 1000
	if testing.Short() {
		runs = 50
	}
	e := newEnso(t, `steps: [{text: Hello there., call: {tool: bash, input: {cmd: echo hi}}}, {text: Done.}]`)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range runs / 8 {
				r := e.again("--yolo", "--ephemeral", "go")
				r.start(nil)
				r.wait()
				r.ended(0)
			}
		})
	}
	all.Wait()
}

func TestEnsoSignalsEndIt(t *testing.T) {
	t.Parallel()
	for place, c := range map[string]struct{ script, until string }{
		"streaming":  {`{chunk: 4, delay: 20ms, steps: [{text: "` + strings.Repeat("slow words ", 200) + `"}]}`, "assistant_delta"},
		"in a tool":  {`steps: [{call: {tool: bash, input: {cmd: "stray one; trap '' TERM INT; sleep 60; sleep 60"}}}, {text: Done.}]`, "tool_call_start"},
		"in silence": {`steps: [{text: Hello there., fault: {hang: start}}]`, "user_message"},
	} {
		for s, exit := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			t.Run(fmt.Sprint(place, " ", s), func(t *testing.T) {
				t.Parallel()
				e := newEnso(t, c.script, "--yolo", "go")
				e.until(c.until)
				if place == "in a tool" {
					e.awaitStray("one")
				}
				e.signal(s)
				e.wait()
				e.ended(exit)
				if limit := 30 * time.Second; e.took > limit { // a second, on a machine that has nothing else to do
					t.Errorf("it took %v to end", e.took)
				}
				n := len(e.lines)
				e.is(e.lines[n-2], `{"type":"cancelled"}`)
				if text, _ := e.lines[n-1]["error"].(string); !strings.Contains(text, "stopped by SIG") {
					t.Errorf("session_end says %q", text)
				}
			})
		}
	}
}

func TestEnsoEveryCallIsTold(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `
steps:
- calls:
  - {id: denied, tool: bash, input: {cmd: echo hi}}
  - {id: by-rule, tool: read, input: {path: secret.txt}}
  - {id: unknown, tool: fly, input: {to: the moon}}
  - {id: broken, tool: bash, raw: '{"cmd": "ec'}
  - {id: wrong, tool: read, input: {path: 7}}
- {text: Nothing worked.}`, "--deny", "read(secret.txt)", "go").play(5)
	got := map[string]string{}
	for _, l := range e.only("tool_call_start") {
		got[l["id"].(string)] = fmt.Sprint(l["name"], " ", l["args"])
	}
	want := map[string]string{
		"denied": "bash map[cmd:echo hi]", "by-rule": "read map[path:secret.txt]", "unknown": "fly map[to:the moon]",
		"broken": `bash map[_raw:{"cmd": "ec]`, "wrong": "read map[path:7]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tool_call_start: %s", diff)
	}
	got = map[string]string{}
	for _, l := range e.only("tool_call_end") {
		got[l["id"].(string)] = fmt.Sprint(l["name"], " ", l["error"], " ", l["denied"])
	}
	for id, says := range map[string]string{
		"denied": "nobody is there to allow it", "by-rule": "denied by the rule", "unknown": `there is no tool "fly"`,
		"broken": "the arguments are not a JSON object", "wrong": `"path" must be a string`,
	} {
		if denied := id == "denied" || id == "by-rule"; !strings.Contains(got[id], says) || strings.HasSuffix(got[id], "true") != denied {
			t.Errorf("%s: %s", id, got[id])
		}
	}
}

func TestEnsoAutoDenyIsInItsPlace(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `{chunk: 4, steps: [
  {text: I run a command., call: {tool: bash, input: {cmd: echo hi}}},
  {text: I write., calls: [{tool: write, input: {path: a, content: b}}, {tool: bash, input: {cmd: echo ho}}]},
  {text: So be it.}]}`, "go").play(5)
	var got []string
	for _, l := range e.order() {
		if l != "assistant_delta" {
			got = append(got, l)
		}
	}
	want := []string{
		"session_start", "user_message",
		"assistant_done", "permission_auto_deny bash", "tool_call_start bash", "tool_call_end bash",
		"assistant_done", "permission_auto_deny write", "tool_call_start write", "tool_call_end write",
		"permission_auto_deny bash", "tool_call_start bash", "tool_call_end bash",
		"assistant_done", "session_end",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEnsoNothingIsDropped(t *testing.T) {
	t.Parallel()
	t.Run("200 kB in pieces of 4 bytes", func(t *testing.T) {
		t.Parallel()
		var b strings.Builder
		for i := 0; b.Len() < 200_000; i++ {
			fmt.Fprintf(&b, "%d words ", i*i)
		}
		text := strings.TrimSpace(b.String())
		e := newEnso(t, `{chunk: 4, steps: [{text: "`+text+`"}]}`, "--ephemeral", "go").play(0)
		if got := e.said("assistant_delta"); got != text {
			t.Errorf("%d of %d bytes arrived", len(got), len(text))
		}
		if n, most := len(e.only("assistant_delta")), (len(text)+3)/4; n < most*9/10 { // some wait for the next: a secret may begin so
			t.Errorf("%d deltas of %d", n, most)
		}
	})
	t.Run("a slow reader", func(t *testing.T) {
		t.Parallel()
		text := strings.TrimSpace(strings.Repeat("all work and no play ", 150))
		e := newEnso(t, `{chunk: 4, steps: [{text: "`+text+`"}]}`, "--ephemeral", "go")
		e.narrow = true
		e.start(func(_ *run, in *os.File) (all []byte) {
			buf := make([]byte, 1024)
			for {
				n, err := in.Read(buf)
				all = append(all, buf[:n]...)
				if err != nil {
					return all
				}
				time.Sleep(30 * time.Millisecond) // this is what the test is about
			}
		})
		e.wait()
		e.ended(0)
		if got := e.said("assistant_delta"); got != text {
			t.Errorf("%d of %d bytes arrived", len(got), len(text))
		}
	})
}

func TestEnsoChildLinesCanBeTold(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `
conversations:
- {when: {prompt: ^One}, steps: [{thinking: Hm., text: I am one., call: {tool: bash, input: {cmd: echo one}}}, {text: One is done.}]}
- {when: {prompt: ^Two}, steps: [{thinking: Hm., text: I am two., call: {tool: bash, input: {cmd: echo two}}}, {text: Two is done.}]}
steps: [{calls: [{tool: spawn_agent, input: {prompt: One.}}, {tool: spawn_agent, input: {prompt: Two.}}]}, {text: All done.}]`, "--yolo", "go").play(0)
	names := map[any]string{}
	for _, l := range e.only("agent_start") {
		names[l["id"]] = l["prompt"].(string)
	}
	said := map[string]string{}
	for _, l := range e.lines {
		who := names[l["agent_id"]]
		switch l["type"] {
		case "assistant_delta":
			said[who] += l["text"].(string)
		case "tool_call_end":
			if l["name"] == "bash" {
				said[who] += l["result"].(string)
			}
		}
	}
	want := map[string]string{"": "All done.", "One.": "I am one.one\nOne is done.", "Two.": "I am two.two\nTwo is done."}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
}

func TestEnsoPromptIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	prompt := "x" + strings.Repeat("é—", 60)
	e := newEnso(t, `
conversations: [{when: {prompt: ^xé}, steps: [{text: Done.}]}]
steps: [{call: {tool: spawn_agent, input: {prompt: "`+prompt+`"}}}, {text: Done.}]`, "--yolo", "go").play(0)
	got, _ := e.one("agent_start")["prompt"].(string)
	if cut, ok := strings.CutSuffix(got, "…"); !ok || !strings.HasPrefix(prompt, cut) || strings.Contains(got, "\uFFFD") || len([]rune(cut)) != 80 {
		t.Errorf("the prompt is %q", got)
	}
}

func TestEnsoDenyRulesHoldUnderYolo(t *testing.T) {
	t.Parallel()
	const touches = `steps: [{call: {tool: bash, input: {cmd: touch marker}}}, {text: Done.}]`
	for rule, exit := range map[string]int{"bash(*)": 5, "bash": 5, "*": 5, "bash(touch *)": 5, "bash(": 1, "(touch)": 1, "write": 1, "spawn_agent": 1, "mcp__tt__echo": 1} {
		for _, from := range []string{"flag", "configuration"} {
			t.Run(rule+" from a "+from, func(t *testing.T) {
				t.Parallel()
				e := newEnso(t, touches, "--yolo", "go")
				if from == "flag" {
					e.args = append(e.args, "--deny", rule)
				} else {
					e.configure("deny = ['" + rule + "']\n")
				}
				e.start(nil)
				e.wait()
				if e.exit != exit {
					t.Errorf("exit %d, want %d: %s", e.exit, exit, e.errs.Bytes())
				}
				if exists(filepath.Join(e.path("work"), "marker")) {
					t.Error("it ran")
				}
				e.parse(e.out) // each line is JSON
				if exit == 5 && !strings.Contains(string(e.out), `"denied":true`) {
					t.Errorf("no call is denied: %s", e.out)
				}
			})
		}
	}
}

func TestEnsoStdoutIsJSONOnly(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"first run": {"go"}, "no prompt": {}, "empty prompt": {""}, "bad flag": {"--nope", "go"}, "workflow": {"--workflow", "build", "go"},
		"missing session": {"--resume", "nope", "go"}, "unknown agent": {"--agent", "nope", "go"}, "bad model": {"--model", "nobody/x", "go"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnso(t, "", args...)
			if name == "first run" { // with nothing set up at all
				e.set("SLUICE_MODEL", "demo/demo")
				e.set("ANTHROPIC_API_KEY", "")
			}
			e.start(nil)
			e.wait()
			e.parse(e.out) // each line is JSON
			if (e.exit == 0) != (name == "first run") {
				t.Errorf("exit %d: %s", e.exit, e.errs.Bytes())
			}
		})
	}
}

func TestEnsoResumeSendsTheSystemPrompt(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `steps: [{text: One.}, {text: Two.}]`, "first")
	e.play(0)
	e.again("--continue", "again").play(0)
	if len(e.sent()) != 2 {
		t.Fatalf("%d requests", len(e.sent()))
	}
	for i, r := range e.sent() {
		if !strings.Contains(r, `"system":[{`) {
			t.Errorf("request %d has no system prompt: %s", i+1, r)
		}
	}
}

func TestEnsoSecondResumeIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `steps: [{text: One.}, {text: Two., fault: {hang: start}}]`, "first")
	e.play(0)
	id, _ := e.lines[0]["id"].(string)
	long := e.again("--resume", id, "again")
	long.until("user_message")
	second := e.again("--resume", id, "me too").play(1)
	if text, _ := second.one("session_end")["error"].(string); !strings.Contains(text, "is being run by another process") {
		t.Errorf("it says %q", text)
	}
	long.signal(syscall.SIGTERM)
	long.wait()
	long.ended(143)
}

func TestEnsoBothOutputsReachTheModel(t *testing.T) {
	t.Parallel()
	for _, exit := range []int{0, 7} {
		e := newEnso(t, fmt.Sprintf(`steps: [{call: {tool: bash, input: {cmd: "echo to-out; echo to-err >&2; exit %d"}}}, {text: Done.}]`, exit), "--yolo", "go").play(0)
		result, _ := e.one("tool_call_end")["result"].(string)
		for _, want := range []string{"to-out\\n", "to-err\\n"} {
			if !strings.Contains(e.sent()[1], want) || !strings.Contains(result, strings.TrimSuffix(want, "\\n")) {
				t.Errorf("exit %d: %q, and the model was sent %s", exit, result, e.sent()[1])
			}
		}
		if text, _ := e.one("tool_call_end")["error"].(string); (exit == 7) != strings.Contains(text, "7") {
			t.Errorf("exit %d: the error is %q", exit, text)
		}
	}
}

func TestEnsoSettingsReachTheRequest(t *testing.T) {
	t.Parallel()
	e := newEnso(t, ensoFull, "--yolo", "go")
	e.configure("thinking = \"high\"\n" + ensoWindow)
	e.play(0)
	if !strings.Contains(e.sent()[0], `"thinking":{`) {
		t.Errorf("the model was not told to think: %s", e.sent()[0])
	}
	e.one("compacted") // the window is the one that was set
}

func TestEnsoRetriesAfterTheTimeItIsTold(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			e := newEnso(t, fmt.Sprintf(`steps: [{text: Hello., fault: {status: %d, headers: {retry-after: "1"}, times: 1}}]`, status), "go")
			began := time.Now()
			e.play(0)
			if took := time.Since(began); took < time.Second || len(e.sent()) != 2 {
				t.Errorf("%d requests in %v", len(e.sent()), took)
			}
		})
	}
}

func TestEnsoCopiesNothing(t *testing.T) {
	t.Parallel()
	e := newEnso(t, `steps: [{call: {tool: bash, input: {cmd: echo hi}}}, {text: Done.}]`, "--yolo", "go")
	e.write("work/large", strings.Repeat("x", 20<<20))
	e.play(0)
	var kept int64
	err := filepath.WalkDir(e.dir, func(path string, d fs.DirEntry, err error) error {
		if info, ierr := d.Info(); err == nil && ierr == nil && info.Mode().IsRegular() && info.Name() != "large" {
			kept += info.Size()
		}
		return err
	})
	if err != nil || kept > 1<<20 {
		t.Errorf("the run left %d bytes: %v", kept, err)
	}
}

func TestEnsoStartFailuresHaveAnExitCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"bad flag":             {[]string{"--nope", "go"}, "unknown flag: --nope"},
		"bad format":           {[]string{"--format", "xml", "go"}, `--format "xml": it is text or json`},
		"bad number":           {[]string{"--max-turns", "-2", "go"}, "--max-turns -2"},
		"missing session":      {[]string{"--resume", "nope", "go"}, `there is no session "nope"`},
		"two sessions":         {[]string{"--resume", "a", "--continue", "go"}, "only one of them"},
		"a session, not kept":  {[]string{"--resume", "a", "--ephemeral", "go"}, "--ephemeral"},
		"unknown provider":     {[]string{"--model", "nobody/x", "go"}, "nobody"},
		"no prompt":            {nil, "there is no prompt"},
		"workflow, which is …": {[]string{"--workflow", "build", "go"}, "there is no workflow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnso(t, "", c.args...)
			e.start(nil)
			e.wait()
			if name != "bad flag" && name != "bad format" { // then nobody knows what stdout is to be
				e.ended(1)
			}
			said := strings.TrimSuffix(e.errs.String(), "\n")
			line, hint, _ := strings.Cut(said, "\n")
			if e.exit != 1 || !strings.HasPrefix(line, "sluice: ") || !strings.Contains(line, c.says) || hint != "" && (!strings.HasPrefix(hint, "sluice: hint: ") || strings.Contains(hint, "\n")) {
				t.Errorf("exit %d: %s", e.exit, said)
			}
		})
	}
	for _, name := range []string{"tui", "attach"} {
		e := newEnso(t, "")
		e.args = []string{name, "--yolo", "x"}
		e.start(nil)
		e.wait()
		if said := e.errs.String(); e.exit != 1 || len(e.out) > 0 || !strings.Contains(said, "sluice: hint: ") || strings.Count(said, "\n") != 2 {
			t.Errorf("%s: exit %d: %s", name, e.exit, said)
		}
	}
}

func TestEnsoRepeatedReplyIsShownWhole(t *testing.T) {
	t.Parallel()
	text := strings.TrimSpace(strings.Repeat("slow words here ", 2000))
	e := newEnso(t, `{chunk: 4, steps: [{text: "`+text+`"}]}`, "--ephemeral", "go").play(0)
	if got := e.said("assistant_delta"); got != text {
		t.Errorf("%d of %d bytes are shown", len(got), len(text))
	}
}
