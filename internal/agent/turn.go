package agent

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/provider"
)

// A turn is what came of asking the model once.
type turn struct {
	calls  []*call
	said   bool   // it said something to the user
	text   string // the last block of it
	used   event.Context
	finish event.Finish
	gone   *fold.Degeneration // it went nowhere, and was ended
	err    error
}

// ask asks the model for one answer and tells it as it comes.
func (r *reply) ask(ctx context.Context) (t turn) {
	r.turn++
	number := r.turn
	r.emit(event.TurnStarted{Number: number})
	end := event.TurnEnded{Finish: event.FinishError}
	m, err := r.open(ctx)
	if err == nil {
		end, err = r.listen(ctx, m, &t)
	}
	t.err = err
	t.finish = end.Finish
	end.Number, end.Provider, end.Model, end.Profile = number, r.cfg.Provider, r.cfg.Model, r.cfg.Profile
	end.Cost = r.cfg.Price.Cost(end.Usage)
	if in, ok := end.Usage.InputAll(); ok && r.cfg.Price.Window > 0 {
		out, _ := end.Usage.OutputAll()
		end.Context = event.Context{Used: in + out, Limit: r.cfg.Price.Window}
	}
	t.used = end.Context
	r.spend(end.Usage, end.Cost)
	r.emit(end)
	return t
}

// spend counts what an answer cost: for this reply, and for the one above that waits for it.
func (r *reply) spend(u event.Usage, c event.Cost) {
	r.Common.spend(u, c)
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := r; at != nil; at = at.parent {
		at.usage, at.cost = at.usage.Add(u), at.cost.Add(c)
	}
}

// open finds the model, when it is first needed.
func (s *Session) open(ctx context.Context) (provider.Model, error) {
	at := &s.model
	if s.own != nil {
		at = s.own
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.m == nil {
		m, err := s.cfg.Open(ctx)
		if err != nil {
			if !errors.As(err, new(*provider.Error)) {
				err = &provider.Error{Class: provider.NoKey, Message: err.Error(), Err: err}
			}
			return nil, err
		}
		at.m = m
	}
	return at.m, nil
}

// listen tells the model's answer. Blocks get their ids and times here, calls their titles.
func (r *reply) listen(ctx context.Context, m provider.Model, t *turn) (event.TurnEnded, error) {
	end := event.TurnEnded{Finish: event.FinishError}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var b block
	var d fold.Detector
	for e, err := range m.Answer(ctx, r.request(r.specs)) {
		if err != nil {
			return end, err
		}
		switch body := e.Body.(type) {
		case event.TextDelta:
			body.ID = b.delta(r.Session, "text")
			r.emit(body)
		case event.ThoughtDelta:
			body.ID = b.delta(r.Session, "thought")
			r.emit(body)
		case event.Text:
			body.ID, body.Start, body.End = b.whole(r.Session)
			if !body.Partial && strings.TrimSpace(body.Text) != "" {
				t.said, t.text = true, body.Text
			}
			r.emit(body)
		case event.Thought:
			body.ID, body.Start, body.End = b.whole(r.Session)
			r.emit(body)
		case event.ToolCalled:
			c := r.read(e.Call, body)
			t.calls = append(t.calls, c)
			r.emitOf(c.id, c.told)
		case event.TurnEnded:
			end = body
		default:
			r.emit(body)
		}
		if d.Apply(e.Stamp()); d.Found != nil && t.gone == nil {
			t.gone = d.Found
			stop() // what was said so far is told as a block that was cut
		}
	}
	if end.Finish == event.FinishError && ctx.Err() == nil {
		return end, &provider.Error{Class: provider.Cut, Message: "the answer ended before its end"}
	}
	return end, nil
}

// A block is the block that is open: deltas and the whole have one id.
type block struct {
	kind  string
	id    string
	start time.Time
}

func (b *block) delta(s *Session, kind string) string {
	if b.kind != kind {
		*b = block{kind, s.Common.next("b"), s.now()}
	}
	return b.id
}

func (b *block) whole(s *Session) (id string, start, end time.Time) {
	if b.kind == "" {
		*b = block{"", s.Common.next("b"), s.now()}
	}
	id, start = b.id, b.start
	*b = block{}
	return id, start, s.now()
}

func (s *Session) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Millisecond) }
