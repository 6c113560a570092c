//go:build unix

package standin

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"

	"github.com/sluice-dev/sluice/internal/rpc"
)

// This file is what a stand-in for claude does with a channel. Before the prompt: dev asks whether to load it, none says on the
// screen that there are no channels, mcp starts the sidecar. After it: report:STATE, reply:TO, finish:STATUS call its tools, and
// relay:CMD asks through it whether a command may run; both:CMD asks on the terminal as well.

// A side is claude's side of the channel.
type side struct {
	conn    *rpc.Conn
	pushed  chan string // prompts that came through it
	allowed chan string // answers to what was relayed
}

// connect starts the sidecar as its configuration says, and shakes hands.
func (s *scene) connect() {
	data, err := os.ReadFile(strings.TrimPrefix(s.args[indexPrefix(s.args, "--mcp-config=")], "--mcp-config="))
	if err != nil {
		panic(err)
	}
	var config struct {
		Servers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(data, &config); err != nil || len(config.Servers) != 1 {
		panic(string(data))
	}
	for _, server := range config.Servers {
		cmd := exec.Command(server.Command, server.Args...)
		cmd.Env = os.Environ()
		for k, v := range server.Env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		s.side = &side{pushed: make(chan string, 1), allowed: make(chan string, 1)}
		s.side.conn = rpc.New(out, in, rpc.Options{Lenient: true, Handle: s.side.take})
		go s.side.conn.Run()
	}
	var hello struct {
		Version      string         `json:"protocolVersion"`
		Capabilities map[string]any `json:"capabilities"`
	}
	s.must("initialize", obj{"protocolVersion": "2025-06-18", "capabilities": obj{}}, &hello)
	if hello.Version != "2025-06-18" || at(hello.Capabilities, "experimental", "claude/channel") == nil {
		panic(hello)
	}
	if err := s.side.conn.Notify(context.Background(), "notifications/initialized", obj{}); err != nil {
		panic(err)
	}
	var list struct{ Tools []obj }
	s.must("tools/list", obj{}, &list)
	if len(list.Tools) != 3 {
		panic(list)
	}
	s.must("ping", obj{}, nil)
}

func indexPrefix(list []string, prefix string) int {
	for i, s := range list {
		if strings.HasPrefix(s, prefix) {
			return i
		}
	}
	panic("no " + prefix)
}

func (s *scene) must(method string, params, result any) {
	if err := s.side.conn.Call(context.Background(), method, params, result); err != nil {
		panic(err)
	}
}

// take hears what the session says to claude.
func (c *side) take(q *rpc.Request) {
	var p obj
	if err := q.Decode(&p); err != nil {
		panic(err)
	}
	switch q.Method {
	case "notifications/claude/channel":
		c.pushed <- text(p, "content")
	case "notifications/claude/channel/permission":
		c.allowed <- text(p, "behavior")
	}
}

// uses calls one of the sidecar's tools.
func (s *scene) uses(tool string, arguments obj) {
	var result struct {
		Error bool `json:"isError"`
	}
	s.must("tools/call", obj{"name": tool, "arguments": arguments}, &result)
	if result.Error {
		panic(tool)
	}
}

// channelAct does what a word says that is about the channel.
func (s *scene) channelAct(verb, arg string) {
	switch verb {
	case "report":
		s.uses("avenor_report", obj{"state": arg, "payload": obj{"n": 1}})
	case "reply":
		s.uses("avenor_reply", obj{"to": arg, "payload": "yes"})
	case "finish":
		s.uses("avenor_finish", obj{"status": arg, "summary": "so it is", "files_changed": []string{"a.go"}, "details": obj{"k": 1}})
	case "relay", "both":
		s.says("tool_use", obj{"type": "tool_use", "id": "toolu_r", "name": "Bash", "input": obj{"command": arg}})
		if verb == "both" {
			s.draw("● Bash("+arg+")", wide, " Bash command", "", "   "+arg, "", " Do you want to proceed?", " ❯ 1. Yes", "   2. No", "", " Esc to cancel")
		}
		if err := s.side.conn.Notify(context.Background(), "notifications/claude/channel/permission_request", obj{"request_id": "abcde", "tool_name": "Bash", "description": "run it", "input_preview": arg}); err != nil {
			panic(err)
		}
		said := "deny"
		select {
		case said = <-s.side.allowed:
		case k := <-s.typed:
			if k == '1' {
				said = "allow"
			}
		}
		s.box("", "esc to interrupt")
		s.user(obj{"type": "tool_result", "tool_use_id": "toolu_r", "content": "it was " + said, "is_error": said != "allow"})
	}
}
