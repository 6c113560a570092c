package cli

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-dev/sluice/event"
)

// document writes events down.
func document(events ...event.Event) string {
	var b bytes.Buffer
	m := markdown{out: bufio.NewWriter(&b), session: "ses"}
	for _, e := range events {
		m.tell(e.Stamp())
	}
	m.out.Flush()
	return b.String()
}

func TestMarkdown(t *testing.T) {
	at := time.Date(2026, 8, 22, 10, 11, 12, 0, time.UTC)
	top := func(b event.Body) event.Event { return event.Event{Header: event.Header{At: at}, Body: b} }
	call := func(id string, b event.Body) event.Event {
		return event.Event{Header: event.Header{At: at, Call: id}, Body: b}
	}
	sub := func(b event.Body) event.Event {
		return event.Event{Header: event.Header{At: at, Agent: "task-1"}, Body: b}
	}
	usage := event.Usage{Input: new(int64(1200)), Output: new(int64(34))}
	got := document(
		top(event.RunStarted{Format: 1, Cwd: "/src", Provider: "demo", Model: "demo"}),
		top(event.Prompt{Text: "Fix *it*, please.\nThere is a ``` in it.", Files: []string{"a.txt"}}),
		top(event.Thought{Text: "Hm."}),
		top(event.TextDelta{Text: "I lo"}),
		top(event.Text{Text: "I look.\n\n```go\nx := <-c\n```\nIs 1 < 2?"}),
		call("c1", event.ToolCalled{Name: "bash", Title: "cat <x>", Input: event.Raw(`{"command":"cat <x>"}`)}),
		call("c2", event.ToolCalled{Name: "edit", Title: "main.go", Input: event.Raw(`{}`)}),
		top(event.TurnEnded{Number: 1, Usage: usage, Cost: event.Cost{Total: new(0.25)}}),
		call("c2", event.ToolDone{Name: "edit", Type: "diff", Output: "-a\n+b\n", Start: at, End: at.Add(1500 * time.Millisecond)}),
		call("c1", event.ToolFailed{Name: "bash", Output: "````\n</details>\n", Error: "it exited with 1", Exit: new(1), Truncated: true}),
		call("c3", event.ToolDenied{Name: "write", Error: "nobody was there"}),
		sub(event.AgentStarted{Title: "look around", Prompt: "Look."}),
		sub(event.Text{Text: "I looked."}),
		sub(event.AgentEnded{Error: "it gave up"}),
		top(event.Text{Text: "half an", Partial: true}),
		top(event.Notice{Text: "a *notice*"}),
		top(event.Text{Text: "Done."}),
		top(event.RunDone{Outcome: event.Done, Duration: new(int64(62000)), Changes: &event.Changes{Files: []string{"main.go"}, Added: 1, Removed: 1}}),
		top(event.RunStarted{Format: 1, Cwd: "/src", Provider: "demo", Model: "other", Resumed: true}),
		top(event.Prompt{Text: "Go on."}),
		top(event.RunFailed{Outcome: event.Failed, Reason: "the stream ended without its end", Inferred: true}),
	)
	golden := filepath.Join("testdata", "session.md")
	if *updateText {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err, "; go test -update-text writes it")
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// What stands outside our own words and fences is only text. The cases that a fence is not what it looks like are those that
// somebody else's Markdown was seen to read otherwise.
func TestQuoted(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "",
		"a <b> ![x](y)\n\n# h":               "> a &lt;b> !\\[x](y)\n>\n> # h",
		"```go\na <b>\n```\n<i>":             "> ```go\n> a <b>\n> ```\n> &lt;i>",
		"~~~ `x`\n<b>\n```\n~~~~ \n<i>":      "> ~~~ `x`\n> <b>\n> ```\n> ~~~~ \n> &lt;i>",
		"````\n```\n<b>\n   ````\n<i>":       "> ````\n> ```\n> <b>\n>    ````\n> &lt;i>",
		"```\n    ```\n<b>":                  "> ```\n>     ```\n> <b>",
		"```\n\t```\n<b>":                    "> ```\n>     ```\n> <b>",
		"```\nleft open <b>":                 "> ```\n> left open <b>",
		"``` not`one\n<b>":                   "> ``` not`one\n> &lt;b>",
		"- x\n  ```\n<b>\n```\n<i>":          "> - x\n>   ```\n> &lt;b>\n> ```\n> &lt;i>",
		"> ```\n<b>\n```\n<i>":               "> > ```\n> &lt;b>\n> ```\n> &lt;i>",
		"inline ```x\n```\n<b>\n```\n<i>":    "> inline ```x\n> ```\n> &lt;b>\n> ```\n> &lt;i>",
		"\x1b[31mred\r\n\u202eback\u2028x\n": "> \ufffd[31mred\n> \ufffdback\ufffdx",
	} {
		if got := quoted(in); got != want {
			t.Errorf("%q\nis %q\nnot %q", in, got, want)
		}
	}
}

// Whatever is in an event, the document keeps its shape.
func TestMarkdownHostile(t *testing.T) {
	const evil = "x</details></summary><img src=http://x>\n![](http://x)\n## Outcome\n```\n~~~~\n<script>\x1b[2J"
	for _, e := range event.Samples() {
		v := reflect.New(reflect.TypeOf(e.Body)).Elem()
		v.Set(reflect.ValueOf(e.Body))
		poisonWith(v, evil)
		e.Body = v.Interface().(event.Body)
		e.Agent = evil
		for _, agent := range []string{"", evil} {
			e.Agent = agent
			checkShape(t, string(e.Kind), document(event.Event{Body: event.RunStarted{}}, event.Event{Header: event.Header{Call: "c9", Agent: agent, Session: e.Session}, Body: event.ToolCalled{Name: evil, Title: evil, Input: event.Raw("\"</details>```\"")}}, e))
		}
	}
}

// poisonWith puts a text into every string.
func poisonWith(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			poisonWith(own.Elem(), text)
			v.Set(own)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			for i := range v.Len() {
				own.Index(i).Set(v.Index(i))
				poisonWith(own.Index(i), text)
			}
			v.Set(own)
		}
	case reflect.Struct:
		if v.Type() != reflect.TypeFor[time.Time]() {
			for i := range v.NumField() {
				poisonWith(v.Field(i), text)
			}
		}
	}
}

// checkShape reads a document as Markdown would: outside fences and quotations there are only our own tags, and they match.
func checkShape(t *testing.T, what, doc string) {
	t.Helper()
	fence, open := "", 0
	for line := range strings.Lines(doc) {
		line = strings.TrimSuffix(line, "\n")
		if fence != "" {
			if strings.HasPrefix(line, fence) && strings.Trim(line, "`") == "" {
				fence = ""
			}
			continue
		}
		if strings.HasPrefix(line, "> ") {
			continue // see TestQuoted
		}
		switch {
		case strings.HasPrefix(line, "```"):
			fence = line[:len(line)-len(strings.TrimLeft(line, "`"))]
		case strings.HasPrefix(line, "<details><summary>"):
			open++
			inner := strings.TrimSuffix(strings.TrimPrefix(line, "<details><summary>"), "</summary>")
			if strings.Contains(inner, "<") {
				t.Errorf("%s: %q", what, line)
			}
		case line == "</details>":
			open--
		case strings.Contains(line, "<") || strings.Contains(line, "!["):
			t.Errorf("%s: %q", what, line)
		}
		if strings.ContainsFunc(line, obeyed) {
			t.Errorf("%s: %q", what, line)
		}
	}
	if fence != "" || open != 0 {
		t.Errorf("%s: something was left open: %s", what, doc)
	}
}
