package agent

import (
	"errors"
	"strconv"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
	"github.com/sluice-dev/sluice/internal/provider"
)

// refused is the verdict on a request that got no answer.
func refused(err error) outcome.Verdict {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok {
		return outcome.Verdict{Outcome: event.Internal, Stop: "error", Reason: err.Error()}
	}
	v := outcome.Verdict{Outcome: event.Failed, Stop: "error", Reason: e.Error(), Class: e.Class, Code: e.Code}
	if e.Status != 0 {
		v.Code = strconv.Itoa(e.Status)
	}
	switch {
	case e.Class == provider.NoKey && e.Err != nil: // there is no such model, not only no key to it
		v.Outcome, v.Class = event.Misuse, "config"
	case e.Class == provider.NoKey:
		v.Outcome, v.Class = event.Misuse, provider.Auth
	case e.Retryable():
		v.Outcome = event.Unavailable
	}
	return v
}
