package guest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// A reply is what a guest says to one message.
type reply struct {
	prompt string // its id
	text   string
	files  []string
	sent   bool // the guest was asked

	said    *said            // how the guest says that it ended
	problem *event.Error     // the last that went wrong
	told    string           // the last of it that was told
	halted  *outcome.Verdict // why we stop it
	limit   <-chan time.Time // when we wait no longer: for a guest that shall stop, or leave
	leaving bool             // it has said its last word and may go
}

// said is a guest's word on the end of a reply.
type said struct {
	end     event.ReplyEnd
	outcome event.Outcome // done, failed or cancelled
	of      uint64
}

// Serve answers what comes through the inbox, one message after the other, until it is closed and everything is answered, or
// ctx ends. It returns how the last reply ended; by then the guest is gone, and all that it started. If it is asked to serve again,
// it comes back to the same conversation.
func (s *Session) Serve(ctx context.Context, inbox <-chan event.Command) outcome.Verdict {
	var (
		last    = outcome.Verdict{Outcome: event.Done}
		waiting []event.Message
		ended   = ctx.Done()
		tick    = time.NewTimer(time.Hour)
	)
	s.over = make(chan struct{})
	defer s.rest(ctx)
	if s.stayed {
		s.catchUp()
	}
	defer tick.Stop()
	for {
		if s.now == nil && len(waiting) > 0 && ctx.Err() == nil {
			s.begin(waiting[0])
			waiting = waiting[1:]
		}
		s.ask()
		if ended != nil && ctx.Err() != nil { // before the guest's own word on the end, if it came before
			ended = nil
			s.halt(outcome.Ended(ctx))
		}
		if r := s.now; r != nil && r.said != nil {
			if s.settled(inbox == nil && len(waiting) == 0) {
				last = s.conclude()
				continue
			}
		}
		if s.now == nil && (inbox == nil || ctx.Err() != nil) {
			return last
		}
		if wait := s.waits(); wait > 0 {
			tick.Reset(wait)
		}
		var limit <-chan time.Time
		if s.now != nil {
			limit = s.now.limit
		}
		select {
		case w := <-s.heard():
			s.hear(w)
		case a := <-s.answers:
			s.answered(a)
		case <-tick.C:
		case <-limit:
			s.now.limit = nil
			if h := s.now.halted; h != nil && h.Stop == "cancelled" && s.link.on != nil {
				h.Stop = "cancelled_forced"
			}
			go s.link.end()
		case <-s.greeting:
			s.greeting = nil
			if s.link != nil && !s.tongue.ready() {
				s.fail(fmt.Sprintf("%s did not become ready, and said nothing for %s", s.guest.name, s.cfg.Greeting))
			}
		case <-ended:
			ended = nil
			s.halt(outcome.Ended(ctx))
		case c, ok := <-inbox:
			switch c := c.(type) {
			case nil:
				if !ok {
					inbox = nil
				}
			case event.Message:
				waiting = append(waiting, c)
			case event.Stop:
				s.halt(outcome.Verdict{Outcome: event.Cancelled, Stop: "cancelled", Reason: outcome.Stopped.Reason})
			default:
				s.command(c)
			}
		}
	}
}

// heard is where words of the process come from, if it runs.
func (s *Session) heard() <-chan word {
	if s.link == nil {
		return nil
	}
	return s.link.words
}

// waits says when the tongue wants to be asked again.
func (s *Session) waits() time.Duration {
	if s.link == nil {
		return 0
	}
	return s.tongue.tick()
}

// begin opens a reply. A guest that is gone is called back.
func (s *Session) begin(m event.Message) {
	r := &reply{prompt: m.ID, text: m.Text, files: m.Files}
	if r.prompt == "" {
		r.prompt = s.name("m")
	}
	if m.Source == "" {
		m.Source = "client"
	}
	s.now = r
	s.calls = map[string]*call{}
	s.tell(event.Event{Body: event.Prompt{ID: r.prompt, Text: m.Text, Files: m.Files, Source: m.Source}})
	if s.history != "" {
		r.text = s.history + "\n\n" + r.text
		s.history = ""
	}
	switch {
	case s.link == nil:
		if err := s.start(s.id); err != nil {
			s.fail(err.Error())
		}
	case s.amiss != "":
		s.fail(s.amiss)
	}
}

