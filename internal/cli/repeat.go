package cli

import (
	"context"
	"time"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// A repeat says when a message is sent again because the reply to it failed. The zero one: never. These are not the retries of
// a request to the model, which come before it: a whole reply is tried again, in the same session.
type repeat struct {
	most int                        // times
	wait time.Duration              // before the first; it doubles each time, up to fifteen times as long
	may  func(outcome.Verdict) bool // says whether a reply that ended so may end better
}

// pause is how long to wait before the nth time.
func (p repeat) pause(n int) time.Duration {
	wait := p.wait
	for ; n > 1 && wait < 15*p.wait; n-- {
		wait *= 2
	}
	return min(wait, 15*p.wait)
}

// insist sends a message again as long as the reply to it, whose verdict is v, fails in a way that may pass.
func (r *runner) insist(ctx context.Context, s worker, m event.Message, v outcome.Verdict) outcome.Verdict {
	for n := 1; n <= r.repeat.most && ctx.Err() == nil && r.repeat.may(v); n++ {
		r.helm.mute.Store(true) // that it is not over is known before it is told
		retry, _ := r.line.src.Emit(event.Event{Body: event.PhaseRetry{Attempt: n, Limit: r.repeat.most}})
		s.Recall(retry) // what was said before it is not said twice
		var next outcome.Verdict
		select {
		case <-time.After(r.repeat.pause(n)):
			inbox := make(chan event.Command, 1)
			inbox <- m
			close(inbox)
			next = s.Serve(ctx, inbox)
		case <-ctx.Done():
			next = outcome.Ended(ctx)
			next.Denials, next.Denied = v.Denials, v.Denied
		}
		next.Usage, next.Cost = v.Usage.Add(next.Usage), v.Cost.Add(next.Cost)
		v = next
	}
	return v
}

// judge is the face's word on replies that came to their end, but not with all that they tried; nil if it has none.
func (r *runner) judge() func(outcome.Verdict) outcome.Verdict {
	if r.face.denied == "" {
		return nil
	}
	return func(v outcome.Verdict) outcome.Verdict {
		if v = r.denied(v); v.Outcome == event.Denied {
			v.Stop = r.face.denied
		}
		return v
	}
}
