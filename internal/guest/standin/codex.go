//go:build unix

package standin

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Codex speaks codex's app-server as the recorded streams show it. What it does is the first word of the prompt.
func Codex() {
	c := &codexPlayer{stand: newStand(), thread: "01a1-thread"}
	for m := c.hear(); m != nil; m = c.hear() {
		if m["jsonrpc"] != nil {
			panic("it has a version")
		}
		switch text(m, "method") {
		case "initialize":
			c.raw("WARN starting up\n") // before anything else, on stdout
			c.reply(m, obj{"userAgent": "standin/0"})
			c.note("remoteControl/status/changed", obj{"status": "disabled"})
		case "thread/start", "thread/resume":
			if os.Getenv("NOTHREAD") != "" {
				c.say(obj{"id": m["id"], "error": obj{"code": -32600, "message": "no rollout found for thread"}})
				continue
			}
			c.place = at(m, "params").(obj)
			if id := text(m, "params", "threadId"); id != "" {
				c.thread, c.resumed = id, true
				c.usage("an-old-turn")
			}
			c.reply(m, obj{"thread": obj{"id": c.thread}})
		case "turn/start":
			c.n++
			c.turn = fmt.Sprint("turn-", c.n)
			c.prompt = m
			parts := at(m, "params", "input").([]any)
			c.play(text(parts[0], "text"))
		}
	}
	if c.stays {
		time.Sleep(time.Hour)
	}
	os.Exit(c.exit)
}

type codexPlayer struct {
	*stand
	thread, turn string
	resumed      bool
	place        obj
	prompt       obj
	n, asked     int
	exit         int
	stays        bool
	tape         []string // what is left of a recorded conversation
	theirs       string   // its thread
}

func (c *codexPlayer) reply(m obj, result any) { c.say(obj{"id": m["id"], "result": result}) }

func (c *codexPlayer) note(method string, params obj) {
	c.say(obj{"method": method, "params": params, "emittedAtMs": int64(1794704973560)})
}

// here is a notification of the turn that goes on.
func (c *codexPlayer) here(method string, params obj) {
	params["threadId"], params["turnId"] = c.thread, c.turn
	c.note(method, params)
}

func (c *codexPlayer) begin() {
	c.note("warning", obj{"threadId": c.thread, "message": "no metadata for the model"})
	c.reply(c.prompt, obj{"turn": obj{"id": c.turn, "status": "inProgress"}})
	c.note("turn/started", obj{"threadId": c.thread, "turn": obj{"id": c.turn}})
	c.item("completed", obj{"type": "userMessage", "id": "u", "content": []obj{{"type": "text", "text": "x"}}})
}

func (c *codexPlayer) item(what string, item obj) { c.here("item/"+what, obj{"item": item}) }

func (c *codexPlayer) speak(words string) {
	id := fmt.Sprintf("msg-%d-%s", c.n, words)
	c.item("started", obj{"type": "agentMessage", "id": id, "text": ""})
	for _, half := range []string{words[:len(words)/2], words[len(words)/2:]} {
		c.here("item/agentMessage/delta", obj{"itemId": id, "delta": half})
	}
	c.item("completed", obj{"type": "agentMessage", "id": id, "text": words})
}

func (c *codexPlayer) usage(turn string) {
	last := obj{"totalTokens": 127, "inputTokens": 110, "cachedInputTokens": 100, "cacheWriteInputTokens": 0, "outputTokens": 17, "reasoningOutputTokens": 7}
	c.note("thread/tokenUsage/updated", obj{"threadId": c.thread, "turnId": turn, "tokenUsage": obj{"last": last, "total": last, "modelContextWindow": 1000}})
}

func (c *codexPlayer) stop(status string, err any) {
	c.note("turn/completed", obj{"threadId": c.thread, "turn": obj{"id": c.turn, "status": status, "error": err}})
}

