package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/internal/outcome"
)

// narrated is what a narrator makes of events, one word each: a status as phase/label/source, any other as its kind.
func narrated(bodies ...event.Body) (list []string) {
	var n narrator
	keep := func(e event.Event) {
		if s, ok := e.Body.(event.Status); ok {
			list = append(list, fmt.Sprintf("%s/%s/%s", s.Phase, s.Label, s.Source))
			if e.Session != "ses" {
				list = append(list, "in session "+e.Session)
			}
			return
		}
		list = append(list, string(e.Body.Kind()))
	}
	for _, b := range bodies {
		n.Put(event.Event{Header: event.Header{Session: "ses"}, Body: b}, keep)
	}
	n.Close(keep)
	return list
}

func TestAvenorStatus(t *testing.T) {
	start, prompt := event.RunStarted{Backend: "sluice"}, event.Prompt{Text: "go"}
	ask := func(request, question string) event.Body {
		return event.GateAsked{Request: request, Tool: "bash", Question: question}
	}
	for name, c := range map[string]struct {
		bodies []event.Body
		want   string
	}{
		"thoughts": {
			[]event.Body{event.ThoughtDelta{Text: "a"}, event.ThoughtDelta{Text: "b"}, event.Thought{Text: "ab"}, event.ThoughtDelta{Text: "c"}},
			"thinking//avenor thought.delta thought.delta thought thought.delta",
		},
		"a thought that comes whole":  {[]event.Body{event.Thought{Text: "a"}}, "thinking//avenor thought"},
		"a thought without a word":    {[]event.Body{event.Thought{}, event.ThoughtDelta{}}, "thought thought.delta"},
		"a marker in a thought":       {[]event.Body{event.ThoughtDelta{Text: "[status: done]\n"}, event.Thought{Text: "[status: done]\n"}}, "thinking//avenor thought.delta thought"},
		"text changes nothing":        {[]event.Body{event.TextDelta{Text: "a"}, event.Text{Text: "a"}}, "text.delta text"},
		"a call":                      {[]event.Body{event.ToolCalled{Name: "bash", Title: "ls"}}, "working/ls/avenor tool.called"},
		"a call without a title":      {[]event.Body{event.ToolCalled{Name: "bash"}}, "working/bash/avenor tool.called"},
		"the same call twice":         {[]event.Body{event.ToolCalled{Title: "ls"}, event.ToolCalled{Title: "ls"}, event.ToolCalled{Title: "pwd"}}, "working/ls/avenor tool.called tool.called working/pwd/avenor tool.called"},
		"a question":                  {[]event.Body{ask("1", "sure?"), event.GateAllowed{Request: "1"}}, "waiting/sure?/avenor gate.asked gate.allowed working//avenor"},
		"a question without words":    {[]event.Body{ask("1", ""), event.GateDenied{Request: "1"}}, "waiting/bash/avenor gate.asked gate.denied working//avenor"},
		"two questions":               {[]event.Body{ask("1", "a"), ask("2", "b"), event.GateAllowed{Request: "2"}, event.GateAllowed{Request: "1"}}, "waiting/a/avenor gate.asked waiting/b/avenor gate.asked gate.allowed gate.allowed working//avenor"},
		"two questions of one kind":   {[]event.Body{ask("1", "a"), ask("2", "a")}, "waiting/a/avenor gate.asked waiting/a/avenor gate.asked"},
		"nothing while it waits":      {[]event.Body{ask("1", "a"), event.ThoughtDelta{Text: "x"}, event.ToolCalled{Title: "ls"}}, "waiting/a/avenor gate.asked thought.delta tool.called"},
		"a rule answers":              {[]event.Body{event.GateAllowed{}, event.GateDenied{}}, "gate.allowed gate.denied"},
		"the label of a marker stays": {[]event.Body{event.TextDelta{Text: "[status: working | tests]"}, ask("1", "a"), event.GateAllowed{Request: "1"}}, "working/tests/agent text.delta waiting/a/avenor gate.asked gate.allowed working/tests/avenor"},
		"the end":                     {[]event.Body{event.ReplyDone{}, event.RunDone{}}, "done//avenor reply.done run.done"},
		"the agent's own end":         {[]event.Body{event.Text{Text: "[status: done]"}, event.ToolCalled{Title: "ls"}, event.ReplyDone{}}, "done//agent text working/ls/avenor tool.called done//avenor reply.done"},
		"cancelled":                   {[]event.Body{event.ReplyCancelled{}, event.RunCancelled{}}, "done//avenor reply.cancelled run.cancelled"},
		"cancelled while it waits":    {[]event.Body{ask("1", "a"), event.ReplyCancelled{}, event.GateDenied{Request: "1"}}, "waiting/a/avenor gate.asked done//avenor reply.cancelled gate.denied"},
		"failed":                      {[]event.Body{event.ReplyFailed{}, event.RunFailed{}}, "done//avenor reply.failed run.failed"},
		"failed, and nothing follows": {[]event.Body{event.ReplyFailed{}}, "done//avenor reply.failed"},
		"failed, with a notice":       {[]event.Body{event.ReplyFailed{}, event.Notice{}, event.RunFailed{}}, "notice done//avenor reply.failed run.failed"},
		"failed, and tried again":     {[]event.Body{event.ReplyFailed{}, event.PhaseRetry{}, prompt, event.ReplyDone{}}, "reply.failed phase.retry prompt done//avenor reply.done"},
		"stopped before the retry":    {[]event.Body{event.ReplyFailed{}, event.PhaseRetry{}, event.RunCancelled{}}, "reply.failed phase.retry done//avenor run.cancelled"},
		"a follow-up":                 {[]event.Body{event.ReplyDone{}, prompt, event.Thought{Text: "x"}, event.ReplyDone{}}, "done//avenor reply.done prompt thinking//avenor thought done//avenor reply.done"},
		"our own word to the model":   {[]event.Body{event.Thought{Text: "x"}, event.Prompt{Source: event.SourceSteer}, event.Thought{Text: "x"}}, "thinking//avenor thought prompt thought"},
		"never begun":                 {[]event.Body{event.RunFailed{Outcome: event.Misuse}}, "error done//avenor run.failed"},
		"out of time at once":         {[]event.Body{event.RunFailed{Outcome: event.Timeout}}, "done//avenor run.failed"},
		"a loop's marker":             {[]event.Body{event.Text{Text: "[exit]"}}, "text"},
		"the same marker twice":       {[]event.Body{event.Text{Text: "[status: working | a] [status: working | a]"}}, "working/a/agent text"},
		"another backend":             {[]event.Body{event.SessionStarted{Backend: "claude"}, event.Thought{Text: "x"}, ask("1", "a"), event.ReplyDone{}, event.SessionStarted{Backend: "sluice"}, event.Thought{Text: "x"}}, "session.started thought gate.asked reply.done session.started thinking//avenor thought"},
	} {
		want := strings.Fields("run.started prompt " + c.want)
		if diff := cmp.Diff(want, narrated(append([]event.Body{start, prompt}, c.bodies...)...)); diff != "" {
			t.Errorf("%s (-want, +got):\n%s", name, diff)
		}
	}
}

