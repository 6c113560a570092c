// Package outcome is how work ends: the verdict on it, and the cause of an end that came from outside. Whoever does the work,
// our agent or a guest, says it in these words, so that whoever started it need not know which of them it was.
package outcome

import (
	"context"
	"errors"

	"github.com/sluice-dev/sluice/event"
)

// A Verdict is how a reply ended. It has all that a run's end says of it.
type Verdict struct {
	Outcome event.Outcome
	Stop    string // why the reply ended, in its own words: end_turn, max_tokens, refusal …
	Reason  string // one sentence; empty if it is done
	Class   string // as [event.RunEnd] has it
	Code    string
	Denials int       // calls of the session that were denied
	Denied  string    // why the first of them was
	Saw     event.Raw // what a detector counted that ended it
	Usage   event.Usage
	Cost    event.Cost
}

// A Cause is why a context was ended: what outcome that is.
type Cause struct {
	Outcome event.Outcome
	Reason  string
	Code    string // exit code of a signal
	Stop    string // why the reply ended, if that is not what the outcome says
	Saw     event.Raw
}

func (c *Cause) Error() string { return c.Reason }

// Stopped is the cause of a reply that a client stopped.
var Stopped = &Cause{Outcome: event.Cancelled, Reason: "stopped by the client"}

// Ended is the verdict on a context that has ended.
func Ended(ctx context.Context) Verdict {
	c, ok := errors.AsType[*Cause](context.Cause(ctx))
	if !ok {
		c = &Cause{Outcome: event.Cancelled, Reason: "cancelled"}
	}
	v := Verdict{Outcome: c.Outcome, Reason: c.Reason, Code: c.Code, Stop: string(c.Outcome), Saw: c.Saw}
	switch c.Outcome {
	case event.Timeout, event.Stalled:
		v.Class, v.Stop = "timeout", "timeout"
	case event.Internal:
		v.Stop = "error"
	}
	if c.Stop != "" {
		v.Stop = c.Stop
	}
	return v
}

// Failed is a verdict that is nobody's fault but the model's, or of a limit that was set.
func Failed(stop, reason string) Verdict {
	return Verdict{Outcome: event.Failed, Stop: stop, Reason: reason}
}

// Problem is the event that says why a reply failed.
func (v Verdict) Problem(prompt, model string) event.Error {
	e := event.Error{
		Code: v.Code, Class: v.Class, Message: v.Reason, Retryable: new(v.Outcome == event.Unavailable),
		Prompt: prompt, Stop: v.Stop, Model: model,
	}
	switch {
	case v.Saw != nil:
		e.Name, e.Source, e.Type, e.Diagnostics = "StreamError", "loop", v.Stop, v.Saw
	case v.Outcome == event.Internal:
		e.Name, e.Source = "InternalError", "agent"
	case v.Outcome == event.Misuse: // whatever the run's end calls it, here it is ours to mend, and no server's
		e.Class, e.Name, e.Source = "config", "ConfigError", "config"
	case v.Outcome == event.Timeout || v.Outcome == event.Stalled: // not a server's, which has the class as well
		e.Class, e.Name, e.Source = "", "TimeoutError", "agent"
	case v.Outcome == event.Denied:
		e.Name, e.Source = "PermissionError", "permission"
	case v.Outcome == event.Budget:
		e.Name, e.Source = "BudgetError", "agent"
	case v.Class != "":
		e.Name, e.Source = "ProviderError", "provider"
	default:
		e.Name, e.Source = "AgentError", "agent"
	}
	return e
}
