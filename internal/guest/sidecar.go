package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/sluice-dev/sluice/internal/rpc"
)

// The variables by which a sidecar finds the session that it belongs to.
const (
	ChannelSocket = "SLUICE_CHANNEL_SOCKET"
	ChannelToken  = "SLUICE_CHANNEL_TOKEN"
)

// A sidecar is an MCP server that claude starts: it passes on what claude reports by its tools to the session that drives it, and
// what that has to say to claude's channel.
type sidecar struct {
	claude  *rpc.Conn
	session *rpc.Conn
}

// Sidecar serves claude on in and out until one of the two sides is gone. Where the session is, the environment says.
func Sidecar(ctx context.Context, in io.Reader, out io.Writer, version string) error {
	socket := os.Getenv(ChannelSocket)
	if socket == "" {
		return errors.New("this is started by claude, for a session of ours: sluice drive claude-channel starts one")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	s := &sidecar{}
	s.session = rpc.New(conn, conn, rpc.Options{Handle: s.fromSession})
	s.claude = rpc.New(in, out, rpc.Options{Lenient: true, Handle: func(q *rpc.Request) { s.fromClaude(q, version) }, Stray: func([]byte) {}})
	ended := make(chan error, 2)
	go func() { ended <- s.session.Run() }()
	if err := s.session.Call(ctx, "hello", map[string]string{"token": os.Getenv(ChannelToken)}, nil); err != nil {
		s.session.Close()
		return err
	}
	go func() { ended <- s.claude.Run() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	s.session.Close()
	s.claude.Close()
	return err
}

// mcpVersions are the protocol's that we know, the newest last.
var mcpVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// fromClaude takes what claude asks.
func (s *sidecar) fromClaude(q *rpc.Request, version string) {
	switch q.Method {
	case "initialize":
		var p struct {
			Version string `json:"protocolVersion"`
		}
		if err := q.Decode(&p); err != nil || !slices.Contains(mcpVersions, p.Version) {
			p.Version = mcpVersions[len(mcpVersions)-1]
		}
		_ = q.Reply(map[string]any{
			"protocolVersion": p.Version,
			"capabilities": map[string]any{
				"tools":        struct{}{},
				"experimental": map[string]any{"claude/channel": struct{}{}, "claude/channel/permission": struct{}{}},
			},
			"serverInfo":   map[string]string{"name": "sluice-channel", "version": version},
			"instructions": "A program follows this session. Tell it with avenor_report when you begin, when you are blocked, and at each milestone; when the task is over call avenor_finish once, with what came of it, and then stop.",
		})
	case "notifications/initialized":
		s.tell("register", nil)
	case "notifications/claude/channel/permission_request":
		s.tell("permission_request", q.Params)
	case "ping":
		_ = q.Reply(struct{}{})
	case "tools/list":
		_ = q.Reply(map[string]any{"tools": sidecarTools})
	case "tools/call":
		s.call(q)
	default:
		if !strings.HasPrefix(q.Method, "notifications/") {
			_ = q.Fail(rpc.Errorf(rpc.CodeMethod, "there is no %s", q.Method))
		}
	}
}

// call passes a tool call on. It is answered when the session has it.
func (s *sidecar) call(q *rpc.Request) {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	err := q.Decode(&p)
	method, ok := strings.CutPrefix(p.Name, "avenor_")
	if err == nil && !(ok && slices.Contains([]string{"report", "reply", "finish"}, method)) {
		err = rpc.Errorf(rpc.CodeParams, "there is no tool %q", p.Name)
	}
	if err != nil {
		_ = q.Fail(err)
		return
	}
	go func() {
		text, failed := "noted", false
		if err := s.session.Call(q.Context(), method, p.Arguments, nil); err != nil {
			text, failed = err.Error(), true
		}
		_ = q.Reply(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}, "isError": failed})
	}()
}

// tell passes a notification on. A session that is gone ends us elsewhere.
func (s *sidecar) tell(method string, params json.RawMessage) {
	go func() { _ = s.session.Call(context.Background(), method, params, nil) }()
}

// fromSession passes on what the session has to say to claude.
func (s *sidecar) fromSession(q *rpc.Request) {
	method := map[string]string{"push": "notifications/claude/channel", "permission": "notifications/claude/channel/permission"}[q.Method]
	if method == "" {
		_ = q.Fail(rpc.Errorf(rpc.CodeMethod, "there is no %s", q.Method))
		return
	}
	go func() {
		if err := s.claude.Notify(q.Context(), method, q.Params); err != nil {
			_ = q.Fail(err)
			return
		}
		_ = q.Reply(struct{}{})
	}()
}

// sidecarTools are what claude is offered.
var sidecarTools = []map[string]any{
	sidecarTool("avenor_report", "Tell the program that follows this session what you are at.", []string{"state"}, map[string]any{
		"state":   map[string]any{"type": "string", "enum": []string{"started", "thinking", "working", "blocked", "checkpoint", "permission_requested", "error"}},
		"payload": map[string]any{"description": "anything that belongs to it"},
	}),
	sidecarTool("avenor_reply", "Answer somebody who sent a message through the channel.", []string{"to", "payload"}, map[string]any{
		"to":      map[string]any{"type": "string"},
		"payload": map[string]any{"description": "the answer"},
	}),
	sidecarTool("avenor_finish", "Say that the task is over, and what came of it. Call it once, last.", []string{"status", "summary"}, map[string]any{
		"status":        map[string]any{"type": "string", "enum": []string{"done", "failed", "blocked"}},
		"summary":       map[string]any{"type": "string"},
		"files_changed": map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
		"details":       map[string]any{"description": "anything more"},
	}),
}

func sidecarTool(name, about string, required []string, properties map[string]any) map[string]any {
	return map[string]any{"name": name, "description": about, "inputSchema": map[string]any{"type": "object", "required": required, "properties": properties}}
}

// channelName is what claude knows the server by.
func channelName(session string) string {
	return fmt.Sprintf("avenor-channel-%.8s", session)
}
