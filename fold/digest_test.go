package fold

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-dev/sluice/event"
)

// aRun is a run in which a little of everything happens.
func aRun() []event.Event {
	return number(
		in("s", event.RunStarted{Format: 1, Program: "sluice", Version: "0.1.0", Provider: "p", Model: "m", Backend: "sluice"}),
		in("s", event.LoopStarted{MaxIterations: 3}),
		in("s", event.PhaseStarted{Phase: "fix", Iteration: 1}),
		in("s", event.Prompt{Text: "fix it"}),
		in("s", event.TurnStarted{Number: 1}),
		in("s", event.TextDelta{Text: "There is a failed "}),
		in("s", event.TextDelta{Text: "test."}),
		in("s", event.Text{Text: "Look:\nThere is a failed test."}),
		onCall("1", event.ToolCalled{Name: "bash"}),
		onCall("2", event.ToolCalled{Name: "bash"}),
		onCall("3", event.ToolCalled{Name: "write"}),
		in("s", event.TurnEnded{Number: 1, Provider: "p", Model: "m", Finish: event.FinishToolCalls, Usage: use(10, 5), Cost: pay(0.25)}),
		onCall("1", event.GateAsked{Request: "q"}),
		onCall("1", event.GateAllowed{Request: "q", By: event.ByClient}),
		onCall("3", event.GateDenied{By: event.ByRule}),
		onCall("3", event.ToolDenied{Name: "write"}),
		onCall("1", event.ToolStarted{Name: "bash"}),
		onCall("1", event.ToolDone{Name: "bash"}),
		onCall("2", event.ToolFailed{Name: "bash"}),
		ofAgent("a", "", event.AgentStarted{Title: "look"}),
		ofAgent("a", "4", event.ToolCalled{Name: "grep"}),
		ofAgent("a", "", event.TurnEnded{Number: 1, Provider: "p", Model: "small", Usage: use(1, 1)}),
		ofAgent("a", "", event.AgentEnded{Error: "gave up"}),
		in("s", event.Retry{Class: "rate_limit"}),
		in("s", event.Error{Message: "overloaded"}),
		in("s", event.Error{Message: "overloaded"}),
		in("s", event.Compacted{}),
		in("s", event.ReplyDone{Stop: "end_turn", Inferred: true}),
		in("s", event.PhaseEnded{Phase: "fix", Iteration: 1}),
		in("s", event.LoopEnded{Reason: "exit", Iterations: 1}),
		in("s", event.Unknown{Name: "from.tomorrow", Raw: event.Raw(`{}`)}),
		in("s", event.RunFailed{Outcome: event.Denied, Reason: "a call was denied", Denials: 1, Usage: use(11, 6)}),
	)
}

func digest(events []event.Event) *Digest {
	var d Digest
	for _, e := range events {
		Apply(e, &d)
	}
	return &d
}

