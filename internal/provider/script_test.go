package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-dev/sluice/event"
	"github.com/sluice-dev/sluice/fold"
	"github.com/sluice-dev/sluice/internal/modelserver"
	"github.com/sluice-dev/sluice/internal/script"
)

// ways are how a script can be heard: in process, and over the wire formats of this half of the package.
var ways = []string{"script", "openai", "openai-responses"}

// playBy opens a script by a way.
func playBy(t *testing.T, way, text string, o Options) Model {
	t.Helper()
	if way == "script" {
		file := filepath.Join(t.TempDir(), "play.yaml")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		o.Model = "script/" + file
		return open(t, o)
	}
	s, err := script.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(modelserver.New(s, modelserver.Options{Key: "sk-secret"}))
	t.Cleanup(server.Close)
	o.Model, o.BaseURL = way+"/play", server.URL+"/v1"
	return open(t, o)
}

// A conversation of two turns is the same events by every way, but for names and what a wire format lacks. The second
// request is made of the events of the first, and the model server takes no history that a vendor would not.
func TestTheSameByEveryWay(t *testing.T) {
	const play = `
model: play
chunk: 3
usage: {input: 10, output: 5, reasoning: 4, cache_read: 3, cache_write: 2}
steps:
  - content:
      - thinking: Let me see — ä.
      - text: I will look.
      - call: {tool: read, input: {path: a.go}}
      - call: {tool: bash, raw: '{"command": oops'}
  - text: Done.
    finish: length
    no_usage: true
`
	usage := event.Usage{Input: new(int64(10)), Output: new(int64(5)), Reasoning: new(int64(4)), CacheRead: new(int64(3)), CacheWrite: new(int64(2))}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			m := playBy(t, way, play, Options{})
			var tr fold.Transcript
			say := func(call string, b event.Body) {
				tr.Apply(event.Event{Header: event.Header{Call: call}, Body: b}.Stamp())
			}
			ask := func() (list []any) {
				say("", event.TurnStarted{})
				for e, err := range m.Answer(t.Context(), Request{System: "Be brief.", History: tr.Events(), Tools: twoTools}) {
					if err != nil {
						t.Fatal(err)
					}
					tr.Apply(e.Stamp())
					switch b := e.Body.(type) {
					case event.TextDelta, event.ThoughtDelta:
					case event.ToolCalled:
						list = append(list, fmt.Sprintf("%s(%s)#%s", b.Name, b.Input, e.Call))
					case event.Thought:
						b.Signature = ""
						list = append(list, b)
					case event.TurnEnded:
						if b.Provider != way {
							t.Errorf("the provider is %s", b.Provider)
						}
						b.Provider, b.Said = "", ""
						list = append(list, b)
					default:
						list = append(list, b)
					}
				}
				return list
			}
			say("", event.Prompt{Text: "go"})
			same(t, []any{
				event.Thought{Text: "Let me see — ä."}, event.Text{Text: "I will look."}, `read({"path":"a.go"})#call_1_1`, `bash("{\"command\": oops")#call_1_2`,
				event.TurnEnded{Model: "play", Finish: event.FinishToolCalls, Usage: usage},
			}, ask())
			say("call_1_1", event.ToolDone{Name: "read", Output: "package a"})
			say("call_1_2", event.ToolFailed{Name: "bash", Error: "no"})
			same(t, []any{event.Text{Text: "Done."}, event.TurnEnded{Model: "play", Finish: event.FinishLength}}, ask())
		})
	}
}

