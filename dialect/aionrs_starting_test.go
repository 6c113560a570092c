package dialect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// A run that is starting is not ready before it says so, and never if it fails; what it says meanwhile waits.
func TestAionrsStarting(t *testing.T) {
	const (
		ready = `{"type":"ready","version":"0.1.0","session_id":"s","capabilities":{"tool_approval":true,"thinking":false,"mcp":false}}` + "\n"
		note  = `{"type":"info","msg_id":"","message":"a note"}` + "\n"
	)
	began := event.RunStarted{Capabilities: &event.Capabilities{ToolApproval: true}}
	for name, c := range map[string]struct {
		events []event.Body
		want   string
	}{
		"nothing yet": {[]event.Body{began, event.Catalog{}, event.Notice{Text: "a note"}}, ""},
		"ready":       {[]event.Body{began, event.Notice{Text: "a note"}, event.Status{Phase: "waiting"}, event.Status{Phase: "waiting"}}, ready + note},
		"a message":   {[]event.Body{began, event.Prompt{ID: "m"}}, ready + `{"type":"stream_start","msg_id":"m"}` + "\n"},
		"fatal": {[]event.Body{began, event.Notice{Text: "a note"}, event.RunFailed{Outcome: event.Misuse, Reason: "no key"}},
			`{"type":"error","msg_id":null,"error":{"code":"config_error","message":"no key","retryable":false}}` + "\n"},
		"stopped": {[]event.Body{began, event.RunCancelled{Outcome: event.Cancelled, Reason: "stopped by SIGTERM"}},
			`{"type":"error","msg_id":null,"error":{"code":"internal_error","message":"stopped by SIGTERM","retryable":false}}` + "\n"},
		"later": {[]event.Body{began, event.Status{}, event.Custom{Name: "aionrs.pong"}, event.Custom{Name: "pong"},
			event.Custom{Name: "aionrs.mcp_ready", Fields: event.Raw(`{"name":"db","type":"x","tools":["a"]}`)}},
			ready + `{"type":"pong"}` + "\n" + `{"type":"mcp_ready","name":"db","tools":["a"]}` + "\n"},
		"ids of an earlier process": {[]event.Body{began, event.Status{}, event.Prompt{ID: "m"}, event.ReplyDone{}, event.RunDone{}, began, event.Prompt{ID: "m"}},
			ready + `{"type":"stream_start","msg_id":"m"}` + "\n" +
				`{"type":"stream_end","msg_id":"m","usage":{"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0}}` + "\n" +
				ready + `{"type":"stream_start","msg_id":"m"}` + "\n"},
	} {
		enc := aionrs.NewEncoder(Options{Starting: true})
		var got []byte
		for _, b := range c.events {
			got = enc.Encode(got, event.Event{Header: event.Header{Session: "s"}, Body: b})
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s (-want, +got)\n%s", name, diff)
		}
	}
}
