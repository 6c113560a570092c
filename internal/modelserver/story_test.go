package modelserver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// story is a script with all that an answer can have.
const story = `
model: scripted-1
chunk: 3
steps:
  - content:
      - thinking: Let me see — 日本.
      - text: "I will <look> & see.\n"
      - call: {tool: bash, input: {command: "ls -l | wc"}}
      - call: {tool: read, input: {path: a.txt}}
    usage: {input: 100, output: 20, reasoning: 7, cache_read: 40, cache_write: 5}
  - text: Done.
    usage: {input: 11, output: 2}
`

// The same script is the same conversation in every format.
func TestStory(t *testing.T) {
	each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
		srv := serve(t, story, Options{AccessKey: testAccessKey, SecretKey: testSecretKey})
		k := talk(srv.URL)
		first := heard{
			Model: "scripted-1", Thinking: "Let me see — 日本.", Text: "I will <look> & see.\n", Finish: "tool_calls",
			Calls: []heardCall{{"call_1_1", "bash", `{"command":"ls -l | wc"}`}, {"call_1_2", "read", `{"path":"a.txt"}`}},
			Usage: heardUsage{100, 20, 7, 40, 5},
		}
		second := heard{Model: "scripted-1", Text: "Done.", Finish: "stop", Usage: heardUsage{Input: 11, Output: 2}}
		switch format {
		case "responses":
			first.Finish, second.Finish = "completed", "completed"
		case "gemini", "gemini array":
			first.Finish, second.Finish = "STOP", "STOP"
			first.Usage.Input, first.Usage.CacheWrite = 105, 0
		}
		for i, want := range []heard{first, second} {
			got, err := k.ask(soon(t), stream)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer %d (-want +got)\n%s", i+1, diff)
			}
			if i == 0 {
				k.results("one", "two")
			}
		}
		k.tell("more")
		_, err := k.ask(soon(t), stream)
		if status, _, message := refusalOf(err); status != 400 || message != "script exhausted: it has 2 steps and this request wants answer 3" {
			t.Errorf("beyond the script: %d %s", status, message)
		}
	})
}

func TestFinishes(t *testing.T) {
	words := map[string][5]string{ // stop, length, stop_sequence, refusal in words, refusal without
		"anthropic": {"stop", "length", "stop_sequence", "refusal", "refusal"}, "bedrock": {"stop", "length", "stop_sequence", "refusal", "refusal"},
		"vertex": {"stop", "length", "stop_sequence", "refusal", "refusal"},
		"chat":   {"stop", "length", "stop", "stop", "content_filter"}, "responses": {"completed", "max_output_tokens", "completed", "completed", "content_filter"},
		"gemini": {"STOP", "MAX_TOKENS", "STOP", "SAFETY", "SAFETY"}, "gemini array": {"STOP", "MAX_TOKENS", "STOP", "SAFETY", "SAFETY"},
	}
	each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
		srv := serve(t, `
advance: request
steps:
  - {text: a, finish: stop}
  - {text: a, finish: length}
  - {text: a, finish: stop_sequence}
  - {text: "No, I won't.", finish: refusal, chunk: 4}
  - {finish: refusal}
`, Options{AccessKey: testAccessKey, SecretKey: testSecretKey})
		for i, want := range words[format] {
			got, err := talk(srv.URL).ask(soon(t), stream)
			if err != nil {
				t.Fatal(err)
			}
			if got.Finish != want {
				t.Errorf("answer %d: finish %q, want %q", i+1, got.Finish, want)
			}
			if i == 3 && got.Text+got.Refusal != "No, I won't." {
				t.Errorf("the refusal is %q and %q", got.Text, got.Refusal)
			}
		}
	})
}

// Arguments that are no JSON reach the client as they are, where a format has a place for them: a stream of strings has.
func TestRawArguments(t *testing.T) {
	each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
		srv := serve(t, `steps: [{call: {tool: bash, raw: '{"command": "ls'}, chunk: 2}]`, Options{AccessKey: testAccessKey, SecretKey: testSecretKey})
		got, err := talk(srv.URL).ask(soon(t), stream)
		want := `{"command": "ls`
		switch format {
		case "anthropic", "bedrock", "vertex":
			if !stream {
				want = `"{\"command\": \"ls"`
			}
		case "gemini", "gemini array":
			want = `"{\"command\": \"ls"`
		}
		if err != nil || len(got.Calls) != 1 || got.Calls[0].Input != want {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A step without usage says none; one without blocks says nothing.
func TestNothingToSay(t *testing.T) {
	each(t, func(t *testing.T, format string, talk func(string) talker, stream bool) {
		srv := serve(t, "steps: [{no_usage: true}]", Options{AccessKey: testAccessKey, SecretKey: testSecretKey})
		got, err := talk(srv.URL).ask(soon(t), stream)
		if err != nil {
			t.Fatal(err)
		}
		got.Finish = ""
		if diff := cmp.Diff(heard{Model: got.Model}, got); diff != "" || !strings.HasPrefix(got.Model, "asked") {
			t.Errorf("%s: %q", diff, got.Model)
		}
	})
}
