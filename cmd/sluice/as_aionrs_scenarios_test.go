//go:build unix

package main

import (
	"encoding/base64"
	"maps"
	"strings"
	"syscall"
	"testing"
)

// pixel is a picture.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// sleeper is a call that leaves more behind than its shell.
const sleeper = `{call: {tool: Bash, input: {command: "stray one; echo begun; sleep 60"}}}`

// aionrsScenarios are what a client may go through. Each ends the conversation, and with it comes everything that must hold of all.
var aionrsScenarios = func() map[string]func(*testing.T) {
	all := maps.Clone(aionrsTalks)
	maps.Copy(all, aionrsCalls)
	return all
}()

func TestAionrsScenarios(t *testing.T) {
	for name, play := range aionrsScenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t)
		})
	}
}

// aionrsTalks are about messages, commands and ends.
var aionrsTalks = map[string]func(*testing.T){
	"hello": func(t *testing.T) {
		a := newTalk(t, `{usage: {input: 1500, output: 300, reasoning: 20, cache_read: 800, cache_write: 200}, steps: [{text: "Hi! How can I help?", chunk: 4}]}`, "--session-id", "s-hello").open()
		ready := a.told[0]
		if got := keys(ready) + ": " + keys(ready["capabilities"]); got != "capabilities session_id type version: mcp thinking tool_approval" {
			t.Error(got)
		}
		a.wants(ready, "version", "0.1.0")
		a.wants(ready, "session_id", "s-hello")
		a.wants(ready, "capabilities.tool_approval", true)
		a.wants(ready, "capabilities.thinking", true)
		a.wants(ready, "capabilities.mcp", false)
		stream := a.reply("m1", "Hello")
		if got := keys(stream[0]) + ", " + keys(stream[1]); got != "msg_id type, msg_id text type" {
			t.Error(got)
		}
		text := ""
		for _, l := range of(stream, "text_delta") {
			a.wants(l, "msg_id", "m1")
			text += l["text"].(string)
		}
		if text != "Hi! How can I help?" || len(of(stream, "text_delta")) < 4 {
			t.Errorf("%q in %d pieces", text, len(of(stream, "text_delta")))
		}
		end := stream[len(stream)-1]
		if got := keys(end["usage"]); got != "cache_read_tokens cache_write_tokens input_tokens output_tokens" {
			t.Error(got)
		}
		a.wants(end, "usage.input_tokens", 1500)
		a.wants(end, "usage.output_tokens", 320)
		a.wants(end, "usage.cache_read_tokens", 800)
		a.wants(end, "usage.cache_write_tokens", 200)
		a.close(0)
	},
	"two turns": func(t *testing.T) {
		a := newTalk(t, `steps: [{text: One.}, {text: Two.}]`).open()
		a.reply("m1", "remember PLUM")
		a.reply("m2", "what was it?")
		a.model("remember PLUM")
		a.model("One.")
		a.close(0)
	},
	"stop while streaming": func(t *testing.T) {
		a := newTalk(t, `{delay: 20ms, chunk: 1, steps: [{text: "This goes on and on."}, {text: Still here.}]}`).open()
		a.message("m1", "go")
		a.until("text_delta")
		a.send(line{"type": "stop"})
		a.wants(a.until("stream_end"), "msg_id", "m1")
		a.reply("m2", "are you there?")
		a.close(0)
	},
	"stop while a question is open": func(t *testing.T) {
		a := newTalk(t, `steps: [{calls: [{id: t1, tool: Bash, input: {command: "touch x"}}, {id: t2, tool: Read, input: {file_path: x}}]}, {text: Still here.}]`).open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_request", "tool_request")
		a.send(line{"type": "stop"})
		a.expect("tool_cancelled", "tool_cancelled", "stream_end")
		a.reply("m2", "are you there?")
		a.close(0)
	},
	"stop while a tool runs": func(t *testing.T) {
		a := newTalk(t, `steps: [`+sleeper+`, {text: Still here.}]`, "--auto-approve").open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_running")
		a.awaitStray("one")
		a.send(line{"type": "stop"})
		l := a.expect("tool_cancelled")
		a.wants(l, "reason", "stopped by the client")
		a.expect("stream_end")
		a.reply("m2", "are you there?")
		a.close(0)
	},
	"stop when nothing goes on": func(t *testing.T) {
		a := newTalk(t, "").open()
		a.send(line{"type": "stop"})
		a.reply("m1", "are you there?")
		a.send(line{"type": "stop"})
		a.close(0)
		if got := a.types(); got != "ready stream_start text_delta stream_end" {
			t.Error(got)
		}
	},
	"set_mode": func(t *testing.T) {
		round := `{calls: [{tool: Read, input: {file_path: a}}, {tool: Write, input: {file_path: a, content: a}}, {tool: Bash, input: {command: "true"}}]}, {text: Done.}`
		a := newTalk(t, `steps: [`+strings.Join([]string{round, round, round, round}, ", ")+`]`)
		a.write("work/a", "a")
		a.open()
		for i, m := range []struct {
			mode string
			asks int
		}{{"default", 3}, {"auto_edit", 1}, {"yolo", 0}, {"default", 3}} {
			a.mode(m.mode)
			a.wants(a.expect("info"), "message", "mode is now "+m.mode)
			from := len(a.told)
			a.message(string(rune('a'+i)), "go")
			for range m.asks {
				a.deny(a.until("tool_request")["call_id"].(string), "no")
			}
			a.until("stream_end")
			if got := len(of(a.told[from:], "tool_request")); got != m.asks {
				t.Errorf("%s asks %d times, want %d", m.mode, got, m.asks)
			}
		}
		a.close(0)
	},
	"set_mode while a question is open": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {tool: Bash, input: {command: "echo now"}}}, {text: Done.}]`).open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_request")
		a.mode("yolo")
		a.wants(a.until("tool_result"), "output", "now\n")
		a.until("stream_end")
		a.close(0)
	},
	"--auto-approve": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {tool: Bash, input: {command: "echo hi"}}}, {text: Done.}, {call: {tool: Bash, input: {command: "echo hi"}}}, {text: Done.}]`, "--auto-approve").open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_running", "tool_result", "text_delta", "stream_end")
		a.mode("default")
		a.expect("info")
		a.message("m2", "go")
		a.expect("stream_start", "tool_request")
		a.send(line{"type": "stop"})
		a.until("stream_end")
		a.close(0)
	},
	"init_history": func(t *testing.T) {
		a := newTalk(t, `steps: [{text: You like plums.}]`).open()
		a.send(line{"type": "init_history", "text": "Previous conversation summary:\nUser likes PLUM-42."})
		a.reply("m1", "what do I like?")
		a.model("User likes PLUM-42.")
		a.send(line{"type": "init_history", "text": "too late"})
		a.wants(a.expect("error"), "error.code", "protocol_error")
		a.close(0)
	},
	"files": func(t *testing.T) {
		a := newTalk(t, `steps: [{text: I see.}, {text: I see.}]`)
		data, _ := base64.StdEncoding.DecodeString(pixel)
		a.write("work/p.png", string(data))
		a.write("elsewhere.txt", "a text that lies elsewhere")
		a.open()
		a.send(line{"type": "message", "msg_id": "m1", "input": "look", "files": []string{"p.png", a.path("elsewhere.txt"), "missing.txt"}})
		info := a.expect("stream_start", "info")
		a.wants(info, "msg_id", "m1")
		if got := keys(info); got != "message msg_id type" || !strings.Contains(info["message"].(string), "missing.txt") {
			t.Errorf("%v", info)
		}
		a.expect("text_delta", "stream_end")
		a.model(pixel)
		a.model("a text that lies elsewhere")
		a.close(0)
	},
	"thinking": func(t *testing.T) {
		a := newTalk(t, `steps: [{thinking: Let me analyze the code structure., text: So.}]`).open()
		a.message("m1", "go")
		l := a.expect("stream_start", "thinking")
		if got := keys(l); got != "msg_id text type" {
			t.Error(got)
		}
		a.wants(l, "text", "Let me analyze the code structure.")
		a.wants(l, "msg_id", "m1")
		a.expect("text_delta", "stream_end")
		a.close(0)
	},
	"provider error, and going on": func(t *testing.T) {
		a := newTalk(t, `steps: [{text: Well., fault: {status: 401, message: bad key, times: 1}}, {text: Then.}]`).open()
		a.message("m3", "go")
		l := a.expect("stream_start", "error")
		if got := keys(l) + ": " + keys(l["error"]); got != "error msg_id type: code message retryable" {
			t.Error(got)
		}
		a.wants(l, "msg_id", "m3")
		a.wants(l, "error.code", "provider_error")
		a.wants(l, "error.retryable", false)
		a.expect("stream_end")
		a.reply("m4", "again")
		a.close(0)
	},
	"malformed and unknown commands": func(t *testing.T) {
		a := newTalk(t, "").open()
		for _, text := range []string{"this is not json", `{"type":"foo"}`, `{"type":"message"}`, `[]`, `"stop"`, `{"type":"set_mode","mode":"dream"}`, "{\"type\":\"init_history\",\"text\":\"\xff\"}"} {
			a.raw(text)
			l := a.expect("error")
			if msg, there := l["msg_id"]; msg != nil || !there {
				t.Errorf("%v", l)
			}
			a.wants(l, "error.code", "protocol_error")
			a.wants(l, "error.retryable", false)
		}
		a.raw(`{"type":"foo"}`)
		a.wants(a.expect("error"), "error.message", "Unknown command type: foo")
		a.raw("")
		a.raw("{\"type\":\"message\",\"msg_id\":\"m1\",\"input\":\"hi\",\"later\":1}\r")
		a.expect("stream_start", "text_delta", "stream_end")
		a.close(0)
	},
	"unknown call id": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {id: t1, tool: Bash, input: {command: "true"}}}, {text: Done.}]`).open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_request")
		for _, command := range []string{"tool_approve", "tool_deny"} {
			a.send(line{"type": command, "call_id": "nope"})
			a.wants(a.expect("error"), "error.code", "protocol_error")
		}
		a.approve("t1", "once")
		a.expect("tool_running", "tool_result", "text_delta", "stream_end")
		a.approve("t1", "once") // it is over
		a.wants(a.expect("error"), "error.code", "protocol_error")
		a.close(0)
	},
	"SIGTERM, idle": func(t *testing.T) {
		a := newTalk(t, "").open()
		a.reply("m1", "hi")
		a.term()
		if got := a.types(); got != "ready stream_start text_delta stream_end" {
			t.Error(got)
		}
	},
	"SIGTERM, busy": func(t *testing.T) {
		a := newTalk(t, `steps: [`+sleeper+`]`, "--auto-approve").open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_running")
		a.awaitStray("one")
		a.term()
		if got := a.types(); got != "ready stream_start tool_running tool_cancelled stream_end" {
			t.Error(got)
		}
	},
	"SIGTERM, a question open": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {tool: Bash, input: {command: "true"}}}]`).open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_request")
		a.term()
		if got := a.types(); got != "ready stream_start tool_request tool_cancelled stream_end" {
			t.Error(got)
		}
	},
	"EOF, idle": func(t *testing.T) {
		newTalk(t, "").open().close(0)
	},
	"EOF in a reply": func(t *testing.T) {
		a := newTalk(t, `{delay: 5ms, chunk: 1, steps: [{text: To the end.}]}`).open()
		a.message("m1", "go")
		a.expect("stream_start", "text_delta")
		a.close(0)
		text := ""
		for _, l := range of(a.told, "text_delta") {
			text += l["text"].(string)
		}
		if text != "To the end." {
			t.Errorf("%q", text)
		}
	},
	"EOF, a question open": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {tool: Bash, input: {command: "true"}}}]`).open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_request")
		a.close(0)
		if got := a.types(); got != "ready stream_start tool_request tool_cancelled stream_end" {
			t.Error(got)
		}
	},
	"EOF right after an answer": func(t *testing.T) {
		for _, answer := range []line{{"type": "tool_approve", "call_id": "t1"}, {"type": "set_mode", "mode": "yolo"}} {
			a := newTalk(t, `steps: [{call: {id: t1, tool: Bash, input: {command: "echo done"}}}, {text: Well.}]`).open()
			a.message("m1", "go")
			a.expect("stream_start", "tool_request")
			a.send(answer)
			a.close(0)
			if got := of(a.told, "tool_result"); len(got) != 1 || len(of(a.told, "text_delta")) != 1 {
				t.Errorf("%s: %s", answer["type"], a.types())
			}
		}
	},
	"EOF before a question": func(t *testing.T) {
		a := newTalk(t, `{delay: 20ms, steps: [{text: "Well then.", chunk: 1, call: {tool: Bash, input: {command: "true"}}}]}`).open()
		a.message("m1", "go")
		a.until("text_delta")
		a.close(0)
		if l := a.told[len(a.told)-2]; l["type"] != "tool_cancelled" {
			t.Error(a.types())
		}
	},
	"a line of 3 MB": func(t *testing.T) {
		a := newTalk(t, "").open()
		a.reply("m1", strings.Repeat("x", 3<<20)+"PLUM")
		a.model("xxxPLUM")
		a.close(0)
	},
	"separators in strings": func(t *testing.T) {
		a := newTalk(t, "").open()
		a.raw("{\"type\":\"message\",\"msg_id\":\"m\u2028\u20291\",\"input\":\"one\u2028two\u2029three\u0085four\"}")
		a.expect("stream_start", "text_delta")
		a.wants(a.expect("stream_end"), "msg_id", "m\u2028\u20291")
		if sent := a.sent(); !strings.Contains(sent, "one\u2028two") && !strings.Contains(sent, `one\u2028two`) {
			t.Error(sent)
		}
		a.close(0)
	},
	"a second message in a reply": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {id: t1, tool: Bash, input: {command: "true"}}}, {text: One.}, {text: Two.}]`).open()
		a.message("m1", "first")
		a.expect("stream_start", "tool_request")
		a.message("m2", "second")
		a.approve("t1", "once")
		a.wants(a.until("stream_end"), "msg_id", "m1")
		a.wants(a.expect("stream_start"), "msg_id", "m2")
		a.wants(a.expect("text_delta"), "text", "Two.")
		a.expect("stream_end")
		a.message("m2", "the same id")
		a.wants(a.expect("error"), "error.code", "protocol_error")
		a.close(0)
	},
	"ping": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {id: t1, tool: Bash, input: {command: "true"}}}, {text: One.}]`).open()
		a.send(line{"type": "ping"})
		if got := keys(a.expect("pong")); got != "type" {
			t.Error(got)
		}
		a.message("m1", "first")
		a.expect("stream_start", "tool_request")
		a.send(line{"type": "ping"})
		a.expect("pong")
		a.approve("t1", "once")
		a.until("stream_end")
		a.close(0)
	},
	"set_config": func(t *testing.T) {
		a := newTalk(t, `steps: [{text: One.}, {text: Two.}, {text: Three.}]`).open()
		a.reply("m1", "first")
		a.model(`"model":"scripted"`)
		a.send(line{"type": "set_config", "model": "claude-sonnet-4-20250514", "thinking": "enabled", "thinking_budget": 10000})
		l := a.expect("config_changed")
		a.wants(l, "capabilities.tool_approval", true)
		a.wants(l, "capabilities.current_mode", "default")
		a.reply("m2", "second")
		a.model(`"model":"claude-sonnet-4-20250514"`)
		a.model(`"budget_tokens":10240`)
		a.send(line{"type": "set_config", "thinking": "disabled"})
		a.expect("config_changed")
		a.send(line{"type": "set_config", "effort": "utmost"})
		a.wants(a.expect("error"), "error.code", "protocol_error")
		a.reply("m3", "third")
		if strings.Contains(a.sent(), "budget_tokens") {
			t.Error("it still thinks")
		}
		a.close(0)
	},
	"add_mcp_server": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {id: t1, tool: frail_die, input: {}}}, {text: Dead.}]`).open()
		a.send(line{"type": "add_mcp_server", "name": "frail", "transport": "stdio", "command": "mcp-server", "args": []string{}, "env": line{"STRAYS": a.path("strays")}})
		a.message("m1", "go") // it waits for the server
		l := a.expect("mcp_ready")
		a.wants(l, "name", "frail")
		a.wants(l, "tools", "[frail_die frail_hang]")
		q := a.expect("stream_start", "tool_request")
		a.wants(q, "tool.name", "frail_die")
		a.wants(q, "tool.category", "mcp")
		a.approve("t1", "once")
		a.wants(a.until("tool_result"), "status", "error")
		a.until("stream_end")
		a.send(line{"type": "add_mcp_server", "name": "frail", "transport": "stdio", "command": "mcp-server"})
		a.wants(a.until("error"), "error.code", "tool_error")
		a.close(0)
	},
	"add_mcp_server fails": func(t *testing.T) {
		a := newTalk(t, "").open()
		for _, c := range []line{
			{"name": "none", "transport": "stdio", "command": "no-such-server"},
			{"name": "old", "transport": "sse", "url": "http://127.0.0.1:1/sse"},
			{"name": "closed", "transport": "streamable-http", "url": "http://127.0.0.1:1/mcp"},
			{"name": "empty", "transport": "stdio"},
		} {
			c["type"] = "add_mcp_server"
			a.send(c)
			l := a.expect("error")
			a.wants(l, "error.code", "tool_error")
			if text, _ := l["error"].(line)["message"].(string); !strings.Contains(text, c["name"].(string)) {
				t.Errorf("%v", l)
			}
		}
		a.reply("m1", "go on")
		a.close(0)
	},
	"stop while a server is added": func(t *testing.T) {
		dumb := line{"type": "add_mcp_server", "name": "dumb", "transport": "stdio", "command": "sleep", "args": []string{"60"}}
		a := newTalk(t, "").open()
		a.send(dumb)
		a.message("m1", "go") // it waits for the server
		a.send(line{"type": "stop"})
		a.wants(a.expect("stream_start"), "msg_id", "m1")
		a.until("stream_end")
		a.close(0) // nobody waits for the server either
		if got := of(a.told, "error"); len(got) > 0 {
			t.Error(got)
		}
		b := newTalk(t, `steps: [{call: {id: t1, tool: Bash, input: {command: "true"}}}, {text: One.}]`).open()
		b.message("m1", "go")
		b.expect("stream_start", "tool_request")
		b.send(dumb)
		b.message("m2", "second")
		b.send(line{"type": "stop"}) // the one that goes on
		b.expect("tool_cancelled", "stream_end")
		b.term()
		if got := of(b.told, "stream_start"); len(got) > 1 {
			t.Error(b.types())
		}
	},
	"an MCP server of the configuration": func(t *testing.T) {
		a := newTalk(t, "")
		serving("mcp-server")(a.run)
		a.wants(a.spawn().expect("ready"), "capabilities.mcp", true)
		a.term()
	},
	"killed with a question open, and resumed": func(t *testing.T) {
		a := newTalk(t, `steps: [{calls: [{id: t1, tool: Bash, input: {command: "true"}}, {id: t2, tool: Read, input: {file_path: a}}]}, {text: Better now.}]`, "--session-id", "s").open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_request", "tool_request")
		if err := a.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		a.wait()
		b := a.again("--resume", "s").open()
		stream := b.reply("m2", "go on")
		b.wants(of(stream, "text_delta")[0], "text", "Better now.")
		for _, id := range []string{"t1", "t2"} {
			if got := strings.Count(b.sent(), `"tool_use_id":"`+id+`"`); got != 1 {
				t.Errorf("%s has %d results", id, got)
			}
		}
		b.close(0) // and nothing was refused
	},
	"SIGTERM, twice": func(t *testing.T) {
		a := newTalk(t, `steps: [`+sleeper+`]`, "--auto-approve").open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_running")
		a.awaitStray("one")
		a.signal(syscall.SIGTERM)
		a.signal(syscall.SIGTERM) // who insists is not kept waiting
		a.finish(143)
	},
}