// However a message is cut, its markers are found once, each before the piece that completes it.
func TestAvenorStatusMarkersAcrossPieces(t *testing.T) {
	long := strings.Repeat("very-", 300) + "long"
	text := "First [status: thinking] and [STATUS: working | a]b[status: done | " + long + "]\n<|status: waiting | on |> you|>\n" +
		"so <|status: done|> is no line\n````\n```\n[status: done]\n<|status: done|>\n````\n[status: sleeping] <|status: working|>\n<|status: thinking|>"
	want := strings.Fields("thinking//agent working/a/agent done/" + long + "/agent waiting/on_|>_you/agent thinking//agent")
	for size := 1; size < len(text)+1; size = size*3/2 + 1 {
		bodies := []event.Body{event.RunStarted{}}
		for piece := range slices.Chunk([]byte(text), size) {
			bodies = append(bodies, event.TextDelta{Text: string(piece)})
		}
		var got []string
		for _, s := range narrated(append(bodies, event.Text{Text: text})...)[1:] {
			if strings.Contains(s, "/") {
				got = append(got, strings.ReplaceAll(s, " ", "_"))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("in pieces of %d (-want, +got):\n%s", size, diff)
		}
	}
	order := narrated(event.RunStarted{}, event.TextDelta{Text: "[status: wor"}, event.TextDelta{Text: "king]"}, event.TextDelta{Text: " go"}, event.Text{})
	if diff := cmp.Diff([]string{"run.started", "text.delta", "working//agent", "text.delta", "text.delta", "text"}, order); diff != "" {
		t.Errorf("order (-want, +got):\n%s", diff)
	}
}

// Each sentinel, byte by byte, and the exit code that goes with it.
func TestAvenorSentinel(t *testing.T) {
	for _, c := range []struct {
		end   event.RunEnd
		stop  string
		class string
		code  int
		want  string
	}{
		{event.RunEnd{Outcome: event.Done}, "end_turn", "", 0, "DONE\nSESSION=ses\nSTOP_REASON=end_turn\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Done}, "stop_sequence", "", 0, "DONE\nSESSION=ses\nSTOP_REASON=stop_sequence\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Denied, Reason: "it was\nrejected"}, "blocked", "", 5, "BLOCKED\nSESSION=ses\nSTOP_REASON=blocked\nREASON=it was rejected\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Timeout, Reason: "x"}, "timeout", "timeout", 124, "TIMEOUT\nSESSION=ses\nSTOP_REASON=timeout\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Stalled, Reason: "x"}, "timeout", "timeout", 124, "TIMEOUT\nSESSION=ses\nSTOP_REASON=timeout\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Cancelled, Code: "130"}, "cancelled", "", 130, "KILLED\nSESSION=ses\nSTOP_REASON=cancelled\nEXIT_CODE=130\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Cancelled, Code: "143"}, "cancelled", "", 143, "KILLED\nSESSION=ses\nSTOP_REASON=cancelled\nEXIT_CODE=143\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Failed, Reason: "x"}, "refusal", "", 2, "FAILED\nSESSION=ses\nSTOP_REASON=refusal\nEXIT_CODE=2\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Failed, Reason: "x"}, "max_tokens", "", 3, "FAILED\nSESSION=ses\nSTOP_REASON=max_tokens\nEXIT_CODE=3\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Failed, Reason: "x"}, "max_turn_requests", "", 4, "FAILED\nSESSION=ses\nSTOP_REASON=max_turn_requests\nEXIT_CODE=4\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Failed, Reason: "x"}, "degenerate_reasoning_stream", "", 1, "FAILED\nSESSION=ses\nSTOP_REASON=degenerate_reasoning_stream\nEXIT_CODE=1\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Failed, Reason: "x"}, "error", "auth", 1, "FAILED\nSESSION=ses\nSTOP_REASON=error\nEXIT_CODE=1\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Unavailable, Reason: "x"}, "error", "overload", 1, "FAILED\nSESSION=ses\nSTOP_REASON=error\nEXIT_CODE=1\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Misuse, Reason: "x"}, "", "", 1, "FAILED\nSESSION=ses\nSTOP_REASON=error\nEXIT_CODE=1\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Internal, Reason: "the stream broke"}, "end_turn", "", 1, "FAILED\nSESSION=ses\nSTOP_REASON=error\nEXIT_CODE=1\nRUN=run 1\n"},
		{event.RunEnd{Outcome: event.Budget, Reason: "x"}, "error", "", 1, "FAILED\nSESSION=ses\nSTOP_REASON=error\nEXIT_CODE=1\nRUN=run 1\n"},
	} {
		v := outcome.Verdict{Outcome: c.end.Outcome, Stop: c.stop, Class: c.class}
		code := avenorFace.code(c.end, v)
		s := sentinel{path: filepath.Join(t.TempDir(), "s"), run: "run\n1"}
		s.write("ses\n", c.end, v, code)
		got, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		if code != c.code || string(got) != c.want {
			t.Errorf("%s, %s: exit %d, want %d; the sentinel is\n%s", c.end.Outcome, c.stop, code, c.code, got)
		}
		if list, _ := os.ReadDir(filepath.Dir(s.path)); len(list) != 1 {
			t.Errorf("it leaves %v behind", list)
		}
	}
	if got := (&sentinel{}).text("", event.RunEnd{Outcome: event.Done}, outcome.Verdict{}, 0); got != "DONE\nSESSION=\nSTOP_REASON=end_turn\n" {
		t.Errorf("with nothing known it is %q", got)
	}
}

