//go:build unix

package standin

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Stream speaks claude's stream-json as the recorded streams show it. What it does is the first word of the prompt.
func Stream() {
	c := &claudePlayer{stand: newStand(), session: "c0ffee00-0000-4000-8000-000000000001"}
	if i := slices.Index(os.Args, "--resume"); i > 0 {
		c.session, c.resumed = os.Args[i+1], true
	}
	for m := c.hear(); m != nil; m = c.hear() {
		switch text(m, "type") {
		case "control_request":
			c.say(obj{"type": "control_response", "response": obj{"subtype": "success", "request_id": text(m, "request_id"), "response": obj{"pid": 1}}})
		case "user":
			c.say(obj{"type": "system", "subtype": "init", "session_id": c.session, "model": "m", "cwd": "/w", "tools": []string{"Bash"}})
			c.play(text(m, "message", "content"))
		}
	}
	if c.exit == -1 {
		time.Sleep(time.Hour)
	}
	os.Exit(c.exit)
}

type claudePlayer struct {
	*stand
	session string
	resumed bool
	n       int
	exit    int
}

func (c *claudePlayer) play(prompt string) {
	part, rest, _ := strings.Cut(prompt, " ")
	switch part {
	case "hello":
		c.speak("Hello.")
		c.result(obj{})
	case "who":
		c.text(fmt.Sprintf("%s %v %v", c.session, c.resumed, os.Getenv("CLAUDECODE")+os.Getenv("CLAUDE_CODE_ENTRYPOINT")+os.Getenv("CLAUDE_CONFIG_DIR")))
		c.result(obj{})
	case "run":
		id := c.call("Bash", obj{"command": rest})
		c.answer(id, c.may(id, "Bash", obj{"command": rest}))
		c.text("That was it.")
		c.result(obj{})
	case "write":
		in := obj{"file_path": rest, "content": "x"}
		id := c.call("Write", in)
		c.answer(id, c.may(id, "Write", in))
		c.result(obj{})
	case "five":
		var ids []string
		for i := range 5 {
			in := obj{"command": fmt.Sprintf("make %d", i)}
			ids = append(ids, c.call("Bash", in))
			c.ask(ids[i], "Bash", in)
		}
		for range ids {
			m := c.hear()
			c.answer(strings.TrimPrefix(text(m, "response", "request_id"), "ask-"), m)
		}
		c.result(obj{})
	case "slow": // runs until it is interrupted
		id := c.call("Bash", obj{"command": "sleep 600"})
		c.interrupted(id)
	case "open": // asks, and is interrupted before there is an answer
		id := c.call("Bash", obj{"command": "sleep 600"})
		c.ask(id, "Bash", obj{"command": "sleep 600"})
		c.interrupted(id)
	case "deaf": // asks nothing and stops for nobody
		c.call("Bash", obj{"command": "sleep 600"})
		c.child()
		for c.hear() != nil {
		}
		time.Sleep(time.Hour)
	case "die": // in the middle, and as if all were well
		c.call("Bash", obj{"command": "true"})
		os.Exit(0)
	case "killed":
		c.call("Bash", obj{"command": "sleep 600"})
		c.child()
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		time.Sleep(time.Hour)
	case "cut":
		c.raw(`{"type":"assistant","message":{"id":"m","role":"assi`)
		os.Exit(0)
	case "liar":
		c.text("Done.")
		c.exit = 3
		c.result(obj{})
	case "stay":
		c.text("Done.")
		c.exit = -1
		c.result(obj{})
	case "noise":
		c.raw("starting up…\n\x1b[31mwarning\x1b[0m \xff\xfe\n\n[1,2]\n17\n")
		fmt.Fprintln(os.Stderr, "a complaint")
		c.say(obj{"type": "from_tomorrow", "session_id": c.session, "x": 1})
		c.say(obj{"type": "system", "subtype": "from_tomorrow", "session_id": c.session})
		c.speak("Hello.")
		c.result(obj{})
	case "huge":
		c.text(strings.Repeat("0123456789abcdef", 4<<16))
		c.result(obj{})
	case "broke":
		c.say(obj{"type": "assistant", "session_id": c.session, "is_api_error_message": true, "api_error_status": 529,
			"message": obj{"id": "x", "model": "<synthetic>", "role": "assistant", "content": []obj{{"type": "text", "text": "API Error: 529 overloaded"}}}})
		c.result(obj{"is_error": true, "result": "API Error: 529 overloaded", "api_error_status": 529, "terminal_reason": "api_error"})
	case "agent": // a sub-agent in the background: the first result is not the end
		id := c.call("Agent", obj{"description": "look", "prompt": "look around"})
		c.say(obj{"type": "system", "subtype": "task_started", "session_id": c.session, "task_id": "t1", "tool_use_id": id, "subagent_type": "general", "description": "look", "is_backgrounded": true})
		c.done(id, "launched", false, nil)
		c.text("It works on it.")
		c.result(obj{})
		c.say(obj{"type": "assistant", "session_id": c.session, "parent_tool_use_id": id, "agent_id": "t1",
			"message": obj{"id": "sub1", "role": "assistant", "model": "m", "content": []obj{{"type": "tool_use", "id": "sub-call", "name": "Bash", "input": obj{"command": "make sub"}}}}})
		m := c.may("sub-call", "Bash", obj{"command": "make sub"})
		c.say(obj{"type": "user", "session_id": c.session, "parent_tool_use_id": id, "message": obj{"role": "user", "content": []obj{{"type": "tool_result", "tool_use_id": "sub-call", "content": text(m, "response", "response", "behavior")}}}})
		c.say(obj{"type": "system", "subtype": "task_notification", "session_id": c.session, "task_id": "t1", "tool_use_id": id, "status": "completed"})
		c.text("It is done.")
		c.result(obj{"origin": obj{"kind": "task-notification"}})
	}
}

