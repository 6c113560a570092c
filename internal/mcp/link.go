package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sluice-dev/sluice/event"
)

const (
	toolLimit        = 512     // tools of one server
	descriptionLimit = 8 << 10 // bytes
	lineLimit        = 400     // bytes of what a server says, in a message of ours
)

var errOver = errors.New("the run is over")

// A link is a server and our connection to it, or to the one before.
type link struct {
	hub    *Hub
	server Server
	turn   chan struct{} // whoever has put something in may connect
	tools  []*remote     // set by start
	notes  scribe        // what it says besides

	mu     sync.Mutex
	peer   *peer // the last one; nil: there was none
	status Status
	said   map[string]bool // what is said only once
}

func newLink(h *Hub, s Server) *link {
	l := &link{hub: h, server: s, turn: make(chan struct{}, 1), said: map[string]bool{}}
	l.server.Timeout = cmp.Or(s.Timeout, defaultCall)
	l.server.StartTimeout = cmp.Or(s.StartTimeout, defaultStart)
	l.status = Status{Name: s.Name, Transport: s.transport(), State: Failed}
	l.notes.link = l
	return l
}

// start connects and takes the list of tools. A server with a configuration that is wrong is given up at once.
func (l *link) start(ctx context.Context, wrong error) {
	began := time.Now()
	limited, cancel := l.limit(ctx)
	defer cancel()
	p, err := (*peer)(nil), wrong
	if err == nil {
		p, err = l.connect(limited)
	}
	if err == nil {
		if err = l.list(limited, p); err != nil {
			l.hub.work.Go(p.close)
		}
	}
	l.mu.Lock()
	l.status.Took = time.Since(began)
	if err == nil {
		l.status.State, l.status.Tools, l.status.Version = Ready, len(l.tools), p.version()
		l.peer = p
	} else {
		l.status.Err = brief(err)
	}
	why := l.status.Err
	l.mu.Unlock()
	switch {
	case err == nil:
		l.watch(p)
	case ctx.Err() == nil: // else it is the run that was given up
		l.trouble("is not there: %s", why)
	}
}

// limit is the time that a server has to be ready.
func (l *link) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return l.within(ctx, l.server.StartTimeout, "it did not answer within")
}

// within ends when the time is over, or the run; the cause says which.
func (l *link) within(ctx context.Context, d time.Duration, late string) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.hub.ctx, func() { end(errOver) })
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("%s %s", late, d))
	return ctx, func() { stop(); cancel(); end(nil) }
}

// list takes the list of tools, sorted, so that it is the same in every run.
func (l *link) list(ctx context.Context, p *peer) error {
	if init := p.session.InitializeResult(); init.Capabilities == nil || init.Capabilities.Tools == nil {
		return nil
	}
	seen, out := map[string]bool{}, 0
	var list []*remote
	params := &sdk.ListToolsParams{}
	for {
		page, err := p.session.ListTools(ctx, params)
		if err != nil {
			return p.explain(ctx, err)
		}
		for _, t := range page.Tools {
			if len(list) == toolLimit {
				l.say("has more than %d tools: the others are left out", toolLimit)
				page.NextCursor = ""
				break
			}
			if t.Name == "" || seen[t.Name] {
				out++
				continue
			}
			seen[t.Name] = true
			list = append(list, l.remote(t))
		}
		if page.NextCursor == "" || page.NextCursor == params.Cursor {
			break
		}
		params.Cursor = page.NextCursor
	}
	if out > 0 {
		l.say("lists tools without a name or twice: %d left out", out)
	}
	slices.SortFunc(list, func(a, b *remote) int { return strings.Compare(a.name, b.name) })
	l.tools = list
	return nil
}

func (l *link) remote(t *sdk.Tool) *remote {
	schema, err := normal(t.InputSchema)
	if err != nil {
		l.say("has a tool %q whose arguments cannot be told to a model (%s): it may send anything", oneLine(t.Name, 80), oneLine(err.Error(), 120))
	}
	r := &remote{link: l, name: t.Name}
	r.spec.Class = event.ClassMCP
	r.spec.Schema = schema
	r.spec.Description = tame(cmp.Or(t.Description, t.Title, t.Name), descriptionLimit)
	return r
}

// ready returns a connection that is alive. If the last one is not, one attempt is made to have another.
func (l *link) ready(ctx context.Context) (*peer, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	p := l.peer
	l.mu.Unlock()
	if !p.over() {
		return p, nil
	}
	if l.hub.closed.Load() {
		return nil, errOver
	}
	limited, cancel := l.limit(ctx)
	defer cancel()
	p, err := l.connect(limited)
	if err != nil {
		return nil, fmt.Errorf("it is gone, and does not come back: %s", brief(err))
	}
	l.mu.Lock()
	l.peer = p
	l.status.State, l.status.Err = Ready, ""
	l.mu.Unlock()
	l.say("is there again")
	l.watch(p)
	return p, nil
}

// watch tells when a connection ends by itself.
func (l *link) watch(p *peer) {
	l.hub.work.Go(func() {
		<-p.done
		if l.hub.closed.Load() {
			return
		}
		why := p.why()
		l.mu.Lock()
		l.status.State, l.status.Err = Gone, why
		l.mu.Unlock()
		l.trouble("is gone: %s", why)
		p.shut()
	})
}

func (l *link) close() {
	l.turn <- struct{}{} // nobody connects any more: the hub's context has ended
	defer func() { <-l.turn }()
	l.mu.Lock()
	p := l.peer
	l.mu.Unlock()
	if p != nil {
		p.close()
	}
}

// call calls a tool. Progress goes to out until call returns. An error says what happened to the call, in one line.
func (l *link) call(ctx context.Context, name string, arguments event.Raw, out func(string)) (*sdk.CallToolResult, error) {
	timed, cancel := l.within(ctx, l.server.Timeout, "no answer within")
	defer cancel()
	p, err := l.ready(timed)
	if err != nil {
		return nil, err
	}
	params := &sdk.CallToolParams{Name: name, Arguments: arguments}
	token, release := p.listen(out)
	defer release()
	params.SetProgressToken(token)
	result, err := p.session.CallTool(timed, params)
	if err == nil {
		return result, nil
	}
	if timed.Err() != nil {
		p.givenUp.Add(1)
	}
	if e, ok := answered(err); ok {
		return nil, fmt.Errorf("it refused the call: %s", oneLine(e.Message, lineLimit))
	}
	return nil, p.explain(timed, err)
}

// trouble says that something is wrong with the server.
func (l *link) trouble(format string, args ...any) {
	l.hub.emit(event.Error{
		Class: "mcp", Name: "MCPError", Source: l.server.Name, Retryable: new(false),
		Message: l.about(format, args...),
	})
}

// say says something about the server that a person may want to know.
func (l *link) say(format string, args ...any) {
	l.hub.emit(event.Notice{Text: l.about(format, args...)})
}

// sayOnce says what a server could make us say without end.
func (l *link) sayOnce(format string, args ...any) {
	l.mu.Lock()
	told := l.said[format]
	l.said[format] = true
	l.mu.Unlock()
	if !told {
		l.say(format, args...)
	}
}

func (l *link) about(format string, args ...any) string {
	return fmt.Sprintf("MCP server %s "+format, append([]any{oneLine(l.server.Name, 80)}, args...)...)
}
