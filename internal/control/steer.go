package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/rpc"
	"github.com/sluice-dev/sluice/internal/wire"
)

// This file has the methods that change something.

// A Prompt asks for a reply.
type Prompt struct {
	RuntimeID string `json:"runtime_id,omitempty"`
	Text      string `json:"text"`
	RequestID string `json:"request_id,omitempty"` // of the prompt, which its reply carries
	KeepQueue bool   `json:"keep_queue,omitempty"` // with an interrupt: what waits is answered afterwards
}

// ask reads the parameters of a prompt.
func (g *guest) ask(r *rpc.Request) (*served, Prompt, error) {
	var p Prompt
	if err := r.Decode(&p); err != nil {
		return nil, p, err
	}
	if p.Text == "" {
		return nil, p, needed("text", "a prompt has a text")
	}
	run, err := g.server.find(p.RuntimeID)
	if err != nil {
		return nil, p, err
	}
	return run, p, run.alive()
}

// alive is an error if nothing can be asked of the run any more.
func (r *served) alive() error {
	s, _, err := r.status()
	if err == nil && s.State == "ended" {
		return rpc.Errorf(rpc.CodeFailed, "the run %s is over", r.info.ID)
	}
	return err
}

// accepted is the answer to what will be done.
type accepted struct {
	RuntimeID string `json:"runtime_id,omitempty"`
	Accepted  bool   `json:"accepted"`
	OK        bool   `json:"ok"`
}

func (g *guest) prompt(r *rpc.Request) (any, error) {
	run, p, err := g.ask(r)
	if err == nil {
		err = run.Send(event.Message{ID: p.RequestID, Text: p.Text})
	}
	if err != nil {
		return nil, err
	}
	return accepted{run.info.ID, true, true}, nil
}

func (g *guest) interrupt(r *rpc.Request) (any, error) {
	run, p, err := g.ask(r)
	if err == nil {
		err = run.Interrupt(event.Message{ID: p.RequestID, Text: p.Text}, p.KeepQueue)
	}
	if err != nil {
		return nil, err
	}
	return accepted{run.info.ID, true, true}, nil
}

func (g *guest) cancel(r *rpc.Request) (any, error) {
	run, err := g.of(r)
	if err == nil {
		err = run.alive()
	}
	if err == nil {
		err = run.Cancel("cancelled over the control socket")
	}
	if err != nil {
		return nil, err
	}
	return accepted{run.info.ID, true, true}, nil
}

// An Answer answers an open question.
type Answer struct {
	RuntimeID string `json:"runtime_id,omitempty"`
	RequestID string `json:"request_id"`
	OptionID  string `json:"option_id,omitempty"`
	Outcome   string `json:"outcome,omitempty"` // selected, if it does not say; or cancelled, which denies
	Message   string `json:"message,omitempty"` // for the model and the record
}

func (g *guest) answer(r *rpc.Request) (any, error) {
	var p Answer
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	switch {
	case p.RequestID == "":
		return nil, needed("request_id", "say which question is answered")
	case p.Outcome != "" && p.Outcome != Selected && p.Outcome != Cancelled:
		return nil, needed("outcome", "there is no outcome %q: it is selected or cancelled", p.Outcome)
	case p.OptionID == "" && p.Outcome != Cancelled:
		return nil, needed("option_id", "say which option is chosen")
	case len(p.Message) > maxMessage:
		return nil, needed("message", "a message has at most %d bytes", maxMessage)
	}
	run, asked, err := g.asked(p)
	if err != nil {
		return nil, err
	}
	a := gate.Answer{Option: p.OptionID, Reason: p.Message, By: event.ByControl}
	if p.Outcome == Cancelled {
		a.Option = ""
	}
	err = run.Answer(p.RequestID, a)
	switch {
	case errors.Is(err, gate.ErrOption):
		e := rpc.Errorf(rpc.CodeParams, "%v", err)
		e.Data, _ = json.Marshal(map[string]any{"required": "option_id", "options": asked.Options})
		return nil, e
	case errors.Is(err, gate.ErrLate), errors.Is(err, gate.ErrUnknown):
		return nil, rpc.Errorf(CodeNoPending, "no_pending_permission: %v", err)
	case err != nil:
		return nil, err
	}
	return accepted{run.info.ID, true, true}, nil
}

