package dialect

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-dev/sluice/event"
)

// What the program itself says of its ends is not to be believed: its exit code and subtype are those of a success in most of
// these. Each line: the run's end, replies with their stop reasons, calls with their ends, input and output tokens.
func TestClaudeOutcomes(t *testing.T) {
	want := map[string]string{
		"badtool":                  "done; done end_turn; failed; 2320+23",
		"deny":                     "done, 2 denied; done end_turn; denied denied; 3630+77",
		"error400":                 "failed 400 provider; failed error; ; 0+0",
		"error429":                 "done; done end_turn; ; 1110+11",
		"error500":                 "done; done end_turn; ; 1110+9",
		"hello":                    "done; done end_turn; ; 1110+11",
		"parallel":                 "done; done end_turn; done done done; 2520+46",
		"refusal":                  "failed; failed refusal; ; 2220+10",
		"subagent":                 "done; done end_turn; done done; 5850+83",
		"subagent_partial":         "done; done end_turn; done done; 5850+83",
		"thinking":                 "done; done end_turn; ; 1110+10",
		"tools3":                   "done; done end_turn; done done done; 5040+77",
		"tools3_partial":           "done; done end_turn; done done done; 5040+77",
		"two_way_interrupt":        "cancelled; cancelled cancelled; cancelled; 1110+24",
		"two_way_permission-allow": "done; done end_turn done end_turn done end_turn; done done; 6250+99",
		"two_way_permission-deny":  "done, 2 denied; done end_turn done end_turn done end_turn; denied denied; 6250+99",
		"qwen_two_way":             "done; done end_turn done end_turn done end_turn; failed failed; 14710+253",
	}
	seen := 0
	for _, kind := range []string{"clean", "recorded"} {
		for _, s := range samples(t, &claude, kind) {
			name := strings.TrimSuffix(s.name, filepath.Ext(s.name))
			seen++
			if got := claudeSummary(decodeAll(t, s.data, &claude, StreamOptions{})); got != want[name] {
				t.Errorf("%s:\n got %s\nwant %s", name, got, want[name])
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d streams, %d expected", seen, len(want))
	}
}

// A result is a success if it says so, and only then.
func TestClaudeResults(t *testing.T) {
	for result, want := range map[string]string{
		`"subtype":"success","is_error":false`:         "done; done end_turn; ; 0+0",
		`"subtype":"success"`:                          "done; done end_turn; ; 0+0",
		`"subtype":"success","is_error":true`:          "failed; failed error; ; 0+0",
		`"subtype":"error_max_turns","is_error":false`: "failed; failed max_turn_requests; ; 0+0",
		`"is_error":false`:                             "failed; failed error; ; 0+0",
		`"result":"all is well"`:                       "failed; failed error; ; 0+0",
	} {
		line := `{"type":"result",` + result + `,"session_id":"s"}` + "\n"
		if got := claudeSummary(decodeAll(t, []byte(line), &claude, StreamOptions{})); got != want {
			t.Errorf("%s:\n got %s\nwant %s", result, got, want)
		}
	}
}

func claudeSummary(events []event.Event) string {
	var run string
	var replies, calls []string
	for _, e := range events {
		_, word, _ := strings.Cut(string(e.Kind), ".")
		if r, ok := event.AsRunEnd(e.Body); ok {
			run = strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Outcome, r.Code, r.Class))
			if r.Denials > 0 {
				run += fmt.Sprintf(", %d denied", r.Denials)
			}
			in, _ := r.Usage.InputAll()
			out, _ := r.Usage.OutputAll()
			calls = append(calls, fmt.Sprintf("; %d+%d", in, out))
		}
		if r, ok := event.AsReplyEnd(e.Body); ok {
			replies = append(replies, word+" "+r.Stop)
		}
		if _, ok := event.AsToolEnd(e.Body); ok {
			calls = append(calls, word)
		}
	}
	last := len(calls) - 1
	return run + "; " + strings.Join(replies, " ") + "; " + strings.Join(calls[:last], " ") + calls[last]
}

func TestClaudeSubAgents(t *testing.T) {
	for _, s := range slices.Concat(samples(t, &claude, "clean"), samples(t, &claude, "recorded")) {
		if !strings.HasPrefix(s.name, "subagent") {
			continue
		}
		var got []string
		for _, e := range decodeAll(t, s.data, &claude, StreamOptions{}) {
			if e.Agent != "" && !event.Inferred(e.Body) {
				got = append(got, string(e.Kind))
			}
		}
		want := "agent.started turn.started text tool.called tool.done turn.ended turn.started text turn.ended agent.ended"
		if strings.Join(got, " ") != want {
			t.Errorf("%s:\n got %s\nwant %s", s.name, strings.Join(got, " "), want)
		}
	}
}

// With its deltas or without, a stream says the same blocks.
func TestClaudeDeltasAddUp(t *testing.T) {
	texts := map[string][]string{}
	for _, s := range slices.Concat(samples(t, &claude, "clean"), samples(t, &claude, "recorded")) {
		sum, deltas := "", 0
		for _, e := range decodeAll(t, s.data, &claude, StreamOptions{}) {
			switch b := e.Body.(type) {
			case event.TextDelta:
				sum += b.Text
				deltas++
			case event.Text:
				if b.Partial || deltas > 0 && sum != b.Text {
					t.Errorf("%s: the deltas are %q, the block is %q", s.name, sum, b.Text)
				}
				sum, deltas = "", 0
				texts[s.name] = append(texts[s.name], b.Text)
			}
		}
	}
	if a, b := texts["tools3.ndjson"], texts["tools3_partial.ndjson"]; !slices.Equal(a, b) || len(a) != 4 {
		t.Errorf("%q\n%q", a, b)
	}
}

func TestClaudeIsOnlyRead(t *testing.T) {
	if _, err := Lookup("claude"); err == nil || !strings.Contains(err.Error(), "only read") {
		t.Errorf("%v", err)
	}
	if d, err := Source("claude"); err != nil || d != &claude {
		t.Error(d, err)
	}
	if slices.Contains(All(), &claude) || !slices.Contains(Sources(), &claude) {
		t.Error("it is in the wrong table")
	}
}