func TestDigest(t *testing.T) {
	start := time.Date(2026, 8, 22, 10, 0, 0, 0, time.UTC)
	top, sub := Account{Turns: 1, Usage: use(10, 5), Cost: pay(0.25)}, Account{Turns: 1, Unpriced: 1, Usage: use(1, 1)}
	want := Summary{
		Journals: 1, Runs: 1, Outcome: event.Denied, End: event.RunEnd{Outcome: event.Denied, Reason: "a call was denied", Denials: 1, Usage: use(11, 6)},
		Started: start, Ended: start.Add(31 * time.Second), Duration: 31000,
		Programs: []string{"sluice 0.1.0"}, Backends: []string{"sluice"}, Models: []string{"p/m", "p/small"}, Sessions: []string{"s", "s/a"},
		Agents:  []AgentSummary{{Agent: "a", Session: "s/a", Title: "look", Depth: 1, Error: "gave up"}},
		Replies: Replies{Done: 1},
		Tools: []ToolSummary{
			{Name: "bash", Calls: 2, Failed: 1, Total: 10000, Longest: 9000}, {Name: "write", Calls: 1, Denied: 1}, {Name: "grep", Calls: 1, Open: 1},
		},
		Spent: Accounts{
			Total:  Account{Turns: 2, Unpriced: 1, Usage: use(11, 6), Cost: pay(0.25)},
			Models: []ModelAccount{{"p", "m", top}, {"p", "small", sub}}, Agents: []AgentAccount{{"", top}, {"a", sub}},
		},
		Gate:    GateSummary{Asked: 1, Allowed: map[event.By]int{event.ByClient: 1}, Denied: map[event.By]int{event.ByRule: 1}},
		Retries: Counted{1, []Count{{"rate_limit", 1}}}, Errors: Counted{2, []Count{{"overloaded", 2}}},
		Compactions: 1, Findings: 1, Excerpts: []Excerpt{{Seq: 8, Text: "There is a failed test."}},
		Loops: []LoopSummary{{Max: 3, Iterations: 1, Reason: "exit"}}, Phases: []PhaseSummary{{"fix", 1, 26000}},
		Events: 32, Unknown: map[event.Kind]int{"from.tomorrow": 1}, Inferred: map[event.Kind]int{"reply.done": 1},
	}
	if diff := cmp.Diff(want, digest(aRun()).Summary(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDigestOfNoEnd(t *testing.T) {
	s := digest(number(event.Event{Body: event.Prompt{}}, event.Event{Header: event.Header{Call: "1"}, Body: event.ToolFailed{}})).Summary()
	if s.Outcome != "" || s.Runs != 1 || s.Unended != 1 {
		t.Errorf("%+v", s)
	}
	want := map[string]int{"session": 1, "model": 1, "turns": 1, "usage": 1, "cost": 1}
	if diff := cmp.Diff(want, s.Untold); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]ToolSummary{{Calls: 1, Failed: 1}}, s.Tools); diff != "" {
		t.Error(diff)
	}
	if s := new(Digest).Summary(); s.Journals != 0 || s.Runs != 0 {
		t.Errorf("of nothing: %+v", s)
	}
}

func TestDigestOfResumedRun(t *testing.T) {
	s := digest(number(
		in("s", event.RunStarted{}), in("s", event.RunFailed{Outcome: event.Unavailable}),
		in("s", event.RunStarted{Resumed: true}), onCall("1", event.ToolCalled{Name: "bash"}), // killed
		in("s", event.RunStarted{Resumed: true}), in("s", event.RunDone{}),
	)).Summary()
	if s.Outcome != event.Done || s.Runs != 3 || s.Unended != 1 || s.Duration != 3000 || s.Tools[0].Open != 1 {
		t.Errorf("%+v", s)
	}
}

func TestDigestMerge(t *testing.T) {
	parts := func() [4]*Digest {
		return [4]*Digest{
			digest(number(in("t", event.RunStarted{Program: "x"}), in("t", event.Error{Message: "other"}), in("t", event.RunDone{}))),
			digest(aRun()), digest(event.Samples()), digest(number(in("t", event.RunStarted{}))),
		}
	}
	l, r := parts(), parts()
	var left Digest // ((0·a)·b)·c … and the zero digest is nothing
	for _, d := range l {
		left.Merge(d)
	}
	r[2].Merge(r[3]) // a·(b·(c·d))
	r[1].Merge(r[2])
	r[0].Merge(r[1])
	got, other := left.Summary(), r[0].Summary()
	if diff := cmp.Diff(got, other, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("merge is not associative:\n%s", diff)
	}
	if got.Journals != 4 || got.Outcome != event.Denied || got.Unended != 1 || got.Errors.Count != 4 {
		t.Errorf("%+v", got)
	}
}

func TestSummaryIsJSON(t *testing.T) {
	want := digest(event.Samples()).Summary()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Summary
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestWriteText(t *testing.T) {
	var b strings.Builder
	if err := digest(aRun()).Summary().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `outcome      denied, a call was denied
started      2026-08-22T10:00:00Z, took 31s
program      sluice 0.1.0
backend      sluice
model        p/m, p/small
session      s, s/a
agent        a, look, error: gave up
replies      1 done
turns        2
tokens       11 in, 6 out
cost         $0.2500, without 1 of 2 turns
  by model   p/m: 1 turn, 10 in, 5 out, $0.2500
  by model   p/small: 1 turn, 1 in, 1 out
  by agent   top: 1 turn, 10 in, 5 out, $0.2500
  by agent   a: 1 turn, 1 in, 1 out
tool         bash: 2, 1 failed, 10s, longest 9s
tool         write: 1, 1 denied
tool         grep: 1, 1 never ended
loop         1 iteration, at most 3, exit
phase        fix: 1, 26s
asked        1 question
allowed      client 1
denied       rule 1
retries      1, rate_limit 1
compactions  1
errors       2
  error      overloaded (2 times)
findings     1
  finding    8: There is a failed test.
events       32
unknown      from.tomorrow 1
inferred     reply.done 1
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.Reset()
	d := digest(number(in("s\x1b]0;x\a", event.RunFailed{Outcome: "failed", Reason: "a\x1b[2Jb\nc\td"})))
	if err := d.Summary().WriteText(&b); err != nil || strings.ContainsAny(b.String(), "\x1b\a\t") {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func ExampleDigest() {
	var d Digest
	for _, e := range aRun() {
		Apply(e, &d)
	}
	s := d.Summary()
	fmt.Printf("%s: %s\n", s.Outcome, s.End.Reason)
	for _, t := range s.Tools {
		fmt.Printf("%s was called %d times\n", t.Name, t.Calls)
	}
	// Output:
	// denied: a call was denied
	// bash was called 2 times
	// write was called 1 times
	// grep was called 1 times
}
