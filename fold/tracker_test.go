package fold

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-dev/sluice/event"
)

// say makes events of the top agent's session s.
func say(bodies ...event.Body) (events []event.Event) {
	for _, b := range bodies {
		events = append(events, event.Event{Header: event.Header{Session: "s"}, Body: b})
	}
	return events
}

func in(session string, b event.Body) event.Event {
	return event.Event{Header: event.Header{Session: session}, Body: b}
}

func onCall(id string, b event.Body) event.Event {
	return event.Event{Header: event.Header{Session: "s", Call: id}, Body: b}
}

func ofAgent(path, call string, b event.Body) event.Event {
	return event.Event{Header: event.Header{Session: "s/" + path, Agent: path, Call: call}, Body: b}
}

// What each event does to the state: the transitions of the specification's tracker, and what it lacked.
func TestTracker(t *testing.T) {
	ask := event.GateAsked{Request: "q1", Tool: "bash", Question: "Run?", Options: []event.Option{{ID: "allow", Kind: "allow"}}}
	q1 := Question{Request: "q1", Call: "c1", Tool: "bash", Question: "Run?", Options: ask.Options}
	for name, tt := range map[string]struct {
		events []event.Event
		want   Snapshot
	}{
		"start": {say(event.RunStarted{Backend: "claude", Run: "r1"}), Snapshot{SessionID: "s", RunID: "r1", Backend: "claude"}},
		"status": {
			say(event.Status{Phase: "working", Label: "reading", Source: "avenor"}),
			Snapshot{SessionID: "s", Phase: "working", PhaseLabel: "reading"},
		},
		"status waiting": {say(event.Status{Phase: "waiting", Source: "pty"}), Snapshot{SessionID: "s", Phase: "waiting", WaitingPermission: true}},
		"status waiting, then working": {
			say(event.Status{Phase: "waiting", Source: "pty"}, event.Status{Phase: "working", Source: "transcript"}),
			Snapshot{SessionID: "s", Phase: "working"},
		},
		"asked": {
			[]event.Event{onCall("c1", ask)},
			Snapshot{Phase: "waiting", WaitingPermission: true, Pending: []Question{q1}},
		},
		"answered": {
			append(say(event.Status{Phase: "working"}, event.Status{Phase: "waiting"}), onCall("c1", ask), in("s", event.GateAllowed{Request: "q1"})),
			Snapshot{SessionID: "s", Phase: "working"},
		},
		"one of two answered": {
			[]event.Event{onCall("c1", ask), onCall("c2", event.GateAsked{Request: "q2"}), onCall("c2", event.GateDenied{Request: "q2"})},
			Snapshot{Phase: "waiting", WaitingPermission: true, Pending: []Question{q1}},
		},
		"a late answer hits no other": {
			[]event.Event{onCall("c1", ask), onCall("c1", event.GateDenied{Request: "q0"})},
			Snapshot{Phase: "waiting", WaitingPermission: true, Pending: []Question{q1}},
		},
		"asked twice": {
			[]event.Event{onCall("c1", ask), onCall("c1", ask)},
			Snapshot{Phase: "waiting", WaitingPermission: true, Pending: []Question{q1}},
		},
		"the call's end answers": {
			[]event.Event{onCall("c1", event.ToolCalled{Name: "bash"}), onCall("c1", ask), onCall("c1", event.ToolDenied{})},
			Snapshot{SessionID: "s", Phase: "working"},
		},
		"working beside an open question": {
			[]event.Event{onCall("c1", ask), in("s", event.Status{Phase: "working", Source: "avenor"})},
			Snapshot{SessionID: "s", Phase: "working", WaitingPermission: true, Pending: []Question{q1}},
		},
		"answered at the terminal": {
			say(event.GateAsked{Request: "1"}, event.Status{Phase: "working", Source: "transcript"}),
			Snapshot{SessionID: "s", Phase: "working"},
		},
		"channel": {
			say(event.ChannelReady{}, event.ChannelQueued{}, event.ChannelSubmitted{}, event.Report{State: "checkpoint"}, event.Answer{To: "r0"}),
			Snapshot{SessionID: "s", ChannelReady: true, PromptQueued: true, PromptSubmitted: true, LastReportState: "checkpoint", LastReplyTo: "r0"},
		},
		"a report outranks the terminal": {
			say(event.Report{State: "blocked"}, event.Status{Phase: "working", Source: "tmux"}, event.Status{Phase: "thinking", Source: "transcript"}),
			Snapshot{SessionID: "s", Phase: "waiting", WaitingPermission: true, LastReportState: "blocked"},
		},
		"… until it reports again": {
			say(event.Report{State: "blocked"}, event.Report{State: "checkpoint"}, event.Status{Phase: "working", Source: "tmux"}),
			Snapshot{SessionID: "s", Phase: "working", LastReportState: "checkpoint"},
		},
		"… or a prompt begins": {
			say(event.Report{State: "working"}, event.ChannelQueued{}, event.Status{Phase: "waiting", Source: "tmux"}),
			Snapshot{SessionID: "s", Phase: "waiting", WaitingPermission: true, PromptQueued: true, LastReportState: "working"},
		},
		"… but not the supervisor": {
			say(event.Report{State: "working"}, event.Status{Phase: "thinking", Source: "avenor"}),
			Snapshot{SessionID: "s", Phase: "thinking", LastReportState: "working"},
		},
		"finish": {
			say(event.Finished{Status: "done", Summary: "fixed", Files: []string{"a.go"}}, event.Status{Phase: "waiting", Source: "pty"}),
			Snapshot{SessionID: "s", FinishStatus: "done", FinishSummary: "fixed", FilesChanged: []string{"a.go"}},
		},
		"end": {
			append([]event.Event{onCall("c1", ask)}, say(event.ReplyDone{Stop: "end_turn"}, event.Status{Phase: "working", Source: "transcript"})...),
			Snapshot{SessionID: "s", StopReason: "end_turn", Ended: true, Phase: "done"},
		},
		"a follow-up begins anew": {
			say(event.Report{State: "working"}, event.Finished{Status: "done", Files: []string{"a.go"}}, event.ReplyDone{Stop: "end_turn"}, event.Prompt{ID: "2"}),
			Snapshot{SessionID: "s"},
		},
		"a prompt that is told late": {
			say(event.ReplyDone{Stop: "end_turn"}, event.ChannelSubmitted{}, event.Report{State: "working"}, event.Prompt{Inferred: true}),
			Snapshot{SessionID: "s", PromptSubmitted: true, Phase: "working", LastReportState: "working"},
		},
		"run's end": {
			[]event.Event{onCall("c1", event.ToolCalled{Name: "bash"}), in("s", event.PhaseStarted{Phase: "p", Iteration: 2}), in("s", event.RunFailed{Outcome: event.Timeout})},
			Snapshot{SessionID: "s", Phase: "done", Ended: true, Outcome: event.Timeout},
		},
		"an end without an outcome": {say(event.RunCancelled{}), Snapshot{Phase: "done", Ended: true, Outcome: event.Cancelled}},
		"resumed after a kill": {
			[]event.Event{onCall("c1", event.ToolCalled{Name: "bash"}), onCall("c1", ask), in("s", event.RunStarted{Resumed: true})},
			Snapshot{SessionID: "s", Phase: "working"},
		},
		"a stream without status": {
			[]event.Event{in("s", event.TurnStarted{}), in("s", event.ThoughtDelta{}), onCall("c1", event.ToolCalled{Name: "bash"})},
			Snapshot{SessionID: "s", Phase: "working", OpenCalls: []OpenCall{{ID: "c1", Name: "bash"}}},
		},
		"calls": {
			[]event.Event{
				onCall("c1", event.ToolCalled{Name: "read"}), onCall("c2", event.ToolCalled{Name: "bash"}), ofAgent("task-1", "c1", event.ToolCalled{Name: "grep"}),
				onCall("c1", event.ToolDone{}),
			},
			Snapshot{SessionID: "s", Phase: "working", OpenCalls: []OpenCall{{ID: "c2", Name: "bash"}, {ID: "c1", Name: "grep", Agent: "task-1"}}},
		},
		"agents": {
			[]event.Event{
				ofAgent("a", "", event.AgentStarted{Title: "look"}), ofAgent("a/b", "", event.AgentStarted{}), ofAgent("c", "", event.AgentStarted{}),
				ofAgent("a/b", "c1", event.ToolCalled{}), ofAgent("a/b", "", event.GateAsked{Request: "q"}), ofAgent("c", "", event.AgentEnded{}),
			},
			Snapshot{
				Phase: "waiting", WaitingPermission: true, Pending: []Question{{Request: "q", Agent: "a/b"}}, OpenCalls: []OpenCall{{ID: "c1", Agent: "a/b"}},
				OpenAgents: []OpenAgent{{Agent: "a", Session: "s/a", Title: "look"}, {Agent: "a/b", Session: "s/a/b"}},
			},
		},
		"an agent's end closes what is below": {
			[]event.Event{
				ofAgent("a", "", event.AgentStarted{}), ofAgent("a/b", "", event.AgentStarted{}), ofAgent("a/b", "c1", event.ToolCalled{}),
				ofAgent("a/b", "", event.GateAsked{Request: "q"}), ofAgent("a", "", event.AgentEnded{}),
			},
			Snapshot{Phase: "working"},
		},
		"a loop goes on in new sessions": {
			[]event.Event{
				in("s1", event.RunStarted{Run: "r"}), in("s1", event.PhaseStarted{Phase: "plan", Iteration: 1}), in("s1", event.ChannelReady{}), in("s1", event.Report{State: "working"}),
				in("s1", event.ReplyDone{Stop: "end_turn"}), in("s1", event.PhaseEnded{}), in("r", event.PhaseStarted{Phase: "review", Iteration: 1}),
				in("s2", event.SessionStarted{Backend: "pi"}), in("s2", event.TurnStarted{}),
			},
			Snapshot{SessionID: "s2", RunID: "r", Backend: "pi", LoopPhase: "review", Iteration: 1, Phase: "thinking"},
		},
		"turns and tokens": {
			[]event.Event{in("s", event.TurnEnded{Usage: use(1, 2)}), ofAgent("a", "", event.TurnEnded{Usage: use(3, 4)})},
			Snapshot{Turns: 2, Usage: use(4, 6)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var tr Tracker
			var prev Snapshot
			for _, e := range number(tt.events...) {
				changed := tr.Observe(e)
				s := unplaced(tr.Snapshot())
				if same := cmp.Equal(prev, s, cmpopts.EquateEmpty()); same == changed {
					t.Errorf("event %d, %s: Observe says changed %t, the snapshot %t", e.Seq, e.Kind, changed, !same)
				}
				prev = s
			}
			got := unplaced(tr.Snapshot())
			got.LastEvent = ""
			if diff := cmp.Diff(tt.want, got, noSince, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// unplaced leaves out where the tracker stands.
func unplaced(s Snapshot) Snapshot {
	s.LastSeq, s.LastAt = 0, time.Time{}
	return s
}

var noSince = cmp.Options{
	cmpopts.IgnoreFields(OpenCall{}, "Since"), cmpopts.IgnoreFields(OpenAgent{}, "Since"), cmpopts.IgnoreFields(Question{}, "Since"),
}

func TestTrackerOfOneSession(t *testing.T) {
	tr := NewTracker("")
	events := number(
		event.Event{Body: event.ChannelReady{}}, in("s1", event.Status{Phase: "working"}),
		in("s2", event.Status{Phase: "done"}), event.Event{Body: event.Report{State: "x"}},
	)
	var changed []bool
	for _, e := range events {
		changed = append(changed, tr.Observe(e))
	}
	if diff := cmp.Diff([]bool{true, true, false, true}, changed); diff != "" {
		t.Error(diff)
	}
	want := Snapshot{SessionID: "s1", Phase: "working", ChannelReady: true, LastReportState: "x", LastEvent: "report", LastSeq: 4, LastAt: events[3].At}
	if diff := cmp.Diff(want, tr.Snapshot(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if NewTracker("s9").Observe(events[1]) {
		t.Error("a tracker of s9 took an event of s1")
	}
}

func TestTrackerCountsUnread(t *testing.T) {
	foreign := event.Event{Body: event.Foreign{Dialect: "x"}}
	of := func(seq uint64, b event.Body) event.Event { return event.Event{Header: event.Header{Of: seq}, Body: b} }
	events := number(
		foreign, of(1, event.Text{}), of(1, event.Text{}),
		foreign,                      // 4: a later line tells it
		foreign, of(5, event.Diag{}), // not understood
		foreign, of(7, event.Diag{}), // nor this one
		event.Event{Body: event.Diag{}}, // noise of a guest that is no line
		of(4, event.RunDone{}),
	)
	var tr Tracker
	var d Digest
	for _, e := range events {
		Apply(e, &tr, &d)
	}
	if got := tr.Snapshot().LinesUnread; got != 2 {
		t.Errorf("tracker: %d lines unread, want 2", got)
	}
	if s := d.Summary(); s.Unread != 2 || s.Foreign != 4 {
		t.Errorf("digest: %d of %d lines unread, want 2 of 4", s.Unread, s.Foreign)
	}
}

func TestSnapshotIsACopy(t *testing.T) {
	var tr Tracker
	tr.Observe(in("s", event.Finished{Files: []string{"a"}}))
	tr.Observe(onCall("c", event.GateAsked{Request: "q"}))
	s := tr.Snapshot()
	s.FilesChanged[0], s.Pending[0].Request = "x", "x"
	if got := tr.Snapshot(); got.FilesChanged[0] != "a" || got.Pending[0].Request != "q" {
		t.Error("a snapshot can change the tracker")
	}
}

func TestEmptySnapshotIsEmpty(t *testing.T) {
	if got, err := json.Marshal(Snapshot{}); err != nil || string(got) != "{}" {
		t.Errorf("%s, %v", got, err)
	}
}
