package fold

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-dev/sluice/event"
)

func TestTranscript(t *testing.T) {
	for name, tt := range map[string]struct {
		agent, session string
		events         []event.Event
		want           []step
	}{
		"a turn with calls": {
			events: []event.Event{
				in("s", event.Prompt{Text: "fix"}), in("s", event.TurnStarted{}), in("s", event.ThoughtDelta{Text: "hm"}), in("s", event.Thought{Text: "hm", Signature: "sig"}),
				in("s", event.TextDelta{Text: "I look"}), in("s", event.Text{Text: "I look"}), onCall("1", event.ToolCalled{Name: "read"}), onCall("2", event.ToolCalled{Name: "bash"}),
				in("s", event.TurnEnded{}), onCall("2", event.ToolFailed{Name: "bash"}), onCall("1", event.ToolDone{Name: "read"}),
				in("s", event.TurnStarted{}), in("s", event.Text{Text: "done"}), in("s", event.TurnEnded{}), in("s", event.ReplyDone{}),
			},
			want: []step{
				{"", event.Prompt{Text: "fix"}}, {"", event.Thought{Text: "hm", Signature: "sig"}}, {"", event.Text{Text: "I look"}},
				{"1", event.ToolCalled{Name: "read"}}, {"2", event.ToolCalled{Name: "bash"}}, {"1", event.ToolDone{Name: "read"}}, {"2", event.ToolFailed{Name: "bash"}},
				{"", event.Text{Text: "done"}},
			},
		},
		"an end inside its turn, a prompt inside a call": {
			events: []event.Event{
				in("s", event.TurnStarted{}), onCall("1", event.ToolCalled{Name: "a"}), onCall("1", event.ToolDone{Name: "a"}), in("s", event.Text{Text: "and"}),
				onCall("2", event.ToolCalled{Name: "b"}), in("s", event.TurnEnded{}), in("s", event.Prompt{Text: "also", Source: event.SourceSteer}), onCall("2", event.ToolDone{Name: "b"}),
			},
			want: []step{
				{"1", event.ToolCalled{Name: "a"}}, {"", event.Text{Text: "and"}}, {"2", event.ToolCalled{Name: "b"}},
				{"1", event.ToolDone{Name: "a"}}, {"2", event.ToolDone{Name: "b"}}, {"", event.Prompt{Text: "also", Source: event.SourceSteer}},
			},
		},
		"nobody tells turns": {
			events: []event.Event{
				onCall("1", event.ToolCalled{Name: "a"}), onCall("1", event.ToolDone{Name: "a"}), in("s", event.Text{Text: "and"}),
				onCall("1", event.ToolCalled{Name: "b"}), onCall("1", event.ToolDone{Name: "b"}),
			},
			want: []step{
				{"1", event.ToolCalled{Name: "a"}}, {"1", event.ToolDone{Name: "a"}}, {"", event.Text{Text: "and"}},
				{"1", event.ToolCalled{Name: "b"}}, {"1", event.ToolDone{Name: "b"}},
			},
		},
		"killed in a call": {
			events: []event.Event{onCall("1", event.ToolCalled{Name: "a"}), in("s", event.Text{Text: "half", Partial: true}), in("s", event.Prompt{Text: "go on"})},
			want: []step{
				{"1", event.ToolCalled{Name: "a"}}, {"1", event.ToolCancelled{Name: "a", Error: "the call did not end", Inferred: true}}, {"", event.Prompt{Text: "go on"}},
			},
		},
		"an attempt that was given up": {
			events: say(
				event.Prompt{Text: "fix"}, event.TurnStarted{}, event.Thought{Text: "hm"}, event.Text{Text: "half", Partial: true}, event.Retry{},
				event.Retry{}, event.Thought{Text: "aha"}, event.Text{Text: "whole"}, event.TurnEnded{}, event.TurnStarted{}, event.Retry{}, event.Text{Text: "more"},
			),
			want: []step{{"", event.Prompt{Text: "fix"}}, {"", event.Thought{Text: "aha"}}, {"", event.Text{Text: "whole"}}, {"", event.Text{Text: "more"}}},
		},
		"compacted": {
			events: []event.Event{
				in("s", event.Prompt{Text: "old"}), onCall("1", event.ToolCalled{Name: "a"}), in("s", event.Compacted{Summary: "sum"}), onCall("1", event.ToolDone{Name: "a"}),
				in("s", event.Text{Text: "new"}), in("s", event.Compacted{Reason: "a guest's own"}),
			},
			want: []step{{"", event.Compacted{Summary: "sum"}}, {"", event.Text{Text: "new"}}},
		},
		"tried again": {
			events: say(event.Prompt{Text: "fix"}, event.TurnStarted{}, event.TurnEnded{}, event.PhaseRetry{}, event.Prompt{Text: "fix"}, event.Text{Text: "done"}),
			want:   []step{{"", event.Prompt{Text: "fix"}}, {"", event.Text{Text: "done"}}},
		},
		"tried again after calls": {
			events: append(append(say(event.Prompt{Text: "fix"}), onCall("1", event.ToolCalled{Name: "a"}), onCall("1", event.ToolDone{Name: "a"})),
				say(event.TurnStarted{}, event.TurnEnded{}, event.PhaseRetry{}, event.Prompt{Text: "fix"}, event.Text{Text: "done"})...),
			want: []step{{"", event.Prompt{Text: "fix"}}, {"1", event.ToolCalled{Name: "a"}}, {"1", event.ToolDone{Name: "a"}}, {"", event.Text{Text: "done"}}},
		},
		"tried again after half an answer": {
			events: say(event.Prompt{Text: "fix"}, event.Text{Text: "half"}, event.PhaseRetry{}, event.Prompt{Text: "fix"}),
			want:   []step{{"", event.Prompt{Text: "fix"}}, {"", event.Text{Text: "half"}}, {"", event.Prompt{Text: "fix"}}},
		},
		"a prompt goes on": {
			events: say(event.Prompt{ID: "1", Text: "a"}, event.Prompt{ID: "1", Text: "b"}, event.Prompt{ID: "2", Text: "c"}, event.Prompt{Inferred: true}),
			want:   []step{{"", event.Prompt{ID: "1", Text: "ab"}}, {"", event.Prompt{ID: "2", Text: "c"}}},
		},
		"a sub-agent": {
			agent: "a",
			events: []event.Event{
				in("s", event.Prompt{Text: "top"}), ofAgent("a", "", event.AgentStarted{Prompt: "look"}), ofAgent("a", "", event.Text{Text: "seen"}), ofAgent("a/b", "", event.Text{Text: "below"}),
			},
			want: []step{{"", event.Prompt{Text: "look"}}, {"", event.Text{Text: "seen"}}},
		},
		"one session": {
			session: "s2",
			events:  []event.Event{in("s1", event.Prompt{Text: "a"}), in("s2", event.Prompt{Text: "b"})},
			want:    []step{{"", event.Prompt{Text: "b"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := Transcript{Agent: tt.agent, Session: tt.session}
			for _, e := range number(tt.events...) {
				Apply(e, &tr)
			}
			if diff := cmp.Diff(tt.want, steps(tr.Events()), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A step is an entry of a transcript without the rest of its header.
type step struct {
	Call string
	Body event.Body
}

func steps(list []event.Event) (s []step) {
	for _, e := range list {
		s = append(s, step{e.Call, e.Body})
	}
	return s
}
