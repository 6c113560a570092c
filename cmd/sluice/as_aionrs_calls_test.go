//go:build unix

package main

import (
	"encoding/base64"
	"os"
	"testing"
)

// aionrsCalls are about calls of tools and who allows them.
var aionrsCalls = map[string]func(*testing.T){
	"approve once": func(t *testing.T) {
		call := `{text: "I'll create it.", call: {id: t1, tool: Write, input: {file_path: hello.rs, content: "fn main() {}\n"}}}`
		a := newTalk(t, `steps: [`+call+`, {text: Created.}, {call: {id: t2, tool: Write, input: {file_path: b.rs, content: b}}}, {text: Again.}]`).open()
		a.message("m2", "Create a hello.rs file")
		q := a.expect("stream_start", "text_delta", "tool_request")
		if got := keys(q) + ": " + keys(q["tool"]); got != "call_id msg_id tool type: args category description name" {
			t.Error(got)
		}
		a.wants(q, "msg_id", "m2")
		a.wants(q, "call_id", "t1")
		a.wants(q, "tool.name", "Write")
		a.wants(q, "tool.category", "edit")
		a.wants(q, "tool.args.file_path", "hello.rs")
		a.wants(q, "tool.args.content", "fn main() {}\n")
		a.wants(q, "tool.description", "Write to hello.rs")
		if exists(a.path("work/hello.rs")) {
			t.Error("it did not wait")
		}
		a.approve("t1", "once")
		running := a.expect("tool_running")
		if got := keys(running); got != "call_id msg_id tool_name type" {
			t.Error(got)
		}
		a.wants(running, "tool_name", "Write")
		result := a.expect("tool_result")
		if got := keys(result); got != "call_id metadata msg_id output output_type status tool_name type" {
			t.Error(got)
		}
		a.wants(result, "call_id", "t1")
		a.wants(result, "status", "success")
		a.wants(result, "tool_name", "Write")
		a.expect("text_delta", "stream_end")
		if data, err := os.ReadFile(a.path("work/hello.rs")); err != nil || string(data) != "fn main() {}\n" {
			t.Errorf("%q, %v", data, err)
		}
		a.message("m3", "another") // once was for that call alone
		a.expect("stream_start", "tool_request")
		a.approve("t2", "once")
		a.expect("tool_running", "tool_result", "text_delta", "stream_end")
		a.close(0)
	},
	"approve always": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {id: t1, tool: Write, input: {file_path: a, content: a}}}, {calls: [{id: t2, tool: Edit, input: {file_path: a, old_string: a, new_string: b}},
			{id: t3, tool: Bash, input: {command: "true"}}]}, {text: Done.}]`).open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_request")
		a.approve("t1", "always")
		a.expect("tool_running", "tool_result")
		q := a.expect("tool_request") // the shell is of another category
		a.wants(q, "call_id", "t3")
		a.wants(q, "tool.category", "exec")
		a.deny("t3", "no")
		a.until("stream_end")
		if got := of(a.told, "tool_request"); len(got) != 2 {
			t.Errorf("%d requests: %s", len(got), a.types())
		}
		a.close(0)
	},
	"approve always, in a sub-agent with rules of its own": func(t *testing.T) {
		a := newTalk(t, `
conversations:
- when: {prompt: ^Child}
  steps: [{call: {id: c1, tool: Bash, input: {command: "echo child"}}}, {text: The child is done.}]