// What goes wrong is of the same class by every way, and what was said before it is told the same, but that a chat does not
// say where a block ends.
func TestTheSameFaultsByEveryWay(t *testing.T) {
	const step = `
steps:
  - thinking: Let me see.
    text: I will look.
    call: {tool: read, input: {path: a.go}}
    fault: {%s}
`
	thought, text := event.Thought{Text: "Let me see."}, event.Text{Text: "I will look."}
	half := func(b event.Body) event.Body {
		switch b := b.(type) {
		case event.Text:
			return event.Text{Text: b.Text[:len(b.Text)/2], Partial: true}
		case event.Thought:
			return event.Thought{Text: b.Text[:len(b.Text)/2], Partial: true}
		}
		return b
	}
	for fault, tt := range map[string]struct {
		class string
		told  []any // before the error
	}{
		"status: 400": {class: Invalid}, "status: 401": {class: Auth}, "status: 403": {class: Auth}, "status: 404": {class: Invalid}, "status: 408": {class: Server},
		"status: 409": {class: Server}, "status: 413": {class: Overflow}, "status: 429": {class: RateLimit}, "status: 500": {class: Server}, "status: 502": {class: Server},
		"status: 503": {class: Overloaded}, "status: 529": {class: Overloaded},
		"status: 400, message: 'the maximum context length is 10 tokens'": {class: Overflow},
		"cut: start":                       {class: Connection},
		"cut: thinking":                    {class: Cut, told: []any{half(thought)}},
		"cut: text":                        {class: Cut, told: []any{thought, half(text)}},
		"cut: call":                        {class: Cut, told: []any{thought, text}},
		"cut: end":                         {class: Cut, told: []any{thought, text}},
		"malformed: true":                  {class: Server, told: []any{thought}},
		"wrong_json: true":                 {class: Server, told: []any{thought}},
		"in_stream: overloaded_error":      {class: Overloaded, told: []any{thought}},
		"in_stream: rate_limit_error":      {class: RateLimit, told: []any{thought}},
		"in_stream: invalid_request_error": {class: Invalid, told: []any{thought}},
		"hang: start":                      {class: Stalled},
		"hang: text":                       {class: Stalled, told: []any{thought, half(text)}},
		"hang: call":                       {class: Stalled, told: []any{thought, text}},
	} {
		for _, way := range ways {
			t.Run(fault+"/"+way, func(t *testing.T) {
				t.Parallel()
				o := Options{}
				if tt.class == Stalled {
					o.Idle = 2 * time.Second
				}
				m := playBy(t, way, fmt.Sprintf(step, fault), o)
				// A failed attempt tells no call, and its last block is partial, by every way.
				got := blocks(t, Retrying(m, Policy{Retries: -1}), Request{History: []event.Event{past(event.Prompt{Text: "go"})}})
				e, ok := got[len(got)-1].(*Error)
				if !ok || e.Class != tt.class || e.Retryable() != (tt.class != Invalid && tt.class != Auth && tt.class != Overflow) {
					t.Fatalf("%#v", got[len(got)-1])
				}
				if strings.Contains(e.Error(), "\n") || e.Message == "" {
					t.Errorf("the message is %q", e.Message)
				}
				want := append([]any(nil), tt.told...)
				if n := len(want); n > 0 {
					want[n-1] = partial(want[n-1])
				}
				for i, b := range got[:len(got)-1] {
					if t, ok := b.(event.Thought); ok {
						t.Signature = ""
						got[i] = t
					}
				}
				if diff := cmp.Diff(want, got[:len(got)-1:len(got)-1], cmp.Transformer("none", func(l []any) []any { return append([]any{}, l...) })); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func partial(b any) any {
	switch b := b.(type) {
	case event.Text:
		b.Partial = true
		return b
	case event.Thought:
		b.Partial = true
		return b
	}
	return b
}

// A fault that passes is retried as the server asks, over a real connection and in process.
func TestRetryingEveryWay(t *testing.T) {
	const play = `
steps:
  - thinking: Hm.
    text: Hello.
    call: {tool: read}
    fault: {%s, times: 2}
`
	for fault, told := range map[string]string{
		"status: 429, headers: {Retry-After-Ms: '20'}":                                              "",
		"status: 429, headers: {Retry-After: '0.02'}":                                               "",
		"status: 529, headers: {Retry-After: 'Sun, 06 Nov 1994 08:49:37 GMT', x-should-retry: '-'}": "",
		"cut: text": "Hel", "cut: call": "Hello.", "in_stream: overloaded_error": "", "malformed: true": "",
	} {
		for _, way := range ways {
			t.Run(fault+"/"+way, func(t *testing.T) {
				t.Parallel()
				m := Retrying(playBy(t, way, fmt.Sprintf(play, fault), Options{}), Policy{Base: 10 * time.Millisecond})
				retries, calls := 0, 0
				var texts []event.Text
				for e, err := range m.Answer(t.Context(), Request{History: []event.Event{past(event.Prompt{Text: "go"})}}) {
					if err != nil {
						t.Fatal(err)
					}
					switch b := e.Body.(type) {
					case event.Retry:
						retries++
						if b.Attempt != retries || b.Class == "" || b.Message == "" || strings.Contains(fault, "Retry-After") && strings.Contains(fault, "429") && b.Wait < 20 {
							t.Errorf("%+v", b)
						}
					case event.ToolCalled:
						calls++
					case event.Text:
						texts = append(texts, b)
					}
				}
				want := []event.Text{{Text: "Hello."}}
				if told != "" {
					want = []event.Text{{Text: told, Partial: true}, {Text: told, Partial: true}, want[0]}
				}
				if diff := cmp.Diff(want, texts); retries != 2 || calls != 1 || diff != "" {
					t.Errorf("%d retries, %d calls, (-want +got):\n%s", retries, calls, diff)
				}
			})
		}
	}
}

// The context's end ends a silent server at once, and its error is told.
func TestCancelled(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			m := playBy(t, way, "steps: [{text: Hello there., fault: {hang: text}}]", Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var got []any
			for e, err := range m.Answer(ctx, Request{History: []event.Event{past(event.Prompt{Text: "go"})}}) {
				switch {
				case err != nil:
					got = append(got, err)
				case e.Body.Kind() == "text.delta":
					cancel()
				default:
					got = append(got, e.Body)
				}
			}
			if len(got) != 2 || got[0] != (event.Text{Text: "Hello ", Partial: true}) || !errors.Is(got[1].(error), context.Canceled) {
				t.Errorf("%v", got)
			}
		})
	}
}

// A script that is played in process takes the time that it says.
func TestScriptTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"{delay: 1s, chunk: 2, steps: [{text: abcde}]}":                                                            3 * time.Second,
		"{steps: [{text: abc, delay: 2s}]}":                                                                        2 * time.Second,
		"{chunk: 2, steps: [{text: abcde, fault: {trickle: 10ms}}]}":                                               50 * time.Millisecond,
		"{chunk: 1, delay: 1s, steps: [{call: {tool: read, raw: abc}}]}":                                           3 * time.Second,
		"{chunk: 1, delay: 1s, steps: [{text: abcd, fault: {cut: text}}]}":                                         2 * time.Second,
		"{chunk: 1, delay: 1s, steps: [{text: a, fault: {hang: end}}]}":                                            11 * time.Second,
		"{delay: 20s, steps: [{text: too slow}]}":                                                                  10 * time.Second,
		"{chunk: 1, delay: 9s, steps: [{text: abc}]}":                                                              27 * time.Second,
		"{conversations: [{when: {prompt: other}, steps: [{text: a, delay: 1s}]}], steps: [{text: a, delay: 2s}]}": 2 * time.Second,
	} {
		m := playBy(t, "script", text, Options{Idle: 10 * time.Second})
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			for range m.Answer(t.Context(), Request{History: []event.Event{past(event.Prompt{Text: "go"})}}) {
			}
			if took := time.Since(began); took != want {
				t.Errorf("%s took %v, want %v", text, took, want)
			}
		})
	}
}