func (c *codexPlayer) done(words string) {
	c.speak(words)
	c.usage(c.turn)
	c.stop("completed", nil)
}

func shell(id, command, status string, more obj) obj {
	item := obj{"type": "commandExecution", "id": id, "command": "/bin/bash -lc '" + strings.ReplaceAll(command, "'", `'"'"'`) + "'", "cwd": "", "status": status}
	for k, v := range more {
		item[k] = v
	}
	return item
}

// ask asks, with ids that collide with the client's, and returns the answer to the question.
func (c *codexPlayer) ask(method string, params obj) obj {
	c.asking(method, params)
	return c.hear()
}

func (c *codexPlayer) asking(method string, params obj) {
	params["threadId"], params["turnId"] = c.thread, c.turn
	c.say(obj{"id": c.asked, "method": method, "params": params})
	c.asked++
}

// interrupted waits for the interrupt, and answers it.
func (c *codexPlayer) interrupted() (answers []string) {
	for m := c.hear(); m != nil; m = c.hear() {
		if d := text(m, "result", "decision"); d != "" {
			answers = append(answers, d)
		}
		if text(m, "method") == "turn/interrupt" && text(m, "params", "turnId") == c.turn {
			c.reply(m, obj{})
			break
		}
	}
	return answers
}

func (c *codexPlayer) play(prompt string) {
	part, rest, _ := strings.Cut(prompt, " ")
	if part == "refused" {
		c.say(obj{"id": c.prompt["id"], "error": obj{"code": -32600, "message": "thread not found"}})
		return
	}
	if part == "replay" {
		c.replay(rest)
		return
	}
	if part == "early" { // is stopped before the turn has a name
		c.note("turn/diff/updated", obj{"threadId": c.thread, "diff": "early"})
		time.Sleep(200 * time.Millisecond)
	}
	c.begin()
	switch part {
	case "hello":
		c.done("Hello.")
	case "who":
		c.done(fmt.Sprint(c.thread, " ", c.resumed, " ", text(c.place, "approvalPolicy"), " ", text(c.place, "approvalsReviewer"), " ", text(c.place, "sandbox"), " ", text(c.prompt, "params", "sandboxPolicy", "type"), " ", text(c.place, "model"), " ", os.Getenv("CODEX_THREAD_ID")))
	case "run": // asks, and runs as it is told
		c.speak("I run it.")
		c.item("started", shell("call_1", rest, "inProgress", obj{"processId": nil}))
		m := c.ask("item/commandExecution/requestApproval", obj{"itemId": "call_1", "kind": "command", "command": shell("", rest, "", nil)["command"], "cwd": "", "availableDecisions": []string{"accept", "cancel"}})
		c.here("serverRequest/resolved", obj{"requestId": c.asked - 1})
		got := text(m, "result", "decision")
		if got == "accept" {
			c.here("item/commandExecution/outputDelta", obj{"itemId": "call_1", "delta": "one\n"})
			status, exit := "completed", 0
			if strings.HasPrefix(rest, "false") {
				status, exit = "failed", 7
			}
			c.item("completed", shell("call_1", rest, status, obj{"processId": "1", "aggregatedOutput": "one\n", "exitCode": exit}))
		} else {
			c.item("completed", shell("call_1", rest, "declined", obj{"aggregatedOutput": nil, "exitCode": nil}))
		}
		c.usage(c.turn)
		c.done("It said " + got + ".")
	case "patch", "moved":
		kind, path := obj{"type": "add"}, rest
		if part == "moved" {
			kind, path = obj{"type": "update", "move_path": rest}, "a.txt"
		}
		change := obj{"type": "fileChange", "id": "call_1", "status": "inProgress", "changes": []obj{{"path": path, "kind": kind, "diff": "hello\n"}}}
		c.item("started", change)
		if more, ok := strings.CutPrefix(rest, "a.txt "); ok { // which was not all
			c.here("item/fileChange/patchUpdated", obj{"itemId": "call_1", "changes": []obj{{"path": more, "kind": obj{"type": "add"}}}})
		}
		m := c.ask("item/fileChange/requestApproval", obj{"itemId": "call_1", "grantRoot": nil})
		change["status"] = map[string]string{"accept": "completed"}[text(m, "result", "decision")]
		if change["status"] == "" {
			change["status"] = "declined"
		}
		c.item("completed", change)
		c.done(text(m, "result", "decision"))
	case "old": // the forms of before
		m := c.ask("execCommandApproval", obj{"callId": "call_1", "command": []string{"bash", "-lc", rest}, "cwd": ""})
		n := c.ask("applyPatchApproval", obj{"callId": "call_2", "fileChanges": obj{"a.txt": obj{"type": "update", "move_path": "/etc/b.txt"}}})
		c.done(fmt.Sprint(at(m, "result", "decision"), " ", text(n, "result", "decision", "denied", "rejection") != ""))
	case "wants":
		m := c.ask("item/permissions/requestApproval", obj{"itemId": "call_1", "cwd": "", "permissions": obj{"fileSystem": obj{"write": []string{rest}}}})
		c.done(fmt.Sprint("granted ", len(at(m, "result", "permissions").(obj))))
	case "mcp": // asks about a tool of a server's by a form, which does not say which call it is about
		args := obj{"a": "x"}
		for _, id := range []string{"m1", "m2"} {
			c.item("started", obj{"type": "mcpToolCall", "id": id, "server": "s", "tool": id, "arguments": args, "status": "inProgress"})
		}
		m := c.ask("mcpServer/elicitation/request", obj{"serverName": "s", "message": `Allow the s MCP server to run tool "m2"?`, "_meta": obj{"codex_approval_kind": "mcp_tool_call", "tool_params": args}})
		n := c.ask("mcpServer/elicitation/request", obj{"serverName": "s", "message": "What is your name?"})
		for _, id := range []string{"m1", "m2"} {
			c.item("completed", obj{"type": "mcpToolCall", "id": id, "server": "s", "tool": id, "arguments": args, "status": "failed", "error": obj{"message": "rejected"}})
		}
		c.done(fmt.Sprint(text(m, "result", "action"), " ", at(n, "error", "code")))
	case "unknown": // requests that nobody here knows, and notifications
		m := c.ask("item/tool/requestUserInput", obj{"itemId": "x", "questions": []obj{}})
		c.note("from/tomorrow", obj{"threadId": c.thread, "x": []int{1}})
		c.item("completed", obj{"type": "fromTomorrow", "id": "i"})
		c.done(fmt.Sprint(at(m, "error", "code")))
	case "five":
		for i := range 5 {
			c.item("started", shell(fmt.Sprint("c", i), fmt.Sprint("make ", i), "inProgress", nil))
			c.asking("item/commandExecution/requestApproval", obj{"itemId": fmt.Sprint("c", i), "command": fmt.Sprint("make ", i)})
		}
		for range 5 {
			m := c.hear()
			id, status := fmt.Sprint("c", m["id"]), "declined"
			if text(m, "result", "decision") == "accept" {
				status = "completed"
			}
			c.item("completed", shell(id, "make", status, nil))
		}
		c.done("Done.")
	case "slow", "open", "early", "withdrawn":
		c.item("started", shell("call_1", "sleep 600", "inProgress", obj{"processId": "1"}))
		if part == "open" || part == "withdrawn" {
			c.asking("item/commandExecution/requestApproval", obj{"itemId": "call_1", "command": "sleep 600"})
		}
		if part == "withdrawn" {
			c.here("serverRequest/resolved", obj{"requestId": c.asked - 1})
			c.item("completed", shell("call_1", "sleep 600", "failed", obj{"exitCode": 1}))
			c.done("It was answered elsewhere.")
			return
		}
		answers := c.interrupted()
		if part == "open" && len(answers) == 0 {
			answers = append(answers, text(c.hear(), "result", "decision"))
		}
		if len(answers) > 0 {
			c.speak(strings.Join(answers, ","))
		}
		c.usage(c.turn)
		c.stop("interrupted", nil) // and the call never ends
	case "deaf":
		c.item("started", shell("call_1", "sleep 600", "inProgress", obj{"processId": "1"}))
		c.child()
		for c.hear() != nil {
		}
		time.Sleep(time.Hour)
	case "kinds": // everything that there is
		c.item("started", obj{"type": "reasoning", "id": "r1", "summary": []string{}, "content": []string{}})
		c.here("item/reasoning/summaryPartAdded", obj{"itemId": "r1", "summaryIndex": 0})
		c.here("item/reasoning/summaryTextDelta", obj{"itemId": "r1", "delta": "Hm.", "summaryIndex": 0})
		c.here("item/reasoning/textDelta", obj{"itemId": "r1", "delta": "the same in long", "contentIndex": 0})
		c.here("item/reasoning/summaryPartAdded", obj{"itemId": "r1", "summaryIndex": 1})
		c.here("item/reasoning/summaryTextDelta", obj{"itemId": "r1", "delta": "So.", "summaryIndex": 1})
		c.item("completed", obj{"type": "reasoning", "id": "r1", "summary": []string{"Hm.", "So."}, "content": []string{"the same in long"}})
		c.item("completed", obj{"type": "reasoning", "id": "r2", "summary": []string{}, "content": []string{"Aha."}})
		c.item("completed", obj{"type": "reasoning", "id": "r3", "summary": []string{}, "content": []string{}})
		c.here("turn/plan/updated", obj{"explanation": nil, "plan": []obj{{"step": "think", "status": "inProgress"}}})
		c.item("completed", obj{"type": "plan", "id": "p1", "text": "1. think"})
		c.item("started", obj{"type": "mcpToolCall", "id": "m1", "server": "s", "tool": "t", "arguments": obj{"a": 1}, "status": "inProgress"})
		c.item("completed", obj{"type": "mcpToolCall", "id": "m1", "server": "s", "tool": "t", "arguments": obj{"a": 1}, "status": "completed", "result": obj{"content": []obj{{"type": "text", "text": "found"}}}})
		c.item("completed", obj{"type": "mcpToolCall", "id": "m2", "server": "s", "tool": "t", "status": "failed", "error": obj{"message": "gone"}})
		c.item("completed", obj{"type": "webSearch", "id": "w1", "query": "why"})
		c.item("completed", obj{"type": "imageView", "id": "v1", "path": "/x.png"})
		c.item("completed", obj{"type": "contextCompaction", "id": "k1"})
		c.here("turn/diff/updated", obj{"diff": "x"})
		c.usage(c.turn)
		c.item("started", obj{"type": "imageView", "id": "v2", "path": "/y.png"}) // an answer that is only a call
		c.item("completed", obj{"type": "imageView", "id": "v2", "path": "/y.png"})
		c.usage(c.turn)
		c.usage("another-turn") // not of this reply
		c.note("item/completed", obj{"threadId": c.thread, "turnId": "another-turn", "item": obj{"type": "agentMessage", "id": "late", "text": "late"}})
		c.done("Done.")
	case "agent": // a thread beside ours
		c.item("completed", obj{"type": "collabAgentToolCall", "id": "s1", "tool": "spawnAgent", "prompt": "look", "status": "completed"})
		ours, turn := c.thread, c.turn
		c.thread, c.turn = "01a1-child", "turn-child"
		c.item("started", shell("sub_1", "make sub", "inProgress", nil))
		m := c.ask("item/commandExecution/requestApproval", obj{"itemId": "sub_1", "command": "make sub"})
		c.item("completed", shell("sub_1", "make sub", "completed", obj{"aggregatedOutput": text(m, "result", "decision")}))
		c.speak("Looked.")
		c.usage(c.turn)
		c.stop("completed", nil)
		c.thread, c.turn = ours, turn
		c.done("It is done.")
	case "retry":
		for i := 1; i <= 2; i++ {
			c.here("error", obj{"willRetry": true, "error": obj{"message": fmt.Sprintf("Reconnecting... %d/5", i), "codexErrorInfo": obj{"responseStreamDisconnected": obj{"httpStatusCode": 429}}}})
		}
		c.done("Hello after all.")
	case "gives-up": // and no longer knows why
		c.here("error", obj{"willRetry": true, "error": obj{"message": "Reconnecting... 1/5", "codexErrorInfo": obj{"responseStreamDisconnected": obj{"httpStatusCode": nil}}, "additionalDetails": "it was cut"}})
		c.here("error", obj{"willRetry": false, "error": obj{"message": "it was cut", "codexErrorInfo": "other"}})
		c.stop("failed", obj{"message": "it was cut", "codexErrorInfo": "other"})
	case "says": // fails in these words
		c.stop("failed", obj{"message": rest, "codexErrorInfo": "other"})
	case "fails":
		var info any = rest
		if strings.HasPrefix(rest, "{") {
			_ = json.Unmarshal([]byte(rest), &info)
		}
		e := obj{"message": "it went wrong", "codexErrorInfo": info}
		c.here("error", obj{"willRetry": false, "error": e})
		c.stop("failed", e)
	case "silent": // fails, and has not said so before
		c.stop("failed", obj{"message": "it went wrong", "codexErrorInfo": nil})
	case "strange":
		c.stop("fromTomorrow", nil)
	case "die":
		c.item("started", shell("call_1", "true", "inProgress", nil))
		os.Exit(0)
	case "killed":
		c.item("started", shell("call_1", "sleep 600", "inProgress", obj{"processId": "1"}))
		c.child()
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		time.Sleep(time.Hour)
	case "cut":
		c.raw(`{"method":"turn/completed","params":{"threadId":"01a1-thread","turn":{"id":"turn-1","status":"comp`)
		os.Exit(0)
	case "liar":
		c.exit = 101
		c.done("Done.")
	case "stay":
		c.stays = true
		c.done("Done.")
	case "noise":
		c.raw("not JSON\n{\"neither\":\"a message\"}\n{\"id\":99,\"result\":{}}\n{\"method\":\"item/started\",\"params\":{\"item\":17}}\n{\"method\":\"error\",\"params\":[]}\n")
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 5000))
		c.done("Hello.")
	}
}

// child starts a process that must not stay.
func (c *codexPlayer) child() {
	if err := exec.Command("sleep", "600").Start(); err != nil {
		panic(err)
	}
}

// replay says what codex said in a recorded conversation, up to the end of the next turn in it, and waits where the client
// answered. The thread goes by our name.
func (c *codexPlayer) replay(file string) {
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		c.tape = strings.SplitAfter(strings.TrimSpace(string(data)), "\n")
	}
	begun := false
	for len(c.tape) > 0 {
		line := c.tape[0]
		c.tape = c.tape[1:]
		if c.theirs != "" {
			line = strings.ReplaceAll(line, c.theirs, c.thread)
		}
		var l struct {
			Dir string
			Msg obj
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			panic(err)
		}
		method := text(l.Msg, "method")
		switch {
		case method == "turn/start":
			begun = true
		case text(l.Msg, "result", "thread", "id") != "":
			c.theirs = text(l.Msg, "result", "thread", "id")
		case !begun:
		case l.Dir == ">":
			c.hear()
		case at(l.Msg, "result", "turn") != nil:
			c.reply(c.prompt, l.Msg["result"])
		case method != "":
			c.say(l.Msg)
		}
		if method == "turn/completed" {
			return
		}
	}
}