// child starts a process that must not stay.
func (c *claudePlayer) child() {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

func (c *claudePlayer) message(block obj) {
	c.n++
	c.say(obj{"type": "assistant", "session_id": c.session, "message": obj{"id": fmt.Sprintf("msg_%d", c.n), "role": "assistant", "model": "m", "content": []obj{block}}})
}

func (c *claudePlayer) text(s string) { c.message(obj{"type": "text", "text": s}) }

// speak says a text with its deltas.
func (c *claudePlayer) speak(s string) {
	event := func(e obj) { c.say(obj{"type": "stream_event", "session_id": c.session, "event": e}) }
	event(obj{"type": "message_start", "message": obj{"id": fmt.Sprintf("msg_%d", c.n+1), "model": "m"}})
	for _, r := range s {
		event(obj{"type": "content_block_delta", "delta": obj{"type": "text_delta", "text": string(r)}})
	}
	c.text(s)
	event(obj{"type": "message_delta", "delta": obj{"stop_reason": "end_turn"}})
	event(obj{"type": "message_stop"})
}

func (c *claudePlayer) call(name string, input obj) string {
	id := fmt.Sprintf("toolu_%d", c.n)
	c.message(obj{"type": "tool_use", "id": id, "name": name, "input": input})
	return id
}

func (c *claudePlayer) ask(id, name string, input obj) {
	c.say(obj{"type": "control_request", "request_id": "ask-" + id, "request": obj{"subtype": "can_use_tool", "tool_name": name, "input": input, "tool_use_id": id}})
}

func (c *claudePlayer) may(id, name string, input obj) obj {
	c.ask(id, name, input)
	return c.hear()
}

// answer goes on with a call as the client said.
func (c *claudePlayer) answer(id string, m obj) {
	r := at(m, "response", "response")
	if text(r, "behavior") == "allow" {
		c.done(id, "ran "+text(r, "updatedInput", "command"), false, nil)
		return
	}
	c.done(id, text(r, "message"), true, obj{"id": id, "non_execution_kind": "permission-rule", "permission_decision": obj{"decision": "reject", "source": "user_reject"}})
}

func (c *claudePlayer) done(id, output string, failed bool, meta obj) {
	c.say(obj{"type": "user", "session_id": c.session, "tool_result_meta": []obj{meta}, "message": obj{"role": "user", "content": []obj{{"type": "tool_result", "tool_use_id": id, "content": output, "is_error": failed}}}})
}

// interrupted waits for the interrupt, and says what claude says then. Answers to questions are kept for the record.
func (c *claudePlayer) interrupted(id string) {
	for m := c.hear(); m != nil; m = c.hear() {
		if text(m, "request", "subtype") == "interrupt" {
			c.say(obj{"type": "control_response", "response": obj{"subtype": "success", "request_id": text(m, "request_id")}})
			c.done(id, "interrupted", true, obj{"id": id, "non_execution_kind": "user-rejected"})
			c.result(obj{"is_error": true, "subtype": "error_during_execution", "terminal_reason": "aborted_tools", "stop_reason": "tool_use"})
			return
		}
	}
}

func (c *claudePlayer) result(more obj) {
	r := obj{
		"type": "result", "subtype": "success", "is_error": false, "session_id": c.session, "stop_reason": "end_turn", "total_cost_usd": 0.5,
		"usage": obj{"input_tokens": 99}, "model_usage_since_last_result": obj{"m": obj{"inputTokens": 10, "outputTokens": 2}},
	}
	for k, v := range more {
		r[k] = v
	}
	c.say(r)
}
