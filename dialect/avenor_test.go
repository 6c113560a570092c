package dialect

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// tellAvenor encodes bodies of one session and returns what each line says, less its session.
func tellAvenor(bodies ...event.Body) (lines []string) {
	var list []event.Event
	for _, b := range bodies {
		list = append(list, event.Event{Header: event.Header{Session: "s"}, Body: b}.Stamp())
	}
	for line := range strings.Lines(string(encodeAll(list, &avenor, Options{}))) {
		lines = append(lines, strings.Replace(strings.TrimSpace(line), `,"session_id":"s"`, "", 1))
	}
	return lines
}

func TestAvenorTells(t *testing.T) {
	for _, c := range []struct {
		name   string
		bodies []event.Body
		want   []string
	}{
		{
			"an attempt after one that was given up has a message id of its own",
			[]event.Body{
				event.Prompt{Inferred: true}, event.TextDelta{ID: "b", Text: "I t"}, event.Text{ID: "b", Text: "I t", Partial: true},
				event.Retry{Attempt: 1}, event.TextDelta{ID: "b", Text: "I try"}, event.Text{ID: "b", Text: "I try."}, event.ReplyDone{}, event.RunDone{},
			},
			[]string{
				`{"event":"agent.message_chunk","content":{"text":"I t"},"messageId":"b"}`,
				`{"event":"agent.message_chunk","content":{"text":"I try"},"messageId":"msg-1"}`,
				`{"event":"agent.message_chunk","content":{"text":"."},"messageId":"msg-1"}`,
				`{"event":"session.end","stop_reason":"end_turn"}`,
			},
		},
		{
			"a follow-up whose text is not known opens the session again, and errors in between stand before it",
			[]event.Body{
				event.Prompt{ID: "m1"}, event.ReplyDone{}, event.Error{Message: "no such command"},
				event.Prompt{ID: "m2"}, event.ReplyDone{}, event.Error{Message: "too late"}, event.RunDone{},
			},
			[]string{
				`{"event":"session.end","stop_reason":"end_turn"}`,
				`{"event":"avenor.error","source":"backend","message":"no such command"}`,
				`{"event":"user.message_chunk","content":{"text":""},"messageId":"m2"}`,
				`{"event":"session.end","stop_reason":"end_turn"}`,
			},
		},
		{
			"a run that fails before anybody asked ends all the same",
			[]event.Body{event.RunStarted{Inferred: true}, event.RunFailed{Outcome: event.Misuse, Reason: "no key"}},
			[]string{
				`{"event":"avenor.error","source":"backend","message":"no key"}`,
				`{"event":"session.end","stop_reason":"error"}`,
			},
		},
		{
			"a question without options can be answered, and one that nobody answered is",
			[]event.Body{
				event.Prompt{Inferred: true}, event.GateAsked{Request: "1"}, event.GateAsked{Request: "2"},
				event.GateAllowed{Request: "2", By: event.ByClient}, event.ReplyFailed{Stop: "max_tokens"}, event.RunFailed{},
			},
			[]string{
				`{"event":"permission.request","request_id":"1","options":[{"optionId":"allow","kind":"allow"},{"optionId":"reject","kind":"reject"}]}`,
				`{"event":"permission.request","request_id":"2","options":[{"optionId":"allow","kind":"allow"},{"optionId":"reject","kind":"reject"}]}`,
				`{"event":"permission.response","request_id":"2","option_id":"allow","kind":"allow","source":"control","ts":0}`,
				`{"event":"permission.response","request_id":"1","option_id":"reject","kind":"reject","source":"avenor","ts":0}`,
				`{"event":"session.end","stop_reason":"max_tokens"}`,
			},
		},
		{
			"a run after one whose loop is over is told",
			[]event.Body{
				event.RunStarted{Inferred: true}, event.LoopStarted{MaxIterations: 1, Loop: 1}, event.LoopEnded{Reason: "abort"}, event.Custom{Name: "late"},
				event.RunFailed{}, event.RunStarted{Backend: "pi"}, event.Prompt{Text: "go on"}, event.ReplyDone{}, event.RunDone{},
			},
			[]string{
				`{"event":"avenor.loop.start","max_iterations":1,"pre_phase_count":0,"loop_phase_count":1,"ts":0}`,
				`{"event":"avenor.loop.end","exit_reason":"abort","iterations_completed":0,"ts":0}`,
				`{"event":"session.start","backend":"pi"}`,
				`{"event":"user.message_chunk","content":{"text":"go on"}}`,
				`{"event":"session.end","stop_reason":"end_turn"}`,
			},
		},
		{
			"an attempt that is retried has no end, and the last one has its tokens",
			[]event.Body{
				event.Prompt{Text: "go"}, event.ReplyFailed{Usage: event.Usage{Input: new(int64(2))}}, event.PhaseRetry{Attempt: 1, Limit: 2},
				event.TurnEnded{Usage: event.Usage{Input: new(int64(3))}}, event.ReplyFailed{Stop: "melted"}, event.RunFailed{Reason: "it melted"},
			},
			[]string{
				`{"event":"user.message_chunk","content":{"text":"go"}}`,
				`{"event":"avenor.retry","attempt":1,"max_retries":2,"ts":0}`,
				`{"event":"avenor.error","source":"backend","message":"it melted"}`,
				`{"event":"session.end","stop_reason":"error","usage":{"input_tokens":5,"output_tokens":0,"total_tokens":5}}`,
			},
		},
		{
			"somebody's own events wait for the next session, and none stands after the last",
			[]event.Body{
				event.Prompt{Text: "a"}, event.ReplyDone{}, event.Custom{Name: "deploy"}, event.Prompt{Text: "b"}, event.ReplyDone{}, event.Custom{Name: "deploy"}, event.RunDone{},
			},
			[]string{
				`{"event":"user.message_chunk","content":{"text":"a"}}`,
				`{"event":"session.end","stop_reason":"end_turn"}`,
				`{"event":"deploy"}`,
				`{"event":"user.message_chunk","content":{"text":"b"}}`,
				`{"event":"session.end","stop_reason":"end_turn"}`,
			},
		},
		{
			"a word that the document does not have is an error, and noise is announced",
			[]event.Body{
				event.Prompt{Text: "a"}, event.ReplyFailed{Stop: "progress_timeout"}, event.Prompt{Text: "b", Source: event.SourceHistory},
				event.Prompt{Text: "c"}, event.ReplyFailed{Stop: "degenerate_reasoning_stream"}, event.RunFailed{Reason: "noise"},
			},
			[]string{
				`{"event":"user.message_chunk","content":{"text":"a"}}`,
				`{"event":"avenor.error","source":"backend","message":"the session ended with progress_timeout"}`,
				`{"event":"session.end","stop_reason":"error"}`,
				`{"event":"user.message_chunk","content":{"text":"c"}}`,
				`{"event":"avenor.error","source":"loop","message":"noise","kind":"degenerate_reasoning_stream","stop_reason":"degenerate_reasoning_stream"}`,
				`{"event":"session.end","stop_reason":"degenerate_reasoning_stream"}`,
			},
		},
		{
			"a loop that is cut has the iterations that are whole, and the run's reason",
			[]event.Body{
				event.LoopStarted{MaxIterations: 3, Loop: 1}, event.PhaseStarted{Phase: "p", Iteration: 1}, event.PhaseEnded{Phase: "p", Iteration: 1, Stop: "end_turn"},
				event.PhaseStarted{Phase: "p", Iteration: 2}, event.PhaseEnded{Phase: "p", Iteration: 2, Inferred: true}, event.LoopEnded{Inferred: true},
				event.RunFailed{Outcome: event.Timeout},
			},
			[]string{
				`{"event":"avenor.loop.start","max_iterations":3,"pre_phase_count":0,"loop_phase_count":1,"ts":0}`,
				`{"event":"avenor.phase.start","phase":"p","iteration":1,"kind":"loop","ts":0}`,
				`{"event":"avenor.phase.end","phase":"p","iteration":1,"stop_reason":"end_turn","ts":0}`,
				`{"event":"avenor.phase.start","phase":"p","iteration":2,"kind":"loop","ts":0}`,
				`{"event":"avenor.phase.end","phase":"p","iteration":2,"stop_reason":"error","ts":0}`,
				`{"event":"avenor.loop.end","exit_reason":"timeout","iterations_completed":1,"ts":0}`,
			},
		},
		{
			"each block of an attempt that was given up gets a new id",
			[]event.Body{
				event.Prompt{Inferred: true}, event.Thought{ID: "t", Text: "h", Partial: true}, event.Text{ID: "b", Text: "I", Partial: true}, event.Retry{Attempt: 1},
				event.Thought{ID: "t", Text: "hm"}, event.Text{ID: "b", Text: "I try"}, event.TurnEnded{}, event.ReplyDone{}, event.RunDone{},
			},
			[]string{
				`{"event":"agent.thought_chunk","content":{"text":"h"},"messageId":"t"}`,
				`{"event":"agent.message_chunk","content":{"text":"I"},"messageId":"b"}`,
				`{"event":"agent.thought_chunk","content":{"text":"hm"},"messageId":"msg-1"}`,
				`{"event":"agent.message_chunk","content":{"text":"I try"},"messageId":"msg-2"}`,
				`{"event":"session.end","stop_reason":"end_turn"}`,
			},
		},
		{
			"the backend claude tells its list, and nothing is made up for a question",
			[]event.Body{
				event.RunStarted{Backend: "claude"}, event.Prompt{Text: "list"}, event.ChannelSubmitted{Delivery: "tmux", Length: 4}, event.Thought{Text: "hm"},
				event.ToolCalled{Name: "Bash"}, event.GateAsked{Request: "1"}, event.GateDenied{Request: "1", Inferred: true}, event.ToolDone{Name: "Bash"},
				event.TextDelta{Text: "done"}, event.Text{Text: "done"}, event.ReplyDone{}, event.Prompt{Text: "more"}, event.Status{Phase: "working", Source: "transcript"},
				event.ReplyDone{}, event.RunDone{},
			},
			[]string{
				`{"event":"session.start","backend":"claude","dir":"","dangerously_load":false}`,
				`{"event":"agent.prompt_submitted","delivery":"tmux","prompt_length":4}`,
				`{"event":"permission.request","request_id":"1","options":[{"optionId":"allow","kind":"allow"},{"optionId":"reject","kind":"reject"}]}`,
				`{"event":"session.end","stop_reason":"end_turn"}`,
				`{"event":"agent.prompt_submitted","delivery":"pty","prompt_length":4}`,
				`{"event":"agent.status","phase":"working","source":"transcript","ts":0}`,
				`{"event":"session.end","stop_reason":"end_turn"}`,
			},
		},
	} {
		if diff := cmp.Diff(c.want, tellAvenor(c.bodies...)); diff != "" {
			t.Errorf("%s (-want, +got):\n%s", c.name, diff)
		}
	}
}

