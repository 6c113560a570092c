package provider

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

var update = flag.Bool("update", false, "write the golden files anew")

func past(b event.Body) event.Event { return event.Event{Body: b}.Stamp() }
func pastOn(call string, b event.Body) event.Event {
	return event.Event{Header: event.Header{Call: call}, Body: b}.Stamp()
}

// rich is a history that has everything.
func rich() []event.Event {
	return []event.Event{
		past(event.Compacted{Summary: "We fixed a test."}),
		past(event.Prompt{Text: "Look at these.", Files: []string{"a.png", "b.pdf", "c.go", "d.bin"}, Attached: []event.Attachment{
			{Path: "a.png", Type: "image/png", Data: "aW1hZ2U="}, {Path: "b.pdf", Type: "application/pdf", Data: "cGRm"},
			{Path: "c.go", Type: "text/x-go", Text: "package c\n"}, {Path: "d.bin", Type: "application/octet-stream", Data: "AAA="},
			{Path: "e.tiff", Type: "image/tiff", Data: "AAA="},
		}}),
		past(event.Thought{Text: "Hm <b>&\u2028", Signature: "anthropic:sig1"}),
		past(event.Thought{Signature: "anthropic-redacted:hidden"}),
		past(event.Thought{Text: "another's", Signature: "responses:rs_1"}),
		past(event.Thought{Text: "unsealed"}),
		past(event.Text{Text: "I look. \n"}),
		pastOn("toolu_1", event.ToolCalled{Name: "read", Input: event.Raw(`{ "path": "a.go" }`)}),
		pastOn("call.2", event.ToolCalled{Name: "my tool", Input: event.Raw(`"{\"path\": oops"`)}),
		pastOn("call:2", event.ToolCalled{Name: "list", Input: event.Raw(`[1]`)}),
		pastOn("", event.ToolCalled{Name: "nothing"}),
		pastOn("toolu_1", event.ToolDone{Name: "read", Output: "package a\n"}),
		pastOn("call.2", event.ToolFailed{Name: "my tool", Output: "so far", Error: "the arguments are not JSON"}),
		pastOn("call:2", event.ToolDenied{Name: "list", Error: "denied"}),
		pastOn("", event.ToolDone{Name: "nothing"}),
		past(event.Prompt{Text: "Also this.", Source: event.SourceSteer}),
		past(event.Text{Text: "  \n"}),
		pastOn("toolu_1", event.ToolCalled{Name: "read", Input: event.Raw(`{"path":"x.png"}`)}),
		pastOn("toolu_3", event.ToolCalled{Name: "read", Input: event.Raw(`{"path":"y.svg"}`)}),
		pastOn("toolu_4", event.ToolCalled{Name: "bash", Input: event.Raw(`{"command":"sleep 9"}`)}),
		pastOn("toolu_1", event.ToolDone{Name: "read", Type: "image", Output: "aW1hZ2U=", Metadata: event.Raw(`{"file_path":"x.png","mime":"image/jpeg"}`)}),
		pastOn("toolu_3", event.ToolDone{Name: "read", Type: "image", Output: "PHN2Zz4=", Metadata: event.Raw(`{"mime":"image/svg+xml"}`)}),
		pastOn("toolu_4", event.ToolCancelled{Name: "bash", Error: "the call did not end", Inferred: true}),
		pastOn("toolu_9", event.ToolDone{Name: "never called"}),
	}
}

var twoTools = []Tool{
	{Name: "read", Description: "Reads a \"file\".", Schema: event.Raw(`{"type":"object", "properties":{"path":{"type":"string"}}}`)},
	{Name: "nothing"},
}

