package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/acp"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/rpc"
)

// An acpSession is one run, as a client of the protocol sees it: where its stream goes, who answers its questions, and the door
// that the client's prompts come through.
type acpSession struct {
	server   *acpServer
	commands chan event.Command
	ready    chan struct{} // it can be asked
	ended    chan struct{} // its run is over

	mu      sync.Mutex
	id      string
	replays bool // what is told now happened before
	teller  acp.Teller
	waiting map[string]*rpc.Request // prompts that have no answer yet, by their id
	trouble map[string]string       // why a reply failed, by its prompt
	calls   map[string]string       // the call that a question is about
	reason  string                  // why the run failed
	count   int
	dir     string // of files that the client sent
}

func newACPSession(s *acpServer, cwd string) *acpSession {
	return &acpSession{
		server: s, commands: make(chan event.Command, 16), ready: make(chan struct{}), ended: make(chan struct{}),
		teller: acp.Teller{Cwd: cwd}, waiting: map[string]*rpc.Request{}, trouble: map[string]string{}, calls: map[string]string{},
	}
}

// door lets the client's commands in, until the run ends.
func (a *acpSession) door(ctx context.Context, _ *runner, inbox chan<- event.Command) {
	close(a.ready)
	for {
		select {
		case c := <-a.commands:
			select {
			case inbox <- c:
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// send gives the session a command, if it still takes any.
func (a *acpSession) send(c event.Command) bool {
	select {
	case a.commands <- c:
		return true
	case <-a.ended:
		return false
	}
}

// Recall tells the client what was said before the session was loaded.
func (a *acpSession) Recall(e event.Event) {
	a.mu.Lock()
	a.replays = true
	a.mu.Unlock()
	_ = a.Put(e) // a client that has gone is known by the reader
}

// Put tells the client what happens.
func (a *acpSession) Put(e event.Event) error {
	a.mu.Lock()
	if a.id == "" {
		a.id = e.Session
	}
	if b, ok := e.Body.(event.GateAsked); ok {
		a.calls[b.Request] = e.Call
	}
	if b, ok := e.Body.(event.RunStarted); ok {
		a.teller.Cwd = first(b.Cwd, a.teller.Cwd)
	}
	_, mine := e.Body.(event.Prompt)
	var updates []any
	if !mine || a.replays { // the client knows what it has just said itself
		updates = a.teller.Tell(e)
	}
	if _, live := e.Body.(event.Catalog); live {
		a.replays = false
	}
	id := a.id
	a.mu.Unlock()
	for _, u := range updates {
		if err := a.server.conn.Notify(a.server.ctx, "session/update", acp.Update{Session: id, Update: u}); err != nil && !errors.Is(err, rpc.ErrClosed) && a.server.ctx.Err() == nil {
			return err
		}
	}
	a.conclude(e)
	return nil
}

// conclude answers the prompt whose reply has ended.
func (a *acpSession) conclude(e event.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b, ok := e.Body.(event.Error); ok && b.Prompt != "" {
		a.trouble[b.Prompt] = b.Message
	}
	if end, ok := event.AsRunEnd(e.Body); ok {
		a.reason = end.Reason
	}
	end, ok := event.AsReplyEnd(e.Body)
	if !ok || e.Agent != "" {
		return
	}
	q := a.waiting[end.Prompt]
	delete(a.waiting, end.Prompt)
	why := a.trouble[end.Prompt]
	delete(a.trouble, end.Prompt)
	if q == nil {
		return
	}
	stop, ok := acpStops[end.Stop]
	if _, failed := e.Body.(event.ReplyFailed); failed && !ok {
		_ = q.Fail(rpc.Errorf(acpFailed, "%s", first(why, end.Stop, "the reply failed")))
		return
	}
	if _, cancelled := e.Body.(event.ReplyCancelled); cancelled {
		stop = "cancelled"
	}
	_ = q.Reply(map[string]any{"stopReason": first(stop, "end_turn"), "usage": acpUsage(end.Usage)})
}

// acpFailed is the protocol's code for what went wrong inside.
const acpFailed = -32603

// acpStops are the protocol's words for why a reply ended.
var acpStops = map[string]string{
	"end_turn": "end_turn", "stop_sequence": "end_turn", "max_tokens": "max_tokens", "max_turn_requests": "max_turn_requests",
	"refusal": "refusal", "cancelled": "cancelled",
}

func acpUsage(u event.Usage) map[string]int64 {
	m, total := map[string]int64{}, int64(0)
	for name, n := range map[string]*int64{
		"inputTokens": u.Input, "outputTokens": u.Output, "thoughtTokens": u.Reasoning, "cachedReadTokens": u.CacheRead, "cachedWriteTokens": u.CacheWrite,
	} {
		if n != nil {
			m[name] = *n
			total += *n
		}
	}
	if len(m) > 0 {
		m["totalTokens"] = total
	}
	return m
}

// Asked passes a question on to the client.
func (a *acpSession) Asked(q event.GateAsked, answer func(gate.Answer) error) {
	a.mu.Lock()
	call := a.teller.Call(a.calls[q.Request])
	delete(a.calls, q.Request)
	id := a.id
	a.mu.Unlock()
	request := acp.PermissionRequest{Session: id, Call: call}
	for _, o := range q.Options {
		request.Options = append(request.Options, acp.Option{ID: o.ID, Name: first(o.Name, o.ID), Kind: o.Kind})
	}
	go func() {
		var said acp.PermissionAnswer
		err := a.server.conn.Call(a.server.ctx, "session/request_permission", request, &said)
		switch {
		case err != nil:
			err = answer(gate.Answer{By: event.ByClient, Reason: "the client could not be asked: " + err.Error()})
		case said.Outcome.Outcome == "selected":
			err = answer(gate.Answer{By: event.ByClient, Option: said.Outcome.Option})
			if errors.Is(err, gate.ErrOption) {
				err = answer(gate.Answer{By: event.ByClient, Reason: fmt.Sprintf("the client chose %q, which was not offered", said.Outcome.Option)})
			}
		default:
			err = answer(gate.Answer{By: event.ByClient, Reason: "the client cancelled it"})
		}
		_ = err // late: the call was cancelled meanwhile
	}()
}

// over says that the run is over. What still waits gets an answer.
func (a *acpSession) over(int) {
	a.mu.Lock()
	waiting := a.waiting
	a.waiting = nil
	dir, why := a.dir, a.reason
	a.mu.Unlock()
	for _, q := range waiting {
		_ = q.Fail(rpc.Errorf(acpFailed, "%s", first(why, "the session is over")))
	}
	if dir != "" {
		os.RemoveAll(dir)
	}
	close(a.ended)
}

func (a *acpSession) why() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reason
}

// prompt gives a session something to answer. The request is answered when the reply has ended.
func (s *acpServer) prompt(q *rpc.Request) {
	var p sessionParams
	if err := q.Decode(&p); err != nil {
		_ = q.Fail(err)
		return
	}
	a := s.session(p.Session)
	if a == nil {
		_ = q.Fail(rpc.Errorf(rpc.CodeParams, "there is no session %q; session/new opens one, session/load goes on with one", p.Session))
		return
	}
	m, err := a.message(p.Prompt)
	if err != nil {
		_ = q.Fail(rpc.Errorf(rpc.CodeParams, "%v", err))
		return
	}
	a.mu.Lock()
	open := a.waiting != nil
	if open {
		a.waiting[m.ID] = q
	}
	a.mu.Unlock()
	if !open || !a.send(m) {
		_ = q.Fail(rpc.Errorf(acpFailed, "the session is over"))
	}
}

// setMode changes the mode of a session.
func (s *acpServer) setMode(q *rpc.Request) {
	var p sessionParams
	if err := q.Decode(&p); err != nil {
		_ = q.Fail(err)
		return
	}
	a := s.session(p.Session)
	mode, err := gate.ParseMode(p.Mode)
	switch {
	case a == nil:
		err = rpc.Errorf(rpc.CodeParams, "there is no session %q", p.Session)
	case err != nil:
		err = rpc.Errorf(rpc.CodeParams, "%v", err)
	case !a.send(event.SetMode{Mode: mode}):
		err = rpc.Errorf(acpFailed, "the session is over")
	}
	if err != nil {
		_ = q.Fail(err)
		return
	}
	_ = q.Reply(struct{}{})
	go func() {
		_ = s.conn.Notify(s.ctx, "session/update", acp.Update{Session: p.Session, Update: acp.ModeUpdate{Kind: "current_mode_update", Mode: mode}})
	}()
}

// modes are what a client may choose from.
func (a *acpSession) modes(current string) acp.Modes {
	return acp.Modes{Current: current, Available: []acp.Mode{
		{ID: gate.ModeDefault, Name: "Default", Description: "asks about what no rule allows"},
		{ID: gate.ModeAutoEdit, Name: "Auto edit", Description: "looks and edits without asking"},
		{ID: gate.ModeYolo, Name: "Yolo", Description: "asks about nothing"},
	}}
}

// message makes a message of a prompt's blocks. What is not text becomes a file that goes with it.
func (a *acpSession) message(blocks []acp.ContentBlock) (event.Message, error) {
	a.mu.Lock()
	a.count++
	m := event.Message{ID: fmt.Sprintf("%s-%d", a.id, a.count), Source: "client"}
	a.mu.Unlock()
	var text []string
	for _, b := range blocks {
		switch {
		case b.Type == "text":
			text = append(text, b.Text)
		case b.Type == "resource_link" && strings.HasPrefix(b.URI, "file:"):
			path, err := filePath(b.URI)
			if err != nil {
				return m, err
			}
			m.Files = append(m.Files, path)
		case b.Type == "resource_link":
			text = append(text, b.URI)
		case b.Type == "resource" && b.Resource != nil:
			text = append(text, b.Resource.URI+":\n"+b.Resource.Text)
		case b.Type == "image":
			path, err := a.keep(b)
			if err != nil {
				return m, err
			}
			m.Files = append(m.Files, path)
		default:
			return m, fmt.Errorf("content of type %q is not taken", b.Type)
		}
	}
	m.Text = strings.Join(text, "\n\n")
	if strings.TrimSpace(m.Text) == "" && len(m.Files) == 0 {
		return m, errors.New("the prompt is empty")
	}
	return m, nil
}

// filePath is the path of a file: address.
func filePath(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Path == "" {
		return "", fmt.Errorf("%q names no file", address)
	}
	return filepath.FromSlash(u.Path), nil
}

// keep writes an image down, so that it can be attached as any file is.
func (a *acpSession) keep(b acp.ContentBlock) (path string, err error) {
	data, err := base64.StdEncoding.DecodeString(b.Data)
	if err != nil {
		return "", fmt.Errorf("an image that is not base64: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dir == "" {
		if a.dir, err = os.MkdirTemp("", "sluice-acp-"); err != nil {
			return "", err
		}
	}
	f, err := os.CreateTemp(a.dir, "image-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
}
