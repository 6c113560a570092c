package dialect

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-dev/sluice/event"
)

func TestCommandsAreRead(t *testing.T) {
	for _, c := range []struct {
		line string
		want event.Command
	}{
		{`{"type":"message","msg_id":"m1","input":"hi","files":["/a.png","b"]}`, event.Message{ID: "m1", Text: "hi", Files: []string{"/a.png", "b"}}},
		{`{"msg_id":"m1","input":"","type":"message","files":null,"later":{"x":1}}`, event.Message{ID: "m1"}},
		{`{"type":"message","msg_id":"m1","content":"hi"}`, event.Message{ID: "m1", Text: "hi"}},
		{`{"type":"message","msg_id":"m1","content":"new","input":"old"}`, event.Message{ID: "m1", Text: "old"}},
		{`{"type":"message","msg_id":"m1","input":"a\u2028b\rc"}` + "\r", event.Message{ID: "m1", Text: "a\u2028b\rc"}},
		{`{"type":"stop"}`, event.Stop{}},
		{`{"type":"tool_approve","call_id":"t1","scope":"always"}`, event.Approve{Call: "t1", Scope: "always"}},
		{`{"type":"tool_approve","call_id":"t1"}`, event.Approve{Call: "t1", Scope: "once"}},
		{`{"type":"tool_approve","call_id":"t1","scope":null}`, event.Approve{Call: "t1", Scope: "once"}},
		{`{"type":"tool_deny","call_id":"t1","reason":"no"}`, event.Deny{Call: "t1", Reason: "no"}},
		{`{"type":"tool_deny","call_id":"t1"}`, event.Deny{Call: "t1"}},
		{`{"type":"init_history","text":"before"}`, event.History{Text: "before"}},
		{`{"type":"set_mode","mode":"auto_edit"}`, event.SetMode{Mode: "auto_edit"}},
		{`{"type":"ping"}`, event.Ping{}},
		{`{"type":"set_config"}`, event.SetConfig{}},
		{`{"type":"set_config","model":"gpt-4o","thinking":null,"thinking_budget":null,"effort":null,"compaction":"full"}`, event.SetConfig{Model: "gpt-4o"}},
		{`{"type":"set_config","thinking":"disabled","effort":"high"}`, event.SetConfig{Thinking: "off"}},
		{`{"type":"set_config","thinking":"enabled"}`, event.SetConfig{Thinking: "medium"}},
		{`{"type":"set_config","thinking":"enabled","thinking_budget":2000}`, event.SetConfig{Thinking: "low"}},
		{`{"type":"set_config","thinking":"enabled","thinking_budget":10000}`, event.SetConfig{Thinking: "medium"}},
		{`{"type":"set_config","thinking":"enabled","thinking_budget":32000}`, event.SetConfig{Thinking: "high"}},
		{`{"type":"set_config","thinking":"enabled","effort":"low"}`, event.SetConfig{Thinking: "low"}},
		{`{"type":"add_mcp_server","name":"db","transport":"stdio","command":"db-mcp","args":["--ro"],"env":{"DB":"x"},"url":null}`,
			event.AddServer{Name: "db", Transport: "stdio", Command: []string{"db-mcp", "--ro"}, Env: map[string]string{"DB": "x"}}},
		{`{"type":"add_mcp_server","name":"w","transport":"streamable_http","url":"http://w/mcp","headers":{"A":"b"}}`,
			event.AddServer{Name: "w", Transport: "streamable-http", URL: "http://w/mcp", Headers: map[string]string{"A": "b"}}},
	} {
		got, err := DecodeCommand([]byte(c.line))
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
		} else if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.line, diff)
		}
	}
}

func TestCommandsThatAreNone(t *testing.T) {
	for line, want := range map[string]string{
		``:                                   "not JSON",
		`this is not json`:                   "not JSON",
		`{"type":"stop"`:                     "not JSON",
		`{"type":"stop"} {}`:                 "not JSON",
		`[]`:                                 "not a JSON object",
		`"stop"`:                             "not a JSON object",
		`{}`:                                 "has no type",
		`{"type":7}`:                         "type is not a string",
		`{"type":"foo"}`:                     "Unknown command type: foo",
		`{"type":"a\nb"}`:                    "Unknown command type: a b",
		`{"type":"message"}`:                 "message.msg_id is missing",
		`{"type":"message","msg_id":"m1"}`:   "message.input is missing",
		`{"type":"message","input":"hi"}`:    "message.msg_id is missing",
		`{"type":"message","content":"hi"}`:  "message.msg_id is missing",
		`{"type":"tool_approve"}`:            "tool_approve.call_id is missing",
		`{"type":"tool_deny","call_id":7}`:   "tool_deny.call_id is number, not string",
		`{"type":"init_history"}`:            "init_history.text is missing",
		`{"type":"set_mode"}`:                "set_mode.mode is missing",
		`{"type":"set_mode","mode":"dream"}`: `set_mode.mode is "dream", not default, auto_edit or yolo`,
		`{"type":"message","msg_id":"","input":"hi"}`:                            "message.msg_id is empty",
		`{"type":"set_config","effort":"utmost"}`:                                `set_config.effort is "utmost", not low, medium or high`,
		`{"type":"set_config","thinking_budget":-1}`:                             "set_config.thinking_budget",
		`{"type":"add_mcp_server","transport":"stdio"}`:                          "add_mcp_server.name is missing",
		`{"type":"add_mcp_server","name":"x","transport":"pigeon"}`:              `add_mcp_server.transport is "pigeon"`,
		`{"type":"add_mcp_server","name":"x","transport":"stdio","env":{"A":1}}`: "add_mcp_server.env has values that are no strings",
		`{"type":"message","msg_id":7,"input":"hi"}`:                             "message.msg_id is number, not string",
		`{"type":"message","msg_id":"m1","input":["hi"]}`:                        "message.input is array, not string",
		`{"type":"message","msg_id":"m1","content":null}`:                        "message.content is null, not string",
		`{"type":"message","msg_id":"m1","input":"hi","files":"a"}`:              "message.files is string",
		`{"type":"message","msg_id":"m1","input":"hi","files":["a",{}]}`:         "message.files[1] is object, not string",
		`{"type":"message","msg_id":"m1","input":"` + "\xff" + `"}`:              "not valid UTF-8",
		`{"type":"tool_approve","call_id":"t1","scope":"forever"}`:               `tool_approve.scope is "forever", not once or always`,
		`{"type":"tool_deny","call_id":"t1","reason":{"text":"no"}}`:             "tool_deny.reason is object",
		`{"type":"message","msg_id":"m1","input":"` + strings.Repeat("x", 100):   "not JSON",
	} {
		c, err := DecodeCommand([]byte(line))
		var ce *CommandError
		if !errors.As(err, &ce) || !strings.Contains(ce.Reason, want) || strings.ContainsAny(ce.Reason, "\r\n") {
			t.Errorf("%s: %v, %v; want %q", line, c, err, want)
		}
	}
}