// The request, byte for byte. In the file it is broken into lines at every brace that opens, to be read.
func TestMessagesRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		model *messagesModel
		r     Request
	}{
		"anthropic": {&messagesModel{target: target{Model: "claude-sonnet-4-5"}}, Request{System: "Be brief.", History: rich(), Tools: twoTools, Thinking: "low"}},
		"bedrock":   {&messagesModel{target: target{Model: "us.anthropic.claude-opus-4-6-v1"}, version: bedrockVersion}, Request{History: rich()[1:2], Thinking: "high"}},
		"vertex":    {&messagesModel{target: target{Model: "claude-sonnet-4@20250514"}, version: vertexVersion}, Request{System: " ", History: rich()[:1], MaxTokens: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.model.request(tt.r)
			if !json.Valid(got) {
				t.Fatalf("not JSON: %s", got)
			}
			if again := tt.model.request(tt.r); !bytes.Equal(got, again) {
				t.Error("the second time it is another")
			}
			lines := append(bytes.ReplaceAll(got, []byte(`,{`), []byte(",\n{")), '\n')
			lines = bytes.ReplaceAll(lines, []byte(`[{`), []byte("[\n{"))
			file := "testdata/messages_" + name + ".txt"
			if *update {
				if err := os.MkdirAll("testdata", 0o777); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, lines, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(lines)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

var moved = regexp.MustCompile(`,"cache_control":\{"type":"ephemeral"\}`)

// Apart from the marks of the cache, a request goes on where the one before it ended, and at most four marks are set.
func TestMessagesPrefix(t *testing.T) {
	m := messagesModel{target: target{Model: "claude-sonnet-5-5"}}
	history := rich()
	var before string
	for n := 1; n <= len(history); n++ {
		switch history[n-1].Body.(type) {
		case event.Text, event.Thought, event.ToolCalled:
			continue // nobody asks in the middle of an answer
		}
		if n < len(history) {
			if _, more := event.AsToolEnd(history[n].Body); more {
				continue // … nor before all its calls have ended
			}
		}
		body := string(m.request(Request{System: "Be brief.", History: history[:n], Tools: twoTools, Thinking: "medium"}))
		if marks := len(moved.FindAllString(body, -1)); marks < 3 || marks > 4 {
			t.Errorf("%d marks: %s", marks, body)
		}
		if !strings.HasSuffix(body, `"cache_control":{"type":"ephemeral"}}]}]}`) {
			t.Errorf("the last block has no mark: %s", body[len(body)-200:])
		}
		plain := strings.TrimSuffix(moved.ReplaceAllString(body, ""), "]}]}")
		if !strings.HasPrefix(plain, before) {
			t.Errorf("%d entries: the request does not go on with the one before:\n%s\n%s", n, before, plain)
		}
		before = plain
	}
	if len(before) < 1000 {
		t.Error("nothing was compared")
	}
}

// Where the last request set a mark, the next one sets it again: the cache is read up to there, however much came since.
func TestMessagesCacheIsFound(t *testing.T) {
	m := messagesModel{target: target{Model: "claude-sonnet-5-5"}}
	history := []event.Event{past(event.Prompt{Text: "go"})}
	marked := func() string {
		body := string(m.request(Request{History: history}))
		return body[:strings.LastIndex(body, cacheControl)+len(cacheControl)]
	}
	first := marked()
	for i := range 30 {
		history = append(history, pastOn(fmt.Sprint(i), event.ToolCalled{Name: "read"}))
	}
	for i := range 30 {
		history = append(history, pastOn(fmt.Sprint(i), event.ToolDone{Name: "read", Output: "x"}))
	}
	if second := marked(); !strings.HasPrefix(second, first) {
		t.Errorf("the mark of the first request is gone: %s", second)
	}
}

// A user speaks first and last, whatever the history is.
func TestMessagesRoles(t *testing.T) {
	m := messagesModel{target: target{Model: "claude-sonnet-5-5"}}
	for name, tt := range map[string]struct {
		history []event.Event
		roles   string
	}{
		"nothing":             {nil, "user"},
		"a prompt":            {[]event.Event{past(event.Prompt{Text: "a"})}, "user"},
		"two":                 {[]event.Event{past(event.Prompt{Text: "a"}), past(event.Prompt{Text: "b"})}, "user"},
		"an empty one":        {[]event.Event{past(event.Prompt{Text: " "}), past(event.Prompt{Text: "b"})}, "user"},
		"the model begins":    {[]event.Event{past(event.Text{Text: "a"}), past(event.Prompt{Text: "b"})}, "user assistant user"},
		"the model ends":      {[]event.Event{past(event.Prompt{Text: "a"}), past(event.Text{Text: "b"})}, "user assistant user"},
		"an unsealed thought": {[]event.Event{past(event.Prompt{Text: "a"}), past(event.Thought{Text: "b"}), past(event.Prompt{Text: "c"})}, "user"},
	} {
		var q struct {
			Messages []struct {
				Role    string
				Content []struct{ Type, Text string }
			}
		}
		if err := json.Unmarshal(m.request(Request{History: tt.history}), &q); err != nil {
			t.Fatal(err)
		}
		var roles []string
		for _, m := range q.Messages {
			roles = append(roles, m.Role)
			for _, c := range m.Content {
				if c.Type == "text" && strings.TrimSpace(c.Text) == "" {
					t.Errorf("%s: an empty text", name)
				}
			}
		}
		if got := strings.Join(roles, " "); got != tt.roles {
			t.Errorf("%s: %s, want %s", name, got, tt.roles)
		}
	}
}

func TestMessageLimits(t *testing.T) {
	called := []event.Event{past(event.Prompt{Text: "a"}), pastOn("1", event.ToolCalled{Name: "x"}), pastOn("1", event.ToolDone{Name: "x"})}
	thought := []event.Event{past(event.Prompt{Text: "a"}), past(event.Thought{Text: "t", Signature: "anthropic:s"}), pastOn("1", event.ToolCalled{Name: "x"}), pastOn("1", event.ToolDone{Name: "x"})}
	over := append(called[:len(called):len(called)], past(event.Text{Text: "done"}), past(event.Prompt{Text: "b"}))
	for name, tt := range map[string]struct {
		model    string
		r        Request
		limit    int
		thinking string
	}{
		"plain":              {"claude-sonnet-5-5", Request{}, 32000, ""},
		"off":                {"claude-sonnet-5-5", Request{Thinking: "off"}, 32000, ""},
		"given":              {"claude-sonnet-5-5", Request{MaxTokens: 500}, 500, ""},
		"old":                {"claude-3-haiku-20240307", Request{}, 4096, ""},
		"it cannot think":    {"claude-3-5-sonnet-20241022", Request{Thinking: "high"}, 8192, ""},
		"unknown":            {"kimi-k3", Request{}, 8192, ""},
		"unknown thinks":     {"kimi-k3", Request{Thinking: "low"}, 12288, `,"thinking":{"type":"enabled","budget_tokens":4096}`},
		"budget":             {"claude-sonnet-4-5-20250929", Request{Thinking: "medium"}, 42240, `,"thinking":{"type":"enabled","budget_tokens":10240}`},
		"budget at the top":  {"claude-opus-4-1", Request{Thinking: "high"}, 32000, `,"thinking":{"type":"enabled","budget_tokens":24576}`},
		"more than the top":  {"claude-opus-4-1", Request{Thinking: "high", MaxTokens: 40000}, 40000, `,"thinking":{"type":"enabled","budget_tokens":24576}`},
		"small":              {"claude-sonnet-4-5", Request{Thinking: "high", MaxTokens: 100}, 24676, `,"thinking":{"type":"enabled","budget_tokens":24576}`},
		"adaptive":           {"claude-opus-4-6", Request{Thinking: "low"}, 36096, `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}`},
		"called unthinking":  {"claude-sonnet-4-5", Request{Thinking: "low", History: called}, 32000, ""},
		"called after all":   {"claude-sonnet-4-5", Request{Thinking: "low", History: thought}, 36096, `,"thinking":{"type":"enabled","budget_tokens":4096}`},
		"called before that": {"claude-sonnet-4-5", Request{Thinking: "low", History: over}, 36096, `,"thinking":{"type":"enabled","budget_tokens":4096}`},
		"adaptive may begin": {"claude-opus-5", Request{Thinking: "high", History: called}, 56576, `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"}`},
	} {
		if limit, thinking := messageLimits(tt.model, tt.r); limit != tt.limit || thinking != tt.thinking {
			t.Errorf("%s: %d %s, want %d %s", name, limit, thinking, tt.limit, tt.thinking)
		}
	}
	for model, want := range map[string]int{
		"claude-sonnet-4-5": 405, "claude-opus-4-20250514": 400, "claude-3-7-sonnet-20250219": 307, "us.anthropic.claude-sonnet-4-5-20250929-v1:0": 405,
		"claude-sonnet-4-5@20250929": 405, "anthropic/claude-sonnet-5.5": 505, "claude-opus-5": 500, "global.anthropic.claude-opus-4-6-v1": 406, "claude-2.1": 201,
		"claude-mythos-preview": 0, "gpt-6": 0, "": 0, "claude": 0,
	} {
		if got := claudeVersion(model); got != want {
			t.Errorf("%s: %d, want %d", model, got, want)
		}
	}
}

func TestCallIDs(t *testing.T) {
	fits := regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	var c callIDs
	seen := map[string]bool{}
	for _, id := range []string{"a", "a.b", "a:b", "a", "", "", "ä", strings.Repeat("x", 100), strings.Repeat("x", 101), "a_2"} {
		got := c.call(id)
		if !fits.MatchString(got) || seen[got] {
			t.Errorf("%q became %q", id, got)
		}
		seen[got] = true
	}
	for _, want := range []string{"a", "a_2", ""} {
		if got := c.end("a"); got != want {
			t.Errorf("%q ended, want %q", got, want)
		}
	}
}
