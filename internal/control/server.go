package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/internal/rpc"
)

// ServerOptions say what a server can do besides steering the runs that it was given. The zero value: nothing.
type ServerOptions struct {
	Runs     []Run                                     // it serves from the beginning
	Spawn    func(context.Context, Spawn) (Run, error) // begins a run, which the server then serves; nil: it serves what it was given
	Shutdown func(mode string)                         // ends the process, "graceful" or "kill"; nil: every run is cancelled
	Token    string                                    // by which whoever started us knows that it is us
	Version  string                                    // of the program
}

// A Spawn is a run that somebody wants.
type Spawn struct {
	Prompt            string `json:"prompt,omitempty"`
	PromptFile        string `json:"prompt_file,omitempty"`
	Config            string `json:"config,omitempty"`    // of a loop
	LoopFile          string `json:"loop_file,omitempty"` // the same
	Dir               string `json:"dir,omitempty"`
	Agent             string `json:"agent,omitempty"`
	Label             string `json:"label,omitempty"`
	Model             string `json:"model,omitempty"`
	Thinking          string `json:"thinking,omitempty"`
	Backend           string `json:"backend,omitempty"`
	SessionID         string `json:"session_id,omitempty"` // to go on with
	OnEvent           string `json:"on_event,omitempty"`
	SentinelFile      string `json:"sentinel_file,omitempty"`
	PermissionHandler string `json:"permission_handler,omitempty"`
	AutoApprove       bool   `json:"auto_approve,omitempty"`
	Timeout           any    `json:"timeout,omitempty"` // seconds, or a duration as in "90s"
	MaxRetries        int    `json:"max_retries,omitempty"`
	ParentID          string `json:"parent_id,omitempty"`
}

// A Server serves runs on a socket. Every connection may do everything: the first answer to a question wins, and whoever comes
// late is told.
type Server struct {
	o      ServerOptions
	socket *socket
	also   func() // takes away what else there is

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // everything that the server started

	mu     sync.Mutex
	runs   []*served // in the order in which they came
	guests map[*guest]bool
	closed bool
}

// A served run.
type served struct {
	Run
	info Info
	view view
}

// Listen makes a socket at the path, for the user only, and serves it. See [Server.Close].
func Listen(path string, o ServerOptions) (*Server, error) {
	sock, err := listen(path)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, socket: sock, guests: map[*guest]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, r := range o.Runs {
		s.Add(r)
	}
	s.running.Go(s.accept)
	return s, nil
}

// Path is where the socket is.
func (s *Server) Path() string { return s.socket.path }

// Add serves a run. Whoever subscribed to all runs is told of it from its first event on.
func (s *Server) Add(r Run) {
	info := r.Info()
	run := &served{Run: r, info: info, view: view{path: info.Journal}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = append(s.runs, run)
	for g := range s.guests {
		g.added(run)
	}
}

// Remove forgets a run that is over.
func (s *Server) Remove(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = slices.DeleteFunc(s.runs, func(r *served) bool { return r.info.ID == id })
}

func (s *Server) accept() {
	for {
		c, err := s.socket.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // too many files are open: some will be closed
			case <-time.After(100 * time.Millisecond):
				continue
			case <-s.ctx.Done():
				return
			}
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.Close()
			return
		}
		g := newGuest(s, c)
		s.guests[g] = true
		s.mu.Unlock()
		s.running.Go(g.serve)
	}
}

// Close stops serving. Until ctx ends, those who subscribed are given what the journals have: nobody misses the end of a run
// because he reads slowly. Then every connection is closed. Nothing of the server is left when it returns.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	guests := make([]*guest, 0, len(s.guests))
	for g := range s.guests {
		guests = append(guests, g)
	}
	s.mu.Unlock()
	var err error
	if !again {
		err = s.socket.close()
		if s.also != nil {
			defer s.also()
		}
	}
	var fed sync.WaitGroup
	for _, g := range guests {
		fed.Go(func() { g.drain(ctx) })
	}
	fed.Wait()
	s.cancel()
	for _, g := range guests {
		g.conn.Close()
	}
	s.running.Wait()
	return err
}

// list returns the runs, in the order in which they came.
func (s *Server) list() []*served {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

// find returns the run of that id or, if it is empty, the only one.
func (s *Server) find(id string) (*served, error) {
	runs := s.list()
	if id == "" {
		switch len(runs) {
		case 0:
			return nil, rpc.Errorf(rpc.CodeFailed, "there is no run")
		case 1:
			return runs[0], nil
		}
		return nil, needed("runtime_id", "there are %d runs: say which one (%s)", len(runs), names(runs))
	}
	for _, r := range runs {
		if r.info.ID == id || r.info.Run == id {
			return r, nil
		}
	}
	return nil, needed("runtime_id", "there is no run %q: there are %s", id, names(runs))
}

// names lists runs for a person.
func names(runs []*served) string {
	const most = 20
	var list []string
	for i, r := range runs {
		if i == most {
			list = append(list, "…")
			break
		}
		list = append(list, r.info.ID)
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}

// needed is the error about a parameter.
func needed(name, format string, args ...any) *rpc.Error {
	e := rpc.Errorf(rpc.CodeParams, format, args...)
	e.Data = fmt.Appendf(nil, `{"required":%q}`, name)
	return e
}

// status is where the run stands now.
func (r *served) status() (Status, string, error) {
	s, said, err := r.view.now()
	if errors.Is(err, os.ErrNotExist) {
		err = nil // it has said nothing yet, or its journal went with it
	}
	return status(r.Info(), s, said), said, err
}
