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
