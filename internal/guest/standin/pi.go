//go:build unix

package standin

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Pi speaks the RPC mode of pi, as version 0.87.1 does; with PI_OLD set as 0.74.2 does, which tells with each piece all that came
// before, and does not say when it is settled. What it does is the first word of the prompt.
func Pi() {
	p := &piPlayer{stand: newStand(), session: "01a1dc7f-0000-7000-8000-000000000001", old: os.Getenv("PI_OLD") != ""}
	if i := slices.Index(os.Args, "--session"); i > 0 {
		p.session, p.resumed = os.Args[i+1], true
	}
	if i := slices.Index(os.Args, "--model"); i > 0 {
		p.model = os.Args[i+1]
	}
	if os.Getenv("PI_MUTE") != "" {
		fmt.Fprintln(os.Stderr, "no such provider")
		os.Exit(1)
	}
	for m := p.hear(); m != nil; m = p.hear() {
		switch text(m, "type") {
		case "get_state":
			p.state(m)
		case "prompt":
			p.play(m, text(m, "message"))
		case "abort":
			p.respond(m, nil)
		}
	}
	if p.exit == -1 {
		time.Sleep(time.Hour)
	}
	os.Exit(p.exit)
}

type piPlayer struct {
	*stand
	session, model string
	resumed, old   bool
	busy           bool
	n, exit        int
	content        []obj
}

func (p *piPlayer) respond(m obj, data any) {
	p.say(obj{"id": m["id"], "type": "response", "command": m["type"], "success": true, "data": data})
}

func (p *piPlayer) refuse(m obj, why string) {
	p.say(obj{"id": m["id"], "type": "response", "command": m["type"], "success": false, "error": why})
}

func (p *piPlayer) state(m obj) {
	p.respond(m, obj{"sessionId": p.session, "isStreaming": p.busy, "isCompacting": false, "pendingMessageCount": 0})
}

func (p *piPlayer) event(kind string, more obj) {
	e := obj{"type": kind}
	for k, v := range more {
		e[k] = v
	}
	p.say(e)
}

// begin is what comes before each answer to a prompt.
func (p *piPlayer) begin(prompt string) {
	p.busy = true
	p.event("agent_start", nil)
	p.event("turn_start", nil)
	user := obj{"role": "user", "content": []obj{{"type": "text", "text": prompt}}}
	p.event("message_start", obj{"message": user})
	p.event("message_end", obj{"message": user})
}

// delta is a piece of the block that comes last.
func (p *piPlayer) delta(kind, field, piece string) {
	if last := len(p.content) - 1; last < 0 || p.content[last]["type"] != kind {
		p.content = append(p.content, obj{"type": kind, field: ""})
	}
	at := len(p.content) - 1
	p.content[at][field] = p.content[at][field].(string) + piece
	word := map[string]string{"text": "text_delta", "thinking": "thinking_delta"}[kind]
	e := obj{"type": word, "contentIndex": at, "delta": piece}
	more := obj{"assistantMessageEvent": e}
	if p.old {
		e["partial"] = p.message("pending", nil)
		more["message"] = p.message("pending", nil)
	}
	line, err := json.Marshal(more)
	if err != nil {
		panic(err)
	}
	p.raw(`{"type":"message_update",` + string(line[1:]) + "\n") // the type stands first, as everywhere in pi
}

