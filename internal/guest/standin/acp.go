//go:build unix

package standin

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// ACP speaks the Agent Client Protocol, with the habits of several agents. What it does is the first word of the prompt.
func ACP() {
	a := &acpPlayer{stand: newStand(), session: "acp-1", mode: "auto"}
	for m := a.hear(); m != nil; m = a.hear() {
		switch text(m, "method") {
		case "initialize":
			if os.Getenv("MUTE") != "" {
				continue
			}
			a.raw("booting…\n") // before anything else, on stdout
			a.reply(m, obj{"protocolVersion": 1, "agentCapabilities": obj{"loadSession": os.Getenv("NOLOAD") == ""}})
		case "session/new":
			a.say(obj{"jsonrpc": "2.0", "method": "_auth/status_update", "params": obj{"x": 1}})
			if os.Getenv("NOAUTH") != "" {
				a.say(obj{"jsonrpc": "2.0", "id": m["id"], "error": obj{"code": -32000, "message": "Authentication required"}})
				continue
			}
			a.opened(m)
		case "session/load":
			a.session = text(m, "params", "sessionId")
			a.update(obj{"sessionUpdate": "user_message_chunk", "content": obj{"type": "text", "text": "an old question"}})
			a.update(obj{"sessionUpdate": "agent_message_chunk", "content": obj{"type": "text", "text": "an old answer"}})
			a.opened(m)
			a.update(obj{"sessionUpdate": "agent_message_chunk", "content": obj{"type": "text", "text": "an old answer, as gemini tells it: late"}})
		case "session/set_mode":
			a.mode = text(m, "params", "modeId")
			a.reply(m, obj{})
		case "session/set_config_option":
			a.model = text(m, "params", "value")
			a.reply(m, obj{})
		case "session/prompt":
			a.prompt = m
			parts := at(m, "params", "prompt").([]any)
			a.play(text(parts[0], "text"))
		}
	}
}

type acpPlayer struct {
	*stand
	session, mode, model string
	prompt               obj
	asked                int
}

func (a *acpPlayer) opened(m obj) {
	a.reply(m, obj{
		"sessionId":     a.session,
		"modes":         obj{"currentModeId": a.mode, "availableModes": []obj{{"id": "auto"}, {"id": "default"}, {"id": "yolo"}}},
		"configOptions": []obj{{"id": "model", "category": "model"}},
	})
}

func (a *acpPlayer) reply(m obj, result any) {
	a.say(obj{"jsonrpc": "2.0", "id": m["id"], "result": result})
}

func (a *acpPlayer) update(u obj) {
	a.say(obj{"jsonrpc": "2.0", "method": "session/update", "params": obj{"sessionId": a.session, "update": u}})
}

func (a *acpPlayer) chunk(s string) {
	a.update(obj{"sessionUpdate": "agent_message_chunk", "messageId": "m-" + s[:min(len(s), 9)], "content": obj{"type": "text", "text": s}})
}

func (a *acpPlayer) stop(why string) {
	a.reply(a.prompt, obj{"stopReason": why, "usage": obj{"inputTokens": 110, "outputTokens": 17, "cachedReadTokens": 1300, "totalTokens": 1427}})
}

// ask asks for a permission; the ids of our requests collide with the client's.
func (a *acpPlayer) ask(call obj, options ...obj) int {
	id := a.asked
	a.asked++
	if options == nil {
		options = []obj{{"optionId": "yes-and-always", "kind": "allow_always", "name": "Always"}, {"optionId": "yes", "kind": "allow_once", "name": "Yes"}, {"optionId": "no", "kind": "reject_once", "name": "No"}}
	}
	a.say(obj{"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": obj{"sessionId": a.session, "toolCall": call, "options": options}})
	return id
}

// outcome waits for the answer to a request.
func (a *acpPlayer) outcome() string {
	m := a.hear()
	o := at(m, "result", "outcome")
	return strings.TrimSpace(text(o, "outcome") + " " + text(o, "optionId"))
}