steps:
- call: {id: t1, tool: Spawn, input: {description: a child, prompt: Child A., agent: helper}}
- call: {id: t2, tool: Spawn, input: {description: another, prompt: Child B., agent: helper}}
- call: {id: t3, tool: Bash, input: {command: "echo top"}}
- text: All done.`)
		a.write("work/.sluice/agents/helper.md", "---\nname: helper\ndescription: helps\ndeny: [\"bash(rm *)\"]\n---\nHelp.\n")
		a.configure("allow = [\"task\"]\n")
		a.open().message("m1", "go")
		q := a.until("tool_request")
		a.wants(q, "tool.name", "Bash")
		a.approve(q["call_id"].(string), "always")
		a.until("stream_end")
		if got := of(a.told, "tool_request"); len(got) != 1 { // it was for the session
			t.Errorf("%d requests: %s", len(got), a.types())
		}
		a.close(0)
	},
	"deny": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {id: t1, tool: Write, input: {file_path: a, content: a}}}, {text: Then not.}, {call: {id: t2, tool: Bash, input: {command: "true"}}}, {text: Well.}]`).open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_request")
		a.deny("t1", "Not allowed to write this file")
		l := a.expect("tool_cancelled")
		if got := keys(l); got != "call_id msg_id reason type" {
			t.Error(got)
		}
		a.wants(l, "call_id", "t1")
		a.wants(l, "reason", "Not allowed to write this file")
		a.expect("text_delta", "stream_end")
		a.model("Not allowed to write this file")
		a.message("m2", "go")
		a.expect("stream_start", "tool_request")
		a.send(line{"type": "tool_deny", "call_id": "t2"})
		a.wants(a.expect("tool_cancelled"), "reason", "User denied")
		a.until("stream_end")
		if exists(a.path("work/a")) {
			t.Error("it was written all the same")
		}
		a.close(0)
	},
	"exec confirm": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {id: t1, tool: Bash, input: {command: "echo marker-77"}}}, {text: Done.}, {call: {id: t2, tool: Bash, input: {command: "exit 3"}}}, {text: So.}]`).open()
		a.message("m1", "go")
		q := a.expect("stream_start", "tool_request")
		a.wants(q, "tool.name", "Bash")
		a.wants(q, "tool.category", "exec")
		a.wants(q, "tool.args.command", "echo marker-77")
		a.wants(q, "tool.description", "Execute: echo marker-77")
		a.approve("t1", "once")
		r := a.expect("tool_running", "tool_result")
		a.wants(r, "status", "success")
		a.wants(r, "output_type", "text")
		a.wants(r, "output", "marker-77\n")
		a.expect("text_delta", "stream_end")
		a.message("m2", "fail")
		a.expect("stream_start", "tool_request")
		a.approve("t2", "once")
		a.wants(a.expect("tool_running", "tool_result"), "status", "error")
		a.until("stream_end")
		a.close(0)
	},
	"edit diff": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {id: t1, tool: Edit, input: {file_path: main.rs, old_string: old line, new_string: new line}}}, {text: Done.}]`)
		a.write("work/main.rs", "old line\n")
		a.open().message("m1", "go")
		q := a.expect("stream_start", "tool_request")
		a.wants(q, "tool.name", "Edit")
		a.wants(q, "tool.category", "edit")
		a.wants(q, "tool.description", "Edit main.rs")
		a.approve("t1", "once")
		r := a.expect("tool_running", "tool_result")
		a.wants(r, "output_type", "diff")
		a.wants(r, "metadata.file_path", "main.rs")
		a.wants(r, "output", "--- a/main.rs\n+++ b/main.rs\n@@ -1 +1 @@\n-old line\n+new line\n")
		a.until("stream_end")
		a.close(0)
	},
	"read an image": func(t *testing.T) {
		a := newTalk(t, `steps: [{call: {id: t1, tool: Read, input: {file_path: p.png}}}, {text: A pixel.}]`, "--auto-approve")
		data, _ := base64.StdEncoding.DecodeString(pixel)
		a.write("work/p.png", string(data))
		a.open().message("m1", "look")
		r := a.expect("stream_start", "tool_running", "tool_result")
		a.wants(r, "output_type", "image")
		a.wants(r, "output", pixel)
		a.wants(r, "metadata.file_path", "p.png")
		a.wants(r, "metadata.mime", "image/png")
		a.until("stream_end")
		a.model(pixel)
		a.close(0)
	},
	"parallel tools, answered out of order": func(t *testing.T) {
		a := newTalk(t, `steps: [{calls: [{id: t1, tool: Read, input: {file_path: a}}, {id: t2, tool: Glob, input: {pattern: "*"}}, {id: t3, tool: Grep, input: {pattern: alpha}}]}, {text: Done.}]`)
		a.write("work/a", "alpha\n")
		a.open().message("m1", "go")
		a.expect("stream_start")
		for _, want := range []struct{ id, name, about string }{{"t1", "Read", "Read a"}, {"t2", "Glob", "Search for *"}, {"t3", "Grep", "Grep alpha"}} {
			q := a.expect("tool_request") // all stand at once
			a.wants(q, "call_id", want.id)
			a.wants(q, "tool.name", want.name)
			a.wants(q, "tool.category", "info")
			a.wants(q, "tool.description", want.about)
		}
		a.approve("t3", "once")
		a.wants(a.expect("tool_running"), "call_id", "t3")
		a.wants(a.expect("tool_result"), "output", "a:1:alpha\n")
		a.deny("t1", "not that one")
		a.wants(a.expect("tool_cancelled"), "call_id", "t1")
		a.approve("t2", "once")
		a.wants(a.expect("tool_running"), "call_id", "t2")
		a.expect("tool_result", "text_delta", "stream_end")
		a.close(0)
	},
	"denied, a call does not wait for those before it": func(t *testing.T) {
		a := newTalk(t, `steps: [{calls: [{id: t1, tool: Write, input: {file_path: a, content: a}}, {id: t2, tool: Bash, input: {command: "true"}}]}, {text: Done.}]`).open()
		a.message("m1", "go")
		a.expect("stream_start", "tool_request", "tool_request")
		a.deny("t2", "not that one")
		l := a.expect("tool_cancelled")
		a.wants(l, "call_id", "t2")
		a.wants(l, "reason", "not that one")
		a.approve("t1", "once")
		a.expect("tool_running", "tool_result", "text_delta", "stream_end")
		a.model("not that one")
		a.close(0)
	},
}
