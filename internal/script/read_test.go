package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	const text = `
model: scripted-1
chunk: 4
delay: 20ms
usage: {input: 10, output: 2}
steps:
  - thinking: Let me see.
    text: |
      I will look.
    call: {tool: bash, input: {command: ls, timeout: 5}}
  - content:
      - text: 1
      - call: {id: mine, tool: read, raw: '{"path":'}
    finish: length
    no_usage: true
    repeat: 0
    fault: {status: 429, headers: {retry-after: 1}, times: 2}
conversations:
  - when: {system: "(?i)title"}
    steps: [{text: A title.}]
`
	got, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := &Script{
		Model: "scripted-1", Chunk: 4, Delay: Duration(20 * time.Millisecond), Usage: Usage{Input: 10, Output: 2},
		Steps: []Step{
			{Thinking: "Let me see.", Text: "I will look.\n", Call: &Call{Tool: "bash", Input: map[string]any{"command": "ls", "timeout": uint64(5)}}},
			{
				Content: []Block{{Text: "1"}, {Call: &Call{ID: "mine", Tool: "read", Raw: `{"path":`}}},
				Finish:  "length", NoUsage: true,
				Fault: &Fault{Status: 429, Headers: map[string]string{"retry-after": "1"}, Times: 2},
			},
		},
		Conversations: []Conversation{{When: When{System: "(?i)title"}, Steps: []Step{{Text: "A title."}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`{"steps": [{"text": "caf\u00e9\n", "delay": "1.5s", "call": {"tool": "t", "input": {"b": 1, "a": [true, null]}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	turn := NewPlayer(s).Next(Seen{})
	want := []Part{{Kind: Text, Text: "café\n"}, {Kind: ToolCall, Text: `{"a":[true,null],"b":1}`, ID: "call_1_1", Tool: "t"}}
	if diff := cmp.Diff(want, turn.Parts); diff != "" || turn.Delay != 1500*time.Millisecond {
		t.Errorf("%s%v", diff, turn.Delay)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.yaml")); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(file, []byte("stesp: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.HasPrefix(err.Error(), file+": line 1: ") {
		t.Errorf("the error does not name the file: %v", err)
	}
}

// What is wrong with a script is said in one line, with its place and what would be right.
func TestWrongScripts(t *testing.T) {
	step := func(s string) string { return "steps:\n  - " + s }
	for _, c := range []struct{ script, want string }{
		{"", "there are no steps: write at least `steps: [{text: Hello.}]`"},
		{"steps: []", "there are no steps: write at least `steps: [{text: Hello.}]`"},
		{"- a", "line 1: sequence was used where mapping is expected"},
		{"steps: [", "line 1: sequence end token ']' not found"},
		{"steps: [{text: a}]\n---\nsteps: [{text: b}]", "there are 2 documents: a script is one"},
		{"steps:\n  - text: a\n    finnish: stop", `line 3: there is no key "finnish": did you mean finish?`},
		{"modle: x\nsteps: [{text: a}]", `line 1: there is no key "modle": did you mean model?`},
		{"steps:\n  - call:\n      tool: x\n      arguments: {}", `line 4: there is no key "arguments" here: the keys are id, tool, input, raw`},
		{"conversations:\n  - when: {promt: x}\n    steps: [{text: a}]", `line 2: there is no key "promt": did you mean prompt?`},
		{step("fault: {stats: 500}"), `line 2: there is no key "stats": did you mean status?`},
		{step("text: a\n    text: b"), `line 3: mapping key "text" already defined at [2:5]`},
		{"chunk: -1\nsteps: [{text: a}]", "line 1: chunk: is negative"},
		{"delay: fast\nsteps: [{text: a}]", `line 1: "fast" is not a duration: write 20ms, 1.5s or 2m`},
		{step("text: a\n    delay: [1s]"), `line 3: "[" is not a duration: write 20ms, 1.5s or 2m`},
		{step("text: [a]"), "line 2: this is no text"},
		{step("text: a\n    chunk: four"), "line 3: this is no number"},
		{step("text: a\n    no_usage: 7"), "line 3: this is no true or false"},
		{step("calls: {tool: a}"), "line 2: mapping was used where sequence is expected"},
		{step("call: bash"), "line 2: string was used where mapping is expected"},
		{step("text: a\n    fault: 500"), "line 3: int was used where mapping is expected"},
		{"steps: hello", "line 1: string was used where sequence is expected"},
		{"steps: [hello]", "line 1: string was used where mapping is expected"},
		{"advance: time\nsteps: [{text: a}]", `line 1: advance: is "time": write history or request`},
		{"usage: {input: -4}\nsteps: [{text: a}]", "line 1: usage.input: is negative"},
		{step("text: a\n    finish: done"), `line 3: steps[0].finish: is "done": write one of stop, tool_calls, length, refusal, stop_sequence`},
		{step("text: a\n    repeat: -2"), "line 3: steps[0].repeat: is negative"},
		{step("text: a\n    repeat: 2000000000"), "line 3: steps[0].repeat: is more than 1000000000: set loop"},
		{step("text: a\n    usage: {output: 1}\n    no_usage: true"), "line 4: steps[0].no_usage: and usage contradict each other: leave one out"},
		{step("text: a\n    content: [{text: b}]"), "line 3: steps[0].content: says all that the step says: put thinking, text and calls into it"},
		{step("content: [{text: b, thinking: c}]"), "line 2: steps[0].content[0]: is one of thinking, text and call"},
		{step("content: [{}]"), "line 2: steps[0].content[0]: is one of thinking, text and call"},
		{step("call: {tool: a}\n    calls: [{tool: b}]"), "line 2: steps[0].call: is short for a list of one: put it into calls"},
		{step("call: {input: {a: b}}"), "line 2: steps[0].call: names no tool"},
		{step("call: {tool: a, input: {a: b}, raw: x}"), "line 2: steps[0].call.raw: stands instead of input: leave one out"},
		{step("call: {tool: a, input: .nan}"), "line 2: steps[0].call.input: cannot be said in JSON: json: unsupported value: NaN"},
		{step("calls: [{tool: a, id: x}, {tool: b, id: x}]"), `line 2: steps[0]: has two calls with the id "x"`},
		{step("call: {tool: a, id: x}\n    repeat: 2"), `line 3: steps[0].repeat: repeats the id "x" of a call: leave the id out`},
		{step("fault: {}"), "line 2: steps[0].fault: is one of status, cut, hang, malformed, wrong_json, in_stream and trickle"},
		{step("fault: {status: 500, malformed: true}"), "line 2: steps[0].fault: is one of status, cut, hang, malformed, wrong_json, in_stream and trickle"},
		{step("fault: {status: 200}"), "line 2: steps[0].fault.status: is 200: an error's is from 400 to 599"},
		{step("fault: {cut: middle}"), `line 2: steps[0].fault.cut: is "middle": write one of start, text, thinking, call, end`},
		{step("text: a\n    fault: {hang: call}"), "line 3: steps[0].fault.hang: is call, and the step has none"},
		{step("fault: {cut: start, type: x}"), "line 2: steps[0].fault: has type or headers, which are for a status"},
		{step("fault: {cut: start, message: x}"), "line 2: steps[0].fault.message: is for a status or for in_stream"},
		{step("fault: {status: 500, headers: {\"a b\": c}}"), `line 2: steps[0].fault.headers: "a b" is no header`},
		{step("fault: {status: 500, headers: {a: \"b\\nc\"}}"), `line 2: steps[0].fault.headers: "a" is no header`},
		{step("fault: {status: 500, headers: {content-length: \"1\"}}"), "line 2: steps[0].fault.headers: the length is the server's to say"},
		{step("fault: {status: 500, times: -1}"), "line 2: steps[0].fault.times: is negative"},
		{step("fault: {trickle: -1s}"), "line 2: steps[0].fault.trickle: is negative"},
		{"conversations:\n  - steps: [{text: a}]", "line 2: conversations[0]: says not which requests it takes: give it a `when`"},
		{"conversations:\n  - when: {last: a}\n    steps: []", "line 2: conversations[0]: has no steps"},
		{"conversations:\n  - when: {last: '('}\n    steps: [{text: a}]", "line 2: conversations[0].when.last: is not a regular expression: missing closing ): `(`"},
		{"conversations:\n  - when: {last: a}\n    steps:\n      - text: b\n      - text: c\n        finish: x", `line 6: conversations[0].steps[1].finish: is "x": write one of stop, tool_calls, length, refusal, stop_sequence`},
	} {
		_, err := Parse([]byte(c.script))
		switch {
		case err == nil:
			t.Errorf("%q is taken", c.script)
		case strings.Contains(err.Error(), "\n"):
			t.Errorf("%q: more than a line: %v", c.script, err)
		case c.want != err.Error():
			t.Errorf("%q:\n got %v\nwant %s", c.script, err, c.want)
		}
	}
}