func TestAvenorReadsWhatTheProgramWrites(t *testing.T) {
	in := strings.Join([]string{
		`{"event":"session.start","session_id":"s","run_id":"r","backend":"claude","dir":"/src","dangerously_load":false,"ts":1786700000000}`,
		`{"delta":"list","event":"user.message_chunk","session_id":"s"}`,
		`{"event":"tool.call","input":{"command":"ls"},"kind":"tool","session_id":"s","status":"running","title":"Bash","tool_use_id":"t1"}`,
		`{"description":"Proceed?","event":"permission.request","options":[{"id":"1","label":"Yes"},{"id":"2","label":"No"}],"request_id":"q","session_id":"s","toolCall":{"toolCallId":"t1"}}`,
		`{"event":"permission.response","kind":"","option_id":"2","request_id":"q","session_id":"s","source":"file"}`,
		`{"delta":"no","event":"tool.call_update","kind":"tool","session_id":"s","status":"failed","tool_use_id":"t1"}`,
		`{"delta":"then not","event":"user.message_chunk","session_id":"s"}`,
		`{"event":"session.end","session_id":"s","stop_reason":"end_turn","usage":{"cached_read_tokens":4,"input_tokens":10,"output_tokens":2,"total_tokens":12}}`,
	}, "\n") + "\n"
	head := func(call string) event.Header { return event.Header{Session: "s", Call: call} }
	start := head("")
	start.At = time.UnixMilli(1786700000000).UTC()
	want := []event.Event{
		{Header: start, Body: event.RunStarted{Format: event.Format, Program: "avenor", Backend: "claude", Cwd: "/src", DangerouslyLoad: new(false), Run: "r"}},
		{Header: head(""), Body: event.Prompt{Text: "list"}},
		{Header: head("t1"), Body: event.ToolCalled{Name: "Bash", Input: event.Raw(`{"command":"ls"}`)}},
		{Header: head("t1"), Body: event.GateAsked{Request: "q", Question: "Proceed?", Options: []event.Option{{ID: "1", Name: "Yes"}, {ID: "2", Name: "No"}}}},
		{Header: head("t1"), Body: event.GateDenied{Request: "q", Option: "2", By: event.ByFile}},
		{Header: head("t1"), Body: event.ToolDenied{Name: "Bash", Output: "no"}},
		{Header: head(""), Body: event.Prompt{Text: "then not", Source: event.SourceSteer}},
		{Header: head(""), Body: event.ReplyDone{Stop: "end_turn", Usage: event.Usage{Input: new(int64(6)), Output: new(int64(2)), CacheRead: new(int64(4))}}},
		{Header: head(""), Body: event.RunDone{Outcome: event.Done}},
	}
	got := decodeAll(t, []byte(in), &avenor, StreamOptions{NoOrigin: true, AsTold: true})
	for i := range got {
		got[i].Seq, got[i].Kind = 0, ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want, +got):\n%s", diff)
	}
}

