package event

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var moment = time.Date(2026, 8, 22, 10, 11, 12, 0, time.UTC)

func top(b Body) Event              { return Event{Header{Session: "s"}, b} }
func on(call string, b Body) Event  { return Event{Header{Session: "s", Call: call}, b} }
func sub(path string, b Body) Event { return Event{Header{Session: "s-" + path, Agent: path}, b} }
func subOn(path, call string, b Body) Event {
	return Event{Header{Session: "s-" + path, Agent: path, Call: call}, b}
}

// stream numbers events and gives each a time.
func stream(events ...Event) []Event {
	for i := range events {
		events[i] = events[i].Stamp()
		events[i].Seq = uint64(i + 1)
		events[i].At = moment.Add(time.Duration(i) * time.Millisecond)
	}
	return events
}

// whole are streams that need no mending.
var whole = map[string][]Event{
	"hello": stream(
		top(RunStarted{Format: Format, Program: "sluice"}), top(Prompt{ID: "m1", Text: "hello"}),
		top(TurnStarted{Number: 1}), top(Text{Text: "Hello."}), top(TurnEnded{Number: 1, Finish: FinishStop}),
		top(ReplyDone{Prompt: "m1"}), top(RunDone{Outcome: Done}),
	),
	"noise": stream(
		Event{Body: Foreign{Dialect: "grok", Line: "warning"}}, top(Diag{Text: "not JSON"}), top(Unknown{Name: "from.tomorrow", Raw: Raw("{}")}),
		top(RunStarted{Format: Format}), top(Catalog{}), top(Status{Phase: "thinking"}), top(Diag{Text: "noise"}),
		top(Prompt{Text: "a"}), top(Unknown{Name: "from.tomorrow", Raw: Raw("{}")}), top(TurnStarted{}),
		top(TextDelta{Text: "a"}), Event{Body: Foreign{Dialect: "grok", Line: "x"}}, top(TextDelta{Text: "b"}), top(Text{Text: "ab"}),
		top(Notice{Text: "n"}), top(TurnEnded{}), top(ReplyDone{}), top(Error{Message: "late"}), top(RunFailed{Outcome: Internal}),
	),
	"parallel calls": stream(
		top(RunStarted{Format: Format}), top(Catalog{}), top(Prompt{ID: "m1", Text: "fix it"}),
		top(TurnStarted{Number: 1}),
		top(ThoughtDelta{ID: "b1", Text: "Let me "}), top(ThoughtDelta{ID: "b1", Text: "see."}), top(Thought{ID: "b1", Text: "Let me see."}),
		top(TextDelta{ID: "b2", Text: "I "}), top(TextDelta{ID: "b2", Text: "look."}), top(Text{ID: "b2", Text: "I look."}),
		on("c1", ToolCalled{Name: "read"}), on("c2", ToolCalled{Name: "bash"}), on("c3", ToolCalled{Name: "edit"}),
		top(TurnEnded{Number: 1, Finish: FinishToolCalls}),
		on("c1", GateAllowed{By: ByRule}), on("c1", ToolStarted{Name: "read"}),
		on("c2", GateAsked{Request: "q1"}), on("c3", GateAsked{Request: "q2"}),
		on("c1", ToolOutput{Text: "1"}), on("c3", GateDenied{Request: "q2", By: ByClient}), on("c3", ToolDenied{Name: "edit"}),
		on("c2", GateAllowed{Request: "q1", By: ByClient}), on("c2", ToolStarted{Name: "bash"}),
		on("c1", ToolDone{Name: "read"}), on("c2", ToolFailed{Name: "bash"}),
		top(TurnStarted{Number: 2}), on("c1", ToolCalled{Name: "read"}), top(TurnEnded{Number: 2}), on("c1", ToolDone{Name: "read"}), // the id again
		top(TurnStarted{Number: 3}), top(TextDelta{Text: "D"}), top(Text{Text: "D"}), top(Text{Text: "one."}), top(TurnEnded{Number: 3}),
		top(ReplyDone{Prompt: "m1"}), top(RunDone{Outcome: Done}),
	),
	"calls before the end of their turn": stream(
		top(RunStarted{Format: Format}), top(Prompt{}),
		top(TurnStarted{}), top(Text{Text: "a"}), on("c1", ToolCalled{}), on("c1", ToolDone{}), top(Text{Text: "b"}), on("c2", ToolCalled{}), on("c2", ToolDone{}), top(TurnEnded{}),
		top(TurnStarted{}), top(TurnEnded{Finish: FinishToolCalls}), on("c3", ToolCalled{}), on("c3", ToolDone{}), on("c4", ToolCalled{}), on("c4", ToolCancelled{}),
		top(ReplyCancelled{}), top(RunCancelled{}),
	),
	"agents": stream(
		top(RunStarted{Format: Format}), top(Prompt{ID: "m1"}), top(TurnStarted{Number: 1}), on("c1", ToolCalled{Name: "task"}), on("c2", ToolCalled{Name: "task"}), top(TurnEnded{Number: 1}),
		on("c1", ToolStarted{}), on("c2", ToolStarted{}),
		sub("task-1", AgentStarted{Depth: 1}), sub("task-2", AgentStarted{Depth: 1}),
		sub("task-1", TurnStarted{Number: 1}), sub("task-2", TurnStarted{Number: 1}), sub("task-1", TextDelta{Text: "a"}), sub("task-2", TextDelta{Text: "x"}),
		sub("task-1", TextDelta{Text: "b"}), sub("task-1", Text{Text: "ab"}), sub("task-2", Text{Text: "x"}),
		subOn("task-1", "c1", ToolCalled{Name: "task"}), sub("task-1", TurnEnded{Number: 1}), sub("task-2", TurnEnded{Number: 1}), subOn("task-1", "c1", ToolStarted{}),
		sub("task-1/task-3", AgentStarted{Depth: 2}), sub("task-1/task-3", TurnStarted{Number: 1}), subOn("task-1/task-3", "c1", ToolCalled{Name: "bash"}), sub("task-1/task-3", TurnEnded{Number: 1}),
		subOn("task-1/task-3", "c1", GateAsked{Request: "q1"}), top(GateAllowed{Request: "q1", By: ByClient}), subOn("task-1/task-3", "c1", ToolDone{}),
		sub("task-2", ReplyDone{}), sub("task-2", AgentEnded{}), on("c2", ToolDone{}),
		sub("task-1/task-3", Error{Message: "hm"}), sub("task-1/task-3", AgentEnded{Error: "hm"}), subOn("task-1", "c1", ToolFailed{}),
		sub("task-1", TurnStarted{Number: 2}), sub("task-1", Text{Text: "no"}), sub("task-1", TurnEnded{Number: 2}), sub("task-1", AgentEnded{}), on("c1", ToolDone{}),
		top(TurnStarted{Number: 2}), top(Text{Text: "Done."}), top(TurnEnded{Number: 2}), top(ReplyDone{Prompt: "m1"}), top(RunDone{Outcome: Done}),
	),
	"replies": stream(
		top(RunStarted{Format: Format}), top(Prompt{Text: "rules", Source: SourceHistory}), top(Prompt{ID: "m1", Text: "a"}),
		top(TurnStarted{Number: 1}), top(TextDelta{Text: "a"}), top(Prompt{ID: "m2", Text: "no, b", Source: SourceSteer}), top(TextDelta{Text: "b"}), top(Text{Text: "ab"}), top(TurnEnded{Number: 1}),
		top(TurnStarted{Number: 2}), top(Text{Text: "b"}), top(TurnEnded{Number: 2}), top(ReplyDone{Prompt: "m1"}),
		top(Prompt{ID: "m3", Text: "part 1, "}), top(Prompt{ID: "m3", Text: "part 2"}), top(Error{Message: "no"}), top(ReplyFailed{Prompt: "m3"}),
		top(GateAsked{Request: "trust"}), top(GateDenied{Request: "trust"}),
		top(Prompt{ID: "m4"}), top(TurnStarted{Number: 3}), top(Text{Text: "Well", Partial: true}), top(TurnEnded{Number: 3, Finish: FinishError}), top(ReplyCancelled{Prompt: "m4"}),
		top(RunCancelled{Outcome: Cancelled}),
	),
	"retry": stream(
		top(RunStarted{Format: Format}), top(Prompt{ID: "m1"}), top(TurnStarted{Number: 1}), top(TextDelta{Text: "I th"}), top(Text{Text: "I th", Partial: true}),
		top(Retry{Attempt: 1}), top(TextDelta{Text: "I "}), top(TextDelta{Text: "think"}), top(Text{Text: "I think"}), top(Compacted{}), top(TurnEnded{Number: 1}),
		top(ReplyDone{Prompt: "m1"}), top(RunDone{Outcome: Done}),
	),
	"loop": stream(
		top(RunStarted{Format: Format}), top(LoopStarted{MaxIterations: 2, Pre: 1, Loop: 1}),
		top(PhaseStarted{Phase: "plan", Part: "pre"}), top(SessionStarted{}), top(Prompt{Source: "phase"}), top(TurnStarted{}), top(Text{Text: "a"}), top(TurnEnded{}), top(ReplyDone{}), top(PhaseEnded{Phase: "plan"}),
		top(PhaseStarted{Phase: "do", Iteration: 1}), top(SessionStarted{}), top(Prompt{Source: "phase"}), top(ReplyFailed{}), top(PhaseRetry{Attempt: 1}),
		top(SessionStarted{}), top(Prompt{Source: "phase"}), top(TurnStarted{}), top(Text{Text: "[exit]"}), top(TurnEnded{}), top(Report{}), top(Finished{}), top(ReplyDone{}), top(Status{Phase: "done"}),
		top(PhaseEnded{Phase: "do", Iteration: 1, Marker: "exit"}), top(LoopEnded{Reason: "exit"}), top(RunDone{Outcome: Done}),
	),
	"two runs": stream(
		top(RunStarted{Format: Format}), top(Prompt{ID: "m1"}), top(TurnStarted{Number: 1}), top(TurnEnded{Number: 1}), top(ReplyDone{}), top(RunDone{Outcome: Done}),
		top(RunStarted{Format: Format, Resumed: true}), top(Prompt{ID: "m2"}), top(TurnStarted{Number: 2}), top(TurnEnded{Number: 2}), top(ReplyDone{}), top(RunFailed{Outcome: Failed}),
	),
	"from tomorrow": stream( // bodies that this version cannot read still count
		top(Unknown{"run.started", Raw(`{"format":"2.0"}`)}), top(Prompt{ID: "m1"}), top(TurnStarted{}), top(TextDelta{Text: "a"}), top(Unknown{"text", Raw(`{"text":"a","partial":"no"}`)}),
		on("c1", Unknown{"tool.called", Raw(`{"name":7}`)}), top(TurnEnded{}), on("c1", GateAsked{Request: "q"}), on("c1", Unknown{"gate.allowed", Raw(`{"request":"q","by":1}`)}),
		on("c1", Unknown{"tool.done", Raw(`{"exit":"0"}`)}), top(Unknown{"reply.done", Raw(`{"usage":0}`)}), top(Unknown{"run.done", Raw(`{"outcome":true}`)}),
	),
}

