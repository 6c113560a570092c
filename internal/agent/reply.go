package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/provider"
)

// A reply is the row of turns that answers one message.
type reply struct {
	*Session
	done <-chan Verdict
	stop context.CancelCauseFunc

	prompt string
	usage  event.Usage
	cost   event.Cost
}

// begin answers a message, in the background.
func (s *Session) begin(ctx context.Context, m event.Message) *reply {
	s.mu.Lock()
	s.started = true
	s.mu.Unlock()
	ctx, stop := context.WithCancelCause(ctx)
	done := make(chan Verdict, 1)
	r := &reply{Session: s, done: done, stop: stop, prompt: m.ID}
	if r.prompt == "" {
		r.prompt = s.id("m")
	}
	go func() {
		defer stop(nil)
		done <- r.answer(ctx, m)
	}()
	return r
}

// answer answers the message, and says that it did.
func (r *reply) answer(ctx context.Context, m event.Message) Verdict {
	source := m.Source
	if source == "" {
		source = "client"
	}
	attached, problems := attach(m.Files)
	r.emit(event.Prompt{ID: r.prompt, Text: m.Text, Files: m.Files, Attached: attached, Source: source})
	for _, err := range problems {
		r.emit(event.Notice{Text: err.Error(), Prompt: r.prompt})
	}

	v, sound := r.run(ctx)
	v.Usage, v.Cost = r.usage, r.cost
	r.mu.Lock()
	v.Denials = r.denials
	r.mu.Unlock()
	if !sound {
		return v
	}
	end := event.ReplyEnd{Prompt: r.prompt, Stop: v.Stop, Usage: r.usage, Cost: r.cost}
	switch v.Outcome {
	case event.Done:
		r.emit(event.ReplyDone(end))
	case event.Cancelled:
		r.emit(event.ReplyCancelled(end))
	default:
		r.emit(v.problem(r.prompt, r.cfg.Model))
		r.emit(event.ReplyFailed(end))
	}
	return v
}

// run asks, acts and asks again. After a panic the reply is not sound: whoever owns the stream closes what was left open.
func (r *reply) run(ctx context.Context) (v Verdict, sound bool) {
	defer func() {
		if p := recover(); p != nil {
			v, sound = panicked(p), false
		}
	}()
	return r.turns(ctx), true
}

func (r *reply) turns(ctx context.Context) Verdict {
	empty := false
	for turns, rounds := 1, 0; ; turns++ {
		t := r.ask(ctx)
		switch {
		case ctx.Err() != nil:
			v := Ended(ctx)
			r.cancel(t.calls, v.Reason)
			return v
		case t.err != nil:
			r.cancel(t.calls, "the answer was not completed")
			return refused(t.err)
		case t.finish == event.FinishLength:
			r.cancel(t.calls, "the answer was cut by the output limit")
			return failed("max_tokens", "the answer was cut by the output limit; --max-tokens raises it")
		case t.finish == event.FinishRefusal:
			r.cancel(t.calls, "the model refused")
			return failed("refusal", "the model refused")
		case len(t.calls) == 0 && t.said:
			return Verdict{Outcome: event.Done, Stop: stopOf(t.finish)}
		case len(t.calls) == 0 && empty:
			return failed("error", "the model said nothing, twice")
		case len(t.calls) == 0 && r.cfg.Turns > 0 && turns == r.cfg.Turns:
			return failed("error", "the model said nothing")
		case len(t.calls) == 0:
			// Some models end in silence after a call. Whoever reads the run wants a last word: ask once more.
			empty = true
			r.emit(event.Notice{Text: "the model said nothing, and is asked again", Prompt: r.prompt})
			continue
		case r.cfg.Turns > 0 && turns == r.cfg.Turns:
			why := limitReached("turns", r.cfg.Turns)
			r.cancel(t.calls, why)
			return failed("max_turn_requests", why)
		case r.cfg.Rounds > 0 && rounds == r.cfg.Rounds:
			why := limitReached("tool rounds", r.cfg.Rounds)
			r.cancel(t.calls, why)
			return failed("max_turn_requests", why)
		}
		empty = false
		rounds++
		if v := r.act(ctx, t.calls); v != nil {
			return *v
		}
	}
}

// panicked is the verdict on a bug of ours.
func panicked(p any) Verdict {
	return Verdict{Outcome: event.Internal, Stop: "error", Reason: fmt.Sprintf("panic: %v (%s)", p, culprit(debug.Stack()))}
}

// culprit is the line of the stack that panicked.
func culprit(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "panic(") && i+3 < len(lines) {
			at, _, _ := strings.Cut(strings.TrimSpace(lines[i+3]), " ")
			return at[strings.LastIndex(at, "/")+1:]
		}
	}
	return "unknown place"
}

func stopOf(f event.Finish) string {
	if f == event.FinishSequence {
		return "stop_sequence"
	}
	return "end_turn"
}

// A turn is what came of asking the model once.
type turn struct {
	calls  []*call
	said   bool // it said something to the user
	finish event.Finish
	err    error
}

// ask asks the model for one answer and tells it as it comes.
func (r *reply) ask(ctx context.Context) (t turn) {
	r.turn++
	number := r.turn
	r.emit(event.TurnStarted{Number: number})
	end := event.TurnEnded{Finish: event.FinishError}
	t.err = r.open(ctx)
	if t.err == nil {
		end, t.err = r.listen(ctx, &t)
	}
	t.finish = end.Finish
	end.Number, end.Provider, end.Model, end.Profile = number, r.cfg.Provider, r.cfg.Model, r.cfg.Profile
	end.Cost = r.cfg.Price.Cost(end.Usage)
	if in, ok := end.Usage.InputAll(); ok && r.cfg.Price.Window > 0 {
		out, _ := end.Usage.OutputAll()
		end.Context = event.Context{Used: in + out, Limit: r.cfg.Price.Window}
	}
	r.usage, r.cost = r.usage.Add(end.Usage), r.cost.Add(end.Cost)
	r.emit(end)
	return t
}

// open finds the model, when it is first needed.
func (s *Session) open(ctx context.Context) (err error) {
	if s.model == nil {
		if s.model, err = s.cfg.Open(ctx); err != nil && !errors.As(err, new(*provider.Error)) {
			err = &provider.Error{Class: provider.NoKey, Message: err.Error(), Err: err}
		}
	}
	return err
}

// listen tells the model's answer. Blocks get their ids and times here, calls their titles.
func (r *reply) listen(ctx context.Context, t *turn) (event.TurnEnded, error) {
	end := event.TurnEnded{Finish: event.FinishError}
	var b block
	for e, err := range r.model.Answer(ctx, r.request()) {
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
			t.said = t.said || !body.Partial && strings.TrimSpace(body.Text) != ""
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
		*b = block{kind, s.id("b"), s.now()}
	}
	return b.id
}

func (b *block) whole(s *Session) (id string, start, end time.Time) {
	if b.kind == "" {
		*b = block{"", s.id("b"), s.now()}
	}
	id, start = b.id, b.start
	*b = block{}
	return id, start, s.now()
}

func (s *Session) now() time.Time { return s.cfg.Now().UTC().Truncate(time.Millisecond) }