func TestASubAgentsErrorIsNotItsParents(t *testing.T) {
	list := []event.Event{
		{Header: event.Header{Session: "s"}, Body: event.Prompt{Text: "a"}},
		{Header: event.Header{Session: "s2", Agent: "task-1"}, Body: event.Error{Message: "below", Stop: "timeout"}},
		{Header: event.Header{Session: "s"}, Body: event.ReplyFailed{}},
		{Header: event.Header{Session: "s"}, Body: event.RunFailed{Reason: "above"}},
	}
	for i := range list {
		list[i] = list[i].Stamp()
	}
	want := `{"event":"user.message_chunk","session_id":"s","content":{"text":"a"}}
{"event":"avenor.error","session_id":"s2","source":"backend","message":"below","stop_reason":"timeout"}
{"event":"avenor.error","session_id":"s","source":"backend","message":"above"}
{"event":"session.end","session_id":"s","stop_reason":"error"}
`
	if diff := cmp.Diff(want, string(encodeAll(list, &avenor, Options{}))); diff != "" {
		t.Errorf("(-want, +got):\n%s", diff)
	}
}

// What is of a run of phases itself is of none of its sessions, and not of one that nobody has heard of.
func TestAvenorRunOfPhasesHasNoSession(t *testing.T) {
	var list []event.Event
	for _, b := range []event.Body{event.RunStarted{Phases: true}, event.LoopStarted{Loop: 1, MaxIterations: 1}, event.Custom{Name: "mine"}, event.Error{Message: "no"}} {
		list = append(list, event.Event{Header: event.Header{Session: "s"}, Body: b}.Stamp())
	}
	if out := string(encodeAll(list, &avenor, Options{})); strings.Contains(out, "session_id") || !strings.Contains(out, `"mine"`) || !strings.Contains(out, "avenor.error") {
		t.Error(out)
	}
}

// The end of a reply that failed is held back: where its line was kept, it is not told again.
func TestAvenorKeepsTheEndOfAFailedSessionOnce(t *testing.T) {
	in := `{"event":"user.message_chunk","session_id":"s","content":{"text":"a"}}
{"event":"avenor.error","session_id":"s","source":"backend","message":"no"}
{"event":"session.end","session_id":"s","stop_reason":"error"}
{"event":"avenor.retry","attempt":1,"max_retries":1,"ts":1786700000000}
{"event":"agent.message_chunk","session_id":"s","content":{"text":"yes"},"messageId":"b"}
{"event":"avenor.error","session_id":"s","source":"backend","message":"no"}
{"event":"session.end","session_id":"s","stop_reason":"error"}
`
	events := decodeAll(t, []byte(in), &avenor, StreamOptions{})
	for _, o := range []Options{{}, {Repair: true}} {
		if diff := cmp.Diff(in, string(encodeAll(events, &avenor, o))); diff != "" {
			t.Errorf("(-want, +got):\n%s", diff)
		}
	}
	if n := strings.Count(string(encodeAll(events, &avenor, Options{NoOrigin: true})), "session.end"); n != 1 {
		t.Errorf("%d ends, want that of the last attempt", n)
	}
}