func TestScriptSees(t *testing.T) {
	const play = `
model: m
conversations:
  - {when: {system: "^Be", last: "^Output$"}, steps: [{text: one}, {text: after the call}]}
  - {when: {prompt: "^This is a summary of the conversation so far:\n\nold$"}, steps: [{text: compacted}]}
  - {when: {model: "^play$", last: "^again$"}, steps: [{text: a}, {text: b}, {text: third}]}
`
	m := playBy(t, "script", play, Options{})
	call, done := pastOn("1", event.ToolCalled{Name: "x"}), pastOn("1", event.ToolDone{Name: "x", Output: "Output"})
	prompt := past(event.Prompt{Text: "go"})
	for want, r := range map[string]Request{
		"after the call": {System: "Be brief.", History: []event.Event{prompt, past(event.Thought{Text: "t"}), past(event.Text{Text: "t"}), call, done}},
		"compacted":      {History: []event.Event{past(event.Compacted{Summary: "old"})}},
		"third":          {History: []event.Event{prompt, call, done, past(event.Text{Text: "x"}), past(event.Prompt{Text: "again"})}},
	} {
		got := blocks(t, m, r)
		if len(got) != 2 || got[0] != (event.Text{Text: want}) {
			t.Errorf("%v, want %s", got, want)
		}
	}
	got := blocks(t, m, Request{History: []event.Event{prompt}})
	if e, ok := got[0].(*Error); !ok || e.Class != Invalid || e.Status != 400 || !strings.Contains(e.Message, "script exhausted") {
		t.Errorf("%v", got)
	}
}

func TestScriptFile(t *testing.T) {
	for name, says := range map[string]string{"script/nowhere.yaml": "nowhere.yaml: no such file", "script/testdata": "testdata"} {
		if _, err := Open(Options{Model: name}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
