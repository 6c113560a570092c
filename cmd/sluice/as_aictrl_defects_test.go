//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What the real program does wrong, and this one must not: a test each, numbered as in the list of them.

func TestAictrlDefect01RetryExhaustionEndsTheRun(t *testing.T) {
	t.Parallel()
	for status, reason := range map[int]string{429: "rate_limit", 529: "provider"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			a := newAictrl(t, fmt.Sprintf(`steps: [{text: No., fault: {status: %d, headers: {retry-after: "0"}, message: not now}}]`, status), "Do it.")
			a.set("SLUICE_RETRIES", "3")
			a.play(2)
			e := a.one("session_error")
			if e["reason"] != reason || e["code"] != fmt.Sprint(status) {
				t.Errorf("it ends with %v", e)
			}
			a.says(e["message"], "not now")
			if n := len(a.asked()); n != 4 {
				t.Errorf("the server was asked %d times", n)
			}
		})
	}
}

func TestAictrlDefect02CutStreamEndsTheRun(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, `steps: [{text: Once upon a time., chunk: 4, fault: {cut: text}}]`, "Do it.")
	a.set("SLUICE_RETRIES", "1")
	a.play(2)
	if e := a.one("session_error"); e["reason"] != "provider" {
		t.Errorf("it ends with %v", e)
	}
	if n := len(a.asked()); n != 2 {
		t.Errorf("the server was asked %d times", n)
	}
	if starts, ends := len(a.only("step_start")), len(a.only("step_finish")); starts != 1 || ends != 1 {
		t.Errorf("%d steps begin, %d end", starts, ends)
	}
}

func TestAictrlDefect03SignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	for s, code := range map[syscall.Signal]string{syscall.SIGINT: "130", syscall.SIGTERM: "143"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			a := newAictrl(t, `steps: [{text: I wait., call: {tool: bash, input: {command: "stray one; sleep 60"}}}]`, "Wait.")
			a.start(nil)
			a.awaitStray("one")
			a.signal(s)
			a.wait()
			a.ended(map[string]int{"130": 130, "143": 143}[code])
			if a.took > 30*time.Second { // it is a fraction of one, on a machine that has nothing else to do
				t.Errorf("it took %v to stop", a.took)
			}
			use := a.one("tool_use")
			if at(use, "part", "state", "status") != "error" {
				t.Errorf("the call that was cut off is %v", use)
			}
			a.says(at(use, "part", "state", "error"), "Tool execution aborted")
			a.one("message_complete")
			if e := a.one("session_error"); e["reason"] != "unknown" || e["code"] != code {
				t.Errorf("it ends with %v", e)
			}
		})
	}
}

func TestAictrlDefect04SignalsBeforeTheSessionTwiceAndHUP(t *testing.T) {
	t.Parallel()
	waits := `steps: [{call: {tool: bash, input: {command: "stray one; sleep 60"}}}]`
	t.Run("before anything was asked", func(t *testing.T) {
		t.Parallel()
		a := newAictrl(t, greets)
		a.silent = true // the message shall come from stdin, and does not
		seen := make(chan struct{})
		a.start(reads("tool_catalog", seen))
		a.within(seen)
		a.signal(syscall.SIGTERM)
		a.wait()
		a.ended(143)
		if e := a.one("session_error"); e["code"] != "143" {
			t.Errorf("it ends with %v", e)
		}
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		a := newAictrl(t, waits, "Wait.")
		a.start(nil)
		a.awaitStray("one")
		a.signal(syscall.SIGINT)
		a.signal(syscall.SIGINT)
		a.wait()
		a.ended(130)
	})
	t.Run("HUP", func(t *testing.T) {
		t.Parallel()
		a := newAictrl(t, waits, "Wait.")
		a.start(nil)
		a.awaitStray("one")
		a.signal(syscall.SIGHUP)
		a.wait()
		a.ended(129)
		if e := a.one("session_error"); e["code"] != "129" {
			t.Errorf("it ends with %v", e)
		}
	})
}

