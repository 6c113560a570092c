package agent

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// A reply is the row of turns that answers one message.
type reply struct {
	*Session
	done <-chan outcome.Verdict
	stop context.CancelCauseFunc
	over atomic.Bool // its end was told

	parent *reply // of a sub-agent: the one that waits for it
	prompt string

	usage event.Usage // under the mutex, sub-agents included
	cost  event.Cost
	fatal *outcome.Verdict // a sub-agent met what ends the whole reply
	loop  loop

	cramped int // how often the history was shortened since it last fitted well
}

// begin answers a message, in the background.
func (s *Session) begin(ctx context.Context, m event.Message) *reply {
	s.change()
	ctx, stop := context.WithCancelCause(ctx)
	done := make(chan outcome.Verdict, 1)
	r := &reply{Session: s, done: done, stop: stop, prompt: m.ID}
	if r.prompt == "" {
		r.prompt = s.Common.next("m")
	}
	s.mu.Lock()
	s.latest = r
	s.mu.Unlock()
	go func() {
		defer stop(nil)
		v := r.answer(ctx, m)
		r.over.Store(true)
		done <- v
	}()
	return r
}

// answer answers the message, and says that it did.
func (r *reply) answer(ctx context.Context, m event.Message) outcome.Verdict {
	if m.Source == "" {
		m.Source = "client"
	}
	m, used, err := r.expand(m)
	attached, problems := attach(m.Files)
	if err != nil {
		problems = append(problems, err)
	}
	r.emit(event.Prompt{ID: r.prompt, Text: m.Text, Files: m.Files, Attached: attached, Source: m.Source})
	if used != nil {
		r.emit(event.SkillLoaded{Name: used.Name, Location: used.Location})
	}
	for _, err := range problems {
		r.emit(event.Notice{Text: err.Error(), Prompt: r.prompt})
	}

	v, sound := r.run(ctx)
	v.Usage, v.Cost = r.usage, r.cost
	r.mu.Lock()
	v.Denials, v.Denied = r.denials, r.denied
	r.mu.Unlock()
	if !sound {
		return v
	}
	if r.cfg.Judge != nil {
		v = r.cfg.Judge(v)
	}
	end := event.ReplyEnd{Prompt: r.prompt, Stop: v.Stop, Usage: r.usage, Cost: r.cost}
	switch v.Outcome {
	case event.Done, event.Unverified:
		r.emit(event.ReplyDone(end))
	case event.Cancelled:
		r.emit(event.ReplyCancelled(end))
	default:
		r.emit(v.Problem(r.prompt, r.cfg.Model))
		r.emit(event.ReplyFailed(end))
	}
	return v
}

// run asks, acts and asks again. After a panic the reply is not sound: whoever owns the stream closes what was left open.
func (r *reply) run(ctx context.Context) (v outcome.Verdict, sound bool) {
	defer func() {
		if p := recover(); p != nil {
			v, sound = panicked(p), false
		}
	}()
	return r.turns(ctx), true
}