// asked finds the run that asks a question, and the question if it is open.
func (g *guest) asked(p Answer) (*served, Permission, error) {
	runs := g.server.list()
	if p.RuntimeID != "" {
		run, err := g.server.find(p.RuntimeID)
		if err != nil {
			return nil, Permission{}, err
		}
		runs = []*served{run}
	}
	var found *served
	var question Permission
	for _, run := range runs {
		s, _, err := run.status()
		if err != nil {
			return nil, question, err
		}
		i := slices.IndexFunc(s.Permissions, func(q Permission) bool { return q.RequestID == p.RequestID })
		switch {
		case i < 0:
		case found != nil:
			return nil, question, needed("runtime_id", "several runs ask a question %q: say which one is meant", p.RequestID)
		default:
			found, question = run, s.Permissions[i]
		}
	}
	if found == nil && len(runs) == 1 {
		found = runs[0] // the gate knows whether it ever was
	}
	if found == nil {
		return nil, question, rpc.Errorf(CodeNoPending, "no_pending_permission: no run asks a question %q", p.RequestID)
	}
	return found, question, nil
}

func (g *guest) emit(r *rpc.Request) (any, error) {
	var p struct {
		RuntimeID string          `json:"runtime_id"`
		Event     json.RawMessage `json:"event"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	own, err := Custom(p.Event)
	if err != nil {
		return nil, needed("event", "%v", err)
	}
	run, err := g.server.find(p.RuntimeID)
	if err == nil {
		err = run.alive()
	}
	if err == nil {
		err = run.Emit(own)
	}
	if err != nil {
		return nil, err
	}
	return accepted{run.info.ID, true, true}, nil
}

// Custom reads somebody's own event: an object with a name. The rest of it stays as it is.
func Custom(raw []byte) (event.Custom, error) {
	var doc wire.Doc
	if err := doc.Parse(raw); err != nil {
		return event.Custom{}, fmt.Errorf("the event is not JSON: %w", err)
	}
	name := doc.Root().Get("event").Text()
	if name == "" {
		return event.Custom{}, errors.New(`an event is an object that has a name: {"event":"my.event", …}`)
	}
	fields := []byte{'{'}
	for key, value := range doc.Root().All() {
		if key == "event" {
			continue
		}
		if len(fields) > 1 {
			fields = append(fields, ',')
		}
		fields = append(append(wire.AppendString(fields, key), ':'), value.Raw()...)
	}
	return event.Custom{Name: name, Fields: append(fields, '}')}, nil
}

func (g *guest) spawn(r *rpc.Request) (any, error) {
	if g.server.o.Spawn == nil {
		return nil, rpc.Errorf(rpc.CodeMethod, "this socket is one run's: it begins no others")
	}
	var p Spawn
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	run, err := g.server.o.Spawn(g.server.ctx, p)
	if err != nil {
		return nil, err
	}
	g.server.Add(run)
	served, err := g.server.find(run.Info().ID)
	if err != nil {
		return nil, err
	}
	s, _, err := served.status()
	return s, err
}

func (g *guest) shutdown(r *rpc.Request) (any, error) {
	var p struct {
		Mode string `json:"mode"`
	}
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	switch p.Mode {
	case "":
		p.Mode = "graceful"
	case "graceful", "kill":
	default:
		return nil, needed("mode", "there is no mode %q: it is graceful or kill", p.Mode)
	}
	if g.server.o.Shutdown != nil {
		_ = r.Reply(accepted{"", true, true}) // before nobody can hear it any more
		g.server.o.Shutdown(p.Mode)
		return nil, nil
	}
	for _, run := range g.server.list() {
		if run.alive() == nil {
			if err := run.Cancel("shut down over the control socket"); err != nil {
				return nil, err
			}
		}
	}
	return accepted{"", true, true}, nil
}