func TestAictrlDefect05NoQuestionWaits(t *testing.T) {
	t.Parallel()
	t.Run("question tool", func(t *testing.T) {
		t.Parallel()
		a := newAictrl(t, `steps: [{call: {tool: question, input: {question: "Shall I?"}}}, {text: I go on.}]`, "Do it.").play(0)
		if at(a.one("tool_use"), "part", "state", "status") != "error" {
			t.Error("the question was answered")
		}
		if at(a.one("text"), "part", "text") != "I go on." {
			t.Error("it does not go on")
		}
	})
	for name, text := range map[string]string{"child": child(`{call: {tool: write, input: {filePath: x, content: x}}}`), "grandchild": children(`{call: {tool: write, input: {filePath: x, content: x}}}`)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAictrl(t, text, "Do it.")
			a.set("AICTRL_PERMISSION", `{"write":"ask"}`)
			a.play(5)
			asks, starts := a.one("permission_rejected"), a.only("subagent_start")
			if asks["sessionID"] != starts[len(starts)-1]["subagentSessionID"] || asks["tool"] != "write" {
				t.Errorf("who asked is %v", asks)
			}
			if exists(a.path("work/x")) {
				t.Error("it was written")
			}
		})
	}
}

func TestAictrlDefect06SubAgentHasNoMoreRights(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, child(`{call: {tool: bash, input: {command: "echo free > free.txt"}}}`), "Do it.")
	a.set("AICTRL_PERMISSION", `{"bash":"deny"}`)
	a.play(5)
	if p := a.one("permission_rejected"); p["sessionID"] == a.lines[0]["sessionID"] || p["permission"] != "bash" {
		t.Errorf("what was rejected is %v", p)
	}
	if exists(a.path("work/free.txt")) {
		t.Error("the sub-agent ran it")
	}
}

func TestAictrlDefect07RejectedPermissionDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, `steps: [{call: {tool: bash, input: {command: id}}}, {text: Then I do without.}]`, "Do it.")
	a.set("AICTRL_PERMISSION", `{"bash":"ask"}`)
	a.play(5)
	if at(a.one("text"), "part", "text") != "Then I do without." {
		t.Error("the model was not asked again")
	}
	if requests := a.asked(); len(requests) != 2 || !strings.Contains(requests[1], "nobody is there to allow it") {
		t.Error("the model was not told")
	}
	if len(a.only("session_error")) != 0 {
		t.Error("it is told as an abnormal end")
	}
	a.says(a.one("session_complete")["error"], "denied")
}

func TestAictrlDefect08NoPromptLeavesForAThirdParty(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer proxy.Close()
	a := newAictrl(t, child(`{call: {tool: bash, input: {command: echo hi}}}`), "Tell nobody.")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} { // who goes anywhere but to loopback comes by here
		a.set(name, proxy.URL)
	}
	a.set("AICTRL_MODELS_URL", "http://models.example/")
	a.play(0)
	if n := calls.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
	if requests := a.asked(); len(requests) != 4 { // two answers of each: no title, no summary
		t.Errorf("the model was asked %d times", len(requests))
	}
}

func TestAictrlDefect09SilentProviderIsTold(t *testing.T) {
	t.Parallel()
	for variable, text := range map[string]string{"SLUICE_STALL": "nothing happened for 1s", "SLUICE_TIMEOUT": "the run took longer than 1s"} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			a := newAictrl(t, `steps: [{text: Never., fault: {hang: start}}]`, "Do it.")
			a.set(variable, "1s")
			a.play(124)
			e := a.one("session_error")
			if e["reason"] != "timeout" {
				t.Errorf("it ends with %v", e)
			}
			a.says(e["message"], text)
		})
	}
}

func TestAictrlDefect10RepeatedCallsAreAllTold(t *testing.T) {
	t.Parallel()
	one := `{tool: bash, input: {command: echo x}}`
	a := newAictrl(t, `steps: [{calls: [`+strings.Repeat(one+", ", 3)+one+`]}, {text: Done.}]`, "Do it.").play(0)
	ids := map[any]bool{}
	for _, u := range a.only("tool_use") {
		ids[at(u, "part", "callID")] = true
		if at(u, "part", "state", "status") != "completed" {
			t.Errorf("one is %v", u)
		}
	}
	if len(ids) != 4 || len(a.only("permission_granted")) != 4 {
		t.Errorf("%d of 4 calls are told", len(ids))
	}
}

func TestAictrlDefect11BadSkillOrServerIsVisible(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, greets, "Do it.")
	a.put("home/.claude/skills/broken/SKILL.md", "---\nname: [\n---\n")
	a.put("home/sluice/config.toml", "[mcp.gone]\ncommand = [\"no-such-program\"]\n")
	a.play(0)
	a.says(a.errs.String(), "broken/SKILL.md")
	a.says(at(a.one("error"), "error", "data", "message"), "gone")
	if strings.Count(a.errs.String(), "\n") != 1 {
		t.Errorf("stderr has more than one line:\n%s", a.errs.String())
	}
}

