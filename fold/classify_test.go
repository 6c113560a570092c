package fold

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

func TestClassByKind(t *testing.T) {
	milestones := map[event.Kind]bool{
		"loop.started": true, "loop.ended": true, "phase.ended": true, "phase.retry": true, "gate.asked": true, "error": true,
		"reply.done": true, "reply.failed": true, "reply.cancelled": true, "run.done": true, "run.failed": true, "run.cancelled": true,
	}
	for _, e := range event.Samples() {
		want := Activity
		if milestones[e.Kind] {
			want = Milestone
		}
		if got := new(Classifier).Class(e); got != want {
			t.Errorf("%s is %s, want %s", e.Kind, got, want)
		}
	}
}

func TestClassify(t *testing.T) {
	in := func(agent string, b event.Body) event.Event {
		return event.Event{Header: event.Header{Agent: agent}, Body: b}
	}
	delta := func(id, text string) event.Event { return in("", event.TextDelta{ID: id, Text: text}) }
	text := func(id, text string) event.Event { return in("", event.Text{ID: id, Text: text}) }
	const a, f, m = Activity, Finding, Milestone
	for name, tt := range map[string]struct {
		events []event.Event
		want   []Class
	}{
		"status": {
			[]event.Event{in("", event.Status{Phase: "thinking"}), in("", event.Status{Phase: "working"}), in("", event.Status{Phase: "waiting"}), in("", event.Status{Phase: "done"})},
			[]Class{a, a, m, m},
		},
		"only a block": {[]event.Event{text("1", "[finding] x"), text("2", "fine")}, []Class{f, a}},
		"thoughts and prompts": {
			[]event.Event{in("", event.Thought{Text: "[finding]"}), in("", event.ThoughtDelta{Text: "[finding]"}), in("", event.Prompt{Text: "[finding]"})},
			[]Class{a, a, a},
		},
		"over a boundary, once":    {[]event.Event{delta("1", "a failed te"), delta("1", "st. So"), text("1", "a failed test. So")}, []Class{a, f, a}},
		"a number that goes on":    {[]event.Event{delta("1", "confidence: 6"), delta("1", "5%"), text("1", "confidence: 65%")}, []Class{a, f, a}},
		"a number that grows bad":  {[]event.Event{delta("1", "confidence: 60"), delta("1", "ms"), text("1", "confidence: 60ms")}, []Class{a, a, a}},
		"decided by the block":     {[]event.Event{delta("1", "confidence: 60"), text("1", "confidence: 60")}, []Class{a, f}},
		"decided, and one more":    {[]event.Event{delta("1", "[finding] 1 failed test"), text("1", "[finding] 1 failed test")}, []Class{f, a}},
		"a block without id":       {[]event.Event{delta("1", "[finding]"), text("", "[finding]")}, []Class{f, a}},
		"came in late":             {[]event.Event{delta("1", "and so on"), text("1", "[finding] and so on")}, []Class{a, f}},
		"no block, a call follows": {[]event.Event{delta("1", "1 failed test"), in("", event.ToolCalled{Name: "bash"}), in("", event.ToolCalled{Name: "bash"})}, []Class{f, a, a}},
		"no block, the end":        {[]event.Event{delta("1", "1 failed test"), in("", event.ReplyDone{}), in("", event.RunDone{})}, []Class{f, m, m}},
		"another block":            {[]event.Event{delta("1", "failed "), delta("2", "test. "), text("1", "failed "), text("2", "test. ")}, []Class{a, a, a, a}},
		"blocks that interleave":   {[]event.Event{delta("1", "failed "), delta("2", "fine"), delta("1", "test. "), text("1", "failed test. ")}, []Class{a, a, f, a}},
		"agents that interleave": {
			[]event.Event{delta("", "reviewer "), in("task-1", event.TextDelta{Text: "flagged"}), delta("", "flagged"), in("task-1", event.AgentEnded{})},
			[]Class{a, a, f, a},
		},
		"custom": {[]event.Event{in("", event.Custom{Name: "deployed"}), in("", event.Custom{Name: "leak"}), in("", event.Custom{Name: "x"})}, []Class{m, f, a}},
	} {
		t.Run(name, func(t *testing.T) {
			c := Classifier{Milestones: map[string]bool{"deployed": true}, Findings: map[string]bool{"leak": true}}
			var got []Class
			for _, e := range tt.events {
				got = append(got, c.Class(e))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClassifierIsBounded(t *testing.T) {
	var c Classifier
	for i := range 1000 {
		c.Class(event.Event{Body: event.TextDelta{ID: fmt.Sprint(i), Text: "x"}})
	}
	if len(c.blocks) > maxBlocks {
		t.Errorf("%d blocks are kept", len(c.blocks))
	}
}