func (a *acpPlayer) play(prompt string) {
	part, rest, _ := strings.Cut(prompt, " ")
	switch part {
	case "hello":
		a.chunk("Hello.")
		a.stop("end_turn")
	case "who":
		a.chunk(fmt.Sprintf("%s %s %s", a.session, a.mode, a.model))
		a.stop("end_turn")
	case "run": // as opencode: the input comes after the call
		a.chunk("I run it.")
		a.update(obj{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "bash", "kind": "execute", "status": "pending", "rawInput": obj{}})
		a.update(obj{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": rest, "rawInput": obj{"command": rest}})
		a.ask(obj{"toolCallId": "c1", "title": rest, "kind": "execute", "rawInput": obj{"command": rest}})
		got := a.outcome()
		if got == "selected yes" {
			for _, out := range []string{"o", "one\n", "one\ntwo\n"} {
				a.update(obj{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress", "content": []obj{{"type": "content", "content": obj{"type": "text", "text": out}}}})
			}
			exit := 0
			if strings.HasPrefix(rest, "false") {
				exit = 7
			}
			a.update(obj{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "rawOutput": obj{"output": "one\ntwo\n", "metadata": obj{"exit": exit}}})
		} else {
			a.update(obj{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed"})
		}
		a.chunk(got)
		a.stop("end_turn")
	case "reject": // as gemini: a call that is refused is never told
		a.ask(obj{"toolCallId": "write_file__1", "title": "Writing to x", "kind": "edit", "locations": []obj{{"path": rest}}})
		a.chunk(a.outcome())
		a.stop("end_turn")
	case "closed": // no way to allow it
		a.ask(obj{"toolCallId": "c1", "title": "x", "kind": "execute", "rawInput": obj{"command": "make"}}, obj{"optionId": "no", "kind": "reject_once"})
		a.chunk(a.outcome())
		a.stop("end_turn")
	case "five":
		for i := range 5 {
			a.ask(obj{"toolCallId": fmt.Sprint("c", i), "kind": "execute", "rawInput": obj{"command": fmt.Sprint("make ", i)}})
		}
		for range 5 {
			m := a.hear()
			n, _ := m["id"].(float64)
			status := "failed"
			if text(m, "result", "outcome", "optionId") == "yes" {
				status = "completed"
			}
			a.update(obj{"sessionUpdate": "tool_call_update", "toolCallId": fmt.Sprint("c", n), "status": status})
		}
		a.stop("end_turn")
	case "slow", "open":
		a.update(obj{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "bash", "kind": "execute", "status": "in_progress", "rawInput": obj{"command": "sleep 600"}})
		if part == "open" {
			a.ask(obj{"toolCallId": "c1", "rawInput": obj{"command": "sleep 600"}})
		}
		var answers []string
		for m := a.hear(); m != nil; m = a.hear() {
			if o := text(m, "result", "outcome", "outcome"); o != "" {
				answers = append(answers, o)
			}
			if text(m, "method") == "session/cancel" {
				break
			}
		}
		if part == "open" && len(answers) == 0 {
			answers = append(answers, a.outcome())
		}
		a.update(obj{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"}) // which it is not
		if len(answers) > 0 {
			a.chunk(strings.Join(answers, ","))
		}
		a.stop("cancelled")
	case "kinds": // everything that there is, and what is not
		a.update(obj{"sessionUpdate": "available_commands_update", "availableCommands": []obj{{"name": "x"}}})
		a.update(obj{"sessionUpdate": "current_mode_update", "currentModeId": "default"})
		a.update(obj{"sessionUpdate": "plan", "entries": []obj{{"content": "think", "priority": "high", "status": "pending"}}})
		a.update(obj{"sessionUpdate": "agent_thought_chunk", "content": obj{"type": "text", "text": "Hm."}})
		a.update(obj{"sessionUpdate": "from_tomorrow", "content": obj{"type": "text", "text": "not the user speaking"}})
		a.chunk("First.")
		a.update(obj{"sessionUpdate": "usage_update", "used": 5, "size": 10, "cost": obj{"amount": 0.25, "currency": "USD"}})
		a.update(obj{"sessionUpdate": "user_message_chunk", "content": obj{"type": "text", "text": "a note"}})
		a.say(obj{"jsonrpc": "2.0", "id": 77, "method": "fs/read_text_file", "params": obj{"path": "/etc/passwd"}})
		if m := a.hear(); at(m, "error", "code") != -32601.0 {
			a.chunk(fmt.Sprint("it was answered: ", m))
		}
		a.update(obj{"sessionUpdate": "agent_message_chunk", "content": obj{"type": "resource_link", "uri": "file:///x"}})
		a.stop("end_turn")
	case "order": // an update before its call, an end after the end
		a.update(obj{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "kind": "read", "status": "completed", "rawOutput": "text"})
		a.update(obj{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read", "kind": "read", "status": "pending"})
		a.update(obj{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed"})
		a.chunk("Done.")
		a.stop("end_turn")
		a.update(obj{"sessionUpdate": "available_commands_update", "availableCommands": []obj{}})
		a.chunk("too late")
	case "again": // the same id in every reply
		a.update(obj{"sessionUpdate": "tool_call", "toolCallId": "item_0", "title": "Read", "kind": "read", "status": "completed"})
		a.stop("end_turn")
	case "quiet": // a call whose end is long in coming, and that is told all the same
		a.update(obj{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Terminal", "kind": "execute", "status": "pending", "rawInput": obj{"command": "make"}})
		for m := a.hear(); m != nil; m = a.hear() {
			if text(m, "method") == "session/cancel" {
				a.stop("cancelled")
				break
			}
		}
	case "noise":
		a.raw("not JSON\n{\"neither\":\"a message\"}\n{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n")
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 5000))
		a.chunk("Hello.")
		a.stop("end_turn")
	case "stops":
		a.chunk("So far.")
		a.stop(rest)
	case "error":
		a.say(obj{"jsonrpc": "2.0", "id": a.prompt["id"], "error": obj{"code": -32603, "message": "Internal error", "data": obj{"details": "the model is gone"}}})
	case "die":
		a.update(obj{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "bash", "kind": "execute", "status": "in_progress"})
		os.Exit(0)
	case "huge":
		a.chunk(strings.Repeat("0123456789abcdef", 4<<16))
		a.stop("end_turn")
	case "stay":
		a.chunk("Done.")
		a.stop("end_turn")
		for a.hear() != nil {
		}
		time.Sleep(time.Hour)
	case "replay": // a recorded conversation: what the agent said, after each line of the client's
		a.replay(rest)
	default:
		a.hostile(part)
	}
}

// replay says the agent's updates of a recorded prompt, and waits where the client answered.
func (a *acpPlayer) replay(file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	begun := false
	for line := range strings.Lines(string(data)) {
		var l struct {
			Dir string
			Msg map[string]any
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			panic(err)
		}
		switch {
		case text(l.Msg, "method") == "session/prompt":
			begun = true
		case !begun:
		case l.Dir == ">":
			a.hear()
		case at(l.Msg, "result", "stopReason") != nil:
			a.reply(a.prompt, l.Msg["result"])
		default:
			a.say(l.Msg)
		}
	}
}
