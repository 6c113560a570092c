package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/acp"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/mcp"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/rpc"
)

func acpCommand(std IO) *cobra.Command {
	o := defaults()
	cmd := &cobra.Command{
		Use:   "acp [flags]",
		Short: "serve the agent over the Agent Client Protocol on stdin and stdout",
		Long: `Serve the agent over the Agent Client Protocol, for editors and other supervisors: JSON-RPC, one message to a line, on stdin and
stdout. A client may open several sessions; each has a journal of its own, as a run has, and can be loaded again. Questions go to the
client. It ends when stdin does.

  sluice acp --model anthropic/claude-sonnet-5-5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.flags.Keys = changed(cmd.Flags())
			if err := o.check(); err != nil {
				return err
			}
			return exitWith(newACP(o, std).serve(cmd.Context()))
		},
	}
	f, c := cmd.Flags(), &o.flags.Config
	f.StringVarP(&c.Model, "model", "m", "", "provider/name of the model")
	f.StringVar(&o.baseURL, "base-url", "", "address of the provider's server")
	f.StringVar(&c.Thinking, "thinking", "", "how much the model thinks first: off, low, medium, high")
	f.StringVar(&c.Mode, "mode", c.Mode, "mode that sessions begin in: default, auto_edit, yolo")
	f.StringArrayVar(&c.Allow, "allow", nil, "let pass: 'bash(git *)', 'edit(src/**)'; may be repeated")
	f.StringArrayVar(&c.Deny, "deny", nil, "never let pass, in no mode; may be repeated")
	f.IntVar(&c.MaxTurns, "max-turns", c.MaxTurns, "answers of the model to one prompt, at most (0: no limit)")
	f.StringVar(&o.profile, "agent", "", "profile of the agent: .sluice/agents/NAME.md")
	return cmd
}

// An acpServer is the agent's side of the protocol. Each of its sessions is a run with a door.
type acpServer struct {
	options runOptions
	io      IO
	conn    *rpc.Conn
	stop    context.CancelCauseFunc
	ctx     context.Context
	running sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*acpSession
}

func newACP(o runOptions, std IO) *acpServer {
	s := &acpServer{options: o, io: std, sessions: map[string]*acpSession{}}
	s.conn = rpc.New(std.In, std.Out, rpc.Options{Handle: s.handle, Lenient: true})
	return s
}

// serve answers until the client has gone or a signal comes, and leaves nothing running.
func (s *acpServer) serve(ctx context.Context) int {
	ctx, s.stop = context.WithCancelCause(ctx)
	s.ctx = ctx
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, stopSignals()...)
	defer signal.Stop(signals)
	read := make(chan error, 1)
	go func() { read <- s.conn.Run() }()
	code := exitOK
	select {
	case err := <-read:
		if err != nil {
			s.io.complain(fmt.Errorf("stdin: %w", err))
		}
		s.stop(&outcome.Cause{Outcome: event.Cancelled, Reason: "the client has gone", Code: "141"})
	case sig := <-signals:
		var name string
		code, name = signalCode(sig)
		s.stop(&outcome.Cause{Outcome: event.Cancelled, Reason: "stopped by " + name, Code: fmt.Sprint(code)})
	}
	s.running.Wait()
	flush, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = s.conn.Flush(flush) // who does not read any more does not want it
	_ = s.conn.Close()
	return code
}

// handle takes what the client asks. What takes time goes on beside it.
func (s *acpServer) handle(q *rpc.Request) {
	var err error
	switch q.Method {
	case "initialize":
		err = q.Reply(map[string]any{
			"protocolVersion": acp.Version,
			"agentCapabilities": map[string]any{
				"loadSession":        true,
				"promptCapabilities": map[string]bool{"image": true, "embeddedContext": true},
				"mcpCapabilities":    map[string]bool{"http": true},
			},
			"agentInfo":   map[string]string{"name": "sluice", "title": "Sluice", "version": programVersion()},
			"authMethods": []any{},
		})
	case "authenticate":
		err = q.Reply(struct{}{}) // keys come from the environment
	case "session/new", "session/load":
		s.running.Go(func() { s.begin(q) })
	case "session/prompt":
		s.prompt(q)
	case "session/cancel":
		var p sessionParams
		if err = q.Decode(&p); err == nil {
			if at := s.session(p.Session); at != nil {
				at.send(event.Stop{})
			}
		}
	case "session/set_mode":
		s.setMode(q)
	default:
		err = q.Fail(rpc.Errorf(rpc.CodeMethod, "there is no method %s", q.Method))
	}
	if err != nil && !errors.Is(err, rpc.ErrClosed) {
		_ = q.Fail(err) // it may have been answered
	}
}

// sessionParams are the parameters of all that is about a session.
type sessionParams struct {
	Session string             `json:"sessionId"`
	Cwd     string             `json:"cwd"`
	Servers []acp.Server       `json:"mcpServers"`
	Mode    string             `json:"modeId"`
	Prompt  []acp.ContentBlock `json:"prompt"`
}

func (s *acpServer) session(id string) *acpSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

// begin opens a session, or goes on with one, and answers when it is ready.
func (s *acpServer) begin(q *rpc.Request) {
	var p sessionParams
	if err := q.Decode(&p); err != nil {
		_ = q.Fail(err)
		return
	}
	at := newACPSession(s, p.Cwd)
	o := s.options
	o.workspace, o.shown, o.door, o.asked, o.inner = p.Cwd, at, at.door, at, true
	o.servers = mcpOf(p.Servers)
	o.deniedOK = true // the client said no himself
	if q.Method == "session/load" {
		o.resume = p.Session
		if p.Session == "" || p.Session == "latest" { // words of ours: the client would not know which one it was
			_ = q.Fail(rpc.Errorf(rpc.CodeParams, "sessionId %q names no session that was opened here", p.Session))
			return
		}
		if s.session(p.Session) != nil {
			_ = q.Fail(rpc.Errorf(rpc.CodeParams, "session %s is open", p.Session))
			return
		}
	}
	s.running.Go(func() {
		at.over(o.run(s.ctx, IO{Out: io.Discard, Err: s.io.Err, Tools: s.io.Tools}, nil))
	})
	select {
	case <-at.ready:
	case <-at.ended:
		_ = q.Fail(rpc.Errorf(rpc.CodeFailed, "%s", first(at.why(), "the session could not be opened")))
		return
	}
	s.mu.Lock()
	s.sessions[at.id] = at
	s.mu.Unlock()
	reply := map[string]any{"modes": at.modes(first(s.options.flags.Config.Mode, gate.ModeDefault))}
	if q.Method == "session/new" {
		reply["sessionId"] = at.id
	}
	_ = q.Reply(reply) // a client that has gone is known by the reader
	<-at.ended
	s.mu.Lock()
	delete(s.sessions, at.id)
	s.mu.Unlock()
}

// mcpOf makes servers of those that a client wants. Nothing in them is expanded: the client did that.
func mcpOf(list []acp.Server) (servers []mcp.Server) {
	pairs := func(list []acp.Pair) map[string]string {
		m := map[string]string{}
		for _, p := range list {
			m[p.Name] = p.Value
		}
		return m
	}
	for _, s := range list {
		to := mcp.Server{Name: s.Name, Env: pairs(s.Env), URL: s.URL, Headers: pairs(s.Headers), StartTimeout: mcpStart}
		if s.Command != "" {
			to.Command = append([]string{s.Command}, s.Args...)
		}
		servers = append(servers, to)
	}
	return servers
}