func TestAictrlDefect12FailedSubAgentIsAFailedCall(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, child(`{text: No., fault: {status: 400, message: messages must not be odd}}`), "Do it.").play(0)
	use := a.one("tool_use")
	if at(use, "part", "tool") != "task" || at(use, "part", "state", "status") != "error" {
		t.Errorf("the call is %v", use)
	}
	a.says(at(use, "part", "state", "error"), "messages must not be odd")
}

// Twice the answer may take twice the time, and not four times.
func TestAictrlDefect13LongAnswerCostsLinearTime(t *testing.T) {
	took := func(size int) time.Duration {
		var b strings.Builder
		for n := 0; b.Len() < size; n++ { // what repeats itself is taken for a model that has gone mad
			fmt.Fprintf(&b, "line %d of it. ", n)
		}
		a := newAictrl(t, fmt.Sprintf(`{chunk: 16, steps: [{text: %q}]}`, b.String()), "Talk.").play(0)
		if s, _ := at(a.one("text"), "part", "text").(string); len(s) < size-1 {
			t.Errorf("%d of %d bytes came", len(s), size)
		}
		return a.cmd.ProcessState.UserTime() + a.cmd.ProcessState.SystemTime()
	}
	short, long := took(200_000), took(1_600_000)
	if long > 24*short { // eight times, and a busy machine
		t.Errorf("200 kB take %v, eight times as much %v", short, long)
	}
}

func TestAictrlDefect14HangingServerDelaysTheFirstEvent(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, greets, "Do it.")
	a.put("home/sluice/config.toml", "[mcp.slow]\ncommand = [\"mcp-server\", \"hang\"]\ntimeout = \"1s\"\n")
	a.play(0)
	if tools, _ := a.one("tool_catalog")["tools"].([]any); len(tools) == 0 {
		t.Error("the catalogue is empty")
	}
	a.says(at(a.one("error"), "error", "data", "message"), "slow")
}

func TestAictrlDefect15HelpNeverGoesToStdout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		exit int
		says string
	}{
		"unknown flag":    {[]string{"run", "--format", "json", "--nope", "x"}, 1, "sluice: unknown flag: --nope\nsluice: hint: aictrl run --help\n"},
		"missing value":   {[]string{"run", "--format", "json", "--model"}, 1, "sluice: flag needs an argument: --model\n"},
		"unknown format":  {[]string{"run", "--format", "xml", "x"}, 1, `sluice: --format "xml": it is one of default, json` + "\n"},
		"two sessions":    {[]string{"run", "--format", "json", "-c", "-s", "ses_1", "x"}, 1, "sluice: --continue and --session: it is one of them\n"},
		"unknown command": {[]string{"rnu"}, 1, `sluice: unknown command "rnu" for "aictrl"`},
		"no command":      {nil, 1, "sluice: aictrl is played without a screen: say what to do\nsluice: hint: aictrl run"},
		"asked for":       {[]string{"run", "--format", "json", "--help"}, 0, "--thinking"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAictrl(t, greets)
			a.args = c.args
			a.start(nil)
			a.wait()
			if a.exit != c.exit || len(a.out) != 0 || !strings.Contains(a.errs.String(), c.says) {
				t.Errorf("exit %d\nstdout:\n%s\nstderr:\n%s", a.exit, a.out, a.errs.Bytes())
			}
		})
	}
}

func TestAictrlDefect16NearerSkillWins(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, greets, "--dir", "inner", "Do it.")
	for _, dir := range []string{"work", "work/inner"} {
		a.put(dir+"/.claude/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: from "+dir+"\n---\nTidy.\n")
	}
	if err := os.Mkdir(a.path("work/.git"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.play(0)
	if s := a.one("skill_discovered"); s["description"] != "from work/inner" {
		t.Errorf("the skill is %v", s)
	}
}

func TestAictrlDefect17ArgumentsAndOpenStdin(t *testing.T) {
	t.Parallel()
	a := newAictrl(t, greets, "say it", "as is")
	a.silent = true
	a.play(0)
	if requests := a.asked(); len(requests) != 1 || !strings.Contains(requests[0], `"say it as is"`) {
		t.Errorf("the model was told %s", requests)
	}
	a.says(a.errs.String(), "stdin is open and says nothing")
}