func (p *piPlayer) message(stop string, more obj) obj {
	m := obj{
		"role": "assistant", "content": p.content, "provider": "mock", "model": "mock-model", "stopReason": stop,
		"usage": obj{"input": 110, "output": 17, "cacheRead": 1000, "cacheWrite": 0, "reasoning": 7, "totalTokens": 1127,
			"cost": obj{"input": 0.25, "output": 0.5, "cacheRead": 0.25, "cacheWrite": 0, "total": 1}},
	}
	if p.content == nil {
		m["content"] = []obj{}
	}
	if stop == "error" || stop == "aborted" {
		m["usage"] = obj{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": obj{"total": 0}}
	}
	for k, v := range more {
		m[k] = v
	}
	return m
}

// answer ends the model's answer.
func (p *piPlayer) answer(stop string, more obj) {
	m := p.message(stop, more)
	p.event("message_end", obj{"message": m})
	p.content = nil
	if stop != "toolUse" {
		p.event("turn_end", obj{"message": m, "toolResults": []obj{}})
	}
}

func (p *piPlayer) text(s string) { p.delta("text", "text", s) }

// over ends a run.
func (p *piPlayer) over(again bool) {
	p.busy = false
	end := obj{"messages": []obj{{"role": "system", "content": strings.Repeat("long ", 100)}}}
	if !p.old {
		end["willRetry"] = again
	}
	p.event("agent_end", end)
}

func (p *piPlayer) settle() {
	if !p.old {
		p.event("agent_settled", nil)
	}
}

func (p *piPlayer) done(stop string, more obj) {
	p.answer(stop, more)
	p.over(false)
	p.settle()
}

// call has the model call the shell.
func (p *piPlayer) call(command string) string {
	p.n++
	id := fmt.Sprint("call_", p.n)
	p.content = append(p.content, obj{"type": "toolCall", "id": id, "name": "bash", "arguments": obj{"command": command}})
	p.answer("toolUse", obj{"rawStopReason": "tool_calls"})
	p.event("tool_execution_start", obj{"toolCallId": id, "toolName": "bash", "args": obj{"command": command}})
	return id
}

func (p *piPlayer) output(id, text string) {
	p.event("tool_execution_update", obj{"toolCallId": id, "toolName": "bash", "partialResult": obj{"content": []obj{{"type": "text", "text": text}}}})
}

func (p *piPlayer) result(id, text string, failed bool) {
	result := obj{"content": []obj{{"type": "text", "text": text}}, "details": obj{}}
	p.event("tool_execution_end", obj{"toolCallId": id, "toolName": "bash", "result": result, "isError": failed})
	p.event("message_end", obj{"message": obj{"role": "toolResult", "toolCallId": id, "content": result["content"], "isError": failed}})
	p.event("turn_end", obj{"toolResults": []obj{}})
	p.event("turn_start", nil)
}

// aborted waits until somebody stops it.
func (p *piPlayer) aborted() (m obj) {
	for m = p.hear(); m != nil && text(m, "type") != "abort"; m = p.hear() {
		if text(m, "type") == "get_state" {
			p.state(m)
		}
	}
	return m
}

func (p *piPlayer) play(m obj, prompt string) {
	part, rest, _ := strings.Cut(prompt, " ")
	if part == "refuse" {
		p.refuse(m, "No API key found for mock")
		return
	}
	p.respond(m, nil)
	if part == "/command" { // one of its own, which asks no model
		return
	}
	if part == "replay" { // what the real one said, as it was recorded
		data, err := os.ReadFile(rest)
		if err != nil {
			panic(err)
		}
		p.raw(string(data))
		return
	}
	if part == "late" { // it is stopped before it has begun
		p.respond(p.aborted(), nil)
	}
	p.begin(prompt)
	switch part {
	case "hello":
		p.text("Hel")
		p.text("lo.")
		p.done("stop", obj{"rawStopReason": "stop"})
	case "who":
		p.text(fmt.Sprintf("%s %v %s", p.session, p.resumed, p.model))
		p.done("stop", nil)
	case "think":
		p.delta("thinking", "thinking", "Hm, ")
		p.delta("thinking", "thinking", "well.")
		p.text("So be it.")
		p.content = append(p.content, obj{"type": "text", "text": "And more."})
		p.done("stop", nil)
	case "run":
		p.text("I run it.")
		id := p.call(rest)
		p.output(id, "one\n")
		p.output(id, "one\ntwo\n")
		if rest == "false" {
			p.result(id, "one\ntwo\n\n\nCommand exited with code 7", true)
		} else {
			p.result(id, "one\ntwo\n", false)
		}
		p.text("That was it.")
		p.done("stop", nil)
	case "retry": // once, and then all is well
		p.text("Half an ans")
		p.answer("error", obj{"errorMessage": "429: slow down"})
		p.over(true)
		p.event("auto_retry_start", obj{"attempt": 1, "maxAttempts": 3, "delayMs": 20, "errorMessage": "429: slow down"})
		time.Sleep(20 * time.Millisecond)
		p.busy = true
		p.event("agent_start", nil)
		p.event("turn_start", nil)
		p.text("Hello after all.")
		p.answer("stop", nil)
		p.event("auto_retry_end", obj{"success": true, "attempt": 1})
		p.over(false)
		p.settle()
	case "wait": // it is stopped while it waits to try again
		p.answer("error", obj{"errorMessage": "429: slow down"})
		p.over(true)
		p.event("auto_retry_start", obj{"attempt": 1, "maxAttempts": 3, "delayMs": 600000, "errorMessage": "429: slow down"})
		abort := p.aborted()
		p.event("auto_retry_end", obj{"success": false, "attempt": 1, "finalError": "Retry cancelled"})
		p.settle()
		p.respond(abort, nil)
	case "error":
		p.answer("error", obj{"errorMessage": rest})
		p.over(false)
		p.settle()
	case "stops":
		p.text("So far.")
		p.done(rest, nil)
	case "silent":
		p.over(false)
		p.settle()
	case "slow", "late":
		if part == "slow" {
			p.text("It takes long.")
			id := p.call("sleep 600")
			abort := p.aborted()
			p.result(id, "Command aborted", true)
			p.done("error", obj{"errorMessage": "This operation was aborted"})
			p.respond(abort, nil)
			return
		}
		abort := p.aborted()
		p.done("aborted", nil)
		p.respond(abort, nil)
	case "deaf", "killed":
		p.call("sleep 600")
		if err := exec.Command("sleep", "600").Start(); err != nil {
			panic(err)
		}
		if part == "killed" {
			self, _ := os.FindProcess(os.Getpid())
			self.Kill()
		}
		for p.hear() != nil {
		}
		time.Sleep(time.Hour)
	case "die":
		p.call("true")
		os.Exit(0)
	case "cut":
		p.raw(`{"type":"agent_settl`)
		os.Exit(0)
	case "liar":
		p.exit = 3
		p.text("Done.")
		p.done("stop", nil)
	case "stay":
		p.exit = -1
		p.text("Done.")
		p.done("stop", nil)
	case "garbage":
		p.raw("starting…\n[1]\n{\"no\":\"type\"}\n{\"type\":17}\n{broken\n{\"type\":\"message_end\",\"message\":17}\n{\"type\":\"tool_execution_end\",\"result\":[]}\n{\"type\":\"message_update\",\"partial\":\n")
		fmt.Fprintln(os.Stderr, "a complaint")
		p.event("from_tomorrow", obj{"x": 1})
		p.event("queue_update", obj{"steering": []string{}, "followUp": []string{}})
		p.text("Hello.")
		p.done("stop", nil)
	case "dialog": // of an extension
		p.event("extension_ui_request", obj{"id": "u1", "method": "notify", "message": "Watch out."})
		p.event("extension_ui_request", obj{"id": "u2", "method": "setStatus", "statusKey": "k"})
		p.event("extension_ui_request", obj{"id": "u3", "method": "confirm", "title": "Sure?", "message": "Really."})
		answer := p.hear()
		p.event("extension_error", obj{"error": "oops"})
		p.text(fmt.Sprint(answer["id"], " ", answer["cancelled"]))
		p.done("stop", nil)
	case "compact": // it makes room after its answer, and goes on
		p.answer("error", obj{"errorMessage": "400: the context is full"})
		p.over(false)
		p.event("compaction_start", obj{"reason": "overflow"})
		p.event("compaction_end", obj{"reason": "overflow", "willRetry": true, "result": obj{"summary": "Short.", "tokensBefore": 150000, "estimatedTokensAfter": 3000}})
		p.event("agent_start", nil)
		p.event("turn_start", nil)
		p.text("There is room.")
		p.done("stop", nil)
	case "long": // many pieces
		for range 400 {
			p.text("0123456789abcdef")
		}
		p.done("stop", nil)
	}
}