// An earlier sentinel is taken away, also one that is a link; a folder or a pipe is not a sentinel, and stays.
func TestAvenorSentinelIsAFile(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	err := either(os.WriteFile(file, nil, 0o666), os.Symlink("/nowhere", link), syscall.Mkfifo(pipe, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for path, stays := range map[string]bool{file: false, link: false, pipe: true, dir: true, filepath.Join(dir, "none"): false} {
		err := (&sentinel{path: path}).clear()
		if _, gone := os.Lstat(path); (err != nil) != stays || (gone == nil) != stays {
			t.Errorf("%s: %v, and then %v", path, err, gone)
		}
	}
}

// What is tried again: what exits with 1 and may pass.
func TestAvenorMayPass(t *testing.T) {
	for _, c := range []struct {
		v    outcome.Verdict
		want bool
	}{
		{outcome.Verdict{Outcome: event.Unavailable, Stop: "error", Class: "overload"}, true},
		{outcome.Verdict{Outcome: event.Unavailable, Stop: "error", Class: "connection"}, true},
		{outcome.Verdict{Outcome: event.Failed, Stop: "error"}, true}, // it said nothing, or went round in a loop
		{outcome.Verdict{Outcome: event.Failed, Stop: "error", Class: "auth"}, false},
		{outcome.Verdict{Outcome: event.Failed, Stop: "error", Class: "invalid"}, false},
		{outcome.Verdict{Outcome: event.Failed, Stop: "refusal"}, false},
		{outcome.Verdict{Outcome: event.Failed, Stop: "max_tokens"}, false},
		{outcome.Verdict{Outcome: event.Failed, Stop: "max_turn_requests"}, false},
		{outcome.Verdict{Outcome: event.Failed, Stop: "degenerate_reasoning_stream"}, false},
		{outcome.Verdict{Outcome: event.Misuse, Stop: "error"}, false},
		{outcome.Verdict{Outcome: event.Internal, Stop: "error"}, false},
		{outcome.Verdict{Outcome: event.Budget, Stop: "error"}, false},
		{outcome.Verdict{Outcome: event.Denied, Stop: "blocked"}, false},
		{outcome.Verdict{Outcome: event.Done, Stop: "end_turn"}, false},
		{outcome.Verdict{Outcome: event.Timeout, Stop: "timeout"}, false},
		{outcome.Verdict{Outcome: event.Cancelled, Stop: "cancelled"}, false},
	} {
		if mayPass(c.v) != c.want {
			t.Errorf("%+v: %v", c.v, !c.want)
		}
	}
	var waits []time.Duration
	for n := range 7 {
		waits = append(waits, repeat{wait: 2 * time.Second}.pause(n+1)/time.Second)
	}
	if want := []time.Duration{2, 4, 8, 16, 30, 30, 30}; !slices.Equal(waits, want) {
		t.Errorf("it waits %d seconds, want %d", waits, want)
	}
}
