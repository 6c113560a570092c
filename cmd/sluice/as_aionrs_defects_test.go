//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The program whose document this is breaks it, and does other things that hurt its clients. Each of them has a test here, named
// after what must hold instead. Those that a scenario shows are the scenario.
var aionrsDefects = []struct {
	name string
	play func(*testing.T)
}{
	{"1 stop ends the reply, its calls and their processes, and not the program", func(t *testing.T) {
		for _, name := range []string{"stop while streaming", "stop while a question is open", "stop while a tool runs", "stop when nothing goes on"} {
			aionrsScenarios[name](t)
		}
	}},
	{"2 every stream_start has its stream_end", func(t *testing.T) {
		// A provider's error, a limit of turns, a refusal, a cut answer, a denied call: finish counts the streams.
		a := newTalk(t, `steps: [{text: x, fault: {status: 400, message: odd}}]`).open()
		a.reply("m1", "go")
		a.close(0)
		b := newTalk(t, `steps: [{call: {tool: Read, input: {file_path: a}}}, {text: Never said.}]`, "--auto-approve", "--max-turns", "1").open()
		b.message("m1", "go")
		l := b.until("error")
		b.wants(l, "error.code", "internal_error")
		b.wants(l, "msg_id", "m1")
		b.expect("stream_end")
		b.close(0)
		c := newTalk(t, `steps: [{text: No., finish: refusal}, {text: Too lo, finish: length}, {text: Well.}]`).open()
		for i := range 3 {
			c.reply(fmt.Sprint("m", i), "go")
		}
		c.close(0)
		if got := len(of(c.told, "stream_end")); got != 3 {
			t.Errorf("%d streams end", got)
		}
	}},
	{"3 approved always, a category is not asked about again", aionrsScenarios["approve always"]},
	{"4 init_history reaches the model", aionrsScenarios["init_history"]},
	{"5 set_mode works at once and undoes --auto-approve", func(t *testing.T) {
		aionrsScenarios["--auto-approve"](t)
		a := newTalk(t, "").open()
		a.mode("dream")
		l := a.expect("error")
		a.wants(l, "error.code", "protocol_error")
		a.wants(l, "error.message", `set_mode.mode is "dream", not default, auto_edit or yolo`)
		a.close(0)
	}},
	{"6 what is no command is one protocol_error, and the conversation goes on", func(t *testing.T) {
		aionrsScenarios["malformed and unknown commands"](t)
		aionrsScenarios["unknown call id"](t)
	}},
	{"7 a fatal start is an error event and an exit code", func(t *testing.T) {
		a := newTalk(t, "")
		a.set("ANTHROPIC_API_KEY", "")
		a.fatal("ANTHROPIC_API_KEY")
	}},
	{"8 requests of one answer stand at once", aionrsScenarios["parallel tools, answered out of order"]},
	{"9 an edit is a diff that names its file", aionrsScenarios["edit diff"]},
	{"10 of two messages none is lost", aionrsScenarios["a second message in a reply"]},
	{"11 nobody waits for a client that has gone", func(t *testing.T) {
		aionrsScenarios["EOF, a question open"](t)
		aionrsScenarios["EOF before a question"](t)
	}},
	{"12 SIGTERM leaves nothing open and nothing running", func(t *testing.T) {
		aionrsScenarios["SIGTERM, busy"](t)
		aionrsScenarios["SIGTERM, a question open"](t)
		aionrsScenarios["an MCP server of the configuration"](t)
	}},
	{"13 usage is of the reply, and a token in one bucket", func(t *testing.T) {
		use := "usage: {input: 10, output: 3, reasoning: 2, cache_read: 100, cache_write: 20}"
		a := newTalk(t, `{`+use+`, steps: [{call: {tool: Read, input: {file_path: a}}}, {text: One.}, {text: Two.}]}`, "--auto-approve").open()
		for i, turns := range []int{2, 1} {
			stream := a.reply(fmt.Sprint("m", i), "go")
			end := stream[len(stream)-1]
			for name, n := range map[string]int{"input": 10, "output": 5, "cache_read": 100, "cache_write": 20} {
				a.wants(end, "usage."+name+"_tokens", n*turns)
			}
		}
		a.close(0)
	}},
	{"14 retries are told, also of a rate limit", func(t *testing.T) {
		a := newTalk(t, `steps: [{text: At last., fault: {status: 429, headers: {retry-after: 0}, message: slow down, times: 2}}]`).open()
		a.message("m1", "go")
		for i := range 2 {
			l := a.until("info")
			a.wants(l, "msg_id", "m1")
			if text, _ := l["message"].(string); !strings.Contains(text, fmt.Sprintf("(%d/", i+1)) || !strings.Contains(text, "retrying") {
				t.Errorf("%v", l)
			}
		}
		a.expect("text_delta", "stream_end")
		if len(of(a.told, "error")) > 0 {
			t.Error("what was survived is told as an error")
		}
		a.close(0)
	}},
	{"15 nothing is said twice, and no tool makes noise", func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {tool: Bash, input: {command: "echo marker-$((70+7))"}}}, {text: Done.}]`, "--auto-approve").open()
		a.reply("m1", "go")
		a.close(0)
		if n := strings.Count(string(a.out), "marker-77"); n != 1 || len(of(a.told, "info")) > 0 {
			t.Errorf("%d times: %s", n, a.types())
		}
	}},
	{"16 killed with a question open and resumed, its requests are valid", aionrsScenarios["killed with a question open, and resumed"]},
	{"17 sub-agents ask as their parent does, and are visible", func(t *testing.T) {
		a := newTalk(t, `