// ask asks the guest, once it can be asked.
func (s *Session) ask() {
	r := s.now
	if r == nil || r.sent || r.said != nil || s.link == nil || !s.tongue.ready() {
		return
	}
	r.sent, s.greeting = true, nil
	s.tongue.prompt(r.text, r.files)
}

// fail ends the reply for a reason that the guest has not told as a reply's end.
func (s *Session) fail(why string) {
	r := s.now
	if r == nil {
		s.amiss = why // for the next one
		return
	}
	if r.said == nil {
		r.problem = &event.Error{Message: why}
		r.said = &said{outcome: event.Failed, end: event.ReplyEnd{Stop: "error", Inferred: true}}
	}
}

// settled says whether the reply can be ended now. Where nothing will be asked any more, a guest whose exit code counts is
// given the time to leave.
func (s *Session) settled(last bool) bool {
	r := s.now
	if !last || !s.guest.leaves || s.cfg.Stay || s.link == nil || r.halted != nil || r.said.outcome != event.Done {
		return true
	}
	if !r.leaving {
		r.leaving = true
		r.limit = time.After(s.cfg.Grace)
		s.link.hangUp()
	}
	return false
}

// halt stops the reply that goes on.
func (s *Session) halt(why outcome.Verdict) {
	r := s.now
	if r == nil || r.halted != nil {
		return
	}
	r.halted = &why
	for _, q := range s.asks {
		q.withdraw()
	}
	switch {
	case !r.sent || s.link == nil:
		r.said = &said{outcome: event.Cancelled, end: event.ReplyEnd{Inferred: true}}
	case r.said == nil:
		s.tongue.interrupt()
		r.limit = time.After(s.cfg.Grace)
	}
}

// conclude ends the reply, and says so.
func (s *Session) conclude() outcome.Verdict {
	r := s.now
	s.closeAsks(r)
	v := s.verdict(r)
	v.Usage, v.Cost, v.Denials, v.Denied = r.said.end.Usage, r.said.end.Cost, s.denials, s.denied
	if s.cfg.Judge != nil {
		v = s.cfg.Judge(v)
	}
	s.closeCalls(v)
	end := r.said.end
	end.Prompt, end.Stop = r.prompt, v.Stop
	h := event.Header{Of: r.said.of}
	switch v.Outcome {
	case event.Done:
		s.put(event.Event{Header: h, Body: event.ReplyDone(end)})
	case event.Cancelled:
		s.put(event.Event{Header: h, Body: event.ReplyCancelled(end)})
	default:
		if v.Reason != r.told {
			s.put(event.Event{Body: v.Problem(r.prompt, s.cfg.Model)})
		}
		s.put(event.Event{Header: h, Body: event.ReplyFailed(end)})
	}
	s.now = nil
	return v
}

// closeAsks denies what a guest asked and then did not wait for. If it says that it is done all the same, that counts as any other
// denial does: an answer may have been on its way.
func (s *Session) closeAsks(r *reply) {
	const why = "the reply is over"
	for _, q := range slices.SortedFunc(maps.Values(s.asks), func(a, b *question) int { return a.call.number - b.call.number }) {
		q.withdraw()
		delete(s.asks, q.asked.Request)
		s.tellOf(q.call, gate.Answer{Reason: why, By: event.ByNobody}.Event(q.asked))
		if r.halted == nil && r.said.outcome == event.Done {
			q.call.denied = why
			s.deny(why)
		}
	}
}

// verdict is what we believe of a reply.
func (s *Session) verdict(r *reply) outcome.Verdict {
	o := r.said.outcome
	if h := r.halted; h != nil && (o != event.Done || h.Outcome != event.Cancelled || h.Code != "") {
		return *h
	}
	v := outcome.Verdict{Outcome: o, Stop: r.said.end.Stop}
	switch o {
	case event.Cancelled:
		v.Stop, v.Reason = "cancelled", s.guest.name+" says that it was interrupted"
	case event.Failed:
		v.Reason = s.guest.name + " says that it failed: " + v.Stop
		if p := r.problem; p != nil {
			v.Reason, v.Class, v.Code = p.Message, p.Class, p.Code
			if p.Retryable != nil && *p.Retryable {
				v.Outcome = event.Unavailable
			}
		}
	}
	return v
}

