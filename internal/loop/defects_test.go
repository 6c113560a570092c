package loop

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// What other supervisors got wrong; each is named after what must not happen.

// ends are the stops that phases ended with, and the loop's reason last.
func (s *stage) ends() (list []string) {
	for _, e := range s.list {
		switch b := e.Body.(type) {
		case event.PhaseEnded:
			list = append(list, b.Stop)
		case event.LoopEnded:
			list = append(list, b.Reason)
		}
	}
	return list
}

func TestRetryLosesModelAndAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, acts: []act{says("a"), fails(overloaded), says("b")}, retries: 1}
		s.run(t.Context(), "pre:\n  - {name: a, prompt: x}\n  - {name: b, prompt: x, model: m, agent: g, backend: claude, resume_from_previous: true}\n")
		for _, j := range s.jobs[1:] {
			if j.Phase.Model != "m" || j.Phase.Agent != "g" || j.Phase.Backend != "claude" || !j.Resumes || j.Session != "s1" {
				t.Errorf("%+v", j)
			}
		}
		if len(s.jobs) != 3 {
			t.Error(len(s.jobs))
		}
	})
}

func TestUsageErrorIsRetried(t *testing.T) {
	for _, v := range []outcome.Verdict{
		{Outcome: event.Misuse, Stop: "error", Reason: "no such model"},
		{Outcome: event.Failed, Stop: fold.DegenerateStream, Reason: "nowhere"},
		{Outcome: event.Failed, Stop: "refusal", Reason: "no"},
		{Outcome: event.Denied, Stop: "error", Reason: "denied"},
		{Outcome: event.Budget, Stop: "error", Reason: "spent"},
	} {
		s := &stage{t: t, acts: []act{fails(v)}, retries: 9}
		if s.run(t.Context(), simple); len(s.jobs) != 1 {
			t.Errorf("%+v was tried %d times", v, len(s.jobs))
		}
	}
}

func TestStopReasonIsLost(t *testing.T) {
	for _, stop := range []string{"max_tokens", "refusal", "max_turn_requests", fold.DegenerateStream, "error"} {
		s := &stage{t: t, acts: []act{fails(outcome.Failed(stop, "why"))}}
		r := s.run(t.Context(), simple)
		if got := s.ends(); !slices.Equal(got, []string{stop, PhaseFailure}) || r.Verdict.Stop != stop {
			t.Errorf("%s: %v %+v", stop, got, r.Verdict)
		}
	}
}

func TestNeverConvergedLooksLikeSuccess(t *testing.T) {
	s := &stage{t: t, acts: []act{says("no"), says("no")}}
	if r := s.run(t.Context(), simple); r.Reason != MaxIterations || r.Verdict.Outcome == event.Done {
		t.Errorf("%+v", r)
	}
}

// directs says whether texts and thoughts of one phase end the loop.
func directs(t *testing.T, list ...event.Body) bool {
	s := &stage{t: t, acts: []act{bodies(list...), says("no")}}
	return s.run(t.Context(), simple).Reason == Exit
}

func TestThoughtActs(t *testing.T) {
	if directs(t, event.ThoughtDelta{Text: "\n[loop: exit]\n"}, event.Thought{Text: "\n[loop: exit]\n"}) {
		t.Error("it does")
	}
}

func TestMarkerInTheMiddleOfALineActs(t *testing.T) {
	if directs(t, event.TextDelta{Text: "[loop: exit]"}, event.TextDelta{Text: " is what I would say\n"}) {
		t.Error("it does")
	}
}

func TestLongLabelHidesMarker(t *testing.T) {
	label := strings.Repeat("long ", 400)
	if !directs(t, event.TextDelta{Text: "[loop: exit | " + label}, event.TextDelta{Text: "]"}) {
		t.Error("it does")
	}
}

func TestThoughtBeforeHidesMarker(t *testing.T) {
	if !directs(t, event.ThoughtDelta{Text: "no line break"}, event.TextDelta{Text: "[loop: exit]\n"}) {
		t.Error("it does")
	}
}

func TestFenceIsForgotten(t *testing.T) {
	if directs(t, event.Text{Text: "```\n" + strings.Repeat("code\n", 1000) + "[exit]\n```\n"}) {
		t.Error("an opener far back")
	}
	if directs(t, event.Text{Text: "````\n```\n[exit]\n```\n````\n"}) {
		t.Error("three ticks in four")
	}
}

func TestSecondStatusIsMissed(t *testing.T) {
	var m fold.Markers
	var got []string
	m.Write("[status: working | a] … [status: done]", func(s fold.Marker) { got = append(got, s.Word+" "+s.Label) })
	if !slices.Equal(got, []string{"working a", "done "}) {
		t.Error(got)
	}
}
