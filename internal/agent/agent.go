// Package agent is our own agent: a session with an inbox.
//
//	Command ──inbox──▶ Session ──┬── provider: one answer ──▶ blocks, calls
//	                             ├── gate: may this call pass?
//	                             └── tool: do it ──▶ events, all into one Source
//
// A message opens a reply. A reply is a row of turns: the model is asked, its calls pass the gate and run, their results go
// back to it, until it calls nothing more or something ends the reply. Every reply ends in one reply.* event; the run around
// it is ended by whoever started it.
//
// The history that the model is told is a fold over the events that were emitted, so a resumed session and one that never
// stopped say the same.
package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/gate"
	"github.com/sluice-dev/sluice/internal/provider"
	"github.com/sluice-dev/sluice/internal/tool"
)

// Config is what an agent is made of.
type Config struct {
	Open     func(context.Context) (provider.Model, error) // asked once, when the first answer is due
	Provider string                                        // named in events
	Model    string
	Profile  string
	System   string // what the model is told first
	Tools    []tool.Tool
	Gate     *gate.Gate
	Price    provider.Price // zero: unknown

	MaxTokens int    // of one answer; 0: the provider's usual
	Thinking  string // as [provider.Request] has it
	Turns     int    // answers in one reply; 0: no limit
	Rounds    int    // rounds of calls in one reply; 0: no limit
	Clip      int    // bytes of a call's output that the model is shown; 0: [DefaultClip]

	OnAsk  string        // what happens to a question that nobody answers: deny (or empty), fail
	Answer time.Duration // how long an answer may take; 0: for ever

	Changing func() // called before the first call that may change something, if set
	Now      func() time.Time
}

// DefaultClip is how much of an output a model is shown.
const DefaultClip = 30_000

// A Session is one conversation.
//
// Whoever owns the [event.Source] ends the context when it breaks: the session itself does not look at its errors.
type Session struct {
	cfg   Config
	src   *event.Source
	tools map[string]tool.Tool
	specs []provider.Tool
	model provider.Model

	mu      sync.Mutex
	history fold.Transcript
	ids     uint64            // the last number used for an id
	used    map[string]bool   // ids of calls
	asked   map[string]string // call → its question, the last one
	started bool              // a message was answered

	changing sync.Once
	turn     int // number of the last one
	denials  int
}

// New makes a session that emits into src. Events of an earlier life of the session are given to [Session.Recall] first.
func New(cfg Config, src *event.Source) *Session {
	if cfg.Clip == 0 {
		cfg.Clip = DefaultClip
	}
	s := &Session{cfg: cfg, src: src, tools: map[string]tool.Tool{}, used: map[string]bool{}, asked: map[string]string{}, ids: src.Last()}
	for _, t := range cfg.Tools {
		spec := t.Spec()
		s.tools[spec.Name] = t
		s.specs = append(s.specs, provider.Tool{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
	}
	return s
}

// Serve answers what comes through the inbox, one message after the other, until it is closed and everything is answered, or
// ctx ends. It returns how the last reply ended.
func (s *Session) Serve(ctx context.Context, inbox <-chan event.Command) Verdict {
	var (
		last    = Verdict{Outcome: event.Done}
		waiting []event.Message
		now     *reply // the one that goes on
	)
	for {
		if now == nil && len(waiting) > 0 && ctx.Err() == nil {
			now, waiting = s.begin(ctx, waiting[0]), waiting[1:]
		}
		if now == nil && (inbox == nil || ctx.Err() != nil) {
			return last
		}
		var done <-chan Verdict
		if now != nil {
			done = now.done
		}
		select {
		case last = <-done:
			now = nil
			if last.Outcome == event.Internal {
				return last
			}
		case <-ctx.Done():
			if now != nil {
				last, now = <-done, nil
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
					now.stop(Stopped)
				}
			default:
				s.command(c)
			}
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
		if err := s.cfg.Gate.SetMode(c.Mode); err != nil {
			s.protest(err.Error())
			return
		}
		s.emit(event.Notice{Text: "mode is now " + c.Mode})
	case event.History:
		s.mu.Lock()
		late := s.started
		s.mu.Unlock()
		if late {
			s.protest("history comes too late: the first message was answered already")
			return
		}
		s.emit(event.Prompt{Text: c.Text, Source: event.SourceHistory})
	}
}

// relay passes a client's word to the gate. A word about nothing is told, and does no harm.
func (s *Session) relay(call string, a gate.Answer) {
	s.mu.Lock()
	request := s.asked[call]
	s.mu.Unlock()
	if err := s.cfg.Gate.Answer(request, a); err != nil {
		s.protest(fmt.Sprintf("call %q: %v", call, err))
	}
}

// protest says that a client's command made no sense. The conversation goes on.
func (s *Session) protest(why string) {
	s.emit(event.Error{Code: "protocol_error", Class: "protocol", Message: why, Source: "client", Retryable: new(false)})
}

// emit tells what happened, and keeps it if the model is to know.
func (s *Session) emit(b event.Body) { s.emitOf("", b) }

func (s *Session) emitOf(call string, b event.Body) {
	e, err := s.src.Emit(event.Event{Header: event.Header{Call: call}, Body: b})
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(e)
}

// Recall tells the session what happened before it was resumed.
func (s *Session) Recall(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch b := e.Body.(type) {
	case event.TurnStarted:
		s.turn = max(s.turn, b.Number)
	case event.Prompt:
		s.started = s.started || b.Source != event.SourceHistory
	case event.ToolCalled:
		s.used[e.Call] = true
	}
	s.remember(e)
}

// remember keeps what belongs to the history, outputs cut to what a model is shown.
func (s *Session) remember(e event.Event) {
	if end, ok := event.AsToolEnd(e.Body); ok && end.Type != "image" {
		end.Output = tool.Cut(end.Output, s.cfg.Clip)
		switch e.Body.(type) {
		case event.ToolDone:
			e.Body = event.ToolDone(end)
		case event.ToolFailed:
			e.Body = event.ToolFailed(end)
		case event.ToolCancelled:
			e.Body = event.ToolCancelled(end)
		}
	}
	fold.Apply(e, &s.history)
}

// id makes a name that no event of the journal has: numbers of ids run ahead of those of events.
func (s *Session) id(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	return fmt.Sprintf("%s%d", prefix, s.ids)
}

// callID makes a call's id one that no other call of the journal has: some models count anew in every answer.
func (s *Session) callID(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" {
		id = "call"
	}
	name := id
	for n := 2; s.used[name]; n++ {
		name = fmt.Sprintf("%s-%d", id, n)
	}
	s.used[name] = true
	return name
}

// request is what the model is told now.
func (s *Session) request() provider.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return provider.Request{
		System: s.cfg.System, History: s.history.Events(), Tools: s.specs,
		MaxTokens: s.cfg.MaxTokens, Thinking: s.cfg.Thinking,
	}
}

// toolNames lists the tools there are.
func (s *Session) toolNames() []string {
	names := make([]string, 0, len(s.specs))
	for _, t := range s.specs {
		names = append(names, t.Name)
	}
	return names
}