func mend(events []Event) (out []Event) {
	m := Mender{Runs: true}
	emit := func(e Event) { out = append(out, e) }
	for _, e := range events {
		m.Put(e, emit)
	}
	m.Close(emit)
	return out
}

func TestWhole(t *testing.T) {
	for name, events := range whole {
		t.Run(name, func(t *testing.T) {
			if err := checkGrammar(events); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(events, mend(events)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// mended mends a stream in which every event has a number of its own, and holds the result to the promises.
func mended(events []Event) ([]Event, error) {
	out := mend(events)
	if err := checkGrammar(out); err != nil {
		return out, err
	}
	if err := complete(events, out); err != nil {
		return out, err
	}
	if again := mend(out); !reflect.DeepEqual(out, again) {
		return out, fmt.Errorf("mended twice it is not the same: %s", cmp.Diff(out, again))
	}
	return out, nil
}

// complete says whether everything that went in came out, in its order.
func complete(in, out []Event) error {
	var told []Event
	for _, e := range out {
		if e.Seq != 0 && !isRunEnd(e) {
			told = append(told, e)
		}
	}
	in = slices.DeleteFunc(slices.Clone(in), isRunEnd)
	if len(told) != len(in) {
		return fmt.Errorf("%d events went in and %d came out", len(in), len(told))
	}
	for i, e := range in {
		if _, ok := readable(e.Body).(RunStarted); ok && told[i].Kind == "session.started" && told[i].Seq == e.Seq {
			continue
		}
		want := e
		if told[i].Kind == "text" || told[i].Kind == "thought" { // they may be filled
			fill(&want, textOf(told[i].Body))
		}
		if !reflect.DeepEqual(told[i], want) {
			return fmt.Errorf("in place of %s came %s", Append(nil, e), Append(nil, told[i]))
		}
	}
	return nil
}

func isRunEnd(e Event) bool {
	_, ok := AsRunEnd(readable(e.Body))
	return ok
}

func textOf(b Body) string {
	switch b := b.(type) {
	case Text:
		return b.Text
	case Thought:
		return b.Text
	}
	return ""
}

// Whatever is missing, doubled or out of place in a stream, it comes out whole.
func TestBroken(t *testing.T) {
	n := 0
	check := func(t *testing.T, what string, at int, events []Event) {
		t.Helper()
		n++
		out, err := mended(events)
		if err == nil {
			return
		}
		var lines strings.Builder
		for _, e := range out {
			fmt.Fprintf(&lines, "\t%s\n", Append(nil, e))
		}
		t.Errorf("%s at event %d: %v\n%s", what, at+1, err, lines.String())
	}
	for name, events := range whole {
		t.Run(name, func(t *testing.T) {
			for i := range events {
				check(t, "cut", i, slices.Clone(events[:i]))
				check(t, "its head off", i, slices.Clone(events[i:]))
				check(t, "one missing", i, slices.Delete(slices.Clone(events), i, i+1))
				doubled := slices.Insert(slices.Clone(events), i, events[i])
				doubled[i+1].Seq += 1000
				check(t, "one doubled", i, doubled)
				if i > 0 {
					swapped := slices.Clone(events)
					swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
					check(t, "two swapped", i, swapped)
				}
				for j := range i { // any two missing
					check(t, fmt.Sprintf("one missing, and event %d", j+1), i, slices.Delete(slices.Delete(slices.Clone(events), i, i+1), j, j+1))
				}
			}
		})
	}
	t.Log(n, "broken streams")
}

// What exactly is added, where it matters.
func TestMend(t *testing.T) {
	tests := []struct {
		name string
		in   []Event
		want []Event
	}{
		{"nothing", nil, []Event{top(RunStarted{Format: Format, Inferred: true}), top(RunFailed{Outcome: Failed, Reason: "the stream ended without its end", Inferred: true})}},
		{"deltas alone", []Event{top(RunStarted{}), top(Prompt{}), of3(top(TextDelta{ID: "b", Text: "he"})), of3(top(TextDelta{ID: "b", Text: "llo"})), top(ReplyDone{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{Number: 1, Inferred: true}), of3(top(TextDelta{ID: "b", Text: "he"})), of3(top(TextDelta{ID: "b", Text: "llo"})),
				of3(top(Text{ID: "b", Text: "hello"})), top(TurnEnded{Number: 1, Inferred: true}), top(ReplyDone{}), top(RunDone{})}},
		{"deltas, cut", []Event{top(RunStarted{}), top(Prompt{ID: "m"}), top(TurnStarted{Number: 7}), of3(top(ThoughtDelta{Text: "he"}))},
			[]Event{top(RunStarted{}), top(Prompt{ID: "m"}), top(TurnStarted{Number: 7}), of3(top(ThoughtDelta{Text: "he"})),
				top(Thought{Text: "he", Partial: true, Inferred: true}), top(TurnEnded{Number: 7, Inferred: true}), top(ReplyFailed{Prompt: "m", Inferred: true}),
				top(RunFailed{Outcome: Failed, Reason: "the stream ended without its end", Inferred: true})}},
		{"deltas given up", []Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{}), top(TextDelta{Text: "I th"}), top(Retry{Attempt: 1}), top(TextDelta{Text: "I"}), top(TurnEnded{}), top(ReplyDone{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{}), top(TextDelta{Text: "I th"}), top(Text{Text: "I th", Partial: true, Inferred: true}), top(Retry{Attempt: 1}),
				top(TextDelta{Text: "I"}), top(Text{Text: "I"}), top(TurnEnded{}), top(ReplyDone{}), top(RunDone{})}},
		{"a block that its deltas do not reach", []Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{}), top(TextDelta{ID: "b", Text: "he"}), of3(top(Text{ID: "b", Text: "hello"})), top(TurnEnded{}), top(ReplyDone{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{}), top(TextDelta{ID: "b", Text: "he"}), of3(top(TextDelta{ID: "b", Text: "llo"})), of3(top(Text{ID: "b", Text: "hello"})), top(TurnEnded{}), top(ReplyDone{}), top(RunDone{})}},
		{"a block that its deltas are not", []Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{}), top(TextDelta{Text: "lo"}), top(Text{Text: "hello"}), top(TurnEnded{}), top(ReplyDone{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{}), top(TextDelta{Text: "lo"}), top(Text{Text: "lo", Partial: true, Inferred: true}), top(Text{Text: "hello"}), top(TurnEnded{}), top(ReplyDone{}), top(RunDone{})}},
		{"a block that says only that it is over", []Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{}), top(ThoughtDelta{Text: "he"}), top(Thought{Signature: "s"}), top(TurnEnded{}), top(ReplyDone{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{}), top(ThoughtDelta{Text: "he"}), top(Thought{Text: "he", Signature: "s"}), top(TurnEnded{}), top(ReplyDone{}), top(RunDone{})}},
		{"no turns", []Event{top(RunStarted{}), top(Prompt{}), top(Text{Text: "a"}), on("c1", ToolCalled{}), on("c2", ToolCalled{}), on("c1", ToolDone{}), on("c2", ToolDone{}), top(Text{Text: "b"}), top(ReplyDone{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{Number: 1, Inferred: true}), top(Text{Text: "a"}), on("c1", ToolCalled{}), on("c2", ToolCalled{}), on("c1", ToolDone{}), on("c2", ToolDone{}),
				top(TurnEnded{Number: 1, Inferred: true}), top(TurnStarted{Number: 2, Inferred: true}), top(Text{Text: "b"}), top(TurnEnded{Number: 2, Inferred: true}), top(ReplyDone{}), top(RunDone{})}},
		{"a turn that nobody opened", []Event{top(RunStarted{}), top(Prompt{}), top(Text{Text: "a"}), on("c1", ToolCalled{}), on("c1", ToolDone{}), top(TurnEnded{Model: "m"}), top(ReplyDone{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{Number: 1, Inferred: true}), top(Text{Text: "a"}), on("c1", ToolCalled{}), on("c1", ToolDone{}), top(TurnEnded{Model: "m"}), top(ReplyDone{}), top(RunDone{})}},
		{"a question that makes a call", []Event{top(RunStarted{}), top(Prompt{}), on("c1", GateAsked{Request: "q", Tool: "bash", Input: Raw(`{}`)}), on("c1", ToolStarted{Name: "bash"}), on("c1", ToolDone{Name: "bash"}), top(ReplyDone{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{Number: 1, Inferred: true}), on("c1", ToolCalled{Name: "bash", Input: Raw(`{}`), Inferred: true}), on("c1", GateAsked{Request: "q", Tool: "bash", Input: Raw(`{}`)}),
				on("c1", ToolStarted{Name: "bash"}), on("c1", GateAllowed{Request: "q", Tool: "bash", Inferred: true}), on("c1", ToolDone{Name: "bash"}), top(TurnEnded{Number: 1, Inferred: true}), top(ReplyDone{}), top(RunDone{})}},
		{"a decision that makes a call", []Event{top(RunStarted{}), top(Prompt{}), on("c1", GateDenied{Tool: "bash"}), on("c1", ToolDenied{Name: "bash"}), top(ReplyDone{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{Number: 1, Inferred: true}), on("c1", ToolCalled{Name: "bash", Inferred: true}), on("c1", GateDenied{Tool: "bash"}), on("c1", ToolDenied{Name: "bash"}),
				top(TurnEnded{Number: 1, Inferred: true}), top(ReplyDone{}), top(RunDone{})}},
		{"an answer after what came of it", []Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{}), on("c1", ToolCalled{}), top(TurnEnded{}), on("c1", GateAsked{Request: "q"}), on("c1", ToolDone{}), on("c1", GateAllowed{Request: "q"}), top(ReplyDone{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(TurnStarted{}), on("c1", ToolCalled{}), top(TurnEnded{}), on("c1", GateAsked{Request: "q"}), on("c1", GateAllowed{Request: "q", Inferred: true}), on("c1", ToolDone{}),
				on("c1", GateAsked{Request: "q", Inferred: true}), on("c1", GateAllowed{Request: "q"}), top(ReplyDone{}), top(RunDone{})}},
		{"everything open", []Event{top(RunStarted{}), top(LoopStarted{}), top(PhaseStarted{Phase: "p", Iteration: 2}), top(Prompt{ID: "m"}), top(TurnStarted{Number: 1}), on("c1", ToolCalled{Name: "task"}), on("c1", GateAsked{Request: "q", Tool: "task"}),
			sub("a", AgentStarted{}), sub("a/b", TextDelta{Text: "x"}), top(RunCancelled{Reason: "interrupted"})},
			[]Event{top(RunStarted{}), top(LoopStarted{}), top(PhaseStarted{Phase: "p", Iteration: 2}), top(Prompt{ID: "m"}), top(TurnStarted{Number: 1}), on("c1", ToolCalled{Name: "task"}), on("c1", GateAsked{Request: "q", Tool: "task"}),
				sub("a", AgentStarted{}), sub("a/b", AgentStarted{Depth: 2, Inferred: true}), sub("a/b", TurnStarted{Number: 1, Inferred: true}), sub("a/b", TextDelta{Text: "x"}), sub("a/b", Text{Text: "x", Partial: true, Inferred: true}),
				sub("a/b", TurnEnded{Number: 1, Inferred: true}), sub("a/b", AgentEnded{Inferred: true}), sub("a", AgentEnded{Inferred: true}),
				on("c1", GateDenied{Request: "q", Tool: "task", By: ByNobody, Inferred: true}), on("c1", ToolCancelled{Name: "task", Error: "the call did not end", Inferred: true}), top(TurnEnded{Number: 1, Inferred: true}),
				top(ReplyCancelled{Prompt: "m", Inferred: true}), top(PhaseEnded{Phase: "p", Iteration: 2, Inferred: true}), top(LoopEnded{Inferred: true}), top(RunCancelled{Reason: "interrupted"})}},
		{"a phase says how its reply ended", []Event{top(RunStarted{}), top(PhaseStarted{Phase: "p"}), top(Prompt{ID: "m"}), top(PhaseEnded{Phase: "p", Stop: "end_turn"}), top(PhaseEnded{Phase: "q", Iteration: 1}), top(LoopEnded{}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(PhaseStarted{Phase: "p"}), top(Prompt{ID: "m"}), top(ReplyDone{Prompt: "m", Stop: "end_turn", Inferred: true}), top(PhaseEnded{Phase: "p", Stop: "end_turn"}),
				top(PhaseStarted{Phase: "q", Iteration: 1, Inferred: true}), top(PhaseEnded{Phase: "q", Iteration: 1}), top(LoopStarted{Inferred: true}), top(LoopEnded{}), top(RunDone{})}},
		{"talk after the end", []Event{top(RunStarted{}), top(RunDone{}), top(Notice{Text: "bye"}), top(RunFailed{Reason: "it crashed"}), top(RunCancelled{})}, []Event{top(RunStarted{}), top(Notice{Text: "bye"}), top(RunFailed{Reason: "it crashed"})}},
		{"a second start", []Event{top(RunStarted{}), top(RunStarted{Model: "m"}), top(RunDone{})}, []Event{top(RunStarted{}), top(SessionStarted{Model: "m"}), top(RunDone{})}},
		{"another run", []Event{top(RunStarted{}), top(Prompt{}), top(RunDone{}), top(RunStarted{Format: 1}), top(Prompt{})},
			[]Event{top(RunStarted{}), top(Prompt{}), top(ReplyDone{Inferred: true}), top(RunDone{}), top(RunStarted{Format: 1}), top(Prompt{}), top(ReplyFailed{Inferred: true}),
				top(RunFailed{Outcome: Failed, Reason: "the stream ended without its end", Inferred: true})}},
		{"two prompts", []Event{top(RunStarted{}), top(Prompt{ID: "a"}), top(Prompt{ID: "b"}), top(ReplyDone{Prompt: "b"}), top(RunDone{})},
			[]Event{top(RunStarted{}), top(Prompt{ID: "a"}), top(ReplyFailed{Prompt: "a", Inferred: true}), top(Prompt{ID: "b"}), top(ReplyDone{Prompt: "b"}), top(RunDone{})}},
		{"a prompt of a sub-agent", []Event{top(RunStarted{}), top(Prompt{}), sub("a", AgentStarted{}), sub("a", Prompt{Text: "x"}), sub("a", ReplyFailed{}), sub("a", AgentEnded{}), top(ReplyDone{}), top(RunDone{})}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == nil {
				tt.want = tt.in
			}
			for i := range tt.want {
				tt.want[i] = tt.want[i].Stamp()
			}
			got := mend(tt.in)
			if tt.name == "nothing" {
				for i := range got {
					got[i].Session = "s"
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if err := checkGrammar(got); err != nil {
				t.Error(err)
			}
		})
	}
}

func of3(e Event) Event {
	e.Of = 3
	return e
}

// The end that was held does not make time go backwards.
func TestMendTime(t *testing.T) {
	events := stream(top(RunStarted{}), top(RunDone{}), top(Notice{}))
	out := mend(events)
	if end := out[len(out)-1]; end.Kind != "run.done" || !end.At.Equal(events[2].At) {
		t.Errorf("%s", Append(nil, end))
	}
}

// Memory does not grow with the stream.
func TestMendMemory(t *testing.T) {
	var m Mender
	n := 0
	emit := func(Event) { n++ }
	piece := strings.Repeat("x", 100)
	live := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := live()
	m.Put(top(RunStarted{}), emit)
	for reply := range 100 {
		m.Put(top(Prompt{ID: fmt.Sprint(reply)}), emit)
		for turn := range 100 {
			call := fmt.Sprint(reply, turn)
			path := "a-" + call
			for range 50 {
				m.Put(top(TextDelta{ID: call, Text: piece}), emit)
				m.Put(sub(path, ThoughtDelta{Text: piece}), emit)
			}
			m.Put(on(call, GateAsked{Request: call}), emit)
			m.Put(on(call, ToolDone{}), emit)
			m.Put(sub(path, AgentEnded{}), emit)
		}
		m.Put(top(ReplyDone{}), emit)
	}
	if after := live(); after > before+1<<20 {
		t.Errorf("%d events took %d bytes", n, after-before)
	}
	m.Close(emit)
	if n < 1_000_000 {
		t.Errorf("only %d events", n)
	}
}

// sampled makes a stream of sample events, three bytes each: which one, of which agent and call, and what it says.
func sampled(data []byte) (events []Event) {
	samples := Samples()
	for i := 0; i+2 < min(len(data), 300); i += 3 {
		e := samples[int(data[i])%len(samples)]
		e.Seq = uint64(i + 1)
		e.Agent = pick(data[i+1], e.Agent, "", "", "a", "a/b", "a/b/c", "b", "/")
		if e.Call != "" {
			e.Call = pick(data[i+1]>>3, "", "c1", "c2", "c3")
		}
		x := data[i+2]
		switch b := e.Body.(type) {
		case GateAsked:
			b.Request, b.Inferred = pick(x, "", "q1", "q2", "q3"), x&8 != 0
			e.Body = b
		case GateAllowed:
			b.Request = pick(x, "", "q1", "q2", "q3")
			e.Body = b
		case GateDenied:
			b.Request = pick(x, "", "q1", "q2", "q3")
			e.Body = b
		case Prompt:
			b.ID, b.Source, b.Inferred = pick(x, "", "m1"), pick(x>>1, "", "", SourceSteer, SourceHistory), x&8 != 0
			e.Body = b
		case TurnStarted:
			b.Number, b.Inferred = int(x&3), x&8 != 0
			e.Body = b
		case TextDelta:
			b.ID, b.Text = pick(x, "", "b2"), pick(x>>1, "I run", " the tests.", "I run the tests.", "")
			e.Body = b
		case Text:
			b.ID, b.Text = pick(x, "", "b2"), pick(x>>1, "I run", "I run the tests.", "")
			e.Body = b
		case PhaseEnded:
			b.Phase, b.Stop = pick(x, "review", "plan"), pick(x>>1, "end_turn", "cancelled", "")
			e.Body = b
		}
		events = append(events, e)
	}
	return events
}

func pick(b byte, from ...string) string { return from[int(b)%len(from)] }

func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 120)
	for range 3000 {
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		if _, err := mended(sampled(data)); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
	}
}

func FuzzMend(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 0, 0, 4, 0, 0, 5, 0, 0, 7, 0, 0, 9, 0, 0, 10, 0, 0, 11, 0, 0, 16, 0, 0, 31, 0, 0, 48, 0, 0})
	f.Add([]byte{3, 0, 0, 23, 3, 0, 23, 5, 0, 9, 12, 0, 11, 12, 1, 13, 0, 1, 24, 3, 0, 34, 0, 0, 35, 0, 0, 37, 0, 1, 49, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if out, err := mended(sampled(data)); err != nil {
			for _, e := range out {
				t.Logf("%s", Append(nil, e))
			}
			t.Error(err)
		}
	})
}
