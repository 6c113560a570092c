package guest

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/sluice-dev/sluice/internal/rpc"
)

// A broker is the session's end of a channel: the sidecar calls it on a socket that nobody else can open. What comes is passed on
// as words, in its order, beside the lines of the transcript.
type broker struct {
	dir    string // with the socket and claude's configuration; gone when the session is
	server string // what claude calls the sidecar
	token  string
	listen net.Listener
	to     *spool
	busy   sync.WaitGroup

	mu      sync.Mutex
	sidecar *rpc.Conn
	conns   []*rpc.Conn
}

// A message is what came through the channel.
type message struct {
	method string
	params json.RawMessage
}

// socketPath is as long as the address of a Unix socket may be, on all systems.
const socketPath = 100

// openBroker listens, and writes down for claude how to start the sidecar.
func openBroker(temp, session string, start []string) (*broker, error) {
	if len(start) == 0 {
		return nil, errors.New("guest: nobody says how the sidecar is started")
	}
	dir, err := os.MkdirTemp(temp, "sluice-")
	if err == nil && len(dir) > socketPath-2 && temp != "" {
		os.Remove(dir)
		dir, err = os.MkdirTemp("", "sluice-")
	}
	if err != nil {
		return nil, err
	}
	b := &broker{dir: dir, server: channelName(session), token: rand.Text(), to: new(spool)}
	if b.listen, err = net.Listen("unix", filepath.Join(dir, "s")); err == nil {
		err = os.Chmod(filepath.Join(dir, "s"), 0o600)
	}
	if err == nil {
		var config []byte
		config, err = json.Marshal(map[string]any{"mcpServers": map[string]any{b.server: map[string]any{
			"command": start[0], "args": append([]string{}, start[1:]...),
			"env": map[string]string{ChannelSocket: filepath.Join(dir, "s"), ChannelToken: b.token},
		}}})
		if err == nil {
			err = os.WriteFile(b.config(), config, 0o600)
		}
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("the channel cannot be opened: %w", err)
	}
	return b, nil
}

// config is the file that says how the sidecar is started. It is never in the user's project.
func (b *broker) config() string { return filepath.Join(b.dir, "mcp.json") }

// serve takes calls, and passes on what they say.
func (b *broker) serve(to *spool) {
	b.to = to
	b.busy.Go(func() {
		for {
			conn, err := b.listen.Accept()
			if err != nil {
				return
			}
			b.mu.Lock()
			known := false // it must say the token first
			c := rpc.New(conn, conn, rpc.Options{Handle: func(q *rpc.Request) { b.take(q, &known) }, MaxLine: 1 << 20})
			b.conns = append(b.conns, c)
			b.mu.Unlock()
			b.busy.Go(func() {
				_ = c.Run() // a sidecar that goes is claude's to start again
				c.Close()
			})
		}
	})
}

func (b *broker) take(q *rpc.Request, known *bool) {
	if q.Method == "hello" {
		var p struct {
			Token string `json:"token"`
		}
		if err := q.Decode(&p); err != nil || subtle.ConstantTimeCompare([]byte(p.Token), []byte(b.token)) != 1 {
			_ = q.Fail(rpc.Errorf(rpc.CodeParams, "the token is not ours"))
			return
		}
		*known = true
		b.mu.Lock()
		b.sidecar = q.Conn
		b.mu.Unlock()
		_ = q.Reply(struct{}{})
		return
	}
	if !*known {
		_ = q.Fail(rpc.Errorf(rpc.CodeInvalid, "say hello first"))
		return
	}
	switch q.Method {
	case "register", "report", "reply", "finish", "permission_request":
		b.to.put(word{channel: &message{q.Method, append(json.RawMessage(nil), q.Params...)}})
		_ = q.Reply(struct{}{})
	default:
		_ = q.Fail(rpc.Errorf(rpc.CodeMethod, "there is no %s", q.Method))
	}
}

// send has the sidecar say something to claude. Whether claude heard it nobody tells us.
func (b *broker) send(method string, params any) {
	b.mu.Lock()
	to := b.sidecar
	b.mu.Unlock()
	if to != nil {
		b.busy.Go(func() { _ = to.Call(context.Background(), method, params, nil) })
	}
}

// close takes the channel down to the last file.
func (b *broker) close() {
	if b.listen != nil {
		b.listen.Close()
	}
	b.mu.Lock()
	conns := b.conns
	b.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	b.busy.Wait()
	os.RemoveAll(b.dir)
}
