package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/sluice-dev/sluice/event"
)

// A Policy says how often and how long a request is sent again. The zero Policy is what most want.
type Policy struct {
	Retries int            // after the first attempt; 0: 8; negative: none
	For     time.Duration  // no attempt begins later than this after the first failure; 0: 10 minutes
	Base    time.Duration  // the first wait; each is twice the one before; 0: half a second
	Cap     time.Duration  // the longest wait, unless the server asks for a longer one; 0: half a minute
	Rand    func() float64 // from 0 to 1, for the jitter; nil: math/rand
}

// Retrying is m, asked again when an attempt fails and the same request may succeed later. Each further attempt is told by
// an [event.Retry] before the wait.
//
// What a failed attempt has said stays in the stream, and is void: the Retry that follows says so. Readers go by these
// promises, which hold for every attempt:
//
//   - Deltas go out as they come, and add up to the block that follows them before anything else does.
//   - A call, and whatever the model said after it, goes out only when the answer is complete: a call of a failed attempt
//     is never told, so nobody runs it.
//   - The last block that a failed attempt told is partial, also if it was complete and only its calls were cut: a complete
//     block waits until it is clear what follows it. One that another block followed cannot wait that long, as deltas
//     do not wait, and is not partial: of what a turn says before a Retry, readers of whole blocks keep nothing.
func Retrying(m Model, p Policy) Model {
	p.Retries = max(cmp.Or(p.Retries, 8), 0)
	p.For = cmp.Or(p.For, 10*time.Minute)
	p.Base = cmp.Or(p.Base, 500*time.Millisecond)
	p.Cap = cmp.Or(p.Cap, 30*time.Second)
	if p.Rand == nil {
		p.Rand = rand.Float64
	}
	return &retrying{m, p}
}

type retrying struct {
	model  Model
	policy Policy
}

func (r *retrying) Answer(ctx context.Context, q Request) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		var failed time.Time // the first time
		for n := 1; ; n++ {
			a := attempt{yield: yield}
			err := a.run(r.model.Answer(ctx, q))
			if err == nil || a.gone {
				return
			}
			if failed.IsZero() {
				failed = time.Now()
			}
			again, err := r.policy.next(ctx, err, n, r.policy.For-time.Since(failed))
			if err == nil {
				if !yield(event.Event{Body: again}, nil) {
					return
				}
				err = sleep(ctx, time.Duration(again.Wait)*time.Millisecond)
			}
			if err != nil {
				yield(event.Event{}, err)
				return
			}
		}
	}
}

// next says what to do after the n-th attempt failed, with so much time left: the retry, or the error that is final.
func (p Policy) next(ctx context.Context, err error, n int, left time.Duration) (event.Retry, error) {
	e, ok := errors.AsType[*Error](err)
	switch {
	case ctx.Err() != nil:
		return event.Retry{}, ctx.Err()
	case !ok || !e.Retryable() || p.Retries == 0:
		return event.Retry{}, err
	}
	wait := max(p.backoff(n), e.After).Round(time.Millisecond)
	switch {
	case n > p.Retries:
		return event.Retry{}, e.because(fmt.Sprintf("gave up after %s", plural(p.Retries, "retry", "retries")))
	case e.After > left:
		return event.Retry{}, e.because(fmt.Sprintf("gave up: the server asks to wait %v, and retries end after %v", e.After, p.For))
	case wait > left:
		return event.Retry{}, e.because(fmt.Sprintf("gave up: retries end after %v", p.For))
	}
	return event.Retry{
		Attempt: n, Limit: p.Retries, Wait: wait.Milliseconds(), Class: e.Class, Status: e.Status, Message: e.text(),
	}, nil
}

// backoff is the wait after the n-th attempt: at least half of it is certain, the rest is chance, so that many who failed
// together do not come back together.
func (p Policy) backoff(n int) time.Duration {
	d := p.Base
	for ; n > 1 && d < p.Cap; n-- {
		d *= 2
	}
	d = min(d, p.Cap)
	return d/2 + time.Duration(p.Rand()*float64(d/2))
}

// because is the error with the reason why there is no further attempt.
func (e *Error) because(why string) *Error {
	f := *e
	f.Message = e.text() + "; " + why
	return &f
}

// text is the message without the status.
func (e *Error) text() string {
	bare := *e
	bare.Status = 0
	return bare.Error()
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// An attempt passes one answer on, and holds back what must not be told if the answer fails.
type attempt struct {
	yield func(event.Event, error) bool
	gone  bool          // the reader does not listen any more
	held  []event.Event // one whole block; or the answer from its first call on, with the block before that
	calls bool          // a call is held
}

func (a *attempt) run(answer iter.Seq2[event.Event, error]) error {
	for e, err := range answer {
		if err != nil {
			a.fail()
			return err
		}
		switch b := e.Body.(type) {
		case event.TurnEnded:
			a.put(append(a.held, e)...)
			return nil
		case event.ToolCalled:
			a.calls = true
			a.held = append(a.held, e)
		default:
			a.say(e, b)
		}
		if a.gone {
			return nil
		}
	}
	a.fail()
	return &Error{Class: Cut, Message: "the answer has no end"}
}

// say takes deltas and blocks.
func (a *attempt) say(e event.Event, b event.Body) {
	if a.calls {
		a.held = append(a.held, e)
		return
	}
	a.put(a.held...)
	a.held = nil
	switch b.(type) {
	case event.Text, event.Thought:
		a.held = append(a.held, e)
	default:
		a.put(e)
	}
}

// fail ends what was told. What was held from the first call on was never said.
func (a *attempt) fail() {
	if len(a.held) == 0 {
		return
	}
	switch b := a.held[0].Body.(type) {
	case event.Text:
		b.Partial = true
		a.put(event.Event{Header: a.held[0].Header, Body: b})
	case event.Thought:
		b.Partial = true
		a.put(event.Event{Header: a.held[0].Header, Body: b})
	}
}

func (a *attempt) put(list ...event.Event) {
	for _, e := range list {
		a.gone = a.gone || !a.yield(e, nil)
	}
}