// turns is the row of turns. Whatever ends it, no call is left open.
func (r *reply) turns(ctx context.Context) outcome.Verdict {
	var (
		silent  bool             // the last answer was empty
		repairs int              // of a final answer that did not pass its check
		warned  bool             // the budget is nearly spent
		last    *outcome.Verdict // this is the last turn, and how it ends
	)
	for turns, rounds := 1, 0; ; turns++ {
		t := r.ask(ctx)
		if last != nil && ctx.Err() == nil {
			r.cancel(t.calls, last.Reason)
			return *last
		}
		switch {
		case ctx.Err() != nil:
			v := outcome.Ended(ctx)
			r.cancel(t.calls, v.Reason)
			return v
		case t.gone != nil:
			r.cancel(t.calls, "the answer went nowhere")
			return outcome.Verdict{Outcome: event.Failed, Stop: fold.DegenerateStream, Reason: t.gone.Message, Saw: t.gone.Diagnostics}
		case overflows(t.err):
			if v := r.compact(ctx, "the history did not fit"); v != nil {
				return *v
			}
			continue
		case t.err != nil:
			r.cancel(t.calls, "the answer was not completed")
			return refused(t.err)
		case t.finish == event.FinishLength:
			r.cancel(t.calls, "the answer was cut by the output limit")
			return outcome.Failed("max_tokens", "the answer was cut by the output limit; "+cmp.Or(r.cfg.Longer, "ask for less at once"))
		case t.finish == event.FinishRefusal:
			r.cancel(t.calls, "the model refused")
			return outcome.Failed("refusal", "the model refused")
		case len(t.calls) == 0 && t.said:
			err := r.check(t.text)
			if err == nil {
				return outcome.Verdict{Outcome: event.Done, Stop: stopOf(t.finish)}
			}
			if repairs++; repairs > 2 || r.cfg.Turns > 0 && turns == r.cfg.Turns {
				return outcome.Verdict{Outcome: event.Unverified, Stop: stopOf(t.finish), Reason: err.Error()}
			}
			r.steer(err.Error() + ". Answer again, with nothing but what is asked for.")
			continue
		case len(t.calls) == 0 && silent:
			return outcome.Failed("error", "the model said nothing, twice")
		case len(t.calls) == 0 && r.cfg.Turns > 0 && turns == r.cfg.Turns:
			return outcome.Failed("error", "the model said nothing")
		case len(t.calls) == 0:
			// Some models end in silence after a call. Whoever reads the run wants a last word: ask once more.
			silent = true
			r.emit(event.Notice{Text: "the model said nothing, and is asked again", Prompt: r.prompt})
			continue
		case r.cfg.Turns > 0 && turns == r.cfg.Turns:
			why := limitReached("turns", r.cfg.Turns)
			r.cancel(t.calls, why)
			return outcome.Failed("max_turn_requests", why)
		case r.cfg.Rounds > 0 && rounds == r.cfg.Rounds:
			why := limitReached("tool rounds", r.cfg.Rounds)
			r.cancel(t.calls, why)
			return outcome.Failed("max_turn_requests", why)
		}
		silent = false
		rounds++

		allowed, why := r.afford(t.calls)
		r.cancel(t.calls[len(allowed):], why)
		if len(allowed) > 0 {
			if v := r.act(ctx, allowed); v != nil {
				return *v
			}
		}
		if r.cfg.Steps > 0 && rounds == r.cfg.Steps {
			return outcome.Failed("max_turn_requests", limitReached("tool rounds", r.cfg.Steps))
		}
		switch spent, near := r.budget(); {
		case spent != "": // also by sub-agents, meanwhile
			return overBudget(spent)
		case why != "": // no more calls, but a word to end with
			last = new(overBudget(why))
			r.steer("The budget is used up: " + why + ". Call nothing more. Say in a few sentences what is done and what is not.")
			continue
		case near && !warned:
			warned = true
			r.steer("The budget is nearly used up. Come to an end now.")
		}
		switch r.loop.after(allowed) {
		case looping:
			return outcome.Failed("error", "it goes round in a loop: the same calls with the same results, again and again")
		case circling:
			r.steer("You make the same calls with the same results again and again. Try something else, or say why you cannot go on.")
		}
		if r.crowded(t) {
			if v := r.compact(ctx, "the window is nearly full"); v != nil {
				return *v
			}
		}
	}
}

// steer says something to the model on our own account.
func (r *reply) steer(text string) { r.emit(event.Prompt{Text: text, Source: event.SourceSteer}) }

// check says what is wrong with a final answer. Only the top agent's is one.
func (r *reply) check(answer string) error {
	if r.cfg.Check == nil || r.parent != nil {
		return nil
	}
	return r.cfg.Check(answer)
}

// panicked is the verdict on a bug of ours.
func panicked(p any) outcome.Verdict {
	return outcome.Verdict{Outcome: event.Internal, Stop: "error", Reason: fmt.Sprintf("panic: %v (%s)", p, culprit(debug.Stack()))}
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
