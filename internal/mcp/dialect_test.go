package mcp

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluice-dev/sluice/dialect"
	"github.com/sluice-dev/sluice/event"
)

// A server that fails before the first prompt, and one that dies later, are told in each dialect that has a word for it; and a
// run that goes on is done all the same.
func TestTroubleInEveryDialect(t *testing.T) {
	exits := ourselves("lost", "exits")
	b := connect(t, Options{}, exits)
	early := b.events[len(b.events)-1].(event.Error)
	late := early
	late.Message = "MCP server lost is gone: it ended, exit status 3"
	stop := event.ReplyEnd{Prompt: "p", Stop: "end_turn"}
	run := []event.Event{
		{Body: event.RunStarted{Format: event.Format, Program: "sluice", Cwd: "/w", Model: "m", Provider: "p", Profile: "default", Mode: "default", Backend: "sluice", Capabilities: &event.Capabilities{}}},
		{Body: early},
		{Body: event.Catalog{Tools: []event.CatalogTool{{Name: "read", Source: "builtin"}}, Skills: []event.CatalogSkill{}}},
		{Body: event.Prompt{ID: "p", Text: "hello"}},
		{Body: event.TurnStarted{Number: 1}},
		{Body: event.ToolCalled{Name: "lost_x", Class: event.ClassMCP, Input: event.Raw("{}")}, Header: event.Header{Call: "c"}},
		{Body: event.TurnEnded{Number: 1, Finish: event.FinishToolCalls, Provider: "p", Model: "m"}},
		{Body: event.ToolStarted{Name: "lost_x"}, Header: event.Header{Call: "c"}},
		{Body: late},
		{Body: event.ToolFailed{Name: "lost_x", Error: late.Message, Start: time.Unix(1, 0), End: time.Unix(2, 0)}, Header: event.Header{Call: "c"}},
		{Body: event.TurnStarted{Number: 2}},
		{Body: event.Text{ID: "t", Text: "It is gone.", Start: time.Unix(2, 0), End: time.Unix(3, 0)}},
		{Body: event.TurnEnded{Number: 2, Finish: event.FinishStop, Provider: "p", Model: "m"}},
		{Body: event.ReplyDone(stop)},
		{Body: event.RunDone{Outcome: event.Done, Duration: new(int64(5))}},
	}
	for _, d := range dialect.All() {
		t.Run(d.Name, func(t *testing.T) {
			var out bytes.Buffer
			w := dialect.NewWriter(&out, d, dialect.Options{})
			src := event.NewSource("0198a0de-0000-7000-8000-000000000000", 0, nil, w, time.Now)
			for _, e := range run {
				if _, err := src.Emit(e); err != nil {
					t.Fatal(err)
				}
			}
			l := dialect.NewLinter(d, func(x dialect.Diagnostic) {
				if !x.Note {
					t.Errorf("%+v", x)
				}
			})
			for line := range bytes.Lines(out.Bytes()) {
				l.Line(bytes.TrimSuffix(line, []byte("\n")), false)
			}
			l.Close()
			want := 3 // early, late, and the call's end
			switch d.Name {
			case "grok": // errors are told only at the end of a run that failed
				want = 1
			case "avenor": // a call that failed does not say why
				want = 2
			}
			if n := strings.Count(out.String(), "MCP server lost is "); n != want {
				t.Errorf("told %d times, want %d: %s", n, want, out.String())
			}
			last := out.String()[strings.LastIndex(strings.TrimSpace(out.String()), "\n")+1:]
			if strings.Contains(last, "MCP") {
				t.Errorf("the end of the run is not its own: %s", last)
			}
			if d.Name == "aionrs" && strings.Count(out.String(), `"code":"tool_error"`) != 2 {
				t.Errorf("%s", out.String())
			}
		})
	}
}
