package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/rpc"
)

// What somebody waits for.
const (
	UntilAttention = "attention" // something needs a person, or it is over
	UntilDone      = "done"      // it is over
)

// A Moment is what somebody waited for.
type Moment struct {
	Event     string `json:"event"`          // attention, turn_done or end
	Kind      string `json:"kind,omitempty"` // of attention: permission
	RuntimeID string `json:"runtime_id"`
	RequestID string `json:"request_id,omitempty"` // the question
	Summary   string `json:"summary,omitempty"`    // what is asked
	Phase     string `json:"phase,omitempty"`      // of an end: failed, timeout or killed
	Reason    string `json:"reason,omitempty"`     // of an end, if one is known
	Output    string `json:"-"`                    // what the agent said in its last reply, once it is over
}

// Plain says it in one line, for a shell script.
func (m Moment) Plain() string {
	switch m.Event {
	case "attention":
		return strings.TrimSpace(fmt.Sprintf("ATTENTION %s %s %s", m.Kind, m.RuntimeID, oneLine(m.Summary)))
	case "turn_done":
		return "TURN-DONE " + m.RuntimeID
	}
	return strings.TrimSpace(fmt.Sprintf("END %s %s %s", m.Phase, m.RuntimeID, oneLine(m.Reason)))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Exit is the exit code of whoever waited.
func (m Moment) Exit() int {
	switch {
	case m.Event == "attention":
		return 20
	case m.Event == "turn_done":
		return 0
	case m.Phase == "timeout":
		return 11
	case m.Phase == "killed":
		return 12
	}
	return 10
}

// Await waits for a moment of a run, and returns with it. Moments on the way are told to passed, if it is not nil. A run whose
// process died is over, whatever it said last.
func Await(ctx context.Context, path, run, until string, passed func(Moment)) (Moment, error) {
	if until != UntilAttention && until != UntilDone {
		return Moment{}, fmt.Errorf("nobody can wait until %q: it is attention or done", until)
	}
	bell := make(chan struct{}, 1)
	var ended atomic.Pointer[event.Outcome] // as the run said it, if its journal goes with it
	c, err := Dial(ctx, path, func(e Event) {
		var head struct {
			Kind string `json:"kind"`
			Body struct {
				Outcome event.Outcome `json:"outcome"`
			} `json:"body"`
		}
		if json.Unmarshal(e.Line, &head) == nil && stirs(head.Kind) {
			if strings.HasPrefix(head.Kind, "run.") && head.Body.Outcome != "" {
				ended.Store(&head.Body.Outcome)
			}
			select {
			case bell <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		return Moment{}, err
	}
	defer c.Close()
	s, err := c.Status(ctx, run) // which one it is, if there is only one
	if err != nil {
		return Moment{}, err
	}
	// Whatever happens after this rings the bell, and whatever was before is in the next status: nothing falls between.
	if _, err = c.Subscribe(ctx, Subscribe{RuntimeID: s.RuntimeID, Format: "native"}); err != nil {
		return Moment{}, err
	}
	told := map[string]bool{}
	for {
		var gone *rpc.Error
		now, err := c.Status(ctx, s.RuntimeID)
		switch {
		case ctx.Err() != nil:
			return Moment{}, context.Cause(ctx)
		case errors.As(err, &gone):
			return Moment{}, err
		case err != nil: // the connection is: the journal knows
			return left(s, ended.Load()), nil
		}
		s = now
		if m, over := s.moment(); over {
			if m.Output, err = c.Result(ctx, s.RuntimeID); err != nil {
				m.Output = left(s, nil).Output
			}
			return m, nil
		}
		for _, q := range s.Permissions {
			m := Moment{Event: "attention", Kind: "permission", RuntimeID: s.RuntimeID, RequestID: q.RequestID, Summary: cmp.Or(q.Question, q.Tool, q.RequestID)}
			if until == UntilAttention {
				return m, nil
			}
			if passed != nil && !told[q.RequestID] {
				passed(m)
			}
			told[q.RequestID] = true
		}
		select {
		case <-bell:
		case <-c.Done():
		case <-ctx.Done():
		}
	}
}

// stirs says whether an event may be a moment.
func stirs(kind string) bool {
	for _, prefix := range []string{"gate.", "reply.", "run."} {
		if strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return false
}

// moment says whether the run, or its turn, is over.
func (s Status) moment() (Moment, bool) {
	if s.State != "ended" && s.State != "idle" {
		return Moment{}, false
	}
	m := Moment{Event: "end", RuntimeID: s.RuntimeID, Reason: cmp.Or(string(s.Outcome), s.StopReason)}
	switch {
	case s.State == "idle" && answered(s.StopReason), s.Outcome == event.Done:
		return Moment{Event: "turn_done", RuntimeID: s.RuntimeID}, true
	case s.Outcome == event.Timeout, s.Outcome == event.Stalled, s.State == "idle" && strings.HasSuffix(s.StopReason, "timeout"):
		m.Phase = "timeout"
	case s.Outcome == event.Cancelled, s.State == "idle" && strings.HasPrefix(s.StopReason, "cancelled"):
		m.Phase = "killed"
	default:
		m.Phase = "failed"
	}
	return m, true
}

// answered says whether a reply with this stop reason was answered.
func answered(stop string) bool {
	return stop == "" || stop == "end_turn" || stop == "stop_sequence"
}

// left is how a run ended whose process is gone: it said so, or its journal does, or nobody could.
func left(s Status, told *event.Outcome) Moment {
	v := view{path: s.Journal}
	now, said, err := v.now()
	m := Moment{Event: "end", RuntimeID: s.RuntimeID, Phase: "killed", Reason: "its process is gone"}
	if err == nil && now.Outcome != "" {
		told = &now.Outcome
	}
	if told != nil {
		s.State, s.Outcome = "ended", *told
		m, _ = s.moment()
	}
	m.Output = said
	return m
}