func TestCommandsComeBack(t *testing.T) {
	for _, c := range []event.Command{
		event.Message{ID: "m1", Text: "two\nlines\u2028and \x00", Files: []string{"a b"}}, event.Message{ID: "ü", Text: strings.Repeat("long ", 1<<20)},
		event.Stop{}, event.Approve{Call: "t1", Scope: "once"}, event.Approve{Call: "t1", Scope: "always"}, event.Deny{Call: "t1", Reason: `"no"`},
		event.Deny{}, event.History{Text: "before"}, event.SetMode{Mode: "default"}, event.SetMode{Mode: "yolo"},
		event.Ping{}, event.SetConfig{Model: "m", Thinking: "high"}, event.SetConfig{Thinking: "off"}, event.SetConfig{},
		event.AddServer{Name: "a", Transport: "stdio", Command: []string{"p", "q"}, Env: map[string]string{"A": "b"}},
		event.AddServer{Name: "a", Transport: "sse", URL: "http://h", Headers: map[string]string{"A": "b"}},
	} {
		wantCommandBack(t, c)
	}
	if got := string(AppendCommand(nil, event.Approve{Call: "t1"})); got != `{"type":"tool_approve","call_id":"t1","scope":"once"}`+"\n" {
		t.Error(got)
	}
	if got := AppendCommand(nil, nil); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

func wantCommandBack(t *testing.T, c event.Command) {
	t.Helper()
	line := AppendCommand(nil, c)
	if bytes.IndexByte(line, '\n') != len(line)-1 {
		t.Fatalf("not one line: %q", line)
	}
	got, err := DecodeCommand(line[:len(line)-1])
	if err != nil {
		t.Fatalf("%s: %v", clip(string(line)), err)
	}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Fatal(diff)
	}
}

// What real clients sent: each line is a command, but for those that were meant not to be.
func TestRecordedCommands(t *testing.T) {
	files, err := filepath.Glob("testdata/aionrs/commands/*.in")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	bad := map[string]bool{"this is not json": true, `{"type":"foo"}`: true, `{"type":"message"}`: true, "[]": true, "": true}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			c, err := DecodeCommand(line)
			if (err != nil) != bad[string(line)] {
				t.Errorf("%s: %s: %v", filepath.Base(f), line, err)
			}
			if err == nil {
				wantCommandBack(t, c)
			}
		}
	}
}

// The schema and the reader agree about what clients of the document's version sent.
func TestCommandSchema(t *testing.T) {
	schema := compile(t, "commands", CommandSchema())
	files, err := filepath.Glob("testdata/aionrs/commands/*.v0.1.0.in")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
			if err != nil {
				continue
			}
			theirs := schema.Validate(v)
			if _, ours := DecodeCommand(bytes.TrimSpace(line)); (ours == nil) != (theirs == nil) {
				t.Errorf("%s: reader: %v, schema: %v", line, ours, theirs)
			}
		}
	}
}

func FuzzCommand(f *testing.F) {
	for _, s := range []string{`{"type":"message","msg_id":"m1","input":"hi","files":["a"]}`, `{"type":"stop"}`, `{"type":"tool_approve","call_id":"t1","scope":"always"}`,
		`{"type":"tool_deny","call_id":"t1","reason":"no"}`, `{"type":"init_history","text":"t"}`, `{"type":"set_mode","mode":"yolo"}`, `[]`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := DecodeCommand(line)
		var ce *CommandError
		if err == nil {
			wantCommandBack(t, c)
		} else if !errors.As(err, &ce) || strings.ContainsAny(ce.Reason, "\r\n") {
			t.Fatalf("%T: %q", err, err)
		}
	})
}
