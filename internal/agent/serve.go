package agent

import (
	"context"
	"fmt"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// Serve answers what comes through the inbox, one message after the other, until it is closed and everything is answered, or
// ctx ends. It returns how the last reply ended, and what all of them used.
func (s *Session) Serve(ctx context.Context, inbox <-chan event.Command) outcome.Verdict {
	var (
		last    = outcome.Verdict{Outcome: event.Done}
		waiting []event.Message
		now     *reply // the one that goes on
		usage   event.Usage
		cost    event.Cost
	)
	over := func(v outcome.Verdict) {
		usage, cost = usage.Add(v.Usage), cost.Add(v.Cost)
		last, now = v, nil
		last.Usage, last.Cost = usage, cost
	}
	for {
		if now == nil && len(waiting) > 0 && ctx.Err() == nil && last.Outcome != event.Internal {
			now, waiting = s.begin(ctx, waiting[0]), waiting[1:]
		}
		switch {
		case now != nil:
		case last.Outcome == event.Internal:
			return last
		case ctx.Err() != nil && (inbox != nil || len(waiting) > 0): // there would have been more to do
			v := outcome.Ended(ctx)
			v.Usage, v.Cost, v.Denials, v.Denied = usage, cost, last.Denials, last.Denied
			return v
		case inbox == nil:
			return last
		}
		var done <-chan outcome.Verdict
		if now != nil {
			done = now.done
		}
		select {
		case v := <-done:
			over(v)
		case <-ctx.Done():
			if now != nil {
				over(<-done)
			}
		case c, ok := <-inbox:
			switch c := c.(type) {
			case nil:
				if !ok {
					inbox = nil
				}
			case event.Message:
				waiting = append(waiting, c)
			case event.Stop:
				if now != nil {
					now.stop(outcome.Stopped)
				}
			default:
				s.command(c)
			}
		}
	}
}

// Stop ends the reply that goes on, if there is one.
func (s *Session) Stop(why *outcome.Cause) {
	s.mu.Lock()
	now := s.latest
	s.mu.Unlock()
	if now != nil {
		now.stop(why)
	}
}

// Idle says whether no reply goes on.
func (s *Session) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest == nil || s.latest.over.Load()
}

// Change changes what the session is made of, from the next message on. The model is opened anew.
func (s *Session) Change(f func(*Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, f)
}

// change makes the changes that came since the last reply was begun. Nothing else runs meanwhile.
func (s *Session) change() {
	s.mu.Lock()
	changes := s.changes
	s.changes = nil
	s.mu.Unlock()
	if len(changes) == 0 {
		return
	}
	for _, f := range changes {
		f(&s.cfg)
	}
	s.arm()
	s.model.mu.Lock()
	s.model.m = nil
	s.model.mu.Unlock()
}

// command does what needs no reply.
func (s *Session) command(c event.Command) {
	switch c := c.(type) {
	case event.Approve:
		s.relay(c.Call, gate.Answer{Allow: true, Scope: c.Scope, By: event.ByClient})
	case event.Deny:
		if c.Reason == "" {
			c.Reason = "User denied"
		}
		s.relay(c.Call, gate.Answer{Reason: c.Reason, By: event.ByClient})
	case event.SetMode:
		if err := s.cfg.Gate.SetMode(c.Mode); err != nil {
			s.Protest(err.Error())
			return
		}
		s.emit(event.Notice{Text: "mode is now " + c.Mode})
	case event.History:
		s.mu.Lock()
		late := s.latest != nil
		s.mu.Unlock()
		if late {
			s.Protest("history comes too late: the first message was answered already")
			return
		}
		s.emit(event.Prompt{Text: c.Text, Source: event.SourceHistory})
	}
}

// relay passes a client's word to the gate. A word about nothing is told, and does no harm.
func (s *Session) relay(call string, a gate.Answer) {
	s.mu.Lock()
	request, asked := s.asked[call]
	s.mu.Unlock()
	if !asked {
		s.Protest(fmt.Sprintf("no call %q waits for an answer", call))
		return
	}
	if err := s.cfg.Gate.Answer(request, a); err != nil {
		s.Protest(fmt.Sprintf("call %q: %v", call, err))
	}
}

// Protest says that a client's command made no sense. The conversation goes on.
func (s *Session) Protest(why string) {
	s.emit(event.Error{Code: "protocol_error", Class: "protocol", Message: why, Source: "client", Retryable: new(false)})
}
