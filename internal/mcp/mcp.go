// Package mcp makes tools of MCP servers.
//
//	[]Server ──Connect──▶ Hub ──Tools──▶ tool.Tool ──Plan──▶ gate ──Run──▶ tools/call ──▶ tool.Result
//	                       └──Status──▶ which of them answer
//
// A server is somebody else's program. So it is started with an environment of its own and dies with the run; what it calls its
// tools, what it says of them and what they return is bounded and cleaned; it may be slow, silent, noisy or dead, and each of
// these is an event and never the end of the run. What it asks of us (a model's answer, a person's) is declined: nobody is
// there. Only the workspace is told to it.
//
// The list of tools is taken once. A server that changes it later is told of in a notice: the list is a part of every request,
// and one that changes would make the model's cache worthless.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/proc"
	"github.com/sluice-dev/sluice/internal/tool"
)

const (
	defaultStart = 10 * time.Second
	defaultCall  = 2 * time.Minute
	closeTime    = time.Second // for a server to take its leave
)

// Options are what servers need. The zero value works.
type Options struct {
	Group     *proc.Group         // what servers are started in; nil: one that is closed with the hub
	Emit      func(event.Body)    // takes what happens, from any goroutine; nil: nobody wants to know
	Workspace string              // the root that servers are told, and the folder that they start in; empty: the current one
	Env       []string            // for servers, before their own; nil: ours without what looks secret
	Client    *http.Client        // for servers with an address; nil: the usual one
	Spill     string              // folder for results that are too long; empty: what is too long is lost
	Clean     func(string) string // takes out of a result what nobody may see; nil: nothing
	Reserved  []string            // names that no tool may have, besides those of the tools that come with Sluice
	Version   string              // of this program
}

// A State says how a server is.
type State string

// The states of a server.
const (
	Ready  State = "ready"  // it answers
	Failed State = "failed" // it never did
	Gone   State = "gone"   // it did, and has ended; the next call starts it again
)

// A Status is what is known of a server.
type Status struct {
	Name      string
	Transport string // stdio or http
	State     State
	Err       string // why it is not ready, in one line
	Tools     int
	Version   string        // what it says it is: name and version
	Took      time.Duration // until it was ready, or given up
}

// A Hub holds the servers of a run. It is safe for concurrent use.
type Hub struct {
	opt    Options
	own    *proc.Group     // to be closed with the hub
	idle   *http.Transport // likewise
	links  []*link
	ctx    context.Context // ends when the hub is closed
	cancel context.CancelFunc
	work   sync.WaitGroup // what goes on beside the calls
	closed atomic.Bool
}

// Connect starts the servers, all at once, and returns when each of them has answered or has been given up: after its
// StartTimeout at the latest. A server that does not answer is an [event.Error] and has no tools.
func Connect(ctx context.Context, servers []Server, o Options) *Hub {
	h := &Hub{opt: o}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if h.opt.Group == nil {
		h.own = &proc.Group{}
		h.opt.Group = h.own
	}
	if h.opt.Client == nil {
		h.idle = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
		h.opt.Client = &http.Client{Transport: h.idle}
	}
	if h.opt.Env == nil {
		h.opt.Env = tool.Environment(os.Environ())
	}
	if h.opt.Workspace == "" {
		h.opt.Workspace, _ = os.Getwd()
	}
	h.opt.Version = cmp.Or(h.opt.Version, "0")
	seen := map[string]bool{}
	var starting sync.WaitGroup
	for _, s := range servers {
		l := newLink(h, s)
		h.links = append(h.links, l)
		err := s.Check()
		if err == nil && seen[s.Name] {
			err = fmt.Errorf("there is another server %q: give each a name of its own", s.Name)
		}
		seen[s.Name] = true
		starting.Go(func() { l.start(ctx, err) })
	}
	starting.Wait()
	h.name(servers)
	return h
}

// name gives the tools their names, in an order that does not depend on who was first.
func (h *Hub) name(servers []Server) {
	n := newNamer(servers, slices.Concat(builtin, h.opt.Reserved))
	for _, l := range h.links {
		for _, t := range l.tools {
			t.spec.Name = n.name(l.server.Name, t.name)
		}
	}
}

// Status says how the servers are, in the order in which they were given.
func (h *Hub) Status() []Status {
	var list []Status
	for _, l := range h.links {
		l.mu.Lock()
		list = append(list, l.status)
		l.mu.Unlock()
	}
	return list
}

// Tools lists the tools: server by server, in the order of their names. The list does not change.
func (h *Hub) Tools() []tool.Tool {
	var list []tool.Tool
	for _, l := range h.links {
		for _, t := range l.tools {
			list = append(list, t)
		}
	}
	return list
}

// Close ends the servers: they are asked to leave, and killed if they do not. Calls that still run fail. Nothing is emitted any
// more once Close has returned.
func (h *Hub) Close() {
	h.closed.Store(true)
	h.cancel()
	var closing sync.WaitGroup
	for _, l := range h.links {
		closing.Go(l.close)
	}
	closing.Wait()
	h.work.Wait()
	if h.own != nil {
		h.own.Close()
	}
	if h.idle != nil {
		h.idle.CloseIdleConnections()
	}
}

func (h *Hub) emit(b event.Body) {
	if h.opt.Emit != nil && !h.closed.Load() {
		h.opt.Emit(b)
	}
}

// A Server is one that the user has configured: a command that speaks over its stdin and stdout, or an address.
type Server struct {
	Name         string
	Command      []string          // the program and its arguments
	Env          map[string]string // for the program, beside what it is given anyway
	Dir          string            // to start it in; empty: the workspace
	URL          string            // of a server that speaks streamable HTTP
	Headers      map[string]string // for each request to that address, and to no other
	Timeout      time.Duration     // of a call; 0: two minutes
	StartTimeout time.Duration     // until it must have answered and listed its tools; 0: ten seconds
}

// Check says what is wrong with a server's configuration.
func (s Server) Check() error {
	switch {
	case s.Name == "":
		return errors.New("the server has no name")
	case len(s.Command) == 0 && s.URL == "":
		return errors.New("there is nothing to connect to: set command or url")
	case len(s.Command) > 0 && s.URL != "":
		return errors.New("there are both a command and a url: keep one")
	case s.URL != "" && !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://"):
		return fmt.Errorf("the url %q is not http:// or https://", s.URL)
	case len(s.Command) > 0 && s.Command[0] == "":
		return errors.New("the command is empty")
	case s.Timeout < 0 || s.StartTimeout < 0:
		return errors.New("a timeout cannot be negative")
	}
	return nil
}

func (s Server) transport() string {
	if s.URL != "" {
		return "http"
	}
	return "stdio"
}