conversations:
- when: {prompt: ^Child}
  steps: [{call: {id: c1, tool: Bash, input: {command: "echo from the child"}}}, {text: The child is done.}]
steps:
- call: {id: t1, tool: Spawn, input: {description: a child, prompt: Child of the work.}}
- text: All done.`).open()
		a.message("m1", "go")
		q := a.expect("stream_start", "tool_request")
		a.wants(q, "tool.name", "Spawn")
		a.wants(q, "tool.category", "exec")
		a.wants(q, "tool.description", "Spawn: a child")
		a.approve("t1", "once")
		q = a.expect("tool_running", "tool_request")
		a.wants(q, "tool.name", "Bash")
		a.wants(q, "msg_id", "m1")
		a.approve("c1", "once")
		a.expect("tool_running")
		a.wants(a.expect("tool_result"), "output", "from the child\n")
		a.wants(a.expect("tool_result"), "output", "The child is done.")
		a.expect("text_delta", "stream_end")
		a.close(0)
	}},
	{"18 a hook's words are never a shell's", func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {tool: Write, input: {file_path: "$(touch pwned)", content: "; touch pwned"}}}, {text: Done.}]`, "--auto-approve")
		hook, _ := json.Marshal([]string{"sh", "-c", "cat >" + a.path("hook")})
		a.configure("[hooks]\nbefore_tool = [" + string(hook) + "]\n")
		a.open().reply("m1", "go")
		a.close(0)
		data, err := os.ReadFile(a.path("hook"))
		if err != nil || !strings.Contains(string(data), "$(touch pwned)") {
			t.Errorf("%s, %v", data, err)
		}
		if exists(a.path("work/pwned")) {
			t.Error("it was run")
		}
	}},
	{"19 long lines and separators do not split a command", func(t *testing.T) {
		aionrsScenarios["a line of 3 MB"](t)
		aionrsScenarios["separators in strings"](t)
	}},
	{"20 an address has its version or not", func(t *testing.T) {
		for _, provider := range []string{"anthropic", "openai"} {
			for _, end := range []string{"", "/", "/v1", "/v1/"} {
				a := newTalk(t, "")
				url := a.getenv("ANTHROPIC_BASE_URL")
				for _, v := range []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"} {
					a.set(v, "http://127.0.0.1:1")
				}
				a.args = []string{"--json-stream", "--provider", provider, "--model", "m", "--base-url", url + end}
				stream := a.open().reply("m1", "hi")
				a.wants(of(stream, "text_delta")[0], "text", "Hello there.")
				a.close(0)
			}
		}
	}},
	{"21 a server that does not start is an error", aionrsScenarios["add_mcp_server fails"]},
}

func TestAionrsDefects(t *testing.T) {
	for _, d := range aionrsDefects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			d.play(t)
		})
	}
}

// A bug is an internal_error: the stream is closed, and the program ends.
func TestAionrsInternalError(t *testing.T) {
	t.Parallel()
	a := newTalk(t, `steps: [{call: {id: t1, tool: bomb, input: {}}}]`, "--auto-approve")
	a.shell = `exec sluice-strange as aionrs "$@"` // which has a tool that panics
	a.open().message("m1", "go")
	l := a.until("error")
	a.wants(l, "error.code", "internal_error")
	a.wants(l, "msg_id", "m1")
	a.finish(1)
}