// exited takes the end of the process.
func (s *Session) exited(how string, good bool) {
	how = first(s.link.fault(), how)
	s.tongue.end()
	s.link.kill() // what it left behind
	s.link.close()
	s.link = nil
	r := s.now
	switch {
	case r == nil:
	case r.said == nil && r.halted != nil:
		r.said = &said{outcome: event.Cancelled, end: event.ReplyEnd{Inferred: true}}
	case r.said == nil:
		s.fail(fmt.Sprintf("%s ended before it had answered (%s)", s.guest.name, how))
	case r.leaving && r.limit != nil && !good: // not because we lost patience
		r.problem = &event.Error{Message: fmt.Sprintf("%s said that it was done, and then failed (%s)", s.guest.name, how)}
		r.said.outcome, r.said.of, r.said.end.Stop, r.said.end.Inferred = event.Failed, 0, "error", true
	}
	if r != nil {
		r.leaving = false
	}
}

// rest is what follows when all is answered: the guest leaves, unless it is to stay.
func (s *Session) rest(ctx context.Context) {
	if s.stayed = s.cfg.Stay && ctx.Err() == nil; s.stayed {
		close(s.over)
		return
	}
	s.leave()
}

// catchUp takes what a guest that stayed has said meanwhile: it may have gone.
func (s *Session) catchUp() {
	for s.link != nil {
		select {
		case w := <-s.link.words:
			s.hear(w)
		case <-time.After(5 * time.Millisecond):
			return
		}
	}
}

// leave ends the process, if it is still there, and all that it started. What it says meanwhile is kept.
func (s *Session) leave() {
	defer close(s.over)
	for _, q := range s.asks {
		q.withdraw()
	}
	if s.link == nil {
		return
	}
	hang, limit := time.After(s.guest.linger), time.After(s.guest.linger+s.cfg.Grace)
	for s.link != nil {
		select {
		case w := <-s.link.words:
			s.hear(w)
		case a := <-s.answers:
			s.answered(a)
		case <-hang:
			s.link.hangUp()
			if s.link.on != nil { // nobody tells a terminal that it is over
				go s.link.kill()
			}
		case <-limit:
			go s.link.end()
		}
	}
}

// command does what needs no reply.
func (s *Session) command(c event.Command) {
	switch c := c.(type) {
	case event.Approve:
		s.relay(c.Call, gate.Answer{Allow: true, Scope: c.Scope, By: event.ByClient})
	case event.Deny:
		s.relay(c.Call, gate.Answer{Reason: c.Reason, By: event.ByClient})
	case event.SetMode:
		if s.guest.unasked && c.Mode != gate.ModeYolo {
			s.protest(fmt.Sprintf("%s asks nobody before it acts: the mode %q would not hold it", s.guest.name, c.Mode))
			return
		}
		if err := s.cfg.Gate.SetMode(c.Mode); err != nil {
			s.protest(err.Error())
			return
		}
		s.tell(event.Event{Body: event.Notice{Text: "mode is now " + c.Mode}})
	case event.History:
		s.history += c.Text
	default:
		s.protest(fmt.Sprintf("a guest cannot do this: %T", c))
	}
}

// relay passes a client's word to the gate. A word about nothing is told, and does no harm.
func (s *Session) relay(call string, a gate.Answer) {
	request := ""
	for _, q := range s.asks {
		if q.call.id == call {
			request = q.asked.Request
		}
	}
	if err := s.cfg.Gate.Answer(request, a); err != nil {
		s.protest(fmt.Sprintf("call %q: %v", call, err))
	}
}

// protest says that a client's command made no sense. The conversation goes on.
func (s *Session) protest(why string) {
	s.put(event.Event{Body: event.Error{Code: "protocol_error", Class: "protocol", Message: why, Source: "client", Retryable: new(false)}})
}
